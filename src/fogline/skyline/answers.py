"""How is the answer of some groups shown: which front, cut where, all rows or few that stand for them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Delta, Ints, Objects
from fogline.model import Query
from fogline.rows.changes import LEAVING, Key, Tables
from fogline.rows.kinds import Kinds
from fogline.skyline.fronts import check_alpha, check_front, standing, with_front
from fogline.skyline.live import Live
from fogline.skyline.representatives import check_top, few, with_stands_for


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
