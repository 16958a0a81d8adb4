"""How likely is it that nobody beats a cloud?

Attributes are independent, so Pr{g beats point x} = prod_j Pr{g_j >= x_j} - prod_j Pr{g_j = x_j}: linear in the number
of values, never an enumeration of g's places. P(o) sums, over o's own places, the product of
1 - Pr{g beats place} over the open clouds g that can beat it at all.

Those products are kept as *integer sums of logarithms* (fixed point, 2^-42). Integers add and subtract exactly in any
order, so a dominator that goes is taken out by subtracting what was added: no division, no drift, and a probability
depends only on who is in the window, never on history. A factor below 1e-12 counts as zero and is counted apart.
Rounding: 1.2e-13 per dominator in the exponent. Range: 70,000 dominators that each all but surely beat the same place.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.boxes import BLOCK, DEAD, IN, OUT, any_covers, beats, covers, ladder, rung
from fogline.kernels.compile import ascending, kernel

SCALE = 2.0**42
SURE = 1.0 - 1e-12  # beaten at least this likely: the factor is zero
COARSE = 8  # values per cell in the cheap upper bound
ROOM = 4096  # places in the dearer one
HEAVY = 4  # verdict of `judge`: too many places to keep sums for; ask `bracket`


@kernel
def share(clouds, g, j, x):
    """(Pr{g_j >= x}, Pr{g_j = x})."""
    lo, hi = clouds.lo[g, j], clouds.hi[g, j]
    start = clouds.start[g, j]
    if x > hi:
        return 0.0, 0.0
    if x < lo:
        return 1.0, 0.0
    if start < 0:
        return 1.0, 1.0  # lo = x = hi
    a, b = start, start + clouds.size[g, j] - 1
    while a < b:
        mid = (a + b) >> 1
        if clouds.value[mid] >= x:
            b = mid
        else:
            a = mid + 1
    return clouds.tail[a], (clouds.weight[a] if clouds.value[a] == x else 0.0)


@kernel
def beats_point(clouds, g, points, i):
    """Pr{cloud g beats row i of `points` (., d)}."""
    at_least = equal = 1.0
    for j in range(points.shape[1]):
        s, e = share(clouds, g, j, points[i, j])
        at_least *= s
        equal *= e
        if at_least == 0.0:
            return 0.0
    return max(at_least - equal, 0.0)


@kernel
def shares(clouds, g, j, values, start, size, s, e):
    """`share` for a whole sorted list of values at once, by one walk along both lists."""
    first, n = clouds.start[g, j], clouds.size[g, j]
    if first < 0:
        x = clouds.lo[g, j]
        for k in range(size):
            v = values[start + k]
            s[k] = 1.0 if x >= v else 0.0
            e[k] = 1.0 if x == v else 0.0
        return
    a, end = first, first + n
    for k in range(size):
        v = values[start + k]
        while a < end and clouds.value[a] < v:
            a += 1
        if a == end:
            s[k] = e[k] = 0.0
        else:
            s[k] = clouds.tail[a]
            e[k] = clouds.weight[a] if clouds.value[a] == v else 0.0


@kernel
def beats_places(clouds, g, o, values, start, size, s, e, p, q):
    """Pr{g beats place} for every place of o, into p[: places]; False if it is zero everywhere.

    The values of o's distributed cells stand in values[start[j] : start[j] + size[j]] (start[j] < 0: a known cell).
    Places run like an odometer, the last distributed cell fastest. s, e, q are scratch.
    """
    at_least = equal = 1.0
    for j in range(clouds.lo.shape[1]):
        if start[j] < 0:
            a, b = share(clouds, g, j, clouds.lo[o, j])
            at_least *= a
            equal *= b
            if at_least == 0.0:
                return False
    p[0], q[0] = at_least, equal
    places = 1
    for j in range(clouds.lo.shape[1]):
        if start[j] >= 0:
            shares(clouds, g, j, values, start[j], size[j], s, e)
            for k in range(places - 1, -1, -1):
                a, b = p[k], q[k]
                for m in range(size[j] - 1, -1, -1):
                    p[k * size[j] + m] = a * s[m]
                    q[k * size[j] + m] = b * e[m]
            places *= size[j]
    for k in range(places):
        p[k] -= q[k]
    return True


@kernel
def place_weights(clouds, o, weights, start, size, w):
    """The weight of every place of o, into w; returns how many there are."""
    w[0] = 1.0
    places = 1
    for j in range(clouds.lo.shape[1]):
        if start[j] >= 0:
            for k in range(places - 1, -1, -1):
                a = w[k]
                for m in range(size[j] - 1, -1, -1):
                    w[k * size[j] + m] = a * weights[start[j] + m]
            places *= size[j]
    return places


@kernel
def logarithm(p):
    """The fixed-point logarithm of 1 - p, for p below SURE."""
    return np.int64(np.rint(np.log1p(-p) * SCALE))


@kernel
def account(p, places, sign, logs, zeros, at):
    """Add (sign 1) or take away (sign -1) a dominator's factors from a member's sums."""
    for k in range(places):
        if p[k] >= SURE:
            zeros[at + k] += sign
        elif p[k] > 0.0:
            logs[at + k] += sign * logarithm(p[k])


@kernel
def total(w, places, logs, zeros, at):
    """The probability that the sums stand for."""
    out = 0.0
    for k in range(places):
        if zeros[at + k] == 0:
            out += w[k] * np.exp(logs[at + k] / SCALE)
    return min(out, 1.0)


@kernel
def scratch(places):
    """Room for a walk over places: s, e, p, q, w."""
    return np.empty(places), np.empty(places), np.empty(places), np.empty(places), np.empty(places)


@kernel
def shift(clouds, columns, used, fence, came, went, logs, zeros, threshold, most):
    """Some open clouds came, some went: what does that do to the members? Those that fall are to be judged again.

    So are members with too many places to keep sums for, when anything that can beat them came or went.
    """
    s, e, p, q, w = scratch(most)
    for m in range(used):
        if columns.state[m] != IN:
            continue
        places, at = columns.places[m], columns.at[m]
        touched = False
        for turn in range(2):
            group = came if turn == 0 else went
            sign = 1 if turn == 0 else -1
            for g in group:
                if not covers(columns.word_hi[g], columns.word_lo[m], fence) or not beats(clouds.hi, g, clouds.lo, m):
                    continue
                if places == 0:
                    touched = True
                elif beats_places(clouds, g, m, clouds.value, clouds.start[m], clouds.size[m], s, e, p, q):
                    account(p, places, sign, logs, zeros, at)
                    touched = True
        if touched and places > 0:
            place_weights(clouds, m, clouds.weight, clouds.start[m], clouds.size[m], w)
            columns.probability[m] = total(w, places, logs, zeros, at)
        if touched and (places == 0 or columns.probability[m] <= threshold):
            columns.state[m] = OUT
            columns.until[m] = -np.inf


@kernel
def waiting(columns, used, now):
    """Who is open, and for whom of them has the time come to be judged?

    Returns the latter, all open clouds, how many sums the former may need, how many live, and the first expiry.
    """
    due, opened = np.empty(used, np.int64), np.empty(used, np.int64)
    a = b = room = alive = 0
    first = np.inf
    for k in range(used):
        if columns.state[k] != DEAD:
            alive += 1
            first = min(first, columns.expires[k])
        if columns.state[k] >= OUT:
            opened[b] = k
            b += 1
            if columns.state[k] == OUT and columns.until[k] <= now:
                due[a] = k
                a += 1
                room += columns.places[k]
    return due[:a], opened[:b], room, alive, first


@kernel
def settle(clouds, columns, used, fence, came, went, logs, zeros, threshold, most, now):
    """Members feel who came and who went; then: who is to be judged? See `shift` and `waiting`."""
    if came.shape[0] or went.shape[0]:
        shift(clouds, columns, used, fence, came, went, logs, zeros, threshold, most)
    return waiting(columns, used, now)


@kernel
def coarsen(clouds, o, parts, value, weight, start, size):
    """At most `parts` + 1 values per cell, each standing for a run of o's values by its best: P can only grow."""
    cursor = 0
    places = 1
    for j in range(clouds.lo.shape[1]):
        start[j], size[j] = -1, 1
        first, n = clouds.start[o, j], clouds.size[o, j]
        if first < 0:
            continue
        start[j] = cursor
        filled = 0.0
        open_run = False
        for k in range(first, first + n):
            if not open_run:
                value[cursor], weight[cursor] = clouds.value[k], 0.0
                open_run = True
            value[cursor] = clouds.value[k]
            weight[cursor] += clouds.weight[k]
            filled += clouds.weight[k]
            if filled * parts >= (cursor - start[j] + 1) - 1e-12 or k == first + n - 1:
                cursor += 1
                open_run = False
        size[j] = cursor - start[j]
        places *= size[j]
    return places


