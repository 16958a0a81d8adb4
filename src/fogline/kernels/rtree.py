"""Which rows of the repository lie near a place, and how does the tree over their grid cells grow?

A node of level 0 is a grid cell with its rows; every other node has children one level below. A node's box holds the
places of all rows below it, where a missing determinant stands at a place outside the data. Boxes only prune, with
`lo - x > eps` and `x - hi > eps`: float subtraction is monotone, so no row with `abs(row - x) <= eps` is ever lost
(bounds like `x + eps` lose some to rounding). What is left is tested by that very formula on the rows' own values.

Growing follows the R*-tree (Beckmann et al., SIGMOD 1990). Kernels cannot make arrays longer: those that write stop
where there is no room left, say how far they came, and are called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import kernel

OUTSIDE, PARTLY, WHOLE = 0, 1, 2  # how much of a box surely lies within the radii
ALL = np.iinfo(np.int64).max
RANKED = 64  # so many values are sorted by counting how many are smaller
NODES, INNER, CELLS, ROOT = 0, 1, 2, 3  # what `use` says: how many there are, and which node is the root
SHARE = 0.3  # of an overfull node is inserted again
LEVELS = 64


class Nodes(NamedTuple):
    """n nodes of any level, over k determinants; `slot` says where among its kind a node is kept."""

    lo: Floats  # (n, k) box
    hi: Floats  # (n, k)
    lacks: np.ndarray  # (n, k) bool: does any row below lack this determinant?
    low: Floats  # (n,) least `then` below
    high: Floats  # (n,) greatest
    weight: Ints  # (n,) rows below
    level: Ints  # (n,) 0 = cell
    parent: Ints  # (n,) -1 = root
    slot: Ints  # (n,) a cell's place in `Rows`, any other node's place in `children`
    children: Ints  # (inner, fanout + 1) nodes
    fill: Ints  # (inner,) how many children


class Rows(NamedTuple):
    """The rows of a cell: rows[start : start + size], then the list head, after[head], …, which ends with -1."""

    points: Floats  # (rows, k) determinants, NaN = missing
    then: Floats  # (rows,) the dependent attribute
    start: Ints  # (cells,)
    size: Ints  # (cells,)
    head: Ints  # (cells,)
    after: Ints  # (rows,), or shorter while nothing was appended


class Buckets(NamedTuple):
    """A node's histogram: its non-empty buckets at : at + size, by rising code. A digit of a code is an interval."""

    at: Ints  # (n,)
    size: Ints  # (n,)
    code: Ints  # (pool,)
    weight: Ints  # (pool,) rows
    low: Floats  # (pool,) least `then` of those
    high: Floats  # (pool,)


# ---------------------------------------------------------------------------------------------------------- questions


@kernel
def aim(centre, i, radius, x, eps, dims):
    """The determinants that centre i asks for, with its place and radius there. Returns how many; NaN asks nothing."""
    m = 0
    for j in range(centre.shape[1]):
        if centre[i, j] == centre[i, j]:
            x[m], eps[m], dims[m] = centre[i, j], radius[j], j
            m += 1
    return m


@kernel
def place(lo, hi, lacks, node, x, eps, dims, m):
    """How much of a node's box lies within the radii? WHOLE: every row below matches."""
    verdict = WHOLE
    for a in range(m):
        j = dims[a]
        left, right = lo[node, j] - x[a], hi[node, j] - x[a]
        if left > eps[a] or right < -eps[a]:
            return OUTSIDE
        if lacks[node, j] or not (left >= -eps[a] and right <= eps[a]):
            verdict = PARTLY
    return verdict


@kernel
def matches(points, r, x, eps, dims, m):
    """Is row r within the radii? A missing value (NaN) never is."""
    close = True
    for a in range(m):
        close &= abs(points[r, dims[a]] - x[a]) <= eps[a]
    return close


