"""How does a loop become machine code, once per machine?

Numba keeps compiled kernels beside the source, or in the user's cache folder when the package is read-only. Where
neither can be written, kernels are compiled anew in each process instead of failing at import.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

try:
    import fcntl
except ImportError:  # not everywhere
    fcntl = None  # type: ignore[assignment]

# Numba asks only whether the kernel's own file has changed, not the files of the kernels it calls.
_ROOM = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(Path(__file__).parent.glob("*.py"))
)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, cached on disk where a disk can be written, until any file of this room changes."""
    try:
        compiled = njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # "no locator available": nowhere to keep the cache
        return njit(nogil=True, error_model="numpy")(function)
    index = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if index is not None and hasattr(index, "_source_stamp"):
        index._source_stamp = _ROOM
        for name in ("save", "load"):
            setattr(index, name, _one_at_a_time(getattr(index, name), Path(index._cache_path)))
    return compiled


def _one_at_a_time(work: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Numba reads its index, looks for a free name, and writes, index first: two processes that compile a kernel for
    different types at once would take the same name, and one would later run the other's machine code.
    """

    def alone(*what: Any) -> Any:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / ".lock").open("w")
        except OSError:  # read-only: nobody writes
            return work(*what)
        with lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            return work(*what)

    return alone


@kernel
def ascending(values):
    """The values, sorted; NaN last. Kernels sort by this and `np.argsort` alone, never by `np.sort`.

    Numba gives the inner loops of `np.sort` and `np.argsort` the same name. Machine code that different processes have
    kept may then be linked to the wrong one of them, and an argsort gives values for places.
    """
    return values[np.argsort(values)]
