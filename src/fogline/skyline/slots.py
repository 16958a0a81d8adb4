"""Where do live clouds lie, and how do they make room?

One slot per live cloud, in columns, roughly by expiry. A slot that died keeps its columns until the next `compact`,
which closes the gaps, sorts by expiry and chooses new cut points; it comes when half the slots are dead, so its cost is
constant per arrival.

Invariant: dead slots have state DEAD and expiry -inf; words[i] is made from lo[i], hi[i] and the present cut points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fogline.kernels.boxes import DEAD, cut_points, guards, words
from fogline.kernels.clouds import Batch, Clouds, Floats, Ints, copy_cells, empty_clouds, pool_size

PLACES = 4096  # a member with more places than this keeps no sums, and is evaluated anew when something changes

_COLUMNS: dict[str, Any] = {
    "id": object,
    "arrived": np.float64,
    "expires": np.float64,
    "until": np.float64,  # SEALED: surely beaten until then; OUT: kept out until then
    "probability": np.float64,  # of a member
    "exact": np.bool_,
    "reported": np.float64,  # what the world was last told; NaN: not in the answer
    "state": np.uint8,
    "counted": np.bool_,  # under one of the pruning counters
    "places": np.int64,  # 0: more than PLACES
    "at": np.int64,  # where a member's sums begin
    "word_lo": np.uint64,
    "word_hi": np.uint64,
}


class Slots:
    """The columns of the live set. `append` amortised O(rows · d), `compact` O(live · (d + log live))."""

    id: NDArray[Any]
    arrived: Floats
    expires: Floats
    until: Floats
    probability: Floats
    exact: NDArray[np.bool_]
    reported: Floats
    state: NDArray[np.uint8]
    counted: NDArray[np.bool_]
    places: Ints
    at: Ints
    word_lo: NDArray[np.uint64]
    word_hi: NDArray[np.uint64]

    def __init__(self, d: int, places: int = PLACES) -> None:
        self.d = d
        self.most_places = places
        self.used = 0  # slots 0 … used - 1 are alive or dead
        self.pool = 0  # how much of the clouds' pools is in use
        self.sums = 0  # how much of the members' sums is in use
        self.coded = 0  # how many rows the cut points were made from
        self.guard = guards(d)
        self.cuts = cut_points(np.empty((0, d)), np.empty((0, d)))
        self.clouds: Clouds = empty_clouds(16, d, 16)
        self.raw: Floats = np.empty((16, d))
        self.logs: Ints = np.zeros(16, np.int64)
        self.zeros: Ints = np.zeros(16, np.int64)
        for name, kind in _COLUMNS.items():
            setattr(self, name, np.empty(16, kind))

    def alive(self) -> Ints:
        """The slots in use, in their order."""
        return np.flatnonzero(self.state[: self.used])

    def words_of(self, clouds: Clouds) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The words of clouds about to come in, by the present cut points (made from them if there are none)."""
        if self.coded == 0 and len(clouds.lo):
            self.recode(clouds)
        return words(clouds.lo, self.cuts), words(clouds.hi, self.cuts)

    def append(self, rows: Batch, which: Ints, word_lo: NDArray[np.uint64], word_hi: NDArray[np.uint64]) -> slice:
        """Give the chosen rows slots of their own; the caller sets `state` and `until`."""
        n = len(which)
        self._grow(n, pool_size(rows.clouds, which))
        new = slice(self.used, self.used + n)
        self.pool = copy_cells(rows.clouds, which, self.clouds, self.used, self.pool)
        self.raw[new] = rows.raw[which]
        self.id[new], self.arrived[new], self.expires[new] = rows.id[which], rows.arrived[which], rows.expires[which]
        self.probability[new], self.exact[new], self.reported[new] = 0.0, True, np.nan
        self.counted[new], self.at[new] = False, -1
        self.word_lo[new], self.word_hi[new] = word_lo[which], word_hi[which]
        places = np.prod(rows.clouds.size[which].astype(np.float64), axis=1)
        self.places[new] = np.where(places <= self.most_places, places, 0)
        self.used += n
        return new

    def bury(self, which: Ints) -> None:
        """These slots are dead."""
        self.state[which] = DEAD
        self.expires[which] = -np.inf

    def room_for_sums(self, places: int) -> None:
        """Make sure that a new member's sums fit."""
        if self.sums + places > len(self.logs):
            size = max(2 * len(self.logs), self.sums + places)
            self.logs, self.zeros = _longer(self.logs, size), _longer(self.zeros, size)

    def pack_sums(self, members: Ints) -> None:
        """Close the gaps that former members left among the sums."""
        length = self.places[members]
        end = np.cumsum(length)
        self.sums = int(end[-1]) if len(end) else 0
        source = np.repeat(self.at[members] - (end - length), length) + np.arange(self.sums)
        self.logs[: self.sums], self.zeros[: self.sums] = self.logs[source], self.zeros[source]
        self.at[members] = end - length

    def compact(self, members: Ints) -> None:
        """Close the gaps, put slots in order of expiry and choose new cut points; sums of `members` move along."""
        alive = self.alive()
        order = alive[np.lexsort((self.arrived[alive], self.expires[alive]))]
        old, pool = self.clouds, int(pool_size(self.clouds, order))
        self.clouds = empty_clouds(max(16, 2 * len(order)), self.d, max(16, 2 * pool))
        self.pool = copy_cells(old, order, self.clouds, 0, 0)
        self.pack_sums(members)
        self.raw = _longer(self.raw[order], len(self.clouds.lo))
        for name in _COLUMNS:
            setattr(self, name, _longer(getattr(self, name)[order], len(self.clouds.lo)))
        self.used = len(order)
        self.recode(self.view())

    def view(self) -> Clouds:
        """The clouds of the slots in use."""
        c, n = self.clouds, self.used
        return c._replace(lo=c.lo[:n], hi=c.hi[:n], start=c.start[:n], size=c.size[:n])

    def recode(self, clouds: Clouds) -> None:
        """Choose cut points that spread these clouds, and write every word anew."""
        self.cuts = cut_points(clouds.lo, clouds.hi)
        self.coded = len(clouds.lo)
        mine = self.view()
        self.word_lo[: self.used], self.word_hi[: self.used] = words(mine.lo, self.cuts), words(mine.hi, self.cuts)

    def _grow(self, rows: int, pool: int) -> None:
        c = self.clouds
        if self.used + rows > len(c.lo):
            size = max(2 * len(c.lo), self.used + rows)
            c = c._replace(**{name: _longer(getattr(c, name), size) for name in ("lo", "hi", "start", "size")})
            self.raw = _longer(self.raw, size)
            for name in _COLUMNS:
                setattr(self, name, _longer(getattr(self, name), size))
        if self.pool + pool > len(c.value):
            size = max(2 * len(c.value), self.pool + pool)
            c = c._replace(**{name: _longer(getattr(c, name), size) for name in ("value", "weight", "tail")})
        self.clouds = c


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The same array with room for `size` rows."""
    out = np.empty((size, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
