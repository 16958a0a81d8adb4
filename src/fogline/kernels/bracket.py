"""P(o) of a row of very many instances: exact where the merged ones can be summed (`sweep`), else between two bounds.

The instances form a box: a run of values in each cell. A dominator leaves an instance with a probability f that rises
with every value, and the values are independent. So (FKG inequality) the mean over a box of the product of all f is at
least the product of their means, and those factor into sums along each cell: a table gives the lower bound. Upper
bounds follow from how far the f vary within the box (see `most`). The box with the widest gap is halved where
dominators vary most, until the bracket is narrow, or at or below alpha, or the allowed work is done.

Sums over dominators are sums of integers, so the bounds do not depend on the order of the dominators.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import share, shares
from fogline.kernels.instances import empty_grid, merge_instances, values_of
from fogline.kernels.judge import dominators, words_of
from fogline.kernels.sums import SURE, add_to, number
from fogline.kernels.sweep import TOO_MUCH, all_instances

ROUNDED = 1e-15  # more than what rounding can add up to over PAIRS dominators
STEEP = 0.9  # a dominator of the worst corner with more than this chance is bounded apart from the others
PAIRS = 8  # up to so many dominators, what two of them do together is bounded, too
ENTRIES = 2_000_000  # entries of a table
BOX = 32  # the work that a box takes beside that for its dominators


class Bounds(NamedTuple):
    """When a bracket is done: at or below `threshold` (NaN: does not count), or narrower than `width`, or after `work`.

    A unit of work is one dominator in one box.
    """

    threshold: float
    width: float
    work: int


class Table(NamedTuple):
    """What each of m dominators does to each run of values of o's c distributed cells; u entries over all runs.

    The runs of cell k are the entries base[k] … base[k] + runs[k] - 1. An entry of what adds up holds the sum *before*
    its run, and there is one entry more.
    """

    base: Ints  # (c,)
    runs: Ints  # (c,)
    weight: Floats  # (u,) adds up
    at_least: Floats  # (m, u) at a run's first, worst value: Pr{the dominator has at least that much}, …
    equal: Floats  # (m, u) … and just that
    at_least_best: Floats  # (m, u) the same at its last, best value
    equal_best: Floats  # (m, u)
    mean: Floats  # (m, u) adds up: weight times `at_least`, …
    square: Floats  # (m, u) … times its square, …
    tie: Floats  # (m, u) … and weight times `equal`
    known: Floats  # (m, 2) the same two over the cells that are known


class Seen(NamedTuple):
    """What all dominators together do in a box: sums of logarithms of f, of the steep ones and of the others."""

    worst: float  # of the others: at the worst corner, …
    mean: float  # … of the means, …
    best: float  # … and at the best corner
    spread: float  # the sum of their standard deviations
    steep_mean: float
    steep_best: float
    steep_least: float  # the least mean among the steep; 1: there are none
    once: float  # the sum of the probabilities to dominate o
    varying: int  # how many vary within the box


@kernel
def bracket(live, among, o, limit, goal):
    """(lower, upper, earliest expiry among the dominators) for P(o) of a row of very many instances.

    Exact (lower = upper) where there are at most `limit` merged instances, and not too many kinds of dominators.
    """
    uncertain, columns = live.uncertain, live.columns
    space = np.empty(among.shape[0], np.int64)
    ends = np.empty((2, uncertain.lo.shape[1]))
    m, _ = dominators(live, o, among, words_of(columns.word_hi, among), -1.0, space, ends)
    near = space[:m]
    soonest = np.inf
    for g in near:
        soonest = min(soonest, columns.expires[g])
    grid = empty_grid(values_of(uncertain, o), uncertain.lo.shape[1])
    if merge_instances(uncertain, o, near, grid) <= limit:
        exact = all_instances(uncertain, o, near, grid)
        if exact != TOO_MUCH:
            return exact, exact, soonest
    low, high = narrow(uncertain, o, near, grid, goal)
    return low, high, soonest


# --- The table --------------------------------------------------------------------------------------------------------


@inner
def cut_runs(grid, j, limit, weight, base, cuts):
    """Cut cell j of a grid into runs, one per value, or at most `limit` + 1 of similar weight; returns how many.

    Writes to `cuts` their first values, to `weight` from `base` on the sums before them.
    """
    n, first = grid.size[j], grid.start[j]
    runs, filled = 0, 0.0
    for k in range(n):
        if n <= limit or filled >= runs / limit:
            cuts[runs] = k
            weight[base + runs] = filled
            runs += 1
        filled += grid.weight[first + k]
    cuts[runs] = n
    weight[base + runs] = filled
    return runs


@inner
def table_of(uncertain, o, near, grid):
    """What each dominator does to each run."""
    d, m = uncertain.lo.shape[1], near.shape[0]
    cells, longest, entries = 0, 1, 0
    limit = max(16, ENTRIES // max(m * d, 1))
    for j in range(d):
        if grid.start[j] >= 0:
            cells += 1
            longest = max(longest, grid.size[j])
            entries += min(grid.size[j], limit + 1) + 1
    table = Table(
        np.zeros(cells, np.int64), np.zeros(cells, np.int64), np.zeros(entries),
        np.zeros((m, entries)), np.zeros((m, entries)), np.zeros((m, entries)), np.zeros((m, entries)),
        np.zeros((m, entries)), np.zeros((m, entries)), np.zeros((m, entries)), np.ones((m, 2)),
    )  # fmt: skip
    at_least, equal, cuts = np.empty(longest), np.empty(longest), np.empty(longest + 1, np.int64)
    cell, base = 0, 0
    for j in range(d):
        if grid.start[j] < 0:
            for r in range(m):
                a, b = share(uncertain, near[r], j, uncertain.lo[o, j])
                table.known[r, 0] *= a
                table.known[r, 1] *= b
            continue
        runs = cut_runs(grid, j, limit, table.weight, base, cuts)
        table.base[cell], table.runs[cell] = base, runs
        for r in range(m):
            shares(uncertain, near[r], j, grid, at_least, equal)
            fill_runs(table, r, base, cuts[: runs + 1], grid.weight[grid.start[j] :], (at_least, equal))
        cell += 1
        base += runs + 1
    return table


@inner
def fill_runs(table, r, base, cuts, weight, found):
    """Write one dominator's entries for one cell."""
    at_least, equal = found
    mean = square = tie = 0.0
    for k in range(cuts.shape[0] - 1):
        at, first, last = base + k, cuts[k], cuts[k + 1] - 1
        table.at_least[r, at], table.equal[r, at] = at_least[first], equal[first]
        table.at_least_best[r, at], table.equal_best[r, at] = at_least[last], equal[last]
        table.mean[r, at], table.square[r, at], table.tie[r, at] = mean, square, tie
        for v in range(first, last + 1):
            mean += weight[v] * at_least[v]
            square += weight[v] * at_least[v] * at_least[v]
            tie += weight[v] * equal[v]
    at = base + cuts.shape[0] - 1
    table.mean[r, at], table.square[r, at], table.tie[r, at] = mean, square, tie


