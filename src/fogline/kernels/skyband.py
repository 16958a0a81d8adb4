"""How many rows dominate a row, surely and probably, where it may be dominated by fewer than k?

For an instance x of a row, how many rows dominate it is a sum of independent events, one per other row, with the
chances p that `dominance` gives: attributes of one row hang together through x alone, and rows are independent. That
fewer than k of the events happen is worked out in k numbers, how likely none, one, … k - 1 of those so far happened:

    fewer[j] <- fewer[j] * (1 - p) + fewer[j - 1] * p

All terms are positive, so nothing cancels; the row's probability is the mean of the sum of these numbers over its
instances. A dominator with p = 1 moves them up by one exactly, one with p = 0 leaves them as they are. Dominators are
taken in an order of their contents (`by_content`), so a probability has the same bits however the window came about.

Better instances are dominated by fewer rows, so a box of instances lies between its worst and its best corner. Rows of
many instances are cut into boxes: small ones are exact, and of very many instances a bracket is left (`narrow`).
"""

from __future__ import annotations

import heapq

import numpy as np

from fogline.arrays import DOMINATED_BY, ENTER, EXPIRED, LEAVE, LESS_LIKELY, NO_REASON, REMOVED, REPLACED, UPDATE, Grid
from fogline.kernels.admit import falling_sums
from fogline.kernels.bracket import Bounds
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import (
    AHEAD,
    BEHIND,
    EVEN,
    compare,
    dominates,
    dominates_point,
    dominates_row,
    high_end,
    surely_dominates,
    write_ends,
)
from fogline.kernels.instances import (
    ROOM,
    dominates_instances,
    empty_grid,
    instance_weights,
    instances_of,
    merge_instances,
    own_grid,
    scratch_for,
    values_of,
)
from fogline.kernels.judge import words_of
from fogline.kernels.latest import let_in
from fogline.kernels.sorting import argsort, mixed
from fogline.kernels.states import DEAD, HAS_EXPIRED, IN, IS_GONE, OUT
from fogline.kernels.tick import NO_DOMINATOR, changed
from fogline.kernels.words import covers

CORNER = 32  # the work that a corner of a box takes for each dominator, beside an instance of many
TOLERANCE = 1e-9  # a bracket no wider than this is exact


# --- How many surely dominate a row -----------------------------------------------------------------------------------


@kernel
def count_dominators(live, sure, lasting, which, lives, sign):
    """The rows in the slots `which`, with expiries `lives`, come (sign 1) or go (-1): all others are counted anew.

    `sure`: of each slot how many living rows surely dominate it, by their boxes; `lasting`: how many of those expire no
    earlier than it does. What comes counts its own dominators. O(which · slots) comparisons of words.
    """
    columns, fence = live.columns, live.fence
    lo, hi = live.uncertain.lo, live.uncertain.hi
    moving = np.zeros(live.used, np.bool_)
    for c in which:
        moving[c] = True
    for i in range(which.shape[0]):
        g = which[i]
        word = columns.word_lo[g]
        for c in range(live.used):
            if (
                covers(word, columns.word_hi[c], fence)
                and columns.state[c] != DEAD
                and not moving[c]
                and dominates(lo, g, hi, c)
            ):
                sure[c] += sign
                if lives[i] >= columns.expires[c]:
                    lasting[c] += sign
    if sign < 0:
        return
    for o in which:
        word, sure[o], lasting[o] = columns.word_hi[o], 0, 0
        for g in range(live.used):
            if covers(columns.word_lo[g], word, fence) and columns.state[g] != DEAD and dominates(lo, g, hi, o):
                sure[o] += 1
                lasting[o] += columns.expires[g] >= columns.expires[o]


@kernel
def may_matter(lo, hi, word_lo, word_hi, expires, fence, k):
    """(n,) which of some rows fewer than k others among them surely dominate as long as they live.

    A few more may be kept, where sums are equal; see `engine.skyband` for why the others can be dropped. With the rows
    by falling expiry and sum, only rows before one can dominate it to its end, and k of those that are kept are enough.
    """
    n = expires.shape[0]
    order = argsort(falling_sums(lo))
    lives = np.empty(n)
    for i in range(n):
        lives[i] = -expires[order[i]]
    later = argsort(lives)  # stable: of equal expiries those of greater sums come first
    stay, kept, strong, m = np.zeros(n, np.bool_), np.empty(n, np.int64), np.empty(n, np.uint64), 0
    for i in range(n):
        o = order[later[i]]
        count = 0
        for r in range(m):
            if covers(strong[r], word_hi[o], fence) and dominates(lo, kept[r], hi, o):
                count += 1
                if count == k:
                    break
        if count < k:
            stay[o], kept[m], strong[m] = True, o, word_lo[o]
            m += 1
    return stay


