"""How is a file read that was listed, while a run goes on and joins files?

What was listed may be gone a moment later, since a larger file stands for it: then the folder is listed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from fogline.errors import FoglineError
from fogline.flow.folder import Folder

Read = TypeVar("Read")
_TRIES = 20  # a run that goes on meanwhile joins files once in a hundred batches


class GoneError(Exception):
    """A file was listed, but has been joined with others since: list again."""


def opened(place: Folder, name: str) -> pa.NativeFile:
    """A file that was listed."""
    found = place.open(name)
    if found is None:
        raise GoneError(name)
    return found


class HoleError(FoglineError):
    """Files of an output are missing; if not because they were joined meanwhile, it is an error."""


def again(read: Callable[[], Read]) -> Read:
    """Read anew where files were joined meanwhile."""
    for _ in range(_TRIES):
        try:
            return read()
        except (GoneError, HoleError):
            continue
    return read()
