"""When does a row leave, if only the newest N rows count?

Rows stand in a queue by (arrival, id); the k-th ever to stand there (k = 0, 1, …) leaves when more than k + N have.
So its expiry is k + N on a clock that counts rows, and the live set need not know that the window is a count. A row
that comes late takes its place in the middle: places behind it move up by one, in the same order as before, and
expiries move with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Flags, Floats, Ints

Objects = NDArray[Any]


class CountWindow:
    """The queue of one group: keys of its newest `last` rows, forgotten ones too. `place`: O(rows) if none is late."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.count = 0  # rows that ever stood in the queue
        self.chunks: deque[tuple[Floats, Objects]] = deque()  # keys in order, in pieces
        self.size = 0  # rows in the chunks

    @property
    def now(self) -> float:
        """The clock: what has an expiry up to it has left."""
        return float(self.count - 1)

    def place(self, arrived: Floats, ids: Objects) -> tuple[Floats, Floats | None]:
        """Let rows stand in the queue. Returns their expiries and, if older rows had to move, the expiries of those.

        The second is an array: expiry k + base became moved[k], where base is the expiry of the oldest row before.
        """
        order = np.array(sorted(range(len(ids)), key=lambda i: (arrived[i], ids[i])), np.int64)
        expires = np.empty(len(ids))
        moved = None
        if not self.size or self._last_key() < (arrived[order[0]], ids[order[0]]):
            expires[order] = self.count + self.last + np.arange(len(ids))
            self._push(arrived[order], ids[order])
        else:
            moved = self._merge(arrived, ids, expires)
        self._trim()
        return expires, moved

    def base(self) -> int:
        """The expiry of the oldest row in the queue."""
        return self.count - self.size + self.last

    def keys(self) -> tuple[Floats, Objects]:
        """(arrival, id) of every row in the queue, in order."""
        if not self.chunks:
            return np.empty(0), np.empty(0, object)
        return np.concatenate([a for a, _ in self.chunks]), np.concatenate([b for _, b in self.chunks])

    def holds(self, ids: Sequence[Any], arrived: Floats) -> Flags:
        """(n,) which of these rows, at least one, stand in the queue. O((rows + N) · log rows)."""
        if len(self.chunks) > 1:
            self.load(self.count, *self.keys())
        times, names = self.chunks[0] if self.chunks else self.keys()
        some = slice(np.searchsorted(times, arrived.min(), "left"), np.searchsorted(times, arrived.max(), "right"))
        return named_in(ids, arrived, names[some], times[some])

    def _merge(self, arrived: Floats, ids: Objects, expires: Floats) -> Floats:
        old_arrived, old_ids = self.keys()
        both = np.concatenate((old_arrived, arrived)), np.concatenate((old_ids, ids))
        order = np.argsort(both[0], kind="stable")
        for begin, end in _runs(np.flatnonzero(np.diff(both[0][order]) == 0)):  # equal arrivals stand by id
            order[begin:end] = sorted(order[begin:end], key=lambda i: both[1][i])
        oldest = self.base()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self.count += len(ids)
        self.chunks.clear()
        self.chunks.append((both[0][order], both[1][order]))
        self.size = len(order)
        expires[:] = oldest + rank[len(old_ids) :]
        return (oldest + rank[: len(old_ids)]).astype(np.float64)

    def _last_key(self) -> tuple[float, Any]:
        arrived, ids = self.chunks[-1]
        return arrived[-1], ids[-1]

    def _push(self, arrived: Floats, ids: Objects) -> None:
        if len(ids):
            self.chunks.append((arrived, ids))
            self.count += len(ids)
            self.size += len(ids)

    def _trim(self) -> None:
        while self.size > self.last:
            arrived, ids = self.chunks.popleft()
            extra = min(self.size - self.last, len(ids))
            self.size -= extra
            if extra < len(ids):
                self.chunks.appendleft((arrived[extra:], ids[extra:]))

    def load(self, count: int, arrived: Floats, ids: Objects) -> None:
        """Stand as saved: `count` rows so far, these keys still in the queue."""
        self.count, self.size = count, len(ids)
        self.chunks.clear()
        if len(ids):
            self.chunks.append((arrived, ids))


def _runs(ties: Ints) -> list[tuple[int, int]]:
    """Runs (begin, end) of equal neighbours, from the places where one equals the next."""
    if not len(ties):
        return []
    cuts = np.flatnonzero(np.diff(ties) > 1) + 1
    return [(int(part[0]), int(part[-1]) + 2) for part in np.split(ties, cuts)]


def named_in(ids: Sequence[Any], arrived: Floats, others: Objects, others_arrived: Floats) -> Flags:
    """(n,) which rows have the id and arrival of one of the others."""
    near = np.flatnonzero(np.isin(others_arrived, arrived))  # mostly few: only of these names are looked at
    names = set(zip(others[near].tolist(), others_arrived[near].tolist(), strict=True))
    return np.array([name in names for name in zip(ids, arrived.tolist(), strict=True)], np.bool_)


def moved_expiries(value: Floats, base: int, moved: Floats) -> Floats:
    """Expiries after a late row took its place; what is no expiry of the queue stays."""
    k: Ints = np.nan_to_num(value - base, nan=-1.0, posinf=-1.0, neginf=-1.0).astype(np.int64)
    inside = (k >= 0) & (k < len(moved))
    return np.where(inside, moved[np.clip(k, 0, len(moved) - 1)], value)