@kernel
def write_arrivals(live, rows, instances):
    """Fill the next slots with the rows. Returns the end of the pools."""
    pool, _ = let_in(live, rows, instances)
    return pool


# --- How probable it is that fewer than k dominate it -----------------------------------------------------------------


@inner
def by_content(uncertain, which):
    """Some rows in an order that their cells alone decide; equal ones are alike in all that they do to others."""
    low, high = uncertain.lo.view(np.uint64), uncertain.hi.view(np.uint64)
    value, weight = uncertain.value.view(np.uint64), uncertain.weight.view(np.uint64)
    marks, out = np.empty(which.shape[0]), np.empty(which.shape[0], np.int64)
    for i in range(which.shape[0]):
        c, mark = which[i], np.uint64(0)
        for j in range(uncertain.lo.shape[1]):
            first = uncertain.start[c, j]
            if first < 0:
                mark = mixed(mixed(mark, low[c, j]), high[c, j])
                continue
            for v in range(first, first + uncertain.size[c, j]):
                mark = mixed(mixed(mark, value[v]), weight[v])
        marks[i] = np.float64(mark >> np.uint64(11))
    order = argsort(marks)
    for i in range(which.shape[0]):
        out[i] = which[order[i]]
    return out


@inner
def possible_dominators(live, o, among, strong, near, ends):
    """The rows among some that may dominate o, into `near`: how many, and how many of them do surely.

    `strong`: the words of their best corners, side by side.
    """
    uncertain, fence, word = live.uncertain, live.fence, live.columns.word_lo[o]
    write_ends(uncertain, o, ends)
    m = sure = 0
    for r in range(among.shape[0]):
        g = among[r]
        if g == o or not covers(strong[r], word, fence) or not dominates(uncertain.hi, g, ends, 0):
            continue
        found = EVEN
        for j in range(ends.shape[1]):
            found = compare(found, high_end(uncertain, g, j), ends[0, j])
            if found == BEHIND:
                break
        if found == AHEAD:
            near[m] = g
            m += 1
            sure += surely_dominates(uncertain, g, o)
    return m, sure


@inner
def count_in(fewer, k, p):
    """One more event, of chance p, in the numbers of how likely none, one, … k - 1 have happened."""
    p = min(p, 1.0)
    for j in range(k - 1, 0, -1):
        fewer[j] = fewer[j] * (1.0 - p) + fewer[j - 1] * p
    fewer[0] *= 1.0 - p


@inner
def fewer_at(uncertain, near, points, i, k, fewer):
    """Pr{fewer than k of the rows `near` dominate point i of `points` (., d)}. `fewer`: room for k numbers."""
    fewer[0] = 1.0
    for j in range(1, k):
        fewer[j] = 0.0
    for g in near:
        p = dominates_point(uncertain, g, points, i)
        if p > 0.0:
            count_in(fewer, k, p)
    total = 0.0
    for j in range(k):
        total += fewer[j]
    return min(total, 1.0)


@inner
def fewer_over(uncertain, o, near, grid, k, room, scratch):
    """The mean of that over the instances of a grid, at most ROOM: dominator by dominator. `room`: (k, ROOM)."""
    n = instance_weights(grid, scratch.weight)
    for x in range(n):
        room[0, x] = 1.0
    for j in range(1, k):
        for x in range(n):
            room[j, x] = 0.0
    for g in near:
        if not dominates_instances(uncertain, g, o, grid, scratch):
            continue
        for j in range(k - 1, 0, -1):
            for x in range(n):
                p = min(scratch.chance[x], 1.0)
                room[j, x] = room[j, x] * (1.0 - p) + room[j - 1, x] * p
        for x in range(n):
            room[0, x] *= 1.0 - min(scratch.chance[x], 1.0)
    total = 0.0
    for x in range(n):
        one = 0.0
        for j in range(k):
            one += room[j, x]
        total += scratch.weight[x] * one
    return total


@inner
def corner(uncertain, o, grid, box, side, point):
    """The worst (side 0) or best (1) instance in a box (2, d) of a grid's values, into point (1, d)."""
    for j in range(point.shape[1]):
        point[0, j] = uncertain.lo[o, j]
        if grid.start[j] >= 0:
            point[0, j] = grid.value[grid.start[j] + (box[1, j] - 1 if side else box[0, j])]


@inner
def part_of(grid, box):
    """The part of a grid in a box (2, d): of each cell the first of its values, and the one after the last."""
    out = Grid(grid.value, grid.weight, grid.start.copy(), grid.size.copy())
    for j in range(box.shape[1]):
        if grid.start[j] >= 0:
            out.start[j], out.size[j] = grid.start[j] + box[0, j], box[1, j] - box[0, j]
    return out