# --- One box ----------------------------------------------------------------------------------------------------------


@inner
def weight_of(table, box):
    """The probability that o lies in the box (2, c): the first run of each cell, and the one after the last."""
    out = 1.0
    for k in range(box.shape[1]):
        out *= table.weight[table.base[k] + box[1, k]] - table.weight[table.base[k] + box[0, k]]
    return out


@inner
def chances(table, r, box):
    """How likely r dominates o at the box's best corner, on average, at the worst; and the mean of the square."""
    worst = best = mean = square = table.known[r, 0]
    square *= square
    worst_tie = best_tie = tie = table.known[r, 1]
    for k in range(box.shape[1]):
        first, last = table.base[k] + box[0, k], table.base[k] + box[1, k]
        worst *= table.at_least[r, first]
        if worst == 0.0:
            return 0.0, 0.0, 0.0, 0.0
        worst_tie *= table.equal[r, first]
        best *= table.at_least_best[r, last - 1]
        best_tie *= table.equal_best[r, last - 1]
        weight = table.weight[last] - table.weight[first]
        mean *= (table.mean[r, last] - table.mean[r, first]) / weight
        square *= (table.square[r, last] - table.square[r, first]) / weight
        tie *= (table.tie[r, last] - table.tie[r, first]) / weight
    high, low = max(worst - worst_tie, 0.0), max(best - best_tie, 0.0)
    return low, min(max(mean - tie, low), high), high, square


