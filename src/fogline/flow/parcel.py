"""How do the rows of one group travel to the place where its state lies?

As one binary value: an Arrow stream whose schema carries the counters and the rejects. Spark hands rows to a stateful
processor, and takes them from it, one by one and through pandas, so many rows had better be one, on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

_HEADER = b"parcel"


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one chunk of a partition has for one group."""

    rows: pa.Table  # what can matter: id, time, attributes, determinants, expiry
    newest: float  # the greatest time of the rows that were taken, screened ones included; -inf: there were none
    came: int  # rows of every sort
    outside_limits: int  # cells
    incomplete: int  # rows with gaps
    screened: int  # rows that cannot matter
    rejects: list[tuple[str, str]] = field(default_factory=list)  # row as JSON, reason
    scores: list[list[Any]] = field(default_factory=list)  # of values that were hidden for a moment

    def to_bytes(self) -> bytes:
        header = {name: getattr(self, name) for name in self.__slots__ if name != "rows"}
        return table_to_bytes(self.rows.replace_schema_metadata({_HEADER: json.dumps(header).encode()}))

    @classmethod
    def from_bytes(cls, packed: bytes) -> Parcel:
        table = table_from_bytes(packed)
        header = json.loads(table.schema.metadata[_HEADER])
        header["rejects"] = [(row, reason) for row, reason in header["rejects"]]
        return cls(rows=table.replace_schema_metadata(None), **header)


def table_to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def table_from_bytes(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(packed)).read_all()


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of tables that came as bytes, in the first column."""
    for batch in batches:
        if batch.num_rows:
            tables = [table_from_bytes(each.as_py()) for each in batch.column(0)]
            yield from pa.concat_tables(tables).combine_chunks().to_batches()
