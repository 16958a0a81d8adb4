"""What does an output folder know of its run? The content of `about.json`, or an error that names it.

Without a format it is of the first one. A field that this version does not know is refused when a run goes on: what it
stands for would be lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fogline.errors import FoglineError, other_format
from fogline.flow.folder import Folder
from fogline.flow.names import ABOUT

FORMAT = 1  # of about.json
_FORMAT = "format"


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
        raise FoglineError(
            f"{ABOUT} of the output is damaged: it is not what a run has written. "
            "Put back a good copy of it, or choose another output."
        )
    if (found := about.get(_FORMAT, FORMAT)) != FORMAT:
        raise FoglineError(other_format(f"{ABOUT} of the output", found, FORMAT, "choose another output"))
    return about


def as_about(known: Mapping[str, Any]) -> bytes:
    """The content of `about.json`."""
    return json.dumps({_FORMAT: FORMAT, **known}, indent=1).encode()
