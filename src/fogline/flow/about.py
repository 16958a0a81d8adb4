"""What does an output folder know of its run? The content of `about.json`, or an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.names import ABOUT
from fogline.sealed import opened, sealed


def read_about(place: Folder) -> dict[str, Any] | None:
    """What the folder knows; None: no run was begun there."""
    content = place.get(ABOUT)
    if content is None:
        return None
    about = opened(content)
    if about is None or not {"query", "shape", "stream"} <= about.keys():
        raise FoglineError(
            f"{ABOUT} of the output is damaged: it is not what a run has written. "
            "Put back a good copy of it, or choose another output."
        )
    return about


def write_about(place: Folder, about: Mapping[str, Any]) -> None:
    """What the folder knows from now on."""
    place.put(ABOUT, sealed(about).encode())