@kernel
def gather(rows, cell, sure, x, eps, dims, m, values, n):
    """Write `then` of the cell's matching rows from values[n] on. Returns the new end. Without a branch per row."""
    begin, end = rows.start[cell], rows.start[cell] + rows.size[cell]
    for r in range(begin, end):
        values[n] = rows.then[r]
        n += sure or matches(rows.points, r, x, eps, dims, m)
    r = rows.head[cell]
    while r >= 0:
        if sure or matches(rows.points, r, x, eps, dims, m):
            values[n] = rows.then[r]
            n += 1
        r = rows.after[r]
    return n


@kernel
def rank(values, begin, end, spare):
    """Sort a few values by counting how many are smaller: all comparisons at once, with no branch to guess."""
    for i in range(end - begin):
        spare[i] = values[begin + i]
    for i in range(end - begin):
        v = spare[i]
        smaller = 0
        for h in range(i):
            smaller += spare[h] <= v
        for h in range(i + 1, end - begin):
            smaller += spare[h] < v
        values[begin + smaller] = v


@kernel
def merge(values, begin, middle, end, spare):
    """Make one ascending run of two neighbouring ones."""
    for i in range(middle - begin):
        spare[i] = values[begin + i]
    i, j, n = 0, middle, middle - begin
    while i < n and j < end:
        later = values[j] < spare[i]
        values[begin] = values[j] if later else spare[i]
        begin += 1
        j += later
        i += not later
    while i < n:
        values[begin] = spare[i]
        begin += 1
        i += 1


@kernel
def arrange(values, begin, end, spare):
    """Sort values[begin:end]: short runs by rank, then merged. Numba's own quicksort takes 1.2 to 7 times as long."""
    for first in range(begin, end, RANKED):
        rank(values, first, min(first + RANKED, end), spare)
    width = RANKED
    if end - begin > spare.shape[0]:
        spare = np.empty(end - begin)
    while width < end - begin:
        for first in range(begin, end - width, 2 * width):
            merge(values, first, first + width, min(first + 2 * width, end), spare)
        width *= 2


@kernel
def push_near(nodes, s, x, eps, dims, m, stack, top):
    """Put the children that the radii reach on the stack. Returns its new top. No branch: it could not be guessed."""
    lo, hi = nodes.lo, nodes.hi
    for c in range(nodes.fill[s]):
        child = nodes.children[s, c]
        far = False
        for a in range(m):
            j = dims[a]
            far |= (lo[child, j] - x[a] > eps[a]) | (x[a] - hi[child, j] > eps[a])
        stack[top] = child
        top += not far
    return top


@kernel
def find(nodes, rows, root, centre, radius):
    """`then` of the rows within the radii of each centre: offsets (q + 1,), and the values, ascending per centre."""
    q, k = centre.shape
    x, eps, dims = np.empty(k), np.empty(k), np.empty(k, np.int64)
    offsets, values, spare = np.zeros(q + 1, np.int64), np.empty(32 * q + 64), np.empty(1024)
    stack = np.empty(LEVELS * nodes.children.shape[1], np.int64)
    n = 0
    for i in range(q):
        m = aim(centre, i, radius, x, eps, dims)
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            if nodes.level[node] > 0:
                top = push_near(nodes, nodes.slot[node], x, eps, dims, m, stack, top)
                continue
            if n + nodes.weight[node] > values.shape[0]:
                longer = np.empty(max(2 * values.shape[0], n + nodes.weight[node]))
                longer[:n] = values[:n]
                values = longer
            sure = place(nodes.lo, nodes.hi, nodes.lacks, node, x, eps, dims, m) == WHOLE
            n = gather(rows, nodes.slot[node], sure, x, eps, dims, m, values, n)
        arrange(values, offsets[i], n, spare)
        offsets[i + 1] = n
    return offsets, values[:n].copy()


@kernel
def tally(rows, cell, x, eps, dims, m, most):
    """How many rows of the cell match? Stops at `most`."""
    n = 0
    for r in range(rows.start[cell], rows.start[cell] + rows.size[cell]):
        n += matches(rows.points, r, x, eps, dims, m)
        if n >= most:
            return n
    r = rows.head[cell]
    while r >= 0 and n < most:
        n += matches(rows.points, r, x, eps, dims, m)
        r = rows.after[r]
    return n


