"""The paper's index, compiled: an R*-tree over grid cells, how it is searched, and how it grows.

A node of level 0 is a grid cell with its rows; every other node has children one level below. A node's box is around
all rows below it, where a missing determinant stands outside the data. Boxes only prune, with `lo - x > eps` and
`x - hi > eps`: float subtraction is monotone, so no row with `abs(row - x) <= eps` is ever lost (bounds like `x + eps`
lose some to rounding). What is left is tested by that very formula on the rows' own values.

It grows by R* insertion (Beckmann et al., SIGMOD 1990): a row that opens a cell adds a leaf; any other row widens its
own leaf and the nodes above. Where children move, boxes, weights and ranges are fitted to them again, up to the root.
Kernels cannot make arrays longer: `take` stops where there is no room left, returns how far it came, and is called
again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import kernel

OUTSIDE, PARTLY, WHOLE = 0, 1, 2  # how much of a box surely lies within the radii
RANKED = 64  # so many values are sorted by counting how many are smaller
LEVELS = 64
NODES, INNER, CELLS, ROOT = 0, 1, 2, 3  # places in `use`: how many there are of each, and which node is the root
SHARE = 0.3  # of an overfull node is inserted again


class Nodes(NamedTuple):
    """n nodes of any level, over k determinants."""

    lo: Floats  # (n, k) box
    hi: Floats  # (n, k)
    lacks: np.ndarray  # (n, k) bool: does any row below lack this determinant?
    low: Floats  # (n,) least `then` below
    high: Floats  # (n,) greatest
    weight: Ints  # (n,) rows below
    level: Ints  # (n,) 0 = cell
    parent: Ints  # (n,) -1 = root
    slot: Ints  # (n,) a cell's place in `CellRows`, any other node's place in `children`
    children: Ints  # (inner, fanout + 1) nodes
    fill: Ints  # (inner,) how many children


class CellRows(NamedTuple):
    """The rows of a cell: rows[start : start + size], then the list head, after[head], …, which ends with -1."""

    points: Floats  # (rows, k) determinants, NaN = missing
    then: Floats  # (rows,) the dependent attribute
    start: Ints  # (cells,)
    size: Ints  # (cells,)
    head: Ints  # (cells,)
    after: Ints  # (rows,), or shorter while nothing was appended


class Question(NamedTuple):
    """A centre, in the determinants that it asks for."""

    x: Floats  # (m,)
    eps: Floats  # (m,) radius
    dims: Ints  # (m,) which determinants


# ------------------------------------------------------------------------------------------------------- one question


@kernel
def room_for(k):
    """Memory for a question about up to k determinants."""
    return Question(np.empty(k), np.empty(k), np.empty(k, np.int64))


@kernel
def aim(centre, i, radius, room):
    """The question of centre i, written into the room; a determinant that is NaN is not asked for."""
    m = 0
    for j in range(centre.shape[1]):
        if centre[i, j] == centre[i, j]:
            room.x[m], room.eps[m], room.dims[m] = centre[i, j], radius[j], j
            m += 1
    return Question(room.x[:m], room.eps[:m], room.dims[:m])


@kernel
def place(nodes, node, ask):
    """How much of a node's box lies within the radii? WHOLE: every row below matches."""
    verdict = WHOLE
    for a in range(ask.x.shape[0]):
        j = ask.dims[a]
        left, right = nodes.lo[node, j] - ask.x[a], nodes.hi[node, j] - ask.x[a]
        if left > ask.eps[a] or right < -ask.eps[a]:
            return OUTSIDE
        if nodes.lacks[node, j] or not (left >= -ask.eps[a] and right <= ask.eps[a]):
            verdict = PARTLY
    return verdict


@kernel
def matches(points, r, ask):
    """Is row r within the radii? A missing value (NaN) never is."""
    close = True
    for a in range(ask.x.shape[0]):
        close &= abs(points[r, ask.dims[a]] - ask.x[a]) <= ask.eps[a]
    return close


@kernel
def push_near(nodes, s, ask, stack, top):
    """Put the children that the radii reach on the stack. Returns its new top. No branch: it could not be guessed."""
    lo, hi = nodes.lo, nodes.hi
    for c in range(nodes.fill[s]):
        child = nodes.children[s, c]
        far = False
        for a in range(ask.x.shape[0]):
            j = ask.dims[a]
            far |= (lo[child, j] - ask.x[a] > ask.eps[a]) | (ask.x[a] - hi[child, j] > ask.eps[a])
        stack[top] = child
        top += not far
    return top


# --------------------------------------------------------------------------------------------------- values, in order


