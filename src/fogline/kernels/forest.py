"""What would a value be, given the others of its row: in straight lines, and by trees that were grown from the history?

`expected`: the mean of one attribute given whichever of the others are known, as the normal distribution with these
means and correlations has it. A row's answer depends on its own values alone, in a fixed order, so it has the same bits
whatever rows are asked about with it.

`grow`, `ask`: extremely randomised trees (Geurts, Ernst, Wehenkel 2006). Each tree cuts the rows in two, again and
again, at the one of a few random thresholds that best separates their targets, until few are left together. A leaf is a
box of determinants, and the rows in it are close in what is to be explained: a differential dependency with intervals.
Of a leaf's targets some evenly spaced ones are kept; those of all trees together are a distribution (`spread`).

Nodes of a tree lie in one array; the children of a node are neighbours. NaN goes left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner, kernel
from fogline.kernels.sorting import ascending
from fogline.kernels.uncertain import count_in

RIDGE = 1e-6  # added to each variance: attributes may be copies of each other
KEPT = 5  # targets kept per leaf
POINTS = 20  # values of a distribution …
COMBINATIONS = 1024  # … or fewer, where a row lacks several: that many combinations at most
CUT = 0.1  # of a sensor's targets, the share on either side that lies beyond the ends, which stand for them: its rows
# err together, so many small chances would count for too much


@kernel
def expected(lines, rows):
    """(n,) the last attribute's mean given rows (n, f), NaN = unknown; lines: mean, scale (f + 1,), correlation."""
    n, f = rows.shape
    out = np.empty(n)
    weight, before = np.zeros(f), np.zeros(f, np.bool_)
    for i in range(n):
        same = i > 0
        for k in range(f):
            there = not np.isnan(rows[i, k])
            same = same and there == before[k]
            before[k] = there
        if not same:
            _solve(lines.correlation, before, weight)
        moved = 0.0
        for k in range(f):
            if before[k]:
                moved += weight[k] * ((rows[i, k] - lines.mean[k]) / lines.scale[k])
        out[i] = lines.mean[f] + lines.scale[f] * moved
    return out


@inner
def _solve(correlation, there, weight):
    """Write the weights of the attributes that are there, by Cholesky's decomposition of their correlations."""
    f = there.shape[0]
    which = np.flatnonzero(there)
    m = which.shape[0]
    root, right = np.zeros((m, m)), np.zeros(m)
    for a in range(m):
        for b in range(a + 1):
            left = correlation[which[a], which[b]] + (RIDGE if a == b else 0.0)
            for c in range(b):
                left -= root[a, c] * root[b, c]
            root[a, b] = np.sqrt(max(left, RIDGE)) if a == b else left / root[b, b]
        right[a] = correlation[which[a], f]
        for c in range(a):
            right[a] -= root[a, c] * right[c]
        right[a] /= root[a, a]
    for a in range(m - 1, -1, -1):
        for c in range(a + 1, m):
            right[a] -= root[c, a] * right[c]
        right[a] /= root[a, a]
    weight[:] = 0.0
    for a in range(m):
        weight[which[a]] = right[a]


class Forest(NamedTuple):
    """Trees, their nodes and leaves one after the other."""

    feature: Ints  # (nodes,) -1: a leaf
    cut: Floats  # (nodes,)
    child: Ints  # (nodes,) the first of two children, or the number of the leaf
    kept: Floats  # (leaves, KEPT)
    tree: Ints  # (t, 2) where the nodes and the leaves of each tree begin


class ValueGrid(NamedTuple):
    """The values that may occur: one within `step` of a known value becomes that one, none leaves [low, high]."""

    values: Floats  # sorted
    step: float
    low: float
    high: float


