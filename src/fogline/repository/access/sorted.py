"""How are rows found in a table that is sorted by one determinant?

The rows that are close in the key are one stretch of the table, found by bisection; what else is given is tested row by
row within it. An attribute of words may lead: then the table is sorted within equal words.

Useful for: one determinant, or one that leaves few rows. Not useful for: several determinants of which none alone does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.sorted import Asked, Sorted, bound_close, count_close, find_close
from fogline.repository.access.protocol import Centres, Given, readonly
from fogline.repository.history import History


@dataclass(frozen=True, slots=True)
class SortedAccess:
    """Rows sorted by `key`, within equal `lead` if there is one."""

    table: Sorted
    lead: str | None
    key: str
    others: tuple[str, ...]

    @classmethod
    def build(cls, history: History, then: str, lead: str | None, key: str, others: tuple[str, ...]) -> SortedAccess:
        """O(n log n), over the rows that hold lead, key and then."""
        columns = [history.columns[name].values for name in (key, then, *([lead] if lead else []))]
        there = np.flatnonzero(~np.any([np.isnan(column) for column in columns], axis=0))
        keys = [history.columns[name].values[there] for name in (key, *([lead] if lead else []))]
        order = there[np.lexsort(keys)]
        rest = [history.columns[name].values[order] for name in others]
        table = Sorted(
            lead=readonly(history.columns[lead].values[order] if lead else np.empty(0)),
            key=readonly(history.columns[key].values[order]),
            others=readonly(np.stack(rest, axis=1) if rest else np.empty((len(order), 0))),
            then=readonly(history.columns[then].values[order]),
        )
        return cls(table, lead, key, others)

    def grown(self, then: str, more: History) -> SortedAccess:
        """The same with more rows, put in order again. O(n log n)."""
        new = SortedAccess.build(more, then, self.lead, self.key, self.others).table
        joined = Sorted(*(np.concatenate((a, b)) for a, b in zip(self.table, new, strict=True)))
        order = np.lexsort((joined.key, joined.lead) if self.lead else (joined.key,))
        table = Sorted(*(readonly(column[order] if len(column) else column) for column in joined))
        return SortedAccess(table, self.lead, self.key, self.others)

    def describe(self) -> str:
        return f"sorted by {self.lead + ', ' if self.lead else ''}{self.key}"

    def count(self, given: Given, centres: Centres) -> Ints:
        out: Ints = count_close(self.table, self._asked(given, centres))
        return out

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        low, high = bound_close(self.table, self._asked(given, centres))
        return low, high

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        offsets, values = find_close(self.table, self._asked(given, centres))
        return offsets, values

    def _asked(self, given: Given, centres: Centres) -> Asked:
        keys = np.ascontiguousarray(centres[self.key])
        leads = np.ascontiguousarray(centres[self.lead]) if self.lead else keys
        radii = np.array([float(given.get(name, -1.0)) for name in self.others])
        centre = np.empty((len(keys), len(self.others)))
        for k, name in enumerate(self.others):
            if name in given:
                centre[:, k] = centres[name]
        return Asked(leads, keys, float(given[self.key]), centre, radii)