@kernel
def gather(rows, cell, sure, ask, values, n):
    """Write `then` of the cell's matching rows from values[n] on. Returns the new end. Without a branch per row."""
    begin, end = rows.start[cell], rows.start[cell] + rows.size[cell]
    for r in range(begin, end):
        values[n] = rows.then[r]
        n += sure or matches(rows.points, r, ask)
    r = rows.head[cell]
    while r >= 0:
        if sure or matches(rows.points, r, ask):
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
def find(nodes, rows, root, centre, radius):
    """`then` of the rows within the radii of each centre: offsets (q + 1,), and the values, ascending per centre."""
    q, k = centre.shape
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    offsets, values, spare = np.zeros(q + 1, np.int64), np.empty(32 * q + 64), np.empty(1024)
    n = 0
    for i in range(q):
        ask = aim(centre, i, radius, room)
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            if nodes.level[node] > 0:
                top = push_near(nodes, nodes.slot[node], ask, stack, top)
                continue
            if n + nodes.weight[node] > values.shape[0]:
                longer = np.empty(max(2 * values.shape[0], n + nodes.weight[node]))
                longer[:n] = values[:n]
                values = longer
            n = gather(rows, nodes.slot[node], place(nodes, node, ask) == WHOLE, ask, values, n)
        arrange(values, offsets[i], n, spare)
        offsets[i + 1] = n
    return offsets, values[:n].copy()


# --------------------------------------------------------------------------------------------------- counts and bounds


@kernel
def tally(rows, cell, ask):
    """How many rows of the cell match?"""
    n = 0
    for r in range(rows.start[cell], rows.start[cell] + rows.size[cell]):
        n += matches(rows.points, r, ask)
    r = rows.head[cell]
    while r >= 0:
        n += matches(rows.points, r, ask)
        r = rows.after[r]
    return n


@kernel
def count(nodes, rows, root, centre, radius):
    """(q,) how many rows lie within the radii of each centre? A node that lies within them is not opened."""
    q, k = centre.shape
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    found = np.zeros(q, np.int64)
    for i in range(q):
        ask = aim(centre, i, radius, room)
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            verdict = place(nodes, node, ask)
            if verdict == WHOLE:
                found[i] += nodes.weight[node]
            elif verdict == PARTLY and nodes.level[node] == 0:
                found[i] += tally(rows, nodes.slot[node], ask)
            elif verdict == PARTLY:
                top = push_near(nodes, nodes.slot[node], ask, stack, top)
    return found


@kernel
def fold_rows(rows, cell, ask, low, high):
    """Widen [low, high] by the cell's rows that match."""
    for r in range(rows.start[cell], rows.start[cell] + rows.size[cell]):
        if matches(rows.points, r, ask):
            low, high = min(low, rows.then[r]), max(high, rows.then[r])
    r = rows.head[cell]
    while r >= 0:
        if matches(rows.points, r, ask):
            low, high = min(low, rows.then[r]), max(high, rows.then[r])
        r = rows.after[r]
    return low, high


@kernel
def bounds(nodes, rows, root, centre, radius):
    """(q,) least and greatest `then` within the radii of each centre; NaN where there is no row.

    A node that lies within them is not opened (all its rows match), nor is one that cannot widen the bounds.
    """
    q, k = centre.shape
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    lows, highs = np.full(q, np.nan), np.full(q, np.nan)
    for i in range(q):
        ask = aim(centre, i, radius, room)
        low, high = np.inf, -np.inf
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            if nodes.low[node] >= low and nodes.high[node] <= high:
                continue
            verdict = place(nodes, node, ask)
            if verdict == WHOLE:
                low, high = min(low, nodes.low[node]), max(high, nodes.high[node])
            elif verdict == PARTLY and nodes.level[node] == 0:
                low, high = fold_rows(rows, nodes.slot[node], ask, low, high)
            elif verdict == PARTLY:
                top = push_near(nodes, nodes.slot[node], ask, stack, top)
        if low <= high:
            lows[i], highs[i] = low, high
    return lows, highs


class Growing(NamedTuple):
    """An index while rows are inserted; its arrays are longer than what is in use."""

    nodes: Nodes
    rows: CellRows
    grid: Ints  # (cells, k) coordinates of each cell
    table: Ints  # (a power of two,) hash table: the node of each cell, by its coordinates; -1 = free
    use: Ints  # (4,) see NODES
    scale: Floats  # (k,) extent of the data


