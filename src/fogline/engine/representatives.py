"""Which few rows stand for a large answer?

Rows are compared by ranks: in each attribute the share of
rows that are worse, from 0 to 1, so neither units nor outliers matter. Representatives are chosen greedily: first the
most probable row (of several, the one nearest to the middle of all ranks), then again and again the row farthest
from all that were chosen. Every other row counts for its nearest representative.

The *radius* is the greatest distance of a row from its representative. Greedy choice has at most twice the least radius
that any k rows can have (Gonzalez 1985). A screen should not flicker: rows that were shown last time are kept while the
radius with them is at most KEEP times that of a fresh choice; beyond, those that cover least give way, one after the
other. So the radius is at most 2 · KEEP times the least. Nothing is drawn at random: the same rows, in the same order,
with the same ones held, give the same choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Ints
from fogline.errors import FoglineError

STANDS_FOR = "stands_for"  # the column that holds for how many rows a representative stands
KEEP = 1.5  # so much greater may the radius be for the sake of rows that were shown before


def representatives(values: Floats, probability: Floats, k: int, held: Sequence[int] = ()) -> tuple[Ints, Ints]:
    """(which, stands_for): k of the rows, ascending, and for how many rows each stands, itself included.

    values (n, d), larger is better; `held`: rows that were shown last time. All n rows if there are no more than k.
    O(n · (k + d log n)), and O(n · k) more for each held row that gives way.
    """
    check_top(k)
    n = len(values)
    if n <= k:
        return np.arange(n), np.ones(n, np.int64)
    ranks = ranked(values)
    chosen, reach = _extended(ranks, probability, [], k)
    kept = sorted(set(held))[:k]
    while kept:
        again, radius = _extended(ranks, probability, kept, k)
        if radius <= KEEP * reach:
            chosen = again
            break
        del kept[_least_needed(ranks, kept)]
    which = np.sort(np.array(chosen, np.int64))
    nearest = np.argmin(np.stack([_from(ranks, row) for row in which.tolist()]), axis=0)
    nearest[which] = np.arange(k)  # of equal rows, each stands for itself
    return which, np.bincount(nearest, minlength=k)


def with_stands_for(table: pa.Table, stands_for: Ints) -> pa.Table:
    """A table of an answer, with for how many rows each of its rows stands as its last column."""
    name = f"{STANDS_FOR}_" if STANDS_FOR in table.schema.names else STANDS_FOR
    return table.append_column(name, pa.array(stands_for, pa.int64()))


def check_top(k: object) -> None:
    """Can so many rows be shown?"""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise FoglineError(f"top is {k!r}; it counts rows to be shown, so it is a whole number of at least 1.")


def ranked(values: Floats) -> Floats:
    """(n, d) the share of rows that are worse, half of those that are equal included; NaN: 0.5.

    >>> ranked(np.array([[3.0], [1.0], [3.0], [np.nan]])).ravel().round(3).tolist()
    [0.667, 0.167, 0.667, 0.5]
    """
    out = np.full(values.shape, 0.5)
    for j, column in enumerate(values.T):
        known = ~np.isnan(column)
        order = np.sort(column[known])
        ends = (np.searchsorted(order, column[known], side) for side in ("left", "right"))
        out[known, j] = sum(ends) / (2.0 * max(len(order), 1))
    return out


def _extended(ranks: Floats, probability: Floats, held: list[int], k: int) -> tuple[list[int], float]:
    """k rows with `held` among them, each further one as far from all others as may be; and their radius."""
    chosen = held or [_first(ranks, probability)]
    distance = np.min(np.stack([_from(ranks, row) for row in chosen]), axis=0)
    distance[chosen] = -1.0  # not again, even if others are at the same place
    chosen = list(chosen)
    while len(chosen) < k:
        far = np.flatnonzero(distance == distance.max())
        row = int(far[np.argmax(probability[far])])
        chosen.append(row)
        distance = np.minimum(distance, _from(ranks, row))
        distance[row] = -1.0
    return chosen, max(float(distance.max()), 0.0)


def _first(ranks: Floats, probability: Floats) -> int:
    """The most probable row; of several, the one nearest to the middle."""
    best = np.flatnonzero(probability == probability.max())
    return int(best[np.argmin(((ranks[best] - ranks.mean(axis=0)) ** 2).sum(axis=1))])


def _from(ranks: Floats, row: int) -> Floats:
    """(n,) how far all rows are from one."""
    return np.asarray(np.sqrt(((ranks - ranks[row]) ** 2).sum(axis=1)))


def _least_needed(ranks: Floats, held: list[int]) -> int:
    """Which of the rows held is nearest to another of them."""
    if len(held) == 1:
        return 0
    between = np.stack([_from(ranks[held], k) for k in range(len(held))])
    np.fill_diagonal(between, np.inf)
    return int(np.argmin(between.min(axis=1)))