@kernel
def count(nodes, rows, root, centre, radius, most):
    """(q,) how many rows lie within the radii of each centre? Stops at `most`; a node inside is not opened."""
    q, k = centre.shape
    x, eps, dims = np.empty(k), np.empty(k), np.empty(k, np.int64)
    found = np.zeros(q, np.int64)
    stack = np.empty(LEVELS * nodes.children.shape[1], np.int64)
    for i in range(q):
        m = aim(centre, i, radius, x, eps, dims)
        stack[0], top = root, int(root >= 0)
        while top and found[i] < most:
            top -= 1
            node = stack[top]
            verdict = place(nodes.lo, nodes.hi, nodes.lacks, node, x, eps, dims, m)
            if verdict == OUTSIDE:
                continue
            s = nodes.slot[node]
            if verdict == WHOLE:
                found[i] += nodes.weight[node]
            elif nodes.level[node] == 0:
                found[i] += tally(rows, s, x, eps, dims, m, most - found[i])
            else:
                top = push_near(nodes, s, x, eps, dims, m, stack, top)
    return found


@kernel
def reach(edges, centre, i, radius, open_):
    """Which intervals of each determinant can hold a matching row? The last digit stands for a missing value."""
    last = edges.shape[1] + 1
    for j in range(edges.shape[0]):
        x, eps = centre[i, j], radius[j]
        for b in range(last):
            left = edges[j, b - 1] if b > 0 else -np.inf
            right = edges[j, b] if b < last - 1 else np.inf
            open_[j, b] = not (left - x > eps or x - right > eps)  # true of a wildcard
        open_[j, last] = x != x


@kernel
def fold_buckets(buckets, node, open_, bits, low, high):
    """Widen [low, high] by the node's buckets whose intervals are all open."""
    mask = (1 << bits) - 1
    for b in range(buckets.at[node], buckets.at[node] + buckets.size[node]):
        code, inside = buckets.code[b], True
        for j in range(open_.shape[0]):
            inside &= open_[j, (code >> (j * bits)) & mask]
        if inside:
            low, high = min(low, buckets.low[b]), max(high, buckets.high[b])
    return low, high


@kernel
def fold_rows(rows, cell, x, eps, dims, m, low, high):
    """Widen [low, high] by the cell's rows that match."""
    for r in range(rows.start[cell], rows.start[cell] + rows.size[cell]):
        if matches(rows.points, r, x, eps, dims, m):
            low, high = min(low, rows.then[r]), max(high, rows.then[r])
    r = rows.head[cell]
    while r >= 0:
        if matches(rows.points, r, x, eps, dims, m):
            low, high = min(low, rows.then[r]), max(high, rows.then[r])
        r = rows.after[r]
    return low, high


@kernel
def bounds(nodes, rows, buckets, root, edges, bits, target, centre, radius):
    """Bounds of `then` within the radii of each centre, from the histograms of the nodes at level `target`.

    With target -1 from the rows themselves. A node that lies inside is not opened (all its rows match), nor is one
    that cannot widen the bounds.
    """
    q, k = centre.shape
    x, eps, dims, open_ = np.empty(k), np.empty(k), np.empty(k, np.int64), np.empty((k, edges.shape[1] + 2), np.bool_)
    lows, highs = np.full(q, np.nan), np.full(q, np.nan)
    stack = np.empty(LEVELS * nodes.children.shape[1], np.int64)
    for i in range(q):
        m = aim(centre, i, radius, x, eps, dims)
        reach(edges, centre, i, radius, open_)
        low, high = np.inf, -np.inf
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            if nodes.low[node] >= low and nodes.high[node] <= high:
                continue
            verdict = place(nodes.lo, nodes.hi, nodes.lacks, node, x, eps, dims, m)
            if verdict == OUTSIDE:
                continue
            s, level = nodes.slot[node], nodes.level[node]
            if verdict == WHOLE:
                low, high = min(low, nodes.low[node]), max(high, nodes.high[node])
            elif level == target:
                low, high = fold_buckets(buckets, node, open_, bits, low, high)
            elif level == 0:
                low, high = fold_rows(rows, s, x, eps, dims, m, low, high)
            else:
                top = push_near(nodes, s, x, eps, dims, m, stack, top)
        if low <= high:
            lows[i], highs[i] = low, high
    return lows, highs


