"""Where do live clouds lie, and how do they make room?

One slot per live cloud, in columns, roughly by expiry. A slot that died keeps its columns until the next `compact`,
which closes the gaps, sorts by expiry and chooses new cut points; it comes when half the slots are dead, so its cost is
constant per arrival.

Lists of values that cells of many rows share (`shared`) lie once, at the head of the pools, and stay there.

Invariant: dead slots have state DEAD and expiry -inf; words are made from lo and hi by the present cut points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import SHARED, Batch, Columns, Floats, Ints, LiveSet, Sums, UncertainRows, empty_rows, unshared
from fogline.kernels.uncertain import copy_sharing, dense, own_values
from fogline.kernels.words import cut_points, fences, words

PLACES = 4096  # a member with more places than this keeps no sums, and is evaluated anew when something changes
SAMPLE = 50_000  # more clouds than this choose no better cut points

TYPES: dict[str, Any] = {
    "arrived": np.float64,
    "expires": np.float64,
    "until": np.float64,
    "probability": np.float64,
    "reported": np.float64,
    "within": np.float64,
    "places": np.int64,
    "at": np.int64,
    "word_lo": np.uint64,
    "word_hi": np.uint64,
    "state": np.uint8,
    "counted": np.bool_,
}


class Slots:
    """The columns of the live set. Growing is amortised O(rows · d), `compact` O(live · (d + log live))."""

    def __init__(self, d: int, places: int = PLACES, known: int = 0, shared: UncertainRows | None = None) -> None:
        self.d = d
        self.most_places = places
        self.used = 0  # slots 0 … used - 1 are alive or dead
        self.lists = empty_rows(0, d, 0) if shared is None else shared  # one cloud: the lists that cells share, …
        self.shared = unshared(d) if shared is None else np.where(shared.start[0] >= 0, shared.start[0], SHARED)
        self.pool = len(self.lists.value)  # … and how much of the clouds' pools is in use
        self.filled = 0  # how much of the members' sums is in use, …
        self.packed = 0  # … and how much was, when gaps were last closed
        self.latest = -np.inf  # the last expiry so far while slots lie in order of expiry; +inf when they do not
        self.coded = 0  # how many clouds the cut points were made from
        self.fence = fences(d)
        self.cuts = cut_points(np.empty((0, d)), np.empty((0, d)))
        self.uncertain: UncertainRows = self._room_for_rows(16, 16)
        self.columns = Columns(**{name: np.empty(16, kind) for name, kind in TYPES.items()})
        self.id: NDArray[Any] = np.empty(16, object)
        self.raw: Floats = np.empty((16, d))  # as it came
        self.known: Floats = np.empty((16, known))  # what rules may ask for
        self.sums = Sums(np.zeros((16, 2), np.int64), np.zeros(16, np.int64))

    def live_set(self) -> LiveSet:
        """The slots as kernels see them."""
        return LiveSet(
            self.uncertain, self.columns, self.raw, self.sums, self.cuts, self.fence,
            self.used, self.pool, self.filled, self.latest, self.shared,
        )  # fmt: skip

    def alive(self) -> Ints:
        """The slots in use, in their order."""
        return np.flatnonzero(self.columns.state[: self.used])

    def by_key(self, which: Ints) -> Ints:
        """These slots in the order of (arrival, id)."""
        if len(which) < 2:
            return which
        arrived, ids = self.columns.arrived[which].tolist(), self.id[which].tolist()
        return which[sorted(range(len(which)), key=lambda k: (arrived[k], ids[k]))]

    def make_room(self, rows: Batch) -> None:
        """Make sure that all rows of a batch would fit, with their distributions."""
        if self.coded == 0 and len(rows.id):
            self.recode(rows.uncertain)
        n, pool, c = self.used + len(rows.id), self.pool + len(rows.uncertain.value), self.uncertain
        if n > len(c.lo):
            size = max(2 * len(c.lo), n)
            c = c._replace(**{name: longer(getattr(c, name), size) for name in ("lo", "hi", "start", "size")})
            self.columns = Columns(*(longer(column, size) for column in self.columns))
            self.id, self.raw = longer(self.id, size), longer(self.raw, size)
            self.known = longer(self.known, size)
        if pool > len(c.value):
            size = max(2 * len(c.value), pool)
            c = c._replace(**{name: longer(getattr(c, name), size) for name in ("value", "weight", "tail")})
        self.uncertain = c

    def name(self, rows: Batch, which: Ints) -> None:
        """The rows that got the next slots: what they are called, and what is known of them."""
        if len(which):
            new = slice(self.used, self.used + len(which))
            self.id[new] = rows.id[which]
            if self.known.shape[1]:
                self.known[new] = rows.known[which]
            self.used = new.stop

    def again(self, which: Ints) -> Batch:
        """Some clouds as rows on their way in."""
        c, uncertain = self.columns, dense(self.uncertain, which, self.shared)
        return Batch(self.id[which], c.arrived[which], c.expires[which], self.raw[which], self.known[which], uncertain)

    def places_of(self, uncertain: UncertainRows) -> Ints:
        """How many places these clouds have; 0 for too many to keep sums for."""
        places = np.prod(uncertain.size, axis=1, dtype=np.float64)
        return np.where(places <= self.most_places, places, 0).astype(np.int64)

    def means(self, slot: Ints, attribute: Ints) -> Floats:
        """(n,) the means of these cells, larger is better; each has a value, or a list of them."""
        c = self.uncertain
        start, size = c.start[slot, attribute], c.size[slot, attribute]
        out, listed = c.lo[slot, attribute], np.flatnonzero(start >= 0)
        if len(listed):
            end = np.cumsum(size[listed])
            first = end - size[listed]
            at = np.repeat(start[listed] - first, size[listed]) + np.arange(end[-1])
            out[listed] = np.add.reduceat(c.value[at] * c.weight[at], first)
        return out

    def room_for_sums(self, places: int) -> None:
        """Make sure that new members' sums fit."""
        if self.filled + places > len(self.sums.logs):
            size = max(2 * len(self.sums.logs), self.filled + places)
            self.sums = Sums(*(longer(each, size) for each in self.sums))

    def pack_sums(self, members: Ints) -> None:
        """Close the gaps that former members left among the sums."""
        length, at = self.columns.places[members], self.columns.at
        end = np.cumsum(length)
        self.filled = int(end[-1]) if len(end) else 0
        source = np.repeat(at[members] - (end - length), length) + np.arange(self.filled)
        for each in self.sums:
            each[: self.filled] = each[source]
        at[members] = end - length
        self.packed = self.filled

    def compact(self, members: Ints) -> None:
        """Close the gaps, put slots in order of expiry and choose new cut points; the sums of `members` stay."""
        self.pack_sums(members)
        order, old = self.in_order(self.alive()), self.uncertain
        size = max(16, 2 * len(order))
        self.uncertain = self._room_for_rows(size, max(16, 2 * own_values(old, order, self.shared)))
        self.pool = copy_sharing(old, order, self.uncertain, 0, len(self.lists.value), self.shared, self.shared)
        self.columns = Columns(*(longer(column[order], size) for column in self.columns))
        self.id, self.raw = longer(self.id[order], size), longer(self.raw[order], size)
        self.known = longer(self.known[order], size)
        self.used = len(order)
        self.look_at_order()
        self.recode(self.view())

    def in_order(self, alive: Ints) -> Ints:
        """Living slots in the order in which they are to lie."""
        return alive[np.lexsort((self.columns.arrived[alive], self.columns.expires[alive]))]

    def _room_for_rows(self, rows: int, pool: int) -> UncertainRows:
        """Room for clouds, with the lists that they share at the head of the pools."""
        head = len(self.lists.value)
        uncertain = empty_rows(rows, self.d, head + pool)
        for name in ("value", "weight", "tail"):
            getattr(uncertain, name)[:head] = getattr(self.lists, name)
        return uncertain

    def look_at_order(self) -> None:
        """Do the slots, none of them dead, lie in order of expiry?"""
        expires = self.columns.expires[: self.used]
        self.latest = np.inf if np.any(np.diff(expires) < 0) else expires.max(initial=-np.inf)

    def view(self) -> UncertainRows:
        """The clouds of the slots in use."""
        c, n = self.uncertain, self.used
        return c._replace(lo=c.lo[:n], hi=c.hi[:n], start=c.start[:n], size=c.size[:n])

    def recode(self, uncertain: UncertainRows) -> None:
        """Choose cut points that spread these clouds, or some of very many, and write every word anew."""
        some = slice(None, None, len(uncertain.lo) // SAMPLE + 1)
        self.cuts = cut_points(uncertain.lo[some], uncertain.hi[some])
        self.coded = len(uncertain.lo)
        if self.used:
            n = self.used
            self.columns.word_lo[:n], self.columns.word_hi[:n] = words(
                self.uncertain.lo[:n], self.uncertain.hi[:n], self.cuts
            )


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The same array with room for `size` rows."""
    out = np.empty((size, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
