"""Where does a number come from?

From a trial that took so long, on this machine, with these versions, of this source. It travels with the rows, in the
same file: no number without its run.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import fogline
from lab.experiment import Knobs, Scope

PACKAGES = (
    "numpy", "numba", "pyarrow", "pandas", "scipy", "scikit-learn", "matplotlib", "moocore", "paretoset", "pymoo",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """What it ran on."""

    cpu: str
    cores: int
    memory: float
    """GiB."""
    system: str

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores, {self.memory:.0f} GiB, {self.system}"


@dataclass(frozen=True, slots=True)
class Origin:
    """See the module."""

    machine: Machine
    versions: Mapping[str, str]
    source: str
    """The commit, and whether files of Fogline or the lab were changed since; outside of a checkout, the version."""
    date: str
    """When the trial ended, UTC."""
    seconds: float
    quick: bool
    real: bool
    """Were real sets at hand?"""
    seed: int | None

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @staticmethod
    def of(plain: dict[str, Any]) -> Origin:
        """Back from JSON."""
        return Origin(**{**plain, "machine": Machine(**plain["machine"])})


def origin(knobs: Knobs, scope: Scope, seconds: float) -> Origin:
    """Of a trial that has just been measured."""
    seed = knobs.get("seed")
    return Origin(
        machine(),
        versions(),
        source(),
        datetime.now(UTC).isoformat(timespec="milliseconds"),
        round(seconds, 3),
        scope.quick,
        scope.data is not None,
        seed if isinstance(seed, int) else None,
    )


@cache
def machine() -> Machine:
    """This one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        cores = len(os.sched_getaffinity(0))  # those we may use
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return Machine(_cpu(), cores, round(memory, 1), f"{platform.system()} {platform.release()}")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


@cache
def versions() -> Mapping[str, str]:
    """Python, Fogline, and whatever of the lab's packages is installed."""
    found = {"python": platform.python_version(), "fogline": fogline.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def source() -> str:
    """Which source of Fogline and of the lab was measured; looked up once, when the first trial ends."""
    package = Path(fogline.__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=package, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # a checkout of Fogline, not of what it is installed in
        changed = git("status", "--porcelain", "--", ".", ":/lab")
        return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return f"fogline {fogline.__version__}"
