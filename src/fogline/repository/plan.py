"""Which way is cheapest for a combination of rules?

Sorted tables are shared by all combinations that can use them. The one whose stretches are shortest on a sample is
taken; where several numeric attributes are given and stretches are long, the index is built, with cells of the side
that the cost model chooses, and both are timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from fogline.model import Rule
from fogline.repository.cost import sides
from fogline.repository.history import History
from fogline.repository.index import Index
from fogline.repository.paths import Centres, IndexPath, Path, SortedPath

PROBES, SEED = 200, 11
LONG = 64  # a stretch of up to this many rows is read faster than any tree is walked


class Planner:
    """Chooses and builds the paths to one attribute's donors."""

    def __init__(self, history: History, then: str, rules: Sequence[Rule]) -> None:
        self.history, self.then, self.rules = history, then, rules
        self.determinants = tuple(dict.fromkeys(name for rule in rules for name in rule.given))
        self.tables: dict[tuple[str | None, str], SortedPath] = {}
        self.index: IndexPath | None = None
        self.seconds: dict[str, float] = {}  # what was measured, per centre

    def path(self, given: Mapping[str, float]) -> Path:
        """The way for rows close in all that is given."""
        words = [name for name in given if self.history.columns[name].words is not None]
        numbers = [name for name in given if name not in words]
        keys = numbers or words[:1]
        leads = words if numbers else []
        options: list[tuple[str | None, str]] = [(lead, key) for key in keys for lead in leads]
        options = options or [(None, key) for key in keys]
        best = min(options, key=lambda option: self._stretch(given, *option))
        paths: list[Path] = [self._table(*best)]
        if len(numbers) > 1 and self._stretch(given, *best) > LONG:
            paths.append(self._index())
        return paths[0] if len(paths) == 1 else min(paths, key=lambda path: self._time(path, given))

    def _table(self, lead: str | None, key: str) -> SortedPath:
        if (lead, key) not in self.tables:
            others = tuple(name for name in self.determinants if name not in (lead, key))
            self.tables[lead, key] = SortedPath.build(self.history, self.then, lead, key, others)
        return self.tables[lead, key]

    def _stretch(self, given: Mapping[str, float], lead: str | None, key: str) -> float:
        """Rows to be read per centre, on a sample."""
        only = {name: given[name] for name in (key, lead) if name is not None}
        centres = self._probes(given)
        return float(self._table(lead, key).count(only, centres).mean()) if len(centres[key]) else 0.0

    def _index(self) -> IndexPath:
        if self.index is None:
            names, columns = self.determinants, self.history.columns
            values = columns[self.then].values
            there = ~np.isnan(values)
            points = np.stack([columns[name].values[there] for name in names], axis=1)
            radii = np.array([[rule.given.get(name, np.inf) for name in names] for rule in self.rules])
            side = sides(points, radii, words=[columns[name].words is not None for name in names])
            self.index = IndexPath(Index.build(points, values[there], side), names)
        return self.index

    def _time(self, path: Path, given: Mapping[str, float]) -> float:
        centres = self._probes(given)
        path.find(given, centres)  # once for the compiler
        began = perf_counter()
        path.find(given, centres)
        took = (perf_counter() - began) / max(1, len(next(iter(centres.values()))))
        self.seconds[f"{path.describe()} for {', '.join(given)}"] = took
        return took

    def _probes(self, given: Mapping[str, float]) -> Centres:
        columns = [self.history.columns[name].values for name in given]
        rows = np.flatnonzero(~np.any([np.isnan(column) for column in columns], axis=0))
        if len(rows) > PROBES:
            rows = np.sort(np.random.default_rng(SEED).choice(rows, PROBES, replace=False))
        return {name: column[rows] for name, column in zip(given, columns, strict=True)}
