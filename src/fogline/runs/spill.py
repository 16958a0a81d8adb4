"""How does a result leave the worker that made it, however large it is?

In pieces: tables are cut so that no value that an engine carries is larger than some megabytes. What a task reports
beyond its share of what the driver collects does not go through the driver at all: the worker writes it into a file of
the output folder, one for each kind, and reports only its name. The file counts when the driver gives it its place
(`output.folder_sink`); a task that failed leaves files whose names are never reported.

Whatever follows the first table of a task that went into a file goes there too, so that files come after what is
carried, and changes of one group stay in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.output.files import CHECKED
from fogline.output.folder import to_disk
from fogline.pipeline.limits import LARGE
from fogline.pipeline.report import BatchResult
from fogline.saved import table_as_bytes

PIECE = 8 * 2**20  # bytes of one value that an engine carries, about
COLLECTED = 128 * 2**20  # bytes of one batch that the driver collects, at most
PIECES = ".pieces"  # the subfolder for files that have no place yet
SPILLED = "spilled"  # the kind of a part that holds names of files


@dataclass(frozen=True, slots=True)
class Spill:
    """Where a task may leave what is too much to be carried."""

    root: str  # the output folder, which workers and driver share
    budget: int  # bytes that a task may report through the driver


class Carrier:
    """What one task reports."""

    def __init__(self, spill: Spill | None) -> None:
        self.spill = spill
        self.carried = 0
        self.token = uuid4().hex
        self.writers: dict[str, Any] = {}

    def carry(self, report: BatchResult) -> Iterator[dict[str, list[object]]]:
        """A result as frames of columns: kind, part. None is much larger than a piece."""
        frame: dict[str, list[object]] = {"kind": [], "part": []}
        size = 0
        for kind, part in self._parts(report):
            if size and size + len(part) > PIECE:
                yield frame
                frame, size = {"kind": [], "part": []}, 0
            frame["kind"].append(kind)
            frame["part"].append(part)
            size += len(part)
        if size:
            yield frame

    def _parts(self, report: BatchResult) -> Iterator[tuple[str, bytes]]:
        for kind, table in cut(report, PIECE):
            beside = kind == LARGE  # few rows, and the driver wants them
            if (
                not beside
                and self.spill is not None
                and (self.writers or self.carried + table.nbytes > self.spill.budget)
            ):
                yield from self._spilled(self.spill, kind, table)
            else:
                part = table_as_bytes(table).tobytes()
                self.carried += len(part)
                yield kind, part

    def _spilled(self, spill: Spill, kind: str, table: pa.Table) -> Iterator[tuple[str, bytes]]:
        if kind not in self.writers:
            name = f"{PIECES}/{self.token}-{kind}.parquet"
            path = Path(spill.root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.writers[kind] = path, pq.ParquetWriter(path, table.schema, **CHECKED)
            yield SPILLED, json.dumps([kind, name]).encode()
        self.writers[kind][1].write_table(table)

    def close(self) -> None:
        """The files are whole, and on disk."""
        for path, writer in self.writers.values():
            writer.close()
            to_disk(path)
        self.writers = {}


def cut(report: BatchResult, most: int) -> Iterator[tuple[str, pa.Table]]:
    """The same result, its tables in pieces of about so many bytes at most."""
    for kind, table in report:
        if table.num_rows == 1:  # as of most groups' health: it is quicker not to ask how large it is
            yield kind, table
            continue
        rows = max(1, table.num_rows * most // max(table.nbytes, 1))
        for begin in range(0, table.num_rows, rows):
            yield kind, table.slice(begin, rows)


def spilled_files(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, str]]:
    """The files that packed results name, with their kinds."""
    return [
        tuple(json.loads(part.as_py()))
        for batch in batches
        for kind, part in zip(batch.column("kind").to_pylist(), batch.column("part"), strict=True)
        if kind == SPILLED
    ]
