"""By which way are the rows near a centre found?

Two ways, same answers: a table sorted by one determinant (`SortedPath`), or the grid and R*-tree (`IndexPath`). The
planner takes the sorted table with the shortest stretches, or the index where a few questions show it to be faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Floats, Ints
from fogline.kernels.sorted import Sorted, bound_close, count_close, find_close
from fogline.repository.access.index import Index
from fogline.repository.history import History

Given = Mapping[str, float]  # attribute -> how close
Centres = Mapping[str, Floats]  # attribute -> (q,) values to be close to


class Path(Protocol):
    """A way to the rows that are close to centres in all that is given."""

    def describe(self) -> str: ...
    def count(self, given: Given, centres: Centres) -> Ints: ...
    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]: ...
    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]: ...
    def grown(self, then: str, more: History) -> Path: ...


@dataclass(frozen=True, slots=True)
class SortedPath:
    """Rows sorted by `key`, within equal `lead` if there is one."""

    table: Sorted
    lead: str | None
    key: str
    others: tuple[str, ...]

    @classmethod
    def build(cls, history: History, then: str, lead: str | None, key: str, others: tuple[str, ...]) -> SortedPath:
        """O(n log n), over the rows that hold lead, key and then."""
        columns = [history.columns[name].values for name in (key, then, *([lead] if lead else []))]
        there = np.flatnonzero(~np.any([np.isnan(column) for column in columns], axis=0))
        keys = [history.columns[name].values[there] for name in (key, *([lead] if lead else []))]
        order = there[np.lexsort(keys)]
        rest = [history.columns[name].values[order] for name in others]
        return cls(
            Sorted(
                lead=readonly(history.columns[lead].values[order] if lead else np.empty(0)),
                key=readonly(history.columns[key].values[order]),
                others=readonly(np.stack(rest, axis=1) if rest else np.empty((len(order), 0))),
                then=readonly(history.columns[then].values[order]),
            ),
            lead,
            key,
            others,
        )

    def grown(self, then: str, more: History) -> SortedPath:
        """The same with more rows, put in order again. O(n log n)."""
        new = SortedPath.build(more, then, self.lead, self.key, self.others).table
        old = self.table
        order = np.lexsort((np.concatenate((old.key, new.key)), np.concatenate((old.lead, new.lead)))
                           if self.lead else (np.concatenate((old.key, new.key)),))  # fmt: skip
        joined = (np.concatenate((a, b)) for a, b in zip(old, new, strict=True))
        table = Sorted(*(readonly(column[order] if len(column) else column) for column in joined))
        return SortedPath(table, self.lead, self.key, self.others)

    def describe(self) -> str:
        return f"sorted by {self.lead + ', ' if self.lead else ''}{self.key}"

    def count(self, given: Given, centres: Centres) -> Ints:
        out: Ints = count_close(self.table, *self._asked(given, centres))
        return out

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        low, high = bound_close(self.table, *self._asked(given, centres))
        return low, high

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        offsets, values = find_close(self.table, *self._asked(given, centres))
        return offsets, values

    def _asked(self, given: Given, centres: Centres) -> tuple[Floats, Floats, float, Floats, Floats]:
        keys = np.ascontiguousarray(centres[self.key])
        leads = np.ascontiguousarray(centres[self.lead]) if self.lead else keys
        radii = np.array([float(given.get(name, -1.0)) for name in self.others])
        centre = np.empty((len(keys), len(self.others)))
        for k, name in enumerate(self.others):
            if name in given:
                centre[:, k] = centres[name]
        return leads, keys, float(given[self.key]), centre, radii


@dataclass(frozen=True, slots=True)
class IndexPath:
    """Rows in grid cells under an R*-tree."""

    index: Index
    names: tuple[str, ...]

    def grown(self, then: str, more: History) -> IndexPath:
        """The same with more rows, by R* insertion; the index itself is copied first."""
        index = Index.from_arrays({name: np.array(array) for name, array in self.index.arrays().items()})
        values = more.columns[then].values
        there = ~np.isnan(values)
        points = np.stack([more.columns[name].values[there] for name in self.names], axis=1)
        index.append(points, values[there])
        return IndexPath(index, self.names)

    def describe(self) -> str:
        return f"R*-tree over {', '.join(self.names)}"

    def count(self, given: Given, centres: Centres) -> Ints:
        return self.index.count(*self._asked(given, centres))

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        return self.index.bounds(*self._asked(given, centres), depth=None)

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        return self.index.find(*self._asked(given, centres))

    def _asked(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        size = len(next(iter(centres.values())))
        nothing = np.full(size, np.nan)
        centre = np.stack([centres[name] if name in given else nothing for name in self.names], axis=1)
        return np.ascontiguousarray(centre), np.array([float(given.get(name, 0.0)) for name in self.names])


def readonly(array: NDArray[np.float64]) -> Floats:
    """A read-only view: memory-mapped arrays are read-only, and one kind of array means one compiled kernel."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