@kernel
def parts_for(fog):
    """Into how many parts each of `fog` cells may be cut for at most ROOM places together; see `coarsen`."""
    if fog == 0:
        return 1
    parts = 1
    while parts < ROOM // 2 and (parts + 2) ** fog <= ROOM:
        parts += 1
    return parts


@kernel
def witness(clouds, o, near, expires, threshold, values, weights, start, size, s, e, p, q, w, left):
    """Until when do the clouds in `near`, taken in order, keep P(o) at or below `threshold`? (-inf: they do not.)

    P over any subset of the dominators is an upper bound, so the first few that push it down are enough, and they
    hold until the first of them expires: guards act together.
    """
    places = place_weights(clouds, o, weights, start, size, w)
    left[:places] = w[:places]
    until = np.inf
    for g in near:
        if not beats_places(clouds, g, o, values, start, size, s, e, p, q):
            continue
        sum_left = 0.0
        for k in range(places):
            left[k] *= 1.0 - max(p[k], 0.0)
            sum_left += left[k]
        until = min(until, expires[g])
        if sum_left <= threshold:
            return until
    return -np.inf


@kernel
def dominators(clouds, columns, fence, among, strong, o, threshold, near):
    """The clouds among some that can beat o, into `near`; stops as soon as they keep even o's best corner out.

    `strong` holds the words of their best corners, side by side. Returns how many, and until when they keep it out
    (-inf: they do not). This is the joint form of max-corner pruning.
    """
    m = 0
    left = 1.0
    until = np.inf
    word = columns.word_lo[o]
    end = among.shape[0]
    while end > 0:
        begin = max(end - BLOCK, 0)
        if any_covers(strong, begin, end, word, fence):
            for r in range(end - 1, begin - 1, -1):
                g = among[r]
                if g == o or not covers(strong[r], word, fence) or not beats(clouds.hi, g, clouds.lo, o):
                    continue
                near[m] = g
                m += 1
                p = beats_point(clouds, g, clouds.hi, o)
                if p > 0.0:
                    left *= 1.0 - p
                    until = min(until, columns.expires[g])
                    if left <= threshold:
                        return m, until
        end = begin
    return m, -np.inf


