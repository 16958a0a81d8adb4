"""Which rows are near the answer, with what ranges, and what is to be measured next?

A run with `--explain` writes both for the groups that a batch concerns; of each group the newest table counts. They are
held without explanations, which stay in the files until a person asks for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from fogline.output.folder import Folder
from fogline.output.views import NewestTables
from fogline.page.state import Row, keys_of, numbers, texts
from fogline.pipeline.names import NEAR, NEXT
from fogline.queries import Asked
from fogline.query import Query
from fogline.rows.changes import of_query

SENT = 1500  # rows near the answer that a browser is given, at most
Group = tuple[str | None, ...]  # as a browser names it; empty: all


class Views:
    """The rows near the answer and the cells to be measured, as they are now."""

    def __init__(self, place: Folder) -> None:
        self.near, self.next = NewestTables(place, NEAR), NewestTables(place, NEXT)
        self.version = 0
        self.lock = Lock()

    def begin(self, asked: Asked, upto: int) -> None:
        """Of another run, and all that it has written."""
        with self.lock:
            for each in (self.near, self.next):
                each.begin(asked)
        self.version += 1
        self.poll(upto)

    def poll(self, upto: int) -> None:
        """Read what has come since, up to a batch."""
        with self.lock:
            fresh = [each.poll(upto) for each in (self.near, self.next)]  # both
            self.version += any(fresh)

    def files_of(self, name: str | None, group: Group) -> list[str]:
        """The newest files with rows of a group near the answer; of several queries, of all groups of one."""
        with self.lock:
            if name is not None:
                return list(dict.fromkeys(file for key, file in self.near.files.items() if key[0] == name))
            shown = {tuple(None if each is None else str(each) for each in key): key for key in self.near.files}
            return [self.near.files[shown[group]]] if group in shown else []


def near_rows(table: pa.Table | None, queries: list[tuple[int, str | None, Query]], group: Group = ()) -> list[Row]:
    """What names each row, whether it is in, how certain, its probability, values, and what each may be."""
    rows: list[Row] = []
    if table is None:
        return rows
    for number, name, query in queries:
        own = _likeliest(_of_group(table if name is None else of_query(table, name), query.by, group))
        columns = [own["inside"].to_pylist(), own["certainty"].to_pylist()]
        columns += [numbers(own[each]) for each in ("probability", "probability_error")]
        columns += [_cells(own, query, end) for end in ("", ".low", ".high", ".mean")]
        rows += [[*key, *each] for key, *each in zip(keys_of(own, query, number), *columns, strict=True)]
    return rows


def next_rows(table: pa.Table | None, queries: list[tuple[int, str | None, Query]], group: Group = ()) -> list[Row]:
    """What names each row, the attribute to be measured, how many rows that would be expected to move, its range and
    mean, and a sentence.
    """
    rows: list[Row] = []
    if table is None:
        return rows
    for number, name, query in queries:
        own = table if name is None else of_query(table, name)
        own = _of_group(own, query.by, group)
        own = own.sort_by([("changes", "descending"), ("rank", "ascending")]).slice(0, 100)
        columns = [own["attribute"].to_pylist(), *(numbers(own[each]) for each in ("changes", "low", "high", "mean"))]
        columns += [own["sentence"].to_pylist()]
        rows += [[*key, *each] for key, *each in zip(keys_of(own, query, number), *columns, strict=True)]
    return rows


def _of_group(table: pa.Table, by: Sequence[str], group: Group) -> pa.Table:
    """The rows of a group, if it is named; of a query without such groups, none."""
    if not group:
        return table
    if len(by) != len(group):
        return table.slice(0, 0)
    for name, wanted in zip(by, group, strict=True):
        table = table.filter(pa.array([each == wanted for each in texts(table[name])], pa.bool_()))
    return table


def _likeliest(table: pa.Table) -> pa.Table:
    """Members first, then the likeliest of the others."""
    order = [("inside", "descending"), ("probability", "descending")]
    flags = table.set_column(table.schema.get_field_index("inside"), "inside", table["inside"].cast(pa.int8()))
    which = pc.sort_indices(flags, sort_keys=order)[:SENT]
    return table.take(which)


def _cells(table: pa.Table, query: Query, end: str) -> list[list[float | None]]:
    return [list(each) for each in zip(*(numbers(table[f"{name}{end}"]) for name in query.names), strict=True)]
