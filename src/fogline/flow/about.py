"""What does an output folder know of its run? The content of `about.json`, or an error that names it."""

from __future__ import annotations

import json
import zlib
from typing import Any

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.names import ABOUT

CHECKSUM = "checksum"  # of the columns of the stream, and what else no command states again
_WAY_OUT = "Put back a good copy of it, or choose another output."


def read_about(place: Folder) -> dict[str, Any] | None:
    """What the folder knows; None: no run was begun there."""
    content = place.get(ABOUT)
    if content is None:
        return None
    try:
        about = json.loads(content)
    except ValueError:
        about = None
    if not isinstance(about, dict) or not {"query", "shape", "stream"} <= about.keys():
        raise FoglineError(f"{ABOUT} of the output is damaged: it is not what a run has written. {_WAY_OUT}")
    return about


def checksum_of(shape: dict[str, Any], buckets: int | None) -> int:
    """How files are read is not asked again when a run goes on: it must be what was written."""
    return zlib.crc32(json.dumps([shape, buckets], sort_keys=True).encode())


def refuse_other_shape(known: int | None, shape: dict[str, Any], buckets: int | None) -> None:
    """An error, if these are not the columns that were written; None: an earlier version has noted no checksum."""
    if known is not None and known != checksum_of(shape, buckets):
        raise FoglineError(
            f"{ABOUT} of the output is damaged: the columns of the stream are not those that a run has written. "
            f"{_WAY_OUT}"
        )
