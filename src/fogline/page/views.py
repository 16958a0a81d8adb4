"""Which rows are near the answer, with what ranges, and what is to be measured next?

A run with `--explain` writes both for the groups that a batch concerns; of each group the newest table counts. They are
held without explanations, which stay in the files until a person asks for one.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.flow.batches import counted
from fogline.flow.compaction import opened
from fogline.flow.folder import Folder
from fogline.flow.names import NEAR, NEXT
from fogline.model import Query
from fogline.page.plain import Row, keys_of, numbers
from fogline.rows.changes import of_query
from fogline.rows.queries import QUERY, Asked, Queries

WHY = "why"  # the column with explanations, as JSON
SENT = 1500  # rows near the answer that a browser is given, at most
Key = tuple[Any, ...]


class Newest:
    """The newest table of each group, of one kind, and the file that it lies in."""

    def __init__(self, place: Folder, kind: str) -> None:
        self.place, self.kind = place, kind
        self.keys: list[str] = []
        self.tables: dict[Key, pa.Table] = {}
        self.files: dict[Key, str] = {}
        self.batch = -1

    def begin(self, asked: Asked) -> None:
        """Of another run."""
        self.keys = [*([QUERY] if isinstance(asked, Queries) else []), *asked.by]
        self.tables, self.files, self.batch = {}, {}, -1

    def poll(self) -> bool:
        """Read the files that have come since; whether there were any."""
        fresh = [held for held in counted(self.place.listing(self.kind)) if held.last > self.batch]
        for held in fresh:
            for name in held.names:
                for key, part in split(without_why(self.place, name), self.keys).items():
                    self.tables[key], self.files[key] = part, name
            self.batch = held.last
        return bool(fresh)

    def all(self) -> pa.Table | None:
        """Of all groups; None: there is nothing."""
        parts = list(self.tables.values())
        return pa.concat_tables(parts, promote_options="permissive") if parts else None


class Views:
    """The rows near the answer and the cells to be measured, as they are now."""

    def __init__(self, place: Folder) -> None:
        self.near, self.next = Newest(place, NEAR), Newest(place, NEXT)
        self.version = 0
        self.lock = Lock()

    def begin(self, asked: Asked) -> None:
        """Of another run, and all that it has written."""
        with self.lock:
            for each in (self.near, self.next):
                each.begin(asked)
        self.poll()

    def poll(self) -> bool:
        """Read what has come since; whether something has."""
        with self.lock:
            fresh = [each.poll() for each in (self.near, self.next)]
            self.version += any(fresh)
            return any(fresh)


def without_why(place: Folder, name: str) -> pa.Table:
    """A file of rows near the answer, without their explanations."""
    file = pq.ParquetFile(opened(place, name))
    return file.read([each for each in file.schema_arrow.names if each != WHY])


def split(table: pa.Table, keys: list[str]) -> dict[Key, pa.Table]:
    """The rows of each group."""
    if not keys:
        return {(): table}
    rows: dict[Key, list[int]] = {}
    for k, key in enumerate(zip(*(table[name].to_pylist() for name in keys), strict=True)):
        rows.setdefault(key, []).append(k)
    return {key: table.take(pa.array(which)) for key, which in rows.items()}


def near_rows(table: pa.Table | None, queries: list[tuple[int, str | None, Query]]) -> list[Row]:
    """What names each row, whether it is in, its front, probability, values, and the range and mean of each value."""
    rows: list[Row] = []
    for number, name, query in queries if table is not None else ():
        own = _likeliest(table if name is None else of_query(table, name))
        columns = [own["inside"].to_pylist(), own["front"].to_pylist()]
        columns += [numbers(own[each]) for each in ("probability", "within")]
        columns += [_cells(own, query, end) for end in ("", ".low", ".high", ".mean")]
        rows += [[*key, *each] for key, *each in zip(keys_of(own, query, number), *columns, strict=True)]
    return rows


def next_rows(table: pa.Table | None, queries: list[tuple[int, str | None, Query]]) -> list[Row]:
    """What names each row, the attribute to be measured, how many rows that would be expected to move, its range and
    mean, and a sentence.
    """
    rows: list[Row] = []
    for number, name, query in queries if table is not None else ():
        own = table if name is None else of_query(table, name)
        own = own.sort_by([("changes", "descending"), ("rank", "ascending")]).slice(0, 100)
        columns = [own["attribute"].to_pylist(), *(numbers(own[each]) for each in ("changes", "low", "high", "mean"))]
        columns += [own["sentence"].to_pylist()]
        rows += [[*key, *each] for key, *each in zip(keys_of(own, query, number), *columns, strict=True)]
    return rows


def _likeliest(table: pa.Table) -> pa.Table:
    """Members first, then the likeliest of the others."""
    order = [("inside", "descending"), ("probability", "descending")]
    flags = table.set_column(table.schema.get_field_index("inside"), "inside", table["inside"].cast(pa.int8()))
    which = pc.sort_indices(flags, sort_keys=order)[:SENT]
    return table.take(which)


def _cells(table: pa.Table, query: Query, end: str) -> list[list[float | None]]:
    return [list(each) for each in zip(*(numbers(table[f"{name}{end}"]) for name in query.names), strict=True)]
