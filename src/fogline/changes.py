"""How do changes become a table?

In the types the stream has shown: times, ids and group columns come back as they came, missing attributes as null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.impute.columns import write_times
from fogline.impute.rows import Kinds, objects
from fogline.model import Query
from fogline.skyline.group import CHANGES, LEAVE, Delta

Key = tuple[Any, ...]


class Tables:
    """Builds tables of changes for one query; remembers the schema, which costs as much as a small table."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.kinds: Kinds | None = None
        self.schema: pa.Schema = None
        self.empty: pa.Table = None

    def build(self, deltas: list[tuple[Key, Delta]], kinds: Kinds) -> pa.Table:
        """The deltas as one table, in their order."""
        if kinds is not self.kinds and kinds != self.kinds:
            self._know(kinds)
        if not deltas:
            return self.empty
        sizes = [len(delta.id) for _, delta in deltas]
        raw, change = _join(deltas, "raw"), _join(deltas, "change")
        gone = change == LEAVE
        ticks = [delta.time for _, delta in deltas]
        times = np.full(sizes[0], ticks[0]) if len(sizes) == 1 else np.repeat(ticks, sizes)
        columns = [write_times(times, kinds.time)]
        columns += [
            pa.array(np.repeat(objects([key[k] for key, _ in deltas]), sizes), kind) for k, kind in enumerate(kinds.by)
        ]
        columns += [
            pa.array(_join(deltas, "id"), kinds.id),
            write_times(_join(deltas, "arrived"), kinds.time),
            pa.array([CHANGES[k] for k in change.tolist()], pa.string()),
            pa.array(_join(deltas, "probability"), from_pandas=True),  # NaN, on leave, -> null
            pa.array(_join(deltas, "exact"), mask=gone),
        ]
        columns += [pa.array(raw[:, j], from_pandas=True) for j in range(raw.shape[1])]  # NaN -> null
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _know(self, kinds: Kinds) -> None:
        time = kinds.time or pa.float64()
        seen = kinds.by or (None,) * len(self.query.by)
        head = [("time", time), *((name, kind or pa.null()) for name, kind in zip(self.query.by, seen, strict=True))]
        head += [("id", kinds.id or pa.null()), ("arrived", time), ("change", pa.string())]
        tail = [("probability", pa.float64()), ("exact", pa.bool_())]
        self.schema = pa.schema([*head, *tail, *((name, pa.float64()) for name in self.query.names)])
        self.kinds, self.empty = kinds, self.schema.empty_table()


def _join(deltas: list[tuple[Key, Delta]], name: str) -> NDArray[Any]:
    parts = [getattr(delta, name) for _, delta in deltas]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