@inner
def weight_of(grid):
    """The probability that o lies in a grid, and how many instances that has."""
    out, instances = 1.0, 1.0
    for j in range(grid.start.shape[0]):
        if grid.start[j] >= 0:
            part = 0.0
            for v in range(grid.start[j], grid.start[j] + grid.size[j]):
                part += grid.weight[v]
            out *= part
            instances *= grid.size[j]
    return out, instances


@inner
def box_bounds(uncertain, o, near, grid, box, k, most, room, scratch):
    """What a box adds to a probability, at least and at most, and the work. Of up to `most` instances it is exact."""
    part, point = part_of(grid, box), np.empty((1, uncertain.lo.shape[1]))
    weight, instances = weight_of(part)
    if instances <= most:
        p = fewer_over(uncertain, o, near, part, k, room, scratch)
        return p, p, int(instances) * near.shape[0]
    fewer = room[:, 0].copy()
    corner(uncertain, o, grid, box, 0, point)
    low = weight * fewer_at(uncertain, near, point, 0, k, fewer)
    corner(uncertain, o, grid, box, 1, point)
    high = weight * fewer_at(uncertain, near, point, 0, k, fewer)
    return low, high, 2 * CORNER * near.shape[0]


@inner
def narrow(uncertain, o, near, grid, k, most, goal, room, scratch):
    """(lower, upper) for the probability of a row of many instances: the box with the widest gap is halved.

    Boxes of at most `most` instances are exact. Until the bracket is no wider than the goal's width, lies below its
    threshold, or its work is done.
    """
    d = uncertain.lo.shape[1]
    box = np.zeros((2, d), np.int64)
    for j in range(d):
        box[1, j] = grid.size[j]
    lower, upper, work = box_bounds(uncertain, o, near, grid, box, k, most, room, scratch)
    boxes, queue = [(box, lower, upper)], [(lower - upper, 0)]
    while upper - lower > goal.width and upper > goal.threshold and work < goal.work and len(queue):
        at = heapq.heappop(queue)[1]
        box, low, high = boxes[at]
        side, longest = 0, 1
        for j in range(d):
            if grid.start[j] >= 0 and box[1, j] - box[0, j] > longest:
                side, longest = j, box[1, j] - box[0, j]
        lower -= low
        upper -= high
        for half in range(2):
            part = box.copy()
            part[1 - half, side] = (box[0, side] + box[1, side]) >> 1
            low, high, took = box_bounds(uncertain, o, near, grid, part, k, most, room, scratch)
            lower += low
            upper += high
            work += took
            if high > low:
                boxes.append((part, low, high))
                heapq.heappush(queue, (low - high, len(boxes) - 1))
    return max(lower, 0.0), min(max(upper, lower), 1.0)


@inner
def chance_in_band(uncertain, o, near, k, limits, goal, room, scratch):
    """(lower, upper) for Pr{fewer than k of the rows `near` dominate o}; the same, where it is exact."""
    if near.shape[0] < k:
        return 1.0, 1.0
    most = min(ROOM, limits.exact_limit)
    if instances_of(uncertain, o) <= most:
        p = fewer_over(uncertain, o, near, own_grid(uncertain, o), k, room, scratch)
        return min(p, 1.0), min(p, 1.0)
    grid = empty_grid(values_of(uncertain, o), uncertain.lo.shape[1])
    if merge_instances(uncertain, o, near, grid) <= limits.exact_limit:
        goal = Bounds(goal.threshold, 0.0, goal.work)
    low, high = narrow(uncertain, o, near, grid, k, most, goal, room, scratch)
    if high - low <= TOLERANCE:  # all boxes were exact: what is left is rounding
        low = high = min((low + high) / 2, 1.0)
    return low, high


@kernel
def judge_band(live, due, opened, k, limits, goal):
    """Which of the open rows `due` are in: writes their states and probabilities. Returns how many were worked out.

    Cheap bounds come first: fewer than k may dominate it; k surely do; so probably do k its best instance.
    """
    uncertain, columns = live.uncertain, live.columns
    among = by_content(uncertain, opened)
    strong, near = words_of(columns.word_hi, among), np.empty(among.shape[0], np.int64)
    ends, scratch = np.empty((2, uncertain.lo.shape[1])), scratch_for(ROOM)
    room, fewer = np.empty((min(k, max(1, opened.shape[0])), ROOM)), np.empty(k)
    evaluations = 0
    for o in due:
        m, sure = possible_dominators(live, o, among, strong, near, ends)
        low = high = 0.0
        inside = sure < k
        if inside and limits.threshold >= 0.0 and m >= k:
            inside = fewer_at(uncertain, near[:m], ends, 1, k, fewer) > limits.threshold
        if inside:
            low, high = chance_in_band(uncertain, o, near[:m], k, limits, goal, room, scratch)
            evaluations += 1
            inside = (low + high) / 2 > limits.threshold
        half = (high - low) / 2
        columns.probability[o] = (low + high) / 2
        columns.within[o] = half if half > TOLERANCE and high > limits.threshold else 0.0
        columns.state[o] = IN if inside else OUT
    return evaluations