@kernel
def dominators_on(clouds, columns, fence, steps, o, threshold, near):
    """As `dominators`, by a ladder of best corners. In the same order: the last slot first."""
    value, slot, word = steps
    j, m = rung(value, clouds.lo, o)
    words, weak = word[j], columns.word_lo[o]
    n = 0
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(words, begin, end, weak, fence):
            for r in range(begin, end):
                g = slot[j, r]
                if g != o and covers(words[r], weak, fence) and beats(clouds.hi, g, clouds.lo, o):
                    near[n] = -g
                    n += 1
    near[:n] = -ascending(near[:n])
    left, until = 1.0, np.inf
    for k in range(n):
        p = beats_point(clouds, near[k], clouds.hi, o)
        if p > 0.0:
            left *= 1.0 - p
            until = min(until, columns.expires[near[k]])
            if left <= threshold:
                return k + 1, until
    return n, -np.inf


@kernel
def beats_cloud(clouds, g, o):
    """Pr{g beats o} for two clouds."""
    at_least = equal = 1.0
    for j in range(clouds.lo.shape[1]):
        first, n = clouds.start[o, j], clouds.size[o, j]
        a = b = 0.0
        if first < 0:
            a, b = share(clouds, g, j, clouds.lo[o, j])
        else:
            s, e = np.empty(n), np.empty(n)
            shares(clouds, g, j, clouds.value, first, n, s, e)
            for k in range(n):
                a += clouds.weight[first + k] * s[k]
                b += clouds.weight[first + k] * e[k]
        at_least *= a
        equal *= b
        if at_least == 0.0:
            return 0.0
    return max(at_least - equal, 0.0)


@kernel
def corner_beats_cloud(corner, g, clouds, o):
    """(Pr{corner[g] >= o everywhere}, Pr{corner[g] beats o}) for a corner of g as a point."""
    at_least = equal = 1.0
    for j in range(corner.shape[1]):
        x = corner[g, j]
        first, n = clouds.start[o, j], clouds.size[o, j]
        a = b = 0.0
        if first < 0:
            a = 1.0 if x >= clouds.lo[o, j] else 0.0
            b = 1.0 if x == clouds.lo[o, j] else 0.0
        else:
            for k in range(first, first + n):
                a += clouds.weight[k] if x >= clouds.value[k] else 0.0
                b += clouds.weight[k] if x == clouds.value[k] else 0.0
        at_least *= a
        equal *= b
    return at_least, at_least - equal


