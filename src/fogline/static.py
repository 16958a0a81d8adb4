"""Who is on top of a table that does not move?

Every row is in the window; times and expiries do not matter. A missing value is imputed from a repository, or, without
one, from the table's own rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fogline.model import Query
from fogline.monitor import Monitor
from fogline.repository.history import as_table
from fogline.repository.repository import Repository
from fogline.rows.source import RowSource

_ROW, _TIME = "fogline row", "fogline time"


def skyline(table: Any, query: Query, repository: Repository | None = None) -> pa.Table:
    """The answer over a static table: by…, id, probability, exact, within, attributes; rows keep the table's order.

    >>> rows = [{"s": "a", "x": 1.0, "y": 2.0}, {"s": "b", "x": 2.0, "y": 1.0}, {"s": "c", "x": 0.5, "y": 0.5}]
    >>> query = Query(attributes={"x": "max", "y": "max"}, id="s", time="t", lifetime=1)
    >>> skyline(rows, query)["id"].to_pylist()
    ['a', 'b']
    """
    source = RowSource(table)
    gaps = any(_lacks(source, name) for name in query.names)
    if repository is None and gaps:
        repository = Repository.fit(table, query, retention=0)
    plain = as_table(table)
    ids = plain.column(query.id) if query.id in plain.schema.names else pa.chunked_array([np.arange(plain.num_rows)])
    numbered = plain.append_column(_ROW, pa.array(np.arange(plain.num_rows)))
    numbered = numbered.append_column(_TIME, pa.array(np.zeros(plain.num_rows, np.int64)))
    fields = query.to_dict() | {"id": _ROW, "time": _TIME, "last": max(1, plain.num_rows)}
    fields = {name: value for name, value in fields.items() if name not in ("expires", "lifetime")}
    monitor = Monitor(Query.from_dict(fields), repository, remember=False)  # rows have no before and after
    monitor.advance(0, numbered)
    answer = monitor.answer().sort_by([("id", "ascending")])
    named = ids.take(answer["id"]) if answer.num_rows else ids.slice(0, 0)
    return answer.set_column(answer.schema.get_field_index("id"), "id", named).drop_columns(["arrived"])


def _lacks(source: RowSource, name: str) -> bool:
    """Is a cell of this column missing? (A distribution of its own is not.)"""
    column = source.require(name, "attribute")
    if isinstance(column, pa.Array) and pa.types.is_floating(column.type):
        return bool(np.isnan(column.to_numpy(zero_copy_only=False)).any())
    values = column.to_pylist() if isinstance(column, pa.Array) else column
    return any(each is None or each != each or (isinstance(each, list) and not each) for each in values)
