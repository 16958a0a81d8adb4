"""Columns by name, whatever the rows came in: an Arrow table, a pandas frame or a list of dicts."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fogline.errors import QueryError, RowsError, did_you_mean
from fogline.rows.joined import joined, joined_column
from fogline.rows.show import row_of
from fogline.rows.usual import check_readable, usual


class RowSource:
    """Columns by name, whatever the rows came in."""

    def __init__(self, rows: Any, columns: Container[str] | None = None) -> None:
        """`columns`: those that are asked for; of a table in pieces the others are not put together. None: all."""
        self.batch: pa.RecordBatch | None = None  # all of it, when it came as Arrow
        self.known: list[str] = []
        self.dicts = False
        self.column: Callable[[str], Any]
        self.row: Callable[[int], Mapping[str, Any]]
        if isinstance(rows, pa.RecordBatch | pa.Table):
            self._arrow(rows, columns)
        elif hasattr(rows, "columns") and hasattr(rows, "iloc"):
            self._pandas(rows)
        elif isinstance(rows, Sequence) and not isinstance(rows, str) and all(isinstance(row, Mapping) for row in rows):
            self._dicts(rows)
        else:
            raise RowsError(
                f"rows come as an Arrow table, a pandas frame or a list of dicts, not as {type(rows).__name__}."
            )

    def _arrow(self, rows: Any, columns: Container[str] | None) -> None:
        self.known, self.length = list(rows.schema.names), rows.num_rows
        self.row = lambda i: row_of(rows, i)
        batch = rows
        if isinstance(rows, pa.Table):
            parts = rows.to_batches()
            batch = parts[0] if len(parts) == 1 else joined(self._asked(rows, columns))
        self.batch = usual(batch)
        self.column = self.batch.column

    def _asked(self, rows: pa.Table, columns: Container[str] | None) -> pa.Table:
        asked = [k for k, name in enumerate(self.known) if columns is None or name in columns]
        return rows.select(asked) if asked else rows

    def _pandas(self, frame: Any) -> None:
        if not frame.columns.is_unique:
            raise RowsError("the frame has several columns of one name.")
        self.length, self.known = len(frame), [str(name) for name in frame.columns]
        self.column = lambda name: _from_series(frame[name])
        self.row = lambda i: {name: frame[name].iloc[i] for name in self.known}

    def _dicts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.dicts = True
        self.length, self.known = len(rows), list(dict.fromkeys(str(name) for row in rows for name in row))
        self.column = lambda name: [row.get(name) for row in rows]
        self.row = lambda i: rows[i]

    @property
    def names(self) -> list[str]:
        """The columns there are."""
        return self.known if self.batch is None else list(self.batch.schema.names)

    def optional(self, name: str) -> pa.Array | None:
        """The column as Arrow, if there is one."""
        if self.batch is not None:
            return self.batch.column(name) if name in self.batch.schema.names else None
        if name not in self.known:
            return None
        column = self.column(name)
        try:
            return column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # a mixture: as words
            return pa.array([None if each is None else str(each) for each in column])

    def require(self, name: str, role: str, *, sparse: bool = False) -> Any:
        """The column, or an error that lists those there are. `sparse`: a dict leaves out what it does not have."""
        if sparse and self.dicts and name not in self.known:
            return [None] * self.length
        try:
            if self.batch is not None:
                column = self.batch.column(name)
                check_readable(name, column.type)
                return column
            if name in self.known:
                return self.column(name)
        except KeyError:
            if self.batch is not None and name in self.batch.schema.names:
                raise RowsError(f"the table has several columns {name!r}.") from None
        known = sorted(name for name in self.known if not name.startswith(("_fogline_", "_corrupt_record", "fogline ")))
        raise QueryError(f"the stream has no {role} {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")


def _from_series(series: Any) -> Any:
    if series.dtype == object:
        return series.tolist()
    column = pa.array(series, from_pandas=True)
    if isinstance(column, pa.ChunkedArray):
        return joined_column(column.chunks or [pa.array([], column.type)], str(series.name))
    return column