@kernel
def lemma(clouds, expires, near, o, least):
    """What prunes o? 0 max-corner (Lemma 2), 1 min-corner (Lemma 3), 2 a guard that neither shows, 3 several together.

    Only those that expire no earlier than o count: Lemma 1 (spatial) has been tried before.
    """
    found = 3
    for g in near:
        if expires[g] < expires[o]:
            continue
        if beats_point(clouds, g, clouds.hi, o) >= least:
            return 0
        if corner_beats_cloud(clouds.lo, g, clouds, o)[1] >= least:
            found = 1
        elif (
            found == 3
            and corner_beats_cloud(clouds.hi, g, clouds, o)[0] >= least
            and beats_cloud(clouds, g, o) >= least
        ):
            found = 2
    return found


@kernel
def judge(clouds, columns, fence, opened, which, threshold, least, pruned, logs, zeros, cursor, most, many):
    """Which of these open clouds have P > threshold, with what P, and until when are the others surely not above it?

    Cheap bounds first: the best corner; then a few values per cell; then all. A member's sums are written to the pools
    from `cursor` on. Writes state (OUT, IN, HEAVY), probability and until; returns how many probabilities were worked
    out, how many clouds are HEAVY, and the new cursor. Whoever is kept out for life is counted once in `pruned` (4,).
    From `many` clouds on, a ladder is worth building.
    """
    places, expires = columns.places, columns.expires
    evaluations = heavy = 0
    room = max(most, ROOM)
    s, e, p, q, w = scratch(room)
    left = np.empty(room)
    near = np.empty(opened.shape[0], np.int64)
    strong = columns.word_hi[opened]
    bulk = which.shape[0] >= many
    steps = ladder(clouds.hi, columns.word_hi, opened if bulk else opened[:0])
    d = clouds.lo.shape[1]
    value, weight = np.empty(ROOM + d), np.empty(ROOM + d)
    start, size = np.empty(d, np.int64), np.empty(d, np.int64)
    for o in which:
        columns.state[o], columns.exact[o] = OUT, True
        if bulk:
            m, until = dominators_on(clouds, columns, fence, steps, o, threshold, near)
        else:
            m, until = dominators(clouds, columns, fence, opened, strong, o, threshold, near)
        fog = 0  # distributed cells
        for j in range(d):
            fog += clouds.start[o, j] >= 0
        finest = parts_for(fog)
        for parts in (min(COARSE, finest), finest):
            if until > -np.inf or parts < 2 or 0 < places[o] <= 2 * parts**fog or threshold < 0:
                continue
            coarsen(clouds, o, parts, value, weight, start, size)
            until = witness(clouds, o, near[:m], expires, threshold, value, weight, start, size, s, e, p, q, w, left)
        if until == -np.inf and places[o] == 0:
            columns.state[o] = HEAVY
            heavy += 1
            continue
        if until == -np.inf and places[o] > 1:
            evaluations += 1
            until = witness(
                clouds, o, near[:m], expires, threshold, clouds.value, clouds.weight,
                clouds.start[o], clouds.size[o], s, e, p, q, w, left,
            )  # fmt: skip
        columns.until[o] = until
        if until > -np.inf:
            if until >= expires[o] and not columns.counted[o]:
                columns.counted[o] = True
                pruned[lemma(clouds, expires, near[:m], o, least)] += 1
            continue
        evaluations += 1
        columns.at[o] = cursor
        logs[cursor : cursor + places[o]] = 0
        zeros[cursor : cursor + places[o]] = 0
        soonest = np.inf
        for g in near[:m]:
            if beats_places(clouds, g, o, clouds.value, clouds.start[o], clouds.size[o], s, e, p, q):
                account(p, places[o], 1, logs, zeros, cursor)
                soonest = min(soonest, expires[g])
        place_weights(clouds, o, clouds.weight, clouds.start[o], clouds.size[o], w)
        columns.probability[o] = total(w, places[o], logs, zeros, cursor)
        if columns.probability[o] > threshold:
            columns.state[o] = IN
            cursor += places[o]
        else:  # the two ways of multiplying differ in the last digits; the sums decide
            columns.until[o] = soonest
    return evaluations, heavy, cursor


@kernel
def guards_of(clouds, columns, fence, others, o, least):
    """Which of `others` guard o, that is, beat it with probability at least `least`?"""
    found = np.empty(others.shape[0], np.int64)
    m = 0
    for g in others:
        if g == o or not covers(columns.word_hi[g], columns.word_lo[o], fence) or not beats(clouds.hi, g, clouds.lo, o):
            continue
        if beats_cloud(clouds, g, o) >= least:
            found[m] = g
            m += 1
    return found[:m]