class NewRows(NamedTuple):
    """Rows that are to be inserted; they lie behind the others already."""

    first: int  # the first of them
    cells: Ints  # (n, k) grid coordinates
    spots: Floats  # (n, k) places in the tree


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
def climb(nodes, node):
    """From the node up to the root: fit boxes, ranges and weights to the children."""
    while node >= 0:
        s = nodes.slot[node]
        nodes.lo[node], nodes.hi[node], nodes.lacks[node] = np.inf, -np.inf, False
        nodes.low[node], nodes.high[node], nodes.weight[node] = np.inf, -np.inf, 0
        for c in range(nodes.fill[s]):
            child = nodes.children[s, c]
            for j in range(nodes.lo.shape[1]):
                nodes.lo[node, j] = min(nodes.lo[node, j], nodes.lo[child, j])
                nodes.hi[node, j] = max(nodes.hi[node, j], nodes.hi[child, j])
                nodes.lacks[node, j] |= nodes.lacks[child, j]
            nodes.low[node] = min(nodes.low[node], nodes.low[child])
            nodes.high[node] = max(nodes.high[node], nodes.high[child])
            nodes.weight[node] += nodes.weight[child]
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
    """Move part of an overfull node's children to a new node beside it."""
    s = nodes.slot[node]
    kids = nodes.children[s, : nodes.fill[s]].copy()
    least = fewest(nodes.children.shape[1] - 1)
    order, at = best_cut(nodes.lo[kids], nodes.hi[kids], least, scale)
    beside = sprout(nodes, use, nodes.level[node])
    nodes.fill[s] = 0
    for c in range(kids.shape[0]):
        attach(nodes, node if c < at else beside, kids[order[c]])
    return beside


@kernel
def fewest(fanout):
    """A node other than the root has at least so many children: 40 % of the fanout, as R* has it."""
    return max(2, 2 * fanout // 5)


@kernel
def insert(nodes, use, scale, entry):
    """R* insertion: an overfull node first sends its farthest children in again, once per level; then it splits."""
    fanout = nodes.children.shape[1] - 1
    again = np.zeros(LEVELS, np.bool_)
    pending = np.empty(LEVELS * (fanout + 1), np.int64)
    pending[0], n = entry, 1
    while n:
        n -= 1
        node = choose(nodes, use[ROOT], pending[n], scale)
        attach(nodes, node, pending[n])
        climb(nodes, node)
        while nodes.fill[nodes.slot[node]] > fanout:
            level = nodes.level[node]
            if node != use[ROOT] and not again[level]:
                again[level] = True
                n = eject(nodes, node, scale, pending, n)
                climb(nodes, node)
                break
            beside = split(nodes, use, node, scale)
            if node == use[ROOT]:
                use[ROOT] = sprout(nodes, use, level + 1)
                attach(nodes, use[ROOT], node)
            attach(nodes, nodes.parent[node], beside)
            climb(nodes, beside)
            climb(nodes, node)
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
def open_cell(tree, p, at, spot):
    """A new cell, and its leaf, at these grid coordinates, p being its place in the hash table. Returns the leaf."""
    nodes, use = tree.nodes, tree.use
    node, cell = use[NODES], use[CELLS]
    use[NODES] += 1
    use[CELLS] += 1
    tree.table[p], tree.grid[cell] = node, at
    tree.rows.start[cell], tree.rows.size[cell], tree.rows.head[cell] = 0, 0, -1
    nodes.level[node], nodes.slot[node], nodes.lacks[node] = 0, cell, False
    nodes.lo[node], nodes.hi[node] = spot, spot
    nodes.low[node], nodes.high[node], nodes.weight[node] = np.inf, -np.inf, 0
    return node


@kernel
def sum_up(nodes, node, last, spot, lacks, then):
    """Count a row in at its cell and at all nodes above, up to `last` (-1: at its cell only)."""
    while True:
        for j in range(spot.shape[0]):
            nodes.lo[node, j] = min(nodes.lo[node, j], spot[j])
            nodes.hi[node, j] = max(nodes.hi[node, j], spot[j])
            nodes.lacks[node, j] |= lacks[j]
        nodes.low[node], nodes.high[node] = min(nodes.low[node], then), max(nodes.high[node], then)
        nodes.weight[node] += 1
        if last < 0 or node == last:
            return
        node = nodes.parent[node]


@kernel
def take(tree, new, r):
    """Insert the rows from r on. Returns the first one not inserted.

    One insertion may split, on each level, as often as nodes are inserted there.
    """
    nodes, rows, use = tree.nodes, tree.rows, tree.use
    fanout = nodes.children.shape[1] - 1
    for i in range(r - new.first, new.cells.shape[0]):
        r = new.first + i
        room = (nodes.level[use[ROOT]] + 2) ** 2 * (fanout + 1)
        full = use[NODES] + room > nodes.level.shape[0] or use[INNER] + room > nodes.fill.shape[0]
        if full or use[CELLS] == rows.head.shape[0] or 2 * use[CELLS] >= tree.table.shape[0]:
            return r
        p = seek(tree.table, tree.grid, nodes.slot, new.cells, i)
        node = tree.table[p]
        fresh = node < 0
        if fresh:
            node = open_cell(tree, p, new.cells[i], new.spots[i])
        cell = nodes.slot[node]
        rows.after[r], rows.head[cell] = rows.head[cell], r
        sum_up(nodes, node, -1 if fresh else use[ROOT], new.spots[i], np.isnan(rows.points[r]), rows.then[r])
        if fresh:
            insert(nodes, use, tree.scale, node)
    return new.first + new.cells.shape[0]


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
