"""Which row is current of each id, and what came last of those that have none?

An id is a number from its first row on. What befalls an id (a row, a removal) has a time and a version, its *stamp*;
the id keeps the greatest one, and whatever has a smaller stamp is stale. An id without a current row, because it was
removed or the row has expired, is a *marker*: its stamp still shows what is stale. Markers are forgotten once the clock
has passed their time by `remember`.

Invariant: an id with a number has a slot, or is a marker. A marker that is due to be forgotten counts as forgotten,
though it may lie here for a while.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.arrays import Flags, Floats, Ints, Objects
from fogline.skyline.slots import longer

NO_VERSION = np.iinfo(np.int64).min
SLACK = 64  # fewer markers than this are not worth looking at


class Names:
    """The ids of a group. `numbers` is O(ids), all else O(ids) in arrays."""

    def __init__(self, remember: float = np.inf) -> None:
        self.remember = remember
        self.number: dict[Any, int] = {}
        self.free: list[int] = []  # numbers that no id has any longer
        self.id: Objects = np.empty(16, object)
        self.slot: Ints = np.full(16, -1, np.int64)  # -1: none
        self.time: Floats = np.full(16, -np.inf)
        self.version: Ints = np.full(16, NO_VERSION, np.int64)
        self._place: Ints = np.empty(16, np.int64)  # room for `twice`
        self._kept = 0  # how many markers were left when some were last forgotten

    def numbers(self, ids: Objects) -> Ints:
        """The numbers of ids; those that have none get one."""
        names = ids.tolist()
        found = list(map(self.number.get, names))
        if None in found:
            found = [self._new(name) if n is None else n for name, n in zip(names, found, strict=True)]
        return np.array(found, np.int64)

    def _new(self, name: Any) -> int:
        if (n := self.number.get(name)) is not None:  # the same id, earlier in the same batch
            return n
        n = self.free.pop() if self.free else len(self.number)
        self.number[name] = n
        if n >= len(self.id):
            size = 2 * len(self.id)
            self.id, self._place = longer(self.id, size), longer(self._place, size)
            self.slot, self.time, self.version = (longer(a, size) for a in (self.slot, self.time, self.version))
            self.slot[n:], self.time[n:], self.version[n:] = -1, -np.inf, NO_VERSION
        self.id[n] = name
        return n

    def stale(self, number: Ints, time: Floats, version: Ints, clock: float) -> Flags:
        """What is older than the stamp of its id?"""
        last = self.time[number]
        older: Flags = (time < last) | ((time == last) & (version < self.version[number]))
        if older.any() and self.remember < np.inf:
            older &= (self.slot[number] >= 0) | ~self._over(last, clock)
        return older

    def twice(self, number: Ints) -> bool:
        """Does a number come twice?"""
        count = np.arange(len(number))
        self._place[number] = count
        return bool((self._place[number] != count).any())

    def stamp(self, number: Ints, time: Floats, version: Ints) -> None:
        """This befell these ids, none of them twice."""
        self.time[number], self.version[number] = time, version

    def markers(self, clock: float) -> Ints:
        """The numbers of the ids that are markers."""
        n = len(self.number) + len(self.free)
        without = np.flatnonzero((self.slot[:n] < 0) & (self.time[:n] > -np.inf))
        return without[~self._over(self.time[without], clock)]

    def _over(self, time: Floats, clock: float) -> Flags:
        """Has the clock passed these times by `remember`?"""
        return np.asarray(time + self.remember < clock)

    def forget(self, clock: float, living: int) -> None:
        """Forget the markers that are over, when they may have become many. `living`: how many ids have a row."""
        markers = len(self.number) - living
        if self.remember == np.inf or markers <= 2 * self._kept + SLACK:
            return
        n = len(self.number) + len(self.free)
        over = np.flatnonzero((self.slot[:n] < 0) & (self.time[:n] > -np.inf) & self._over(self.time[:n], clock))
        for name in self.id[over].tolist():
            self.free.append(self.number.pop(name))
        self.id[over], self.time[over], self.version[over] = None, -np.inf, NO_VERSION
        self._kept = markers - len(over)

    def moved(self, number: Ints) -> None:
        """The ids with these numbers lie in slots 0, 1, …"""
        self.slot[number] = np.arange(len(number))
