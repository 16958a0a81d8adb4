"""What does an output folder know of its run? The content of `about.json`, or an error that names it.

Without a format it is of the first one. A field that this version does not know is refused when a run goes on: what it
stands for would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fogline.errors import FoglineError, other_format
from fogline.flow.folder import Folder
from fogline.flow.names import ABOUT
from fogline.saved import opened, sealed

FORMAT = 1  # of about.json
_FORMAT = "format"


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
    if (found := about.get(_FORMAT, FORMAT)) != FORMAT:
        raise FoglineError(other_format(f"{ABOUT} of the output", found, FORMAT, "choose another output"))
    return about


def zone_in(about: Mapping[str, Any]) -> str | None:
    """The zone that the times of the run's stream carry; empty: none; None: not known."""
    shape = about.get("shape")
    return shape.get("zone") if isinstance(shape, dict) else None


def write_about(place: Folder, about: Mapping[str, Any]) -> None:
    """What the folder knows from now on."""
    place.put(ABOUT, sealed({_FORMAT: FORMAT, **about}).encode())