@inner
def add_pull(table, r, box, chance, pull):
    """Add to `pull` (c, 2) how much a dominator varies along each cell: by that a box is halved."""
    for k in range(box.shape[1]):
        first, last = table.base[k] + box[0, k], table.base[k] + box[1, k]
        weight = table.weight[last] - table.weight[first]
        mean = (table.mean[r, last] - table.mean[r, first]) / weight
        if mean > 0.0:
            square = (table.square[r, last] - table.square[r, first]) / weight
            add_to(pull, k, chance * min(np.sqrt(max(square / mean / mean - 1.0, 0.0)), 1e3))


@inner
def look_around(table, box, near, pull):
    """Whether the box is surely dominated, what the rows `near` do in it, and those of them that can dominate it."""
    left = np.empty(near.shape[0], np.int64)
    m = varying = 0
    sums = np.zeros((7, 2), np.int64)  # of what the first fields of `Seen` are, but `once` last
    steep_least = 1.0
    pull[:] = 0
    dominated = False
    for r in near:
        low, middle, high, square = chances(table, r, box)
        if high <= 0.0:
            continue
        if middle >= SURE:
            dominated = True
            break
        left[m] = r
        m += 1
        add_to(sums, 6, middle)
        if high - low > 1e-14:
            varying += 1
            add_pull(table, r, box, middle, pull)
        if high > STEEP:
            add_to(sums, 4, np.log1p(-middle))
            add_to(sums, 5, np.log1p(-low))
            steep_least = min(steep_least, 1.0 - middle)
        else:
            add_to(sums, 0, np.log1p(-high))
            add_to(sums, 1, np.log1p(-middle))
            add_to(sums, 2, np.log1p(-low))
            add_to(sums, 3, np.sqrt(max(square - middle * middle, 0.0)) / (1.0 - high))
    seen = Seen(
        number(sums, 0), number(sums, 1), number(sums, 2), number(sums, 3), number(sums, 4), number(sums, 5),
        steep_least, number(sums, 6), varying,
    )  # fmt: skip
    return dominated, seen, left[:m]


@inner
def in_pairs(table, box, near, once):
    """An upper bound (Bonferroni): 1 - the sum of the chances + the sum of the chances of two at once."""
    twice = np.zeros((1, 2), np.int64)
    for i in range(near.shape[0]):
        for k in range(i):
            a, b = near[i], near[k]
            both = table.known[a, 0] * table.known[b, 0]
            for c in range(box.shape[1]):
                first, last = table.base[c] + box[0, c], table.base[c] + box[1, c]
                weight = table.weight[last] - table.weight[first]
                with_a = (table.mean[a, last] - table.mean[a, first]) * table.at_least[b, first]
                with_b = (table.mean[b, last] - table.mean[b, first]) * table.at_least[a, first]
                both *= min(with_a, with_b) / weight
            add_to(twice, 0, both)
    return 1.0 + number(twice, 0) - once + ROUNDED


