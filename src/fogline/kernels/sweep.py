"""Which rivals do the same to a cloud?

In most cells a rival is a *step* to the cloud's values: it is surely at least as good up to one of them, and never
beyond. Rivals that differ in their steps only are of one kind; those that differ in nothing are counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Grid, Ints
from fogline.kernels.compile import inner
from fogline.kernels.dominance import share, shares
from fogline.kernels.instances import place_weights
from fogline.kernels.sums import SURE, number, two_words

CERTAIN, COUNTED, STEPPED, SMOOTH = range(4)  # how to go about a kind of rivals: see `way_of`
MANY = 4, 4096  # from so many rivals of a kind on, and up to so many, they are counted


class Steps(NamedTuple):
    """What each of m rivals does to the values of c distributed cells."""

    at_least: Floats  # (m, values of all cells)
    equal: Floats
    a: Floats  # (m,) Pr{at least as good in all cells that are known}, …
    b: Floats  # (m,) … and just as good, there and at its steps; 0 where it cannot be just as good in all
    step: Ints  # (m, c) the last value that it is surely at least as good as, if it is never so beyond; -1: no step
    times: Ints  # (m,) how many rivals are the same
    first: Ints  # (m,) the first of its kind: rivals that differ in their steps only
    next: Ints  # (m,) the next of its kind; -1: there is none


@inner
def step_of(at_least):
    """See `Steps.step`; -2: it is never as good."""
    n = 0
    while n < at_least.shape[0] and at_least[n] == 1.0:
        n += 1
    if n < at_least.shape[0] and at_least[n] > 0.0:
        return -1
    return n - 1 if n > 0 else -2


@inner
def rivals_of(uncertain, o, near, grid, cells, most):
    """Look up what each rival does to each value: how many differ, and what. Those that cannot beat any place are left
    out. -1: they are of more than `most` kinds."""
    n, room = near.shape[0], 0
    for j in cells:
        room += grid.size[j]
    found = Steps(
        np.empty((n, room)), np.empty((n, room)), np.ones(n), np.ones(n),
        np.empty((n, cells.shape[0]), np.int64), np.ones(n, np.int64), np.empty(n, np.int64), np.full(n, -1),
    )  # fmt: skip
    last = np.empty(n, np.int64)  # of a kind, by its first
    m = kinds = 0
    for g in near:
        found.a[m] = found.b[m] = 1.0
        for j in range(uncertain.lo.shape[1]):
            if grid.start[j] < 0:
                s, e = share(uncertain, g, j, uncertain.lo[o, j])
                found.a[m] *= s
                found.b[m] *= e
        beats = found.a[m] > 0.0
        for k in range(cells.shape[0]):
            first, size = grid.start[cells[k]], grid.size[cells[k]]
            at_least, equal = found.at_least[m, first : first + size], found.equal[m, first : first + size]
            shares(uncertain, g, cells[k], grid, at_least, equal)
            step = step_of(at_least)
            found.step[m, k] = step
            beats &= step > -2
            if step >= 0:
                found.b[m] *= equal[step]
            else:
                ties = 0.0
                for v in range(size):
                    ties = max(ties, equal[v])
                found.b[m] *= ties > 0.0
        if beats and not is_there(found, m, grid, cells):
            first = found.first[m]
            if first != m:
                found.next[last[first]] = m
            else:
                kinds += 1
                if kinds > most:
                    return -1, found
            last[first] = m
            m += 1
    return m, found


@inner
def is_there(found, m, grid, cells):
    """Is one of the rivals before m the same? Then it is counted; else m learns the first of its kind."""
    found.first[m] = m
    for r in range(m):
        if (
            found.first[r] == r
            and found.a[r] == found.a[m]
            and found.b[r] == found.b[m]
            and alike(found, r, m, grid, cells)
        ):
            found.first[m] = r
            break
    s = found.first[m] if found.first[m] < m else -1
    while s >= 0:
        if (found.step[s] == found.step[m]).all():
            found.times[s] += 1
            return True
        s = found.next[s]
    return False


@inner
def alike(found, r, m, grid, cells):
    """Are two rivals steps in the same cells, and the same in all others?"""
    for k in range(cells.shape[0]):
        if (found.step[r, k] >= 0) != (found.step[m, k] >= 0):
            return False
        if found.step[r, k] < 0:
            for v in range(grid.start[cells[k]], grid.start[cells[k]] + grid.size[cells[k]]):
                if found.at_least[r, v] != found.at_least[m, v] or found.equal[r, v] != found.equal[m, v]:
                    return False
    return True


@inner
def way_of(found, r):
    """How to go about the kind r.

    CERTAIN: it beats all places up to its steps, and none beyond; COUNTED: many rivals, which are a step in an inner
    cell and never just as good; STEPPED: they are such a step; SMOOTH: they are not.
    """
    steps, many, s = 0, 0, r
    for k in range(1, found.step.shape[1]):
        steps += found.step[r, k] >= 0
    if steps == found.step.shape[1] - 1 and found.step[r, 0] >= 0 and found.a[r] >= SURE and found.b[r] == 0.0:
        return CERTAIN
    while s >= 0:
        many += found.times[s]
        s = found.next[s]
    if steps > 0 and found.b[r] == 0.0 and MANY[0] <= many <= MANY[1]:
        return COUNTED
    return STEPPED if steps > 0 else SMOOTH


@inner
def ways_of(found, m):
    """The kinds, each by its first rival, and how to go about them."""
    kinds, way, n = np.empty(m, np.int64), np.empty(m, np.int64), 0
    for r in range(m):
        if found.first[r] == r:
            kinds[n], way[n] = r, way_of(found, r)
            n += 1
    return kinds[:n], way[:n]


# --- sweep ---
# How do many places of a cloud fare against many rivals, without looking at every pair?
#
# In most cells a rival is a *step* to the cloud's values: it is surely at least as good up to one of them, and never
# beyond. Then what it does is the same for all places up to that step, so its logarithm is worked out once, noted at
# the
# step, and spread by sums that run from the best value down. Rivals that differ in their steps only are worked out
# once.
#
# The first distributed cell is swept from its best value down. Per value, the sums over all other (inner) cells lie
# in
# one array for each set of inner cells in which a rival is a step (`mask`), to be spread along these. All are sums of
# integers, in two words each: the same bits in any order of the rivals, and the range and the error that `sums`
# states
# (but for ties: a difference of two chances is off by 1e-16 per attribute and rival, 1e-9 for a million that all but
# surely tie).
#
# A rival that is a step everywhere, and surely as good where the cloud is known, beats all places up to its steps:
# they
# have no weight left, and are not looked at. In a line of places, along the last inner cell, those are the first
# ones;
# and the more, the worse the values of the other cells are.

MOST = 100_000_000  # kinds of rivals times places that are summed, …
VALUES = 20_000_000  # … and rivals times values that are looked up
TOO_MUCH = -1.0  # in place of a probability: it would be more
BEATEN = -28.0  # the logarithm of what counts as zero, for a rival that is sure to beat a place


class Inner(NamedTuple):
    """The places over all distributed cells but the first."""

    cells: Grid
    stride: Ints  # (c - 1,)
    sums: Ints  # (masks, places, 2) what is at work
    stand: Ints  # (masks, places, 2) of rivals that are a step in the first cell, from there down
    used: Ints  # (masks,) how many rivals have it
    low: Ints  # (lines,) how many of the first places of each line, along the last inner cell, are surely beaten
    at: Ints  # (lines, c - 1) which value of each cell its first place has
    line: int  # how many places a line has


class Effect(NamedTuple):
    """What a rival does to the inner places it can beat, its steps left out."""

    place: Ints
    a: Floats
    b: Floats
    log: Ints  # (places, 2) to be spread from its steps down
    tie: Ints  # (places, 2) to be added at its steps themselves, where it may be just as good
    spaced: Ints  # (places, 2) the same logarithms, each at its place
    kept: Ints  # (places, 2) of one kind, the logarithms that are the same for all values of the first cell, …
    kept_of: Ints  # (1,) … and which kind


@inner
def add_times(n, logs, k, sums, at):
    """Add n times the k-th logarithm."""
    sums[at, 0] += n * logs[k, 0]
    sums[at, 1] += n * logs[k, 1]


@inner
def write_log(p, logs, k):
    """The logarithm of 1 - p, as the k-th one."""
    logs[k, 0], logs[k, 1] = two_words(BEATEN if p >= SURE else np.log1p(-p) if p > 0.0 else 0.0)


@inner
def inner_of(grid, cells):
    """Room for the inner places."""
    c = cells.shape[0] - 1
    stride, places = np.empty(c, np.int64), 1
    for k in range(c - 1, -1, -1):
        stride[k] = places
        places *= grid.size[cells[k + 1]]
    within = Grid(grid.value, grid.weight, np.full(c, -1), np.ones(c, np.int64))
    for k in range(c):
        within.start[k], within.size[k] = grid.start[cells[k + 1]], grid.size[cells[k + 1]]
    room, line = (1 << c, places, 2), within.size[c - 1] if c else 1
    at = np.empty((places // line, c), np.int64)
    for first in range(at.shape[0]):
        for k in range(c):
            at[first, k] = first * line // stride[k] % within.size[k]
    return Inner(
        within, stride, np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(1 << c, np.int64),
        np.zeros(places // line, np.int64), at, line,
    )  # fmt: skip


@inner
def work_out(found, r, at, within, space):
    """What rival r does to the inner places, at the value `at` of the first cell (-1: it is a step there). How many?"""
    n = 1
    space.place[0], space.a[0], space.b[0] = 0, found.a[r], found.b[r]
    if at >= 0:
        space.a[0] *= found.at_least[r, at]
        space.b[0] *= found.equal[r, at]
    for k in range(within.stride.shape[0]):
        if found.step[r, k + 1] >= 0:
            continue
        first, size = within.cells.start[k], within.cells.size[k]
        while found.at_least[r, first + size - 1] == 0.0:
            size -= 1
        for p in range(n - 1, -1, -1):
            place, a, b = space.place[p], space.a[p], space.b[p]
            for v in range(size - 1, -1, -1):
                space.place[p * size + v] = place + v * within.stride[k]
                space.a[p * size + v] = a * found.at_least[r, first + v]
                space.b[p * size + v] = b * found.equal[r, first + v]
        n *= size
    for p in range(n):
        write_log(space.a[p], space.log, p)
        if space.b[p] > 0.0:
            write_log(space.a[p] - space.b[p], space.tie, p)
            add_times(-1, space.log, p, space.tie, p)
        else:
            space.tie[p, 0] = space.tie[p, 1] = 0
    return n


@inner
def leave_out(found, r, within):
    """The inner places that rival r surely beats are not looked at any more."""
    last = within.stride.shape[0] - 1
    count = found.step[r, last + 1] + 1 if last >= 0 else 1
    for line in range(within.low.shape[0]):
        below = count > within.low[line]
        for k in range(last):
            below = below and within.at[line, k] <= found.step[r, k + 1]
        if below:
            within.low[line] = count


@inner
def begin(within):
    """What stands from better values of the first cell is at work, in the places that are looked at."""
    for mask in range(within.sums.shape[0]):
        for line in range(within.low.shape[0] if mask == 0 or within.used[mask] > 0 else 0):
            for at in range(line * within.line + within.low[line], (line + 1) * within.line):
                within.sums[mask, at, 0] = within.stand[mask, at, 0]
                within.sums[mask, at, 1] = within.stand[mask, at, 1]


@inner
def note(found, r, n, within, space, sums, at_step):
    """Note what was worked out of rival r, at its own steps; `at_step`: the value of the first cell is its step too."""
    mask, shift = 0, 0
    for k in range(within.stride.shape[0]):
        if found.step[r, k + 1] >= 0:
            mask |= 1 << k
            shift += found.step[r, k + 1] * within.stride[k]
    within.used[mask] += 1
    for p in range(n):
        add_times(found.times[r], space.log, p, sums[mask], space.place[p] + shift)
    if found.b[r] > 0.0 and at_step:
        for p in range(n):
            add_times(found.times[r], space.tie, p, within.sums[0], space.place[p] + shift)


@inner
def spread(within):
    """Let what stands at steps count for all places below; all of it ends in the array of no steps."""
    for mask in range(within.sums.shape[0] - 1, 0, -1):
        if within.used[mask] == 0:
            continue
        k = 0
        while not (mask >> k) & 1:
            k += 1
        stride, rest = within.stride[k], mask & (mask - 1)
        source, target = within.sums[mask], within.sums[rest]
        within.used[rest] += 1
        for line in range(within.low.shape[0] - 1, -1, -1):  # where a better line is looked at, this one may be too
            first, end = line * within.line + within.low[line], (line + 1) * within.line
            if k == within.stride.shape[0] - 1:
                for at in range(end - 2, first - 1, -1):
                    add_times(1, source, at + 1, source, at)
            elif within.at[line, k] < within.cells.size[k] - 1:
                for at in range(first, end):
                    add_times(1, source, at + stride, source, at)
            for at in range(first, end):
                add_times(1, source, at, target, at)


@inner
def counts_of(found, kinds, way, within):
    """Room to count, for each value of the inner cells in which they are steps, the rivals of a kind that are as good.

    Where the counts of each kind begin, and the counts.
    """
    start, room = np.zeros(kinds.shape[0] + 1, np.int64), 0
    for m in range(kinds.shape[0]):
        size = 1 if way[m] == COUNTED else 0
        for k in range(within.stride.shape[0]):
            if found.step[kinds[m], k + 1] >= 0:
                size *= within.cells.size[k]
        room += size
        start[m + 1] = room
    return start, np.zeros(room, np.int64)


@inner
def count_up(found, s, within, counts):
    """Count rival s for all values up to its steps."""
    for m in range(counts.shape[0]):
        rest, below = m, True
        for k in range(within.stride.shape[0] - 1, -1, -1):
            if found.step[s, k + 1] >= 0:
                below = below and rest % within.cells.size[k] <= found.step[s, k + 1]
                rest //= within.cells.size[k]
        if below:
            counts[m] += found.times[s]


@inner
def take_counted(found, r, at, within, space, counts):
    """Add what the rivals of the kind r do: one logarithm, times as many as are as good.

    `at`: the value of the first cell, -1: they are steps there.
    """
    if at >= 0 and found.at_least[r, at] == 0.0:
        return
    n, last = work_out(found, r, at, within, space), within.stride.shape[0] - 1
    logs, sums = space.spaced, within.sums[0]
    logs[:] = 0
    for p in range(n):
        add_times(1, space.log, p, logs, space.place[p])
    for line in range(within.low.shape[0]):
        place, m, first = 0, 0, line * within.line
        for k in range(last):
            v = within.at[line, k]
            if found.step[r, k + 1] >= 0:
                m = m * within.cells.size[k] + v
            else:
                place += v * within.stride[k]
        if found.step[r, last + 1] < 0:
            for p in range(within.low[line], within.line):
                add_times(counts[m], logs, place + p, sums, first + p)
        else:
            for p in range(within.low[line], within.line):
                add_times(counts[m * within.line + p], logs, place, sums, first + p)


@inner
def logs_of(found, r, at, within, ties, out):
    """To out (places, 2): what rival r, which is no step in any inner cell, leaves of the places that are looked at.

    `at`: the value of the first cell, -1: it is a step there; `ties`: at which it may be just as good.
    """
    last = within.stride.shape[0] - 1
    ties = ties and found.b[r] > 0.0
    for line in range(within.low.shape[0]):
        a, b = found.a[r], found.b[r]
        if at >= 0:
            a *= found.at_least[r, at]
            b *= found.equal[r, at]
        for k in range(last):
            v = within.cells.start[k] + within.at[line, k]
            a *= found.at_least[r, v]
            b *= found.equal[r, v]
        for p in range(within.low[line], within.line):
            x, e = a, b
            if last >= 0:
                x *= found.at_least[r, within.cells.start[last] + p]
                e *= found.equal[r, within.cells.start[last] + p]
            write_log(x - e if ties else x, out, line * within.line + p)


@inner
def add(within, n, logs, sums):
    """n times these logarithms more, in the places that are looked at."""
    for line in range(within.low.shape[0]):
        for at in range(line * within.line + within.low[line], (line + 1) * within.line):
            add_times(n, logs, at, sums, at)


@inner
def left_of(within, weight):
    """The weight of the inner places, each times the probability that no rival beats it."""
    sums, out = within.sums[0], 0.0
    for line in range(within.low.shape[0]):
        for p in range(line * within.line + within.low[line], (line + 1) * within.line):
            log = number(sums, p)
            if log > BEATEN:
                out += weight[p] * np.exp(log)
    return out


@inner
def take_stepped(found, r, first, v, within, space):
    """Note what the rivals of the kind r, which are a step in an inner cell, do at value v of the first one."""
    is_step, n, s = found.step[r, 0] >= 0, 0, r
    if not is_step and found.at_least[r, first + v] == 0.0:
        return
    while s >= 0:
        if not is_step or found.step[s, 0] == v:
            if n == 0:
                n = work_out(found, r, -1 if is_step else first + v, within, space)
            note(found, s, n, within, space, within.sums, True)
            if is_step:
                note(found, s, n, within, space, within.stand, False)
        s = found.next[s]


@inner
def take_smooth(found, r, first, v, within, space):
    """Add what the rivals of the kind r, which are no step in any inner cell, do at value v of the first one."""
    if found.step[r, 0] < 0:
        if found.at_least[r, first + v] > 0.0:
            logs_of(found, r, first + v, within, True, space.log)
            add(within, found.times[r], space.log, within.sums[0])
        return
    n, s = 0, r
    while s >= 0:
        n += found.times[s] if found.step[s, 0] == v else 0
        s = found.next[s]
    if n == 0:
        return
    if space.kept_of[0] != r:
        logs_of(found, r, -1, within, False, space.kept)  # later, no other places are looked at
        space.kept_of[0] = r
    add(within, n, space.kept, within.stand[0])
    if found.b[r] == 0.0:
        add(within, n, space.kept, within.sums[0])
    else:
        logs_of(found, r, -1, within, True, space.log)
        add(within, n, space.log, within.sums[0])


@inner
def all_places(uncertain, o, near, grid):
    """P(o) over the places of a grid, exactly. O(places · 2^cells), and for each kind of rival a logarithm per place at
    which it is no step. TOO_MUCH, if there are too many of these: how many is a matter of what is in the window."""
    d = uncertain.lo.shape[1]
    cells, c, places, values = np.empty(d, np.int64), 0, 1, 0
    for j in range(d):
        if grid.start[j] >= 0:
            cells[c] = j
            c += 1
            places *= grid.size[j]
            values += grid.size[j]
    cells = cells[:c]
    if near.shape[0] * values > VALUES:
        return TOO_MUCH
    m, found = rivals_of(uncertain, o, near, grid, cells, MOST // places)
    if m < 0:
        return TOO_MUCH
    if c == 0:
        logs = np.zeros((2, 2), np.int64)
        for r in range(m):
            write_log(found.a[r] - found.b[r], logs, 1)
            add_times(found.times[r], logs, 1, logs, 0)
        log = number(logs, 0)
        return np.exp(log) if log > BEATEN else 0.0
    within = inner_of(grid, cells)
    places = within.sums.shape[1]
    weight = np.empty(places)
    place_weights(within.cells, weight)
    space = Effect(
        np.empty(places, np.int64), np.empty(places), np.empty(places), np.empty((places, 2), np.int64),
        np.empty((places, 2), np.int64), np.empty((places, 2), np.int64), np.empty((places, 2), np.int64),
        np.full(1, -1),
    )  # fmt: skip
    kinds, way = ways_of(found, m)
    start, counts = counts_of(found, kinds, way, within)
    first, best, out = grid.start[cells[0]], grid.size[cells[0]] - 1, 0.0
    for v in range(best, -1, -1):
        for k in range(kinds.shape[0]):
            s = kinds[k] if way[k] <= COUNTED else -1
            while s >= 0:
                if found.step[s, 0] == v or (v == best and found.step[s, 0] < 0):
                    if way[k] == CERTAIN:
                        leave_out(found, s, within)
                    else:
                        count_up(found, s, within, counts[start[k] : start[k + 1]])
                s = found.next[s]
        begin(within)
        for k in range(kinds.shape[0]):
            if way[k] == STEPPED:
                take_stepped(found, kinds[k], first, v, within, space)
        spread(within)
        for k in range(kinds.shape[0]):
            if way[k] == SMOOTH:
                take_smooth(found, kinds[k], first, v, within, space)
            elif way[k] == COUNTED:
                at = -1 if found.step[kinds[k], 0] >= 0 else first + v
                take_counted(found, kinds[k], at, within, space, counts[start[k] : start[k + 1]])
        out += grid.weight[first + v] * left_of(within, weight)
    return min(out, 1.0)
