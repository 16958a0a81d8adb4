"""How does what a batch reports come to the driver, and how much of it?

Where workers reach the output folder, the driver collects what is small, and for the rest the names of files that
workers have written (`fogline.flow.spill`). Where only Spark does, such as in HDFS, Spark writes the batch into files
there, and the driver reads them one after another. Either way a batch is evaluated exactly once, since Spark counts how
often its state is committed, and no limit of Spark's on what a driver collects is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from fogline.flow.collected import Collected, collected, from_packed
from fogline.flow.folder import Folder
from fogline.flow.journal import CHANGES, HEALTH, REJECTS
from fogline.flow.limits import LARGE
from fogline.flow.names import VIEWS
from fogline.flow.reported import file_of
from fogline.flow.spill import PIECES
from fogline.flow.stages import opened

FEW = 16  # packed tables that are read from a file at once


def collect(batch: DataFrame, place: Folder) -> Collected:
    """From workers that reach the output folder."""
    return from_packed(place, batch.toArrow().to_batches())


def collect_through_files(batch: DataFrame, place: Folder, root: str, most: int) -> Collected:
    """Through files that Spark writes; `root` is the path of the folder, `most` bytes of files are read at once."""
    batch.write.mode("overwrite").parquet(f"{root}/{PIECES}/batch")
    names = place.listing(f"{PIECES}/batch")
    if sum(names.values()) <= most:
        return from_packed(place, list(_packed(place, names)))
    files = []
    for kind in (CHANGES, REJECTS, *VIEWS):
        name = f"{PIECES}/{kind}.parquet"
        if _streamed(place, name, opened(_packed(place, names), kind)):
            files.append((kind, name))
    health, large = (list(opened(_packed(place, names), kind)) for kind in (HEALTH, LARGE))
    return collected(place, [], files, health, large)


def _packed(place: Folder, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The packed journals in files that Spark wrote, a few at a time."""
    for name in names:
        yield from file_of(place, name).iter_batches(batch_size=FEW)


def _streamed(place: Folder, name: str, tables: Iterator[pa.Table]) -> bool:
    """One file of tables that come one by one; False: none came."""
    first = next(tables, None)
    if first is None:
        return False
    with place.filling(name) as path, pq.ParquetWriter(path, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
    return True