@inner
def most(seen):
    """An upper bound of the mean of the product of all f.

    Let L be the sum of the logarithms of the f that are not steep. By Jensen its mean is at most `seen.mean`; exp lies
    below its chord from worst to best, and below a parabola that the deviations bound. The steep ones come on top: at
    most the least of their means, or (Cauchy-Schwarz) the product of the two means plus that of the deviations.
    """
    worst, middle, best = np.exp(seen.worst), np.exp(seen.mean), np.exp(seen.best)
    upper, spread = middle, seen.spread
    if seen.worst < seen.best:
        upper = worst + (seen.mean - seen.worst) / (seen.best - seen.worst) * (best - worst)
        rise = seen.best - seen.mean
        bend = 0.5 + 1e-4 if rise < 1e-4 else (np.expm1(rise) - rise) / (rise * rise) + 1e-7
        if bend * (seen.mean - seen.worst) <= 1.0:
            upper = min(upper, middle * (1.0 + bend * spread * spread))
    if seen.steep_least == 1.0:
        return upper
    top = np.exp(seen.steep_best)
    least = min(seen.steep_least, top)
    at = min(max(0.5 * top, np.exp(seen.steep_mean)), least)
    own = at * (top - at)  # the variance of a number between 0 and `top` with this mean is no more
    at = min(max(0.5 * (worst + best), middle), upper)
    others = min((at - worst) * (best - at), best * best * spread * spread)
    together = least * upper + np.sqrt(max(own, 0.0) * max(others, 0.0))
    return min(upper * top, least * best, together)


@inner
def box_bounds(table, box, near, pull):
    """(lower, upper) for the instances in the box, and the rows that can dominate o there."""
    weight = weight_of(table, box)
    if not weight > 0.0:
        return 0.0, 0.0, near[:0]
    dominated, seen, left = look_around(table, box, near, pull)
    if dominated:
        return 0.0, weight * 1e-12, left[:0]
    lower = np.exp(seen.mean + seen.steep_mean)
    if seen.varying <= 1:
        return weight * lower, weight * lower, left
    upper = most(seen)
    if left.shape[0] <= PAIRS:
        upper = min(upper, in_pairs(table, box, left, seen.once))
    return weight * lower, weight * max(upper, lower), left


# --- All boxes --------------------------------------------------------------------------------------------------------


@inner
def side_of(box, pull):
    """The cell along which to halve a box; -1: it is a single run everywhere."""
    side = -1
    for k in range(box.shape[1]):
        if box[1, k] - box[0, k] > 1 and (side < 0 or number(pull, k) > number(pull, side)):
            side = k
    return side


@inner
def middle_of(table, box, side):
    """Where to halve it: as much weight on either side as may be."""
    base, first, last = table.base[side], box[0, side], box[1, side]
    half = 0.5 * (table.weight[base + first] + table.weight[base + last])
    low, high = first + 1, last - 1
    while low < high:
        middle = (low + high) >> 1
        if table.weight[base + middle] < half:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def narrow(uncertain, o, near, grid, goal):
    """(lower, upper) for P(o), by halving boxes, the one with the widest gap first, until the goal is reached.

    O(dominators · values), then the work.
    """
    table = table_of(uncertain, o, near, grid)
    cells = table.base.shape[0]
    box, pull = np.zeros((2, cells), np.int64), np.zeros((cells, 2), np.int64)
    box[1] = table.runs
    lower, upper, left = box_bounds(table, box, np.arange(near.shape[0]), pull)
    boxes = [(box, lower, upper, left, pull)]
    queue = [(lower - upper, 0)]
    work = near.shape[0]
    while not (upper <= goal.threshold or upper - lower < goal.width) and work < goal.work and len(queue):
        at = heapq.heappop(queue)[1]
        box, low, high, around, pull = boxes[at]
        side = side_of(box, pull)
        if side < 0:
            continue  # its gap stays: nothing is left to split
        lower -= low
        upper -= high
        middle = middle_of(table, box, side)
        for half in range(2):
            part, new_pull = box.copy(), np.zeros((cells, 2), np.int64)
            part[1 - half, side] = middle
            low, high, left = box_bounds(table, part, around, new_pull)
            lower += low
            upper += high
            work += around.shape[0] + BOX
            if high > low:
                index = at if half == 0 else len(boxes)
                if half == 0:
                    boxes[at] = (part, low, high, left.copy(), new_pull)
                else:
                    boxes.append((part, low, high, left.copy(), new_pull))
                heapq.heappush(queue, (low - high, index))
    return max(lower, 0.0), min(max(upper, lower), 1.0)