# ---------------------------------------------------------------------------------------------------- the R*-tree grows


@kernel
def joint(nodes, a, b, scale):
    """Area and margin of the box around two boxes, in units of the data's extent."""
    area, margin = 1.0, 0.0
    for j in range(scale.shape[0]):
        width = (max(nodes.hi[a, j], nodes.hi[b, j]) - min(nodes.lo[a, j], nodes.lo[b, j])) / scale[j]
        area *= width
        margin += width
    return area, margin


@kernel
def overlap(nodes, a, b, other, scale):
    """The area that the box around a and b shares with another."""
    area = 1.0
    for j in range(scale.shape[0]):
        right = min(max(nodes.hi[a, j], nodes.hi[b, j]), nodes.hi[other, j])
        left = max(min(nodes.lo[a, j], nodes.lo[b, j]), nodes.lo[other, j])
        if right <= left:
            return 0.0
        area *= (right - left) / scale[j]
    return area


@kernel
def overlap_growth(nodes, s, child, entry, scale):
    """By how much would the child's overlap with its siblings grow if it took the entry?"""
    growth = 0.0
    for c in range(nodes.fill[s]):
        other = nodes.children[s, c]
        if other != child:
            growth += overlap(nodes, child, entry, other, scale) - overlap(nodes, child, child, other, scale)
    return growth


@kernel
def choose(nodes, root, entry, scale):
    """The node that should take the entry: least growth of overlap just above the leaves, of area further up.

    Boxes of rows on a line have no area, so the margin decides between equals.
    """
    node = root
    while nodes.level[node] > nodes.level[entry] + 1:
        s = nodes.slot[node]
        best, least = nodes.children[s, 0], (np.inf, np.inf, np.inf, np.inf)
        for c in range(nodes.fill[s]):
            child = nodes.children[s, c]
            area, margin = joint(nodes, child, child, scale)
            more, longer = joint(nodes, child, entry, scale)
            crowd = overlap_growth(nodes, s, child, entry, scale) if nodes.level[node] == 2 else 0.0
            cost = (crowd, more - area, longer - margin, area)
            if cost < least:
                best, least = child, cost
        node = best
    return node


@kernel
def attach(nodes, node, entry):
    """Make the entry a child of the node."""
    s = nodes.slot[node]
    nodes.children[s, nodes.fill[s]] = entry
    nodes.fill[s] += 1
    nodes.parent[entry] = node


@kernel
def climb(nodes, node, dirty):
    """From the node up to the root: fit the boxes, and remember that the histograms are to be made again."""
    while node >= 0:
        dirty[node] = True
        s = nodes.slot[node]
        nodes.lo[node], nodes.hi[node] = np.inf, -np.inf
        for c in range(nodes.fill[s]):
            child = nodes.children[s, c]
            for j in range(nodes.lo.shape[1]):
                nodes.lo[node, j] = min(nodes.lo[node, j], nodes.lo[child, j])
                nodes.hi[node, j] = max(nodes.hi[node, j], nodes.hi[child, j])
        node = nodes.parent[node]


@kernel
def eject(nodes, node, scale, pending, n):
    """Take the children farthest from the middle out of an overfull node; the nearest of them will come back first."""
    s = nodes.slot[node]
    far = np.zeros(nodes.fill[s])
    for c in range(nodes.fill[s]):
        child = nodes.children[s, c]
        for j in range(scale.shape[0]):
            apart = (nodes.lo[child, j] - nodes.lo[node, j]) + (nodes.hi[child, j] - nodes.hi[node, j])
            far[c] += (apart / scale[j]) ** 2
    kids = nodes.children[s, : nodes.fill[s]][np.argsort(far)]
    out = max(1, int(SHARE * kids.shape[0]))
    nodes.fill[s] = kids.shape[0] - out
    nodes.children[s, : nodes.fill[s]] = kids[: nodes.fill[s]]
    for c in range(kids.shape[0] - 1, nodes.fill[s] - 1, -1):
        pending[n] = kids[c]
        n += 1
    return n