@kernel
def grow(given, then, smallest, seed):
    """A tree over given (f, n) for then (n,): feature (m,), cut (m,), child (m,), kept (leaves, KEPT).

    A node with feature -1 is a leaf, and its child the leaf's number. Leaves have at least `smallest` rows.
    """
    dice = np.array([seed], np.uint64)
    n = given.shape[1]
    most = 2 * (n // smallest) + 1
    feature, cut, child = np.full(most, -1, np.int32), np.zeros(most), np.zeros(most, np.int32)
    begin, end = np.zeros(most, np.int64), np.zeros(most, np.int64)
    kept = np.empty((n // smallest + 1, KEPT))
    rows, spare = np.arange(n), np.empty(n, np.int64)
    end[0], nodes, leaves = n, 1, 0
    for node in range(most):
        if node >= nodes:
            break
        a, b = begin[node], end[node]
        chosen, at, left = -1, 0.0, 0
        if b - a >= 2 * smallest:
            chosen, at, left = _best_cut(given, then, rows[a:b], smallest, dice)
        if chosen < 0:
            child[node] = leaves
            targets = ascending(then[rows[a:b]])
            for k in range(KEPT):
                kept[leaves, k] = targets[(2 * k + 1) * (b - a) // (2 * KEPT)]
            leaves += 1
            continue
        _part(given[chosen], at, rows[a:b], spare)
        feature[node], cut[node], child[node] = chosen, at, nodes
        begin[nodes], end[nodes] = a, a + left
        begin[nodes + 1], end[nodes + 1] = a + left, b
        nodes += 2
    return feature[:nodes].copy(), cut[:nodes].copy(), child[:nodes].copy(), kept[:leaves].copy()


@kernel
def _best_cut(given, then, rows, smallest, dice):
    """The feature and threshold that best part large targets from small, and far ones from near, of one random
    threshold per feature.

    By sums of squares, of the targets and of their sizes: ages, say, change how far a value may go, not where.
    """
    n = rows.shape[0]
    total = whole = 0.0
    for i in rows:
        total += then[i]
        whole += abs(then[i])
    best, chosen, at, left = 0.0, -1, 0.0, 0
    for f in range(given.shape[0]):
        low, high = np.inf, -np.inf
        for i in rows:
            x = given[f, i]
            if x < low:
                low = x
            if x > high:
                high = x
        if not low < high:
            continue
        threshold = low + uniform(dice) * (high - low)
        few, part, size = 0, 0.0, 0.0
        for i in rows:
            if not given[f, i] > threshold:
                few += 1
                part += then[i]
                size += abs(then[i])
        if few < smallest or n - few < smallest:
            continue
        apart = part / few - (total - part) / (n - few)
        wider = size / few - (whole - size) / (n - few)
        gain = (apart * apart + wider * wider) * few * (n - few) / n
        if gain > best:
            best, chosen, at, left = gain, f, threshold, few
    return chosen, at, left


@kernel
def uniform(dice):
    """A number from [0, 1), and the dice (1,) for the next one: splitmix64, the same on every machine and thread."""
    dice[0] += np.uint64(0x9E3779B97F4A7C15)
    z = dice[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@kernel
def _part(column, threshold, rows, spare):
    """Order the rows: first those that are not above the threshold."""
    few, many = 0, 0
    for i in rows:
        if column[i] > threshold:
            spare[many] = i
            many += 1
        else:
            rows[few] = i
            few += 1
    rows[few:] = spare[:many]


@kernel
def ask(forest, rows):
    """(n, trees · KEPT) the kept targets of every tree for each row, sorted."""
    trees = forest.tree.shape[0]
    out = np.empty((rows.shape[0], trees * KEPT))
    for i in range(rows.shape[0]):
        for t in range(trees):
            first, leaf = forest.tree[t]
            node = first
            while forest.feature[node] >= 0:
                node = first + forest.child[node] + (1 if rows[i, forest.feature[node]] > forest.cut[node] else 0)
            for k in range(KEPT):
                out[i, t * KEPT + k] = forest.kept[leaf + forest.child[node], k]
        out[i] = ascending(out[i])
    return out


@kernel
def points_for(gaps):
    """How many values the distribution of a cell has in a row that lacks so many cells."""
    return min(POINTS, max(2, int(COMBINATIONS ** (1.0 / max(gaps, 1)) + 1e-9)))


@inner
def _taken(k, points, width, cut):
    """The index, among `width` sorted targets, of the k-th of the points of a distribution."""
    first, last = _within(width, cut)
    return min(max((2 * k + 1) * width // (2 * points), first), last)


@inner
def _within(width, cut):
    """The indices of the first and the last of `width` sorted targets that a distribution uses."""
    return int(cut * width), min(int((1 - cut) * width), width - 1)


@kernel
def ends(targets, base, gaps, grid, cut):
    """(n,) the least and the greatest value that `spread` gives of each line."""
    n, width = targets.shape
    least, most = np.empty(n), np.empty(n)
    for i in range(n):
        points = points_for(gaps[i])
        least[i] = on_grid(base[i] + targets[i, _taken(0, points, width, cut)], grid)
        most[i] = on_grid(base[i] + targets[i, _taken(points - 1, points, width, cut)], grid)
    return least, most


@kernel
def beyond_ends(targets, base, pad, grid, cut):
    """(n,) values that lie further out than any that `spread` gives of a line: by `pad` of the way to its ends."""
    n, width = targets.shape
    first, last = _within(width, cut)
    least, most = np.empty(n), np.empty(n)
    for i in range(n):
        low, high = targets[i, first], targets[i, last]
        least[i] = on_grid(base[i] + (low - pad * (low - targets[i, 0])), grid)
        most[i] = on_grid(base[i] + (high + pad * (targets[i, width - 1] - high)), grid)
    return least, most


@kernel
def widen(changes, by):
    """Make each sorted line (n, targets) wider, by (n,) times about its middle, in place."""
    n, width = changes.shape
    for i in range(n):
        if by[i] != 1.0:
            middle = changes[i, width // 2]
            for k in range(width):
                changes[i, k] = middle + by[i] * (changes[i, k] - middle)


@kernel
def spread(targets, base, gaps, grid, cut):
    """Distributions of base (n,) + targets (n, trees · KEPT), sorted: start, size, value, often.

    Evenly spaced quantiles of the targets, but none further out than those with `cut` of them beyond: those stand for
    what lies there. gaps (n,): how many cells the row lacks.
    """
    n, width = targets.shape
    start, size = np.empty(n, np.int64), np.empty(n, np.int64)
    value, often = np.empty(n * POINTS), np.empty(n * POINTS)
    filled = 0
    for i in range(n):
        start[i] = filled
        points = points_for(gaps[i])
        for k in range(points):
            x = on_grid(base[i] + targets[i, _taken(k, points, width, cut)], grid)
            filled = count_in(x, start[i], filled, value, often)
        size[i] = filled - start[i]
    return start, size, value[:filled].copy(), often[:filled].copy()


@kernel
def nearest(x, grid, step):
    """The value of the grid (sorted) next to x, if it is no further than `step`; else x. It never falls as x rises."""
    k = np.searchsorted(grid, x)
    best, far = x, step
    if k > 0 and x - grid[k - 1] <= far:
        best, far = grid[k - 1], x - grid[k - 1]
    if k < grid.shape[0] and (grid[k] - x < far or (best == x and grid[k] - x <= far)):
        best = grid[k]
    return best


@kernel
def on_grid(x, grid):
    """x as a value that may occur."""
    return min(max(nearest(x, grid.values, grid.step), grid.low), grid.high)


@kernel
def moved(base, by, grid):
    """(n,) base + by, as `spread` does it."""
    out = np.empty(base.shape[0])
    for i in range(base.shape[0]):
        out[i] = on_grid(base[i] + by[i], grid)
    return out


@kernel
def within_reach(forest, feature, edges):
    """(edges + 1, 2) the least and greatest target of any leaf that a row may come to, if its feature lies between
    edges.

    Row k is for values above edges[k - 1] and up to edges[k]. O(edges · nodes).
    """
    out = np.empty((edges.shape[0] + 1, 2))
    stack = np.empty(64 + forest.feature.shape[0], np.int64)
    for k in range(out.shape[0]):
        above = edges[k - 1] if k > 0 else -np.inf
        up_to = edges[k] if k < edges.shape[0] else np.inf
        least, most = np.inf, -np.inf
        for t in range(forest.tree.shape[0]):
            first, leaf = forest.tree[t]
            stack[0], waiting = first, 1
            while waiting:
                waiting -= 1
                node = stack[waiting]
                if forest.feature[node] < 0:
                    kept = forest.kept[leaf + forest.child[node]]
                    least, most = min(least, kept[0]), max(most, kept[-1])
                    continue
                own = forest.feature[node] == feature
                if not own or above < forest.cut[node]:
                    stack[waiting] = first + forest.child[node]
                    waiting += 1
                if not own or up_to > forest.cut[node]:
                    stack[waiting] = first + forest.child[node] + 1
                    waiting += 1
        out[k, 0], out[k, 1] = least, most
    return out