@kernel
def chances_in_band(live, asked, opened, k, limits, goal):
    """(q, 2) lower and upper bounds of the probabilities of rows, against those that are open."""
    uncertain = live.uncertain
    among = by_content(uncertain, opened)
    strong, near = words_of(live.columns.word_hi, among), np.empty(among.shape[0], np.int64)
    ends, scratch = np.empty((2, uncertain.lo.shape[1])), scratch_for(ROOM)
    out, room = np.zeros((asked.shape[0], 2)), np.empty((min(k, max(1, opened.shape[0])), ROOM))
    for i in range(asked.shape[0]):
        m, sure = possible_dominators(live, asked[i], among, strong, near, ends)
        if sure < k:
            out[i, 0], out[i, 1] = chance_in_band(uncertain, asked[i], near[:m], k, limits, goal, room, scratch)
    return out


@kernel
def dominators_in_band(live, asked, opened):
    """(q, 2) how many of the open rows may dominate each row, and how many do so surely."""
    strong, near = words_of(live.columns.word_hi, opened), np.empty(opened.shape[0], np.int64)
    out, ends = np.zeros((asked.shape[0], 2), np.int64), np.empty((2, live.uncertain.lo.shape[1]))
    for i in range(asked.shape[0]):
        out[i, 0], out[i, 1] = possible_dominators(live, asked[i], opened, strong, near, ends)
    return out


@kernel
def likely_dominators(live, uncertain, asked, opened, most):
    """(q, most) the open rows that most likely dominate each row asked for, and how likely. -1: there are no more.

    The likelier comes first, of equal ones the first in `opened`. `uncertain`: the rows, all with distributions.
    """
    who, chance = np.full((asked.shape[0], most), -1), np.zeros((asked.shape[0], most))
    for i in range(asked.shape[0]):
        for g in opened:
            p = dominates_row(uncertain, g, asked[i]) if g != asked[i] else 0.0
            at = most
            while at > 0 and p > chance[i, at - 1]:
                at -= 1
                if at < most - 1:
                    who[i, at + 1], chance[i, at + 1] = who[i, at], chance[i, at]
            if at < most:
                who[i, at], chance[i, at] = g, p
    return who, chance


# --- What changes -----------------------------------------------------------------------------------------------------


@kernel
def concerned(live, opened, moved):
    """(n,) which of the open rows any of the slots that came or went may dominate."""
    uncertain, columns = live.uncertain, live.columns
    out, strong = np.zeros(opened.shape[0], np.bool_), words_of(columns.word_hi, moved)
    for i in range(opened.shape[0]):
        o = opened[i]
        for r in range(moved.shape[0]):
            if covers(strong[r], columns.word_lo[o], live.fence) and dominates(uncertain.hi, moved[r], uncertain.lo, o):
                out[i] = True
                break
    return out


@inner
def why(live, o, opened, k, latest):
    """Why did o leave? `latest`: a dead row's id has another row, or none."""
    columns = live.columns
    if columns.state[o] == DEAD:
        if columns.until[o] == HAS_EXPIRED:
            return EXPIRED
        if latest:
            return REMOVED if columns.until[o] == IS_GONE else REPLACED
        return DOMINATED_BY
    sure = 0
    for g in opened:
        sure += g != o and surely_dominates(live.uncertain, g, o)
    return DOMINATED_BY if sure >= k else LESS_LIKELY


@kernel
def report_band(live, opened, now, k, tolerance, latest, changes):
    """Write what changed in the answer, from now on counted as reported; returns how many changes these are."""
    columns, found = live.columns, np.empty(live.used, np.int64)
    n = changed(columns, range(live.used), tolerance, found)
    for i in range(n):
        c, row = found[i], changes[i]
        before = columns.reported[c]
        change, reason, probability = LEAVE, NO_REASON, np.nan
        if columns.state[c] == IN:
            change, probability = UPDATE if before == before else ENTER, columns.probability[c]
        else:
            reason = why(live, c, opened, k, latest)
        columns.reported[c] = probability
        row.group, row.slot, row.change, row.reason, row.dominator = 0, c, change, reason, NO_DOMINATOR
        row.time, row.probability, row.within = now, probability, columns.within[c]
    return n