@kernel
def sweep(lo, hi, order, least, scale):
    """All ways to cut this order of boxes (n, k) in two: the sum of their margins, and the cut of least overlap."""
    n, k = lo.shape
    left_lo, left_hi, right_lo, right_hi = lo[order], hi[order], lo[order], hi[order]
    for i in range(1, n):
        for j in range(k):
            left_lo[i, j], left_hi[i, j] = min(left_lo[i, j], left_lo[i - 1, j]), max(left_hi[i, j], left_hi[i - 1, j])
            b = n - 1 - i
            right_lo[b, j] = min(right_lo[b, j], right_lo[b + 1, j])
            right_hi[b, j] = max(right_hi[b, j], right_hi[b + 1, j])
    margin, at, best = 0.0, least, (np.inf, np.inf)
    for cut in range(least, n - least + 1):
        shared, left, right = 1.0, 1.0, 1.0
        for j in range(k):
            a, b = left_hi[cut - 1, j] - left_lo[cut - 1, j], right_hi[cut, j] - right_lo[cut, j]
            both = min(left_hi[cut - 1, j], right_hi[cut, j]) - max(left_lo[cut - 1, j], right_lo[cut, j])
            shared *= max(both, 0.0) / scale[j]
            left, right, margin = left * (a / scale[j]), right * (b / scale[j]), margin + a / scale[j] + b / scale[j]
        if (shared, left + right) < best:
            at, best = cut, (shared, left + right)
    return margin, at, best


@kernel
def best_cut(lo, hi, least, scale):
    """R* split: the axis whose cuts have the least margin; on it the cut of least overlap, then area."""
    order, at, narrow = np.arange(lo.shape[0]), least, np.inf
    for j in range(lo.shape[1]):
        by_lo, by_hi = np.argsort(lo[:, j]), np.argsort(hi[:, j])
        margin_lo, at_lo, cost_lo = sweep(lo, hi, by_lo, least, scale)
        margin_hi, at_hi, cost_hi = sweep(lo, hi, by_hi, least, scale)
        if margin_lo + margin_hi < narrow:
            narrow = margin_lo + margin_hi
            order, at = (by_hi, at_hi) if cost_hi < cost_lo else (by_lo, at_lo)
    return order, at


@kernel
def sprout(nodes, use, level):
    """A new node without children."""
    node = use[NODES]
    nodes.level[node], nodes.parent[node], nodes.slot[node] = level, -1, use[INNER]
    nodes.fill[use[INNER]] = 0
    use[NODES] += 1
    use[INNER] += 1
    return node


@kernel
def split(nodes, use, node, scale):
    """Move part of an overfull node's children to a new node, its twin."""
    s = nodes.slot[node]
    kids = nodes.children[s, : nodes.fill[s]].copy()
    least = fewest(nodes.children.shape[1] - 1)
    order, at = best_cut(nodes.lo[kids], nodes.hi[kids], least, scale)
    twin = sprout(nodes, use, nodes.level[node])
    nodes.fill[s] = 0
    for c in range(kids.shape[0]):
        attach(nodes, node if c < at else twin, kids[order[c]])
    return twin


