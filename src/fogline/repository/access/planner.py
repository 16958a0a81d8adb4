"""Which way is cheapest for a combination of rules?

Sorted tables are shared by all combinations that can use them. The one whose stretches are shortest is taken, as
estimated from a sample of the rows; where several numeric attributes are given and stretches are long, the index is
built, with cells of the side that the cost model chooses, and both are timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from fogline.model import Rule
from fogline.repository.access.cost import sides
from fogline.repository.access.index import Index
from fogline.repository.access.indexed import IndexAccess
from fogline.repository.access.protocol import Access, Centres
from fogline.repository.access.sorted import SortedAccess
from fogline.repository.history import History

PROBES, SEED = 200, 11
SKETCH = 100_000  # so many rows are enough to estimate how long stretches are
LONG = 64  # a stretch of up to this many rows is read faster than any tree is walked


class Planner:
    """Chooses and builds the accesses to one attribute's donors."""

    def __init__(self, history: History, then: str, rules: Sequence[Rule]) -> None:
        self.history, self.then, self.rules = history, then, rules
        self.sketch = history.sample(SKETCH, SEED)
        self.determinants = tuple(dict.fromkeys(name for rule in rules for name in rule.given))
        self.tables: dict[tuple[int, str | None, str], SortedAccess] = {}
        self.index: IndexAccess | None = None

    def access(self, given: Mapping[str, float]) -> tuple[Access, dict[str, float]]:
        """The way for rows close in all that is given; and where ways had to compete, the seconds each one took."""
        words = [name for name in given if self.history.columns[name].words is not None]
        numbers = [name for name in given if name not in words]
        keys = numbers or words[:1]
        leads = words if numbers else []
        options: list[tuple[str | None, str]] = [(lead, key) for key in keys for lead in leads]
        options = options or [(None, key) for key in keys]
        best = min(options, key=lambda option: self._stretch(given, *option))
        table = self._table(self.history, *best)
        if len(numbers) < 2 or self._stretch(given, *best) <= LONG:
            return table, {}
        timed = {each.describe(): (self._time(each, given), each) for each in (table, self._index())}
        winner = min(timed.values(), key=lambda pair: pair[0])
        return winner[1], {name: seconds for name, (seconds, _) in timed.items()}

    def _table(self, rows: History, lead: str | None, key: str) -> SortedAccess:
        name = (rows.rows, lead, key)
        if name not in self.tables:
            others = tuple(name for name in self.determinants if name not in (lead, key))
            self.tables[name] = SortedAccess.build(rows, self.then, lead, key, others)
        return self.tables[name]

    def _stretch(self, given: Mapping[str, float], lead: str | None, key: str) -> float:
        """Rows to be read per centre."""
        only = {name: given[name] for name in (key, lead) if name is not None}
        centres = self._probes(given)
        if not len(centres[key]):
            return 0.0
        share = self.sketch.rows / max(self.history.rows, 1)
        return float(self._table(self.sketch, lead, key).count(only, centres).mean()) / share

    def _index(self) -> IndexAccess:
        if self.index is None:
            names, columns = self.determinants, self.history.columns
            values = columns[self.then].values
            there = ~np.isnan(values)
            points = np.stack([columns[name].values[there] for name in names], axis=1)
            radii = np.array([[rule.given.get(name, np.inf) for name in names] for rule in self.rules])
            side = sides(points, radii, words=[columns[name].words is not None for name in names])
            self.index = IndexAccess(Index.build(points, values[there], side), names)
        return self.index

    def _time(self, access: Access, given: Mapping[str, float]) -> float:
        centres = self._probes(given)
        access.find(given, centres)  # once for the compiler
        began = perf_counter()
        access.find(given, centres)
        return (perf_counter() - began) / max(1, len(next(iter(centres.values()))))

    def _probes(self, given: Mapping[str, float]) -> Centres:
        columns = [self.sketch.columns[name].values for name in given]
        rows = np.flatnonzero(~np.any([np.isnan(column) for column in columns], axis=0))
        if len(rows) > PROBES:
            rows = np.sort(np.random.default_rng(SEED).choice(rows, PROBES, replace=False))
        return {name: column[rows] for name, column in zip(given, columns, strict=True)}
