"""How much memory has this machine, and how much has this process had? Linux states it; elsewhere it is not known."""

from __future__ import annotations

import re
from pathlib import Path

_TOTAL = re.compile(r"MemTotal:\s+(\d+) kB")
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")
_GROUP = Path("/sys/fs/cgroup/memory.max")  # what a container may use


def machine_memory() -> int | None:
    """Bytes of memory that there are for this process: of the machine, or of its container; None: it is not known."""
    total = _number(Path("/proc/meminfo"), _TOTAL)
    try:
        allowed = _GROUP.read_text().strip()
    except OSError:
        allowed = ""
    return min(total, int(allowed)) if total is not None and allowed.isdigit() else total


def peak_memory() -> int | None:
    """Bytes of memory that this process has had at most; None: it is not known."""
    return _number(Path("/proc/self/status"), _PEAK)


def _number(path: Path, pattern: re.Pattern[str]) -> int | None:
    try:
        found = pattern.search(path.read_text())
    except OSError:
        return None
    return None if found is None else 1024 * int(found[1])
