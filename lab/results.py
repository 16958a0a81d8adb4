"""Where do results lie, and which trials are done?

One Parquet file per trial, under `quick/` or `full/`, then the experiment's name; the trial's knobs name the file. Rows
are flat: knobs and what was measured. Where they come from stands in the file's metadata.

Invariant: a file is there only if its trial ended well (it is renamed into place), and quick and full never meet: they
lie apart, and a file that strayed is refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lab.case import LabError
from lab.experiment import Knobs, Scalar
from lab.origin import Origin

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
