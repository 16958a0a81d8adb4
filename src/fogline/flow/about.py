"""What does an output folder know of its run? The content of `about.json`, or an error that names it."""

from __future__ import annotations

import json
from typing import Any

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.names import ABOUT


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
    return about
