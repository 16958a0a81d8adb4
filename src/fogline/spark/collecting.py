"""How does what a batch reports come to the driver, and how much of it?

Where workers reach the output folder, the driver collects what is small, and for the rest the names of files that
workers have written (`fogline.flow.spill`). Where only Spark does, such as in HDFS, Spark writes the batch into files
there, and the driver reads them one after another. Either way a batch is evaluated exactly once, since Spark counts how
often its state is committed, and no limit of Spark's on what a driver collects is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.journal import CHANGES, HEALTH, REJECTS
from fogline.flow.spill import PIECES, spilled_files
from fogline.flow.stages import opened

FEW = 16  # packed tables that are read from a file at once


@dataclass(frozen=True, slots=True)
class Collected:
    """What a batch has reported."""

    journals: list[pa.RecordBatch]  # packed
    files: list[tuple[str, str]]  # kind, name: changes and rejects that are not in the journals
    rows: dict[str, int]  # of each kind, in the files
    health: list[pa.Table]  # what is not in the journals

    def __bool__(self) -> bool:
        return bool(self.files or self.health or any(batch.num_rows for batch in self.journals))


def collect(batch: DataFrame, place: Folder) -> Collected:
    """From workers that reach the output folder."""
    journals = batch.toArrow().to_batches()
    files = spilled_files(journals)
    health = [_file(place, name).read() for kind, name in files if kind == HEALTH]
    return _collected(place, journals, [pair for pair in files if pair[0] != HEALTH], health)


def collect_through_files(batch: DataFrame, place: Folder, root: str, most: int) -> Collected:
    """Through files that Spark writes; `root` is the path of the folder, `most` bytes of files are read at once."""
    batch.write.mode("overwrite").parquet(f"{root}/{PIECES}/batch")
    names = place.listing(f"{PIECES}/batch")
    if sum(names.values()) <= most:
        return _collected(place, list(_packed(place, names)), [], [])
    files = []
    for kind in (CHANGES, REJECTS):
        name = f"{PIECES}/{kind}.parquet"
        if _streamed(place, name, opened(_packed(place, names), kind)):
            files.append((kind, name))
    return _collected(place, [], files, list(opened(_packed(place, names), HEALTH)))


def _collected(
    place: Folder, journals: list[pa.RecordBatch], files: list[tuple[str, str]], health: list[pa.Table]
) -> Collected:
    rows = {CHANGES: 0, REJECTS: 0}
    for kind, name in files:
        rows[kind] += _file(place, name).metadata.num_rows
    return Collected(journals, files, rows, health)


def _packed(place: Folder, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The packed journals in files that Spark wrote, a few at a time."""
    for name in names:
        yield from _file(place, name).iter_batches(batch_size=FEW)


def _streamed(place: Folder, name: str, tables: Iterator[pa.Table]) -> bool:
    """One file of tables that come one by one; False: none came."""
    first = next(tables, None)
    if first is None:
        return False
    with place.filling(name) as path, pq.ParquetWriter(path, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
    return True


def _file(place: Folder, name: str) -> Any:
    found = place.open(name)
    if found is None:
        raise FoglineError(
            f"a worker has written {name!r} into the output folder, where the driver does not see it: "
            "the output must lie in a folder that all machines share, or in a file system such as hdfs://."
        )
    return pq.ParquetFile(found)
