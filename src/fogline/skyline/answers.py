"""How is the answer of some groups shown: which front, cut where, all rows or few that stand for them?"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Delta, Floats, Ints, Objects
from fogline.model import Query
from fogline.rows.changes import LEAVING, Key, Tables
from fogline.rows.kinds import Kinds
from fogline.skyline.current import Current
from fogline.skyline.fronts import check_alpha, check_front, standing, with_front
from fogline.skyline.live import Live
from fogline.skyline.representatives import check_top, representatives, with_stands_for


class Answers:
    """Builds tables of the answer to one query; remembers which representatives of each group it gave last."""

    def __init__(self, query: Query) -> None:
        self.query, self.tables = query, Tables(query)
        self.given: dict[Key, frozenset[tuple[Any, ...]]] = {}

    def table(
        self, groups: Mapping[Key, Live], kinds: Kinds, front: str, alpha: float | None, top: int | None
    ) -> pa.Table:
        """See `Monitor.answer`."""
        check_front(front)
        check_alpha(alpha, self.query.alpha)
        parts: list[tuple[Key, Delta]] = []
        fronts: list[Objects] = [np.empty(0, object)]
        counts: list[Ints] = [np.empty(0, np.int64)]
        if top is not None:
            check_top(top)
            self.given = {key: self.given.get(key, frozenset()) for key in groups}
        for key, live in groups.items():
            found = standing(live, front, alpha)
            if top is not None:
                chosen = few(live, found.slots, found.probability, top, self.given[key])
                found, self.given[key] = found.part(chosen.which), chosen.names
                counts.append(chosen.stands_for)
            s, which, same = live.slots, found.slots, np.zeros(len(found.slots), np.int64)
            columns = found.probability, found.within, s.raw[which]
            parts.append((key, Delta(live.now, s.id[which], s.columns.arrived[which], same, *columns, same)))
            fronts.append(found.front)
        table = self.tables.build(parts, kinds).drop_columns(["time", "change", *LEAVING])
        table = with_front(table, np.concatenate(fronts))
        return table if top is None else with_stands_for(table, np.concatenate(counts))


class Few(NamedTuple):
    """The rows of a live set that stand for some of them."""

    which: Ints  # (m,) positions among those
    stands_for: Ints  # (m,)
    names: frozenset[tuple[Any, ...]]  # what they are called: to be given as `before` next time


def few(live: Live, slots: Ints, probability: Floats, k: int, before: Container[tuple[Any, ...]]) -> Few:
    """k rows that stand for the rows in these slots; a missing value counts by the mean of its distribution.

    `before`: the names of those that stood for them last time. A row is named by id and arrival; where each id has one
    current row, by its id alone.
    """
    s = live.slots
    n, d = len(slots), s.d
    ids = s.id[slots].tolist()
    arrived = [None] * n if isinstance(live, Current) else s.columns.arrived[slots].tolist()
    names = list(zip(ids, arrived, strict=True))
    values = s.means(np.repeat(slots, d), np.tile(np.arange(d), n)).reshape(n, d)
    which, stands_for = representatives(values, probability, k, [i for i, name in enumerate(names) if name in before])
    return Few(which, stands_for, frozenset(names[i] for i in which.tolist()))
