"""Where do results lie, where do they come from, and which trials are done?

One Parquet file per trial, under `quick/` or `full/`, then the experiment's name; the trial's knobs name the file. Rows
are flat: knobs and what was measured. The file's metadata states the machine, the versions, the source, when it was
measured and how long that took (`Origin`).

Invariant: a file is there only if its trial ended well (it is renamed into place). Quick and full results lie apart,
and a file in the wrong folder is refused.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import fogline
from lab.case import LabError
from lab.experiment import Knobs, Scalar, Scope

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
    """Where the rows of a trial come from."""

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


# ---------------------------------------------------------------------------------------------------------------- files


ORIGIN = b"fogline.lab"  # the key in a file's metadata


class Results:
    """What was measured so far, quick or full."""

    def __init__(self, folder: Path, *, quick: bool = False) -> None:
        self.quick = quick
        self.folder = folder / ("quick" if quick else "full")

    def path(self, name: str, knobs: Knobs) -> Path:
        """The file of a trial: readable, and unlike that of any other trial."""
        return self.folder / name / f"{key(knobs)}.parquet"

    def done(self, name: str, knobs: Knobs) -> bool:
        """Has it been measured?"""
        return self.path(name, knobs).exists()

    def keep(self, name: str, knobs: Knobs, rows: Sequence[dict[str, Scalar]], origin: Origin) -> None:
        """Write the rows of a trial that ended well; all or nothing."""
        table = flat(knobs, rows).replace_schema_metadata({ORIGIN: json.dumps(origin.plain())})
        path = self.path(name, knobs)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            pq.write_table(table, half)
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)

    def rows(self, name: str) -> pd.DataFrame:
        """Everything measured for an experiment; empty if nothing was."""
        return pd.DataFrame([row for table in self._tables(name) for row in table.to_pylist()])

    def origins(self, name: str) -> list[Origin]:
        """Where its rows come from, one per trial."""
        return [_origin(table) for table in self._tables(name)]

    def names(self) -> set[str]:
        """The experiments of which there is something."""
        return {path.parent.name for path in self.folder.glob("*/*.parquet")}

    def _tables(self, name: str) -> Iterator[Any]:
        """In the order in which they were measured, which is that of the experiment."""
        found = [(path, pq.read_table(path, partitioning=None)) for path in (self.folder / name).glob("*.parquet")]
        for path, table in sorted(found, key=lambda each: (_origin(each[1]).date, each[0].name)):
            if _origin(table).quick != self.quick:
                raise LabError(f"{path} holds a {'full' if self.quick else 'quick'} trial; it does not belong there.")
            yield table


def key(knobs: Knobs) -> str:
    """
    >>> key({"set": "intel", "window": 20_000})
    'set=intel,window=20000-51d0fe4c'
    """
    exact = json.dumps({name: _plain(knobs[name]) for name in sorted(knobs)})
    words = ",".join(f"{name}={value}" for name, value in knobs.items())
    readable = re.sub(r"[^\w=,.+-]", "_", words)[:120]
    return f"{readable}-{blake2b(exact.encode(), digest_size=4).hexdigest()}"


def flat(knobs: Knobs, rows: Sequence[dict[str, Scalar]]) -> Any:
    """An Arrow table of the rows, each with the knobs of its trial; a row may lack what another has."""
    measured = dict.fromkeys(name for row in rows for name in row)
    if both := [name for name in measured if name in knobs]:
        raise LabError(f"{', '.join(both)}: measured, and also a knob of the trial; one of them needs another name.")
    columns: dict[str, list[Scalar]] = {name: [_plain(value)] * len(rows) for name, value in knobs.items()}
    columns |= {name: [_plain(row.get(name)) for row in rows] for name in measured}
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _origin(table: Any) -> Origin:
    return Origin.of(json.loads(table.schema.metadata[ORIGIN]))