@kernel
def fewest(fanout):
    """A node other than the root has at least so many children: 40 % of the fanout, as R* has it."""
    return max(2, 2 * fanout // 5)


@kernel
def insert(nodes, use, dirty, scale, entry):
    """R* insertion: an overfull node first sends its farthest children in again, once per level; then it splits."""
    fanout = nodes.children.shape[1] - 1
    again = np.zeros(LEVELS, np.bool_)
    pending = np.empty(LEVELS * (fanout + 1), np.int64)
    pending[0], n = entry, 1
    while n:
        n -= 1
        node = choose(nodes, use[ROOT], pending[n], scale)
        attach(nodes, node, pending[n])
        climb(nodes, node, dirty)
        while nodes.fill[nodes.slot[node]] > fanout:
            level = nodes.level[node]
            if node != use[ROOT] and not again[level]:
                again[level] = True
                n = eject(nodes, node, scale, pending, n)
                climb(nodes, node, dirty)
                break
            twin = split(nodes, use, node, scale)
            if node == use[ROOT]:
                use[ROOT] = sprout(nodes, use, level + 1)
                attach(nodes, use[ROOT], node)
            attach(nodes, nodes.parent[node], twin)
            climb(nodes, twin, dirty)
            climb(nodes, node, dirty)
            node = nodes.parent[node]


@kernel
def seek(table, grid, slot, at, i):
    """Where in the hash table is, or would be, the cell with the coordinates at[i]?"""
    h = np.uint64(1469598103934665603)
    for j in range(at.shape[1]):
        h = (h ^ np.uint64(at[i, j])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    mask = table.shape[0] - 1
    p = np.int64(h >> np.uint64(1)) & mask
    while table[p] >= 0:
        same = True
        for j in range(at.shape[1]):
            same &= grid[slot[table[p]], j] == at[i, j]
        if same:
            break
        p = (p + 1) & mask
    return p


@kernel
def enlist(table, grid, nodes, used):
    """Enter all cells into an empty hash table."""
    for node in range(used):
        if nodes.level[node] == 0:
            table[seek(table, grid, nodes.slot, grid, nodes.slot[node])] = node


@kernel
def take(nodes, rows, grid, table, use, dirty, at, spots, scale, first, end):
    """Insert the last rows, first … end - 1, whose cells are the last of `at` and whose places are the last of `spots`.

    Returns the first one not inserted. One insertion may split, on each level, as often as nodes are inserted there.
    """
    fanout, k = nodes.children.shape[1] - 1, spots.shape[1]
    for r in range(first, end):
        i = r - end + at.shape[0]
        room = (nodes.level[use[ROOT]] + 2) ** 2 * (fanout + 1)
        full = use[NODES] + room > nodes.level.shape[0] or use[INNER] + room > nodes.fill.shape[0]
        if full or use[CELLS] == rows.head.shape[0] or 2 * use[CELLS] >= table.shape[0]:
            return r
        p = seek(table, grid, nodes.slot, at, i)
        node = table[p]
        if node < 0:
            node, cell = use[NODES], use[CELLS]
            use[NODES] += 1
            use[CELLS] += 1
            table[p], grid[cell] = node, at[i]
            nodes.level[node], nodes.slot[node], nodes.weight[node] = 0, cell, 0
            nodes.lo[node], nodes.hi[node] = spots[i], spots[i]
            rows.start[cell], rows.size[cell], rows.head[cell], rows.after[r] = 0, 0, r, -1
            insert(nodes, use, dirty, scale, node)
        else:
            cell = nodes.slot[node]
            rows.after[r], rows.head[cell] = rows.head[cell], r
            for j in range(k):
                nodes.lo[node, j] = min(nodes.lo[node, j], spots[i, j])
                nodes.hi[node, j] = max(nodes.hi[node, j], spots[i, j])
            climb(nodes, nodes.parent[node], dirty)
        dirty[node] = True
    return end


# ----------------------------------------------------------------------------------------------------------- histograms


@kernel
def copied(buckets, b, out, o):
    """Copy bucket b of one pool to bucket o of another."""
    out.code[o], out.weight[o] = buckets.code[b], buckets.weight[b]
    out.low[o], out.high[o] = buckets.low[b], buckets.high[b]
    return o + 1


@kernel
def parts(nodes, rows, buckets, node, codes, fresh, out):
    """The buckets that make a node's histogram, unsorted: its children's; for a cell its own and its fresh rows."""
    n, s = 0, nodes.slot[node]
    if nodes.level[node] == 0:
        for b in range(buckets.at[node], buckets.at[node] + buckets.size[node]):
            n = copied(buckets, b, out, n)
        r = rows.head[s]
        while r >= fresh:
            out.code[n], out.weight[n], out.low[n], out.high[n] = codes[r - fresh], 1, rows.then[r], rows.then[r]
            n += 1
            r = rows.after[r]
        return n
    for c in range(nodes.fill[s]):
        child = nodes.children[s, c]
        for b in range(buckets.at[child], buckets.at[child] + buckets.size[child]):
            n = copied(buckets, b, out, n)
    return n


@kernel
def merged(pool, n):
    """Sort the first n buckets by code and unite those of one code, in place. Returns how many are left."""
    order = np.argsort(pool.code[:n])
    code, weight, low, high = pool.code[order], pool.weight[order], pool.low[order], pool.high[order]
    m = -1
    for i in range(n):
        if m >= 0 and code[i] == pool.code[m]:
            pool.weight[m] += weight[i]
            pool.low[m], pool.high[m] = min(pool.low[m], low[i]), max(pool.high[m], high[i])
        else:
            m += 1
            pool.code[m], pool.weight[m], pool.low[m], pool.high[m] = code[i], weight[i], low[i], high[i]
    return m + 1


@kernel
def most_parts(nodes, buckets, node, fresh_rows):
    """No node's histogram is made of more parts than this."""
    if nodes.level[node] == 0:
        return buckets.size[node] + fresh_rows
    n, s = 0, nodes.slot[node]
    for c in range(nodes.fill[s]):
        n += buckets.size[nodes.children[s, c]]
    return n


@kernel
def summarise(nodes, rows, buckets, dirty, which, done, end, codes, fresh, scratch):
    """Make the histograms of which[done:] again (children before parents); the pool is in use up to `end`.

    Returns how many are done and the new end. It stops where the scratch or the pool might be too short.
    """
    for w in range(done, which.shape[0]):
        node = which[w]
        most = most_parts(nodes, buckets, node, codes.shape[0])
        if most > scratch.code.shape[0] or end + most > buckets.code.shape[0]:
            return w, end
        n = merged(scratch, parts(nodes, rows, buckets, node, codes, fresh, scratch))
        if n > buckets.size[node]:  # else its old place will do
            buckets.at[node] = end
            end += n
        buckets.size[node] = n
        nodes.weight[node], nodes.low[node], nodes.high[node] = 0, np.inf, -np.inf
        for b in range(n):
            o = copied(scratch, b, buckets, buckets.at[node] + b) - 1
            nodes.weight[node] += buckets.weight[o]
            nodes.low[node] = min(nodes.low[node], buckets.low[o])
            nodes.high[node] = max(nodes.high[node], buckets.high[o])
        lack(nodes, rows, node)
        dirty[node] = False
    return which.shape[0], end


@kernel
def lack(nodes, rows, node):
    """Which determinants does any row below lack? Rows of one cell lack the same ones."""
    s = nodes.slot[node]
    if nodes.level[node] == 0:
        r = rows.head[s] if rows.head[s] >= 0 else rows.start[s]
        for j in range(nodes.lacks.shape[1]):
            nodes.lacks[node, j] = rows.points[r, j] != rows.points[r, j]
        return
    nodes.lacks[node] = False
    for c in range(nodes.fill[s]):
        for j in range(nodes.lacks.shape[1]):
            nodes.lacks[node, j] |= nodes.lacks[nodes.children[s, c], j]


@kernel
def by_cell(rows, cells, n):
    """(n,) all rows, cell after cell; the lists become part of the runs."""
    order = np.empty(n, np.int64)
    n = 0
    for cell in range(cells):
        begin = n
        for r in range(rows.start[cell], rows.start[cell] + rows.size[cell]):
            order[n] = r
            n += 1
        r = rows.head[cell]
        while r >= 0:
            order[n] = r
            n += 1
            r = rows.after[r]
        rows.start[cell], rows.size[cell], rows.head[cell] = begin, n - begin, -1
    return order
