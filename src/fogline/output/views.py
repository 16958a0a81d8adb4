"""Which rows are possible, and what should be measured next, now or after an earlier batch?

A run with --explain writes both of each group at the end of every batch that concerns it (`pipeline.names`). A group
keeps what was last written of it, so the newest of each counts. Only files are read, and a run may go on meanwhile.

When files of the run are joined, what is older than a block of batches is folded into one file that holds the newest of
each group: batches since then may still be asked for one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.arrays import Flags, Ints
from fogline.errors import FoglineError
from fogline.output.about import asked_in, read_about
from fogline.output.files import CHECKED, Held, KeptFile, batch_name, counted
from fogline.output.folder import Folder, again
from fogline.pipeline.names import NEAR, NEXT, WHY, near_schema, next_schema
from fogline.queries import QUERY, Asked, Queries, each_of
from fogline.rows.changes import GroupKey
from fogline.rows.names import Kinds


def near_at(place: Folder, batch: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The possible rows of each group, members first, at the end of a batch or now; see `pipeline.names`."""
    return _at(place, NEAR, batch, columns)


def next_at(place: Folder, batch: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The cells to measure next of each group, by their rank, at the end of a batch or now."""
    return _at(place, NEXT, batch, columns)


def _at(place: Folder, kind: str, batch: int | None, columns: Sequence[str] | None) -> pa.Table:
    about = read_about(place)
    if about is None:
        raise FoglineError("this is not an output folder of `fogline run`.")
    if not about.get("explain", False):
        raise FoglineError(
            f"the run was made without --explain, so it has no {kind}/; run it again with --explain, into another "
            "output."
        )
    asked = asked_in(about)
    return again(lambda: _read(place, kind, asked, batch, columns))


def _read(place: Folder, kind: str, asked: Asked, batch: int | None, columns: Sequence[str] | None) -> pa.Table:
    held = counted(place.listing(kind))
    if batch is not None and held and batch < held[0].last and held[0].first < held[0].last:
        raise FoglineError(
            f"what {kind}/ held before batch {held[0].last} is no longer kept; ask for a batch from there on, not for "
            f"{batch}."
        )
    return newest(place, kind, asked, [each for each in held if batch is None or each.last <= batch], columns)


def newest(place: Folder, kind: str, asked: Asked, held: list[Held], columns: Any = None) -> pa.Table:
    """What these files show last of each group; groups of which nothing is shown are left out."""
    keys = keys_of(asked)
    if not keys:
        held = held[-1:]
    wanted = None if columns is None else list(dict.fromkeys([*keys, "time", asked.id, *columns]))
    tables = [
        KeptFile(place, name).read(columns=wanted).append_column(_OF, pa.array([k]).take(_zeros(rows)))
        for k, each in enumerate(held)
        for name in each.names
        if (rows := KeptFile(place, name).metadata.num_rows)
    ]
    if not tables:
        empty = _empty(asked, kind)
        return empty if columns is None else empty.select(columns)
    whole = pa.concat_tables(tables, promote_options="permissive")
    shown = whole.filter(pa.array(_last(whole, keys))).drop_columns([_OF])
    shown = shown.filter(pc.is_valid(shown[asked.id]))
    return shown if columns is None else shown.select(columns)


_OF = " file"  # the column with the number of a row's file; no column of a stream begins so


def _zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, np.int64))


def _last(whole: pa.Table, keys: list[str]) -> Flags:
    """(n,) whether a row is of what was last written of its group: of its last file, and of one instant.

    A batch may show a group at several instants: rows come, then its timer fires.
    """
    groups = _coded(whole, keys)
    written = _coded(whole, [each for each in (_OF, "time") if each in whole.schema.names])
    last = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    last[groups] = written  # of several the last one stays
    return np.asarray(written == last[groups], np.bool_)


def _coded(whole: pa.Table, names: list[str]) -> Ints:
    """(n,) a number for each combination of values in these columns."""
    code = np.zeros(whole.num_rows, np.int64)
    for name in names:
        column = whole[name].combine_chunks().dictionary_encode()
        number = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
        _, code = np.unique(code * (len(column.dictionary) + 1) + number, return_inverse=True)
    return code.reshape(-1)


def keys_of(asked: Asked) -> list[str]:
    """The columns that name a group."""
    if isinstance(asked, Queries):
        return [QUERY, *asked.by]
    return list(asked.by)


def _empty(asked: Asked, kind: str) -> pa.Table:
    """The columns, where nothing was written yet."""
    names = [QUERY] if isinstance(asked, Queries) else []
    names += keys_of(asked)
    for query in each_of(asked).values():
        kept = tuple((name, None) for name in query.kept)
        none = Kinds(pa.null(), pa.null(), (pa.null(),) * len(query.by), kept=kept)
        schema = near_schema(query, none) if kind == NEAR else next_schema(query, none)
        names += schema.names
    return pa.table({name: pa.array([], pa.null()) for name in dict.fromkeys(names)})


class NewestTables:
    """The newest table of each group, of one kind, and the file that it lies in; for one who follows a run."""

    def __init__(self, place: Folder, kind: str) -> None:
        self.place, self.kind = place, kind
        self.keys: list[str] = []
        self.id = ""
        self.tables: dict[GroupKey, pa.Table] = {}
        self.files: dict[GroupKey, str] = {}
        self.batch = -1

    def begin(self, asked: Asked) -> None:
        """Of another run."""
        self.keys, self.id = keys_of(asked), asked.id
        self.tables, self.files, self.batch = {}, {}, -1

    def poll(self, upto: int) -> bool:
        """Read the files that have come since, up to a batch; whether there were any."""
        fresh = [held for held in counted(self.place.listing(self.kind)) if self.batch < held.last <= upto]
        for held in fresh:
            for name in held.names:
                whole = _without_why(self.place, name)
                newest = whole.filter(pa.array(_last(whole, self.keys)))
                for key, part in _split(newest, self.keys, self.id).items():
                    self.tables[key], self.files[key] = part, name
            self.batch = held.last
        return bool(fresh)

    def all(self) -> pa.Table | None:
        """Of all groups; None: there is nothing."""
        parts = [table for table in list(self.tables.values()) if table.num_rows]  # the reading thread may add one
        return pa.concat_tables(parts, promote_options="permissive") if parts else None


def _without_why(place: Folder, name: str) -> pa.Table:
    """A file of rows near the answer, without their explanations."""
    file = KeptFile(place, name)
    return file.read([each for each in file.schema_arrow.names if each != WHY])


def _split(table: pa.Table, keys: list[str], id: str) -> dict[GroupKey, pa.Table]:
    """The rows of each group; one without an id stands for a group of which there is nothing to show."""
    if not keys:
        return {(): table.filter(pc.is_valid(table[id]))}
    rows: dict[GroupKey, list[int]] = {}
    for k, key in enumerate(zip(*(table[name].to_pylist() for name in keys), strict=True)):
        rows.setdefault(key, []).append(k)
    parts = {key: table.take(pa.array(which)) for key, which in rows.items()}
    return {key: part.filter(pc.is_valid(part[id])) for key, part in parts.items()}


def fold(place: Folder, kind: str, asked: Asked, last: int) -> list[str]:
    """All batches up to the last one become one file with the newest of each group; returns what it stands for."""
    held = [each for each in counted(place.listing(kind)) if each.last <= last]
    names = [name for each in held for name in each.names]
    if len(names) < 2:
        return []
    table = newest(place, kind, asked, held)
    with place.filling(batch_name(kind, 0, last)) as path:
        pq.write_table(table, path, **CHECKED)
    return names
