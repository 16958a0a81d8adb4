"""Which boxes surely beat which, without comparing attribute by attribute?

Each corner of a box also has a *word*: per attribute a few bits that say between which cut points its value lies, and a
fence bit. `a` at least as good as `b` everywhere implies that every field of a's word is at least that of b's, and that
is one subtraction for all attributes together (no borrow can cross a fence bit). Most pairs end there; the few that
pass are compared exactly. Cut points only decide how many pass, never what is true.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import VAGUE, Floats
from fogline.kernels.clouds import copy_cells
from fogline.kernels.compile import ascending, kernel

DEAD, SEALED, OUT, IN = 0, 1, 2, 3  # what a slot of the live set holds
BLOCK = 32  # words compared before anybody looks


def fields(d: int) -> tuple[int, int]:
    """How many attributes have a field in the word, and how many bits a field's value has."""
    count = min(d, 32)
    return count, min(8, 64 // count - 1)


def fences(d: int) -> np.uint64:
    """The word with only its fence bits set."""
    count, bits = fields(d)
    return np.uint64(sum(1 << (k * (bits + 1) + bits) for k in range(count)))


def cut_points(lo: Floats, hi: Floats) -> Floats:
    """(fields, 2^bits - 1) increasing cuts that spread these corners evenly."""
    count, bits = fields(lo.shape[1])
    if not len(lo):
        return np.zeros((count, 2**bits - 1))
    both = np.sort(np.concatenate((lo[:, :count], hi[:, :count])), axis=0)
    at = np.linspace(0, len(both) - 1, 2**bits + 1)[1:-1].astype(np.int64)
    return np.ascontiguousarray(both[at].T)


@kernel
def words(clouds, cuts):
    """(n,) words of the worst and of the best corners."""
    count, levels = cuts.shape
    width = 2  # bits of a field, its fence bit included
    while (1 << (width - 1)) <= levels:
        width += 1
    n = clouds.lo.shape[0]
    out = np.zeros((2, n), np.uint64)
    for i in range(n):
        for k in range(count):
            shift = np.uint64(k * width)
            level = np.searchsorted(cuts[k], clouds.lo[i, k], side="right")
            out[0, i] |= np.uint64(level) << shift
            if clouds.hi[i, k] != clouds.lo[i, k]:
                level = np.searchsorted(cuts[k], clouds.hi[i, k], side="right")
            out[1, i] |= np.uint64(level) << shift
    return out[0], out[1]


@kernel
def covers(a, b, fence):
    """Is every field of word `a` at least that of word `b`?"""
    return ((a | fence) - b) & fence == fence


@kernel
def any_covers(words, begin, end, word, fence):
    """Does any of words[begin:end] cover the word? Without a branch, so that many are compared at once.

    A view from 0 on: an index that might be negative would be looked at twice.
    """
    some = words[begin:end]
    any_ = np.uint64(0)
    for c in range(some.shape[0]):
        any_ |= np.uint64(((some[c] | fence) - word) & fence == fence)
    return any_ > 0


@kernel
def any_covered(words, begin, end, word, fence):
    """Does the word cover any of words[begin:end]?"""
    some = words[begin:end]
    any_ = np.uint64(0)
    for c in range(some.shape[0]):
        any_ |= np.uint64(((word | fence) - some[c]) & fence == fence)
    return any_ > 0


@kernel
def beats(a, i, b, k):
    """Is row i of `a` (., d) nowhere worse than row k of `b` (., d) and somewhere better? Larger is better in here."""
    better = False
    for j in range(a.shape[1]):
        if not a[i, j] >= b[k, j]:  # also true for NaN: an unknown value never beats
            return False
        better |= a[i, j] > b[k, j]
    return better


@kernel
def outlasts_any(strong, m, kept, lo, hi, expires, q, word, fence):
    """Does any of the first m kept rows surely beat row q and expire no earlier?"""
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(strong, begin, end, word, fence):
            for r in range(begin, end):
                s = kept[r]
                if expires[s] >= expires[q] and covers(strong[r], word, fence) and beats(lo, s, hi, q):
                    return True
    return False


@kernel
def outlived(rows, expires, word_lo, word_hi, fence):
    """Which rows of a batch stay when each one surely beaten by another that expires no earlier is dropped?

    Rows are taken with the sums of `lo` falling. A row that beats another has at least its sum (adding floats in one
    order is monotone), so only rows of an equal sum can still beat one that was kept before them.
    """
    lo, hi = rows.lo, rows.hi
    n, d = lo.shape
    kept = np.empty(n, np.int64)
    sums = np.zeros(n)
    for i in range(n):
        for j in range(d):
            sums[i] -= lo[i, j]
    m = 0
    strong = np.empty(n, np.uint64)  # word_lo of the kept ones, side by side
    for q in np.argsort(sums):
        if outlasts_any(strong, m, kept, lo, hi, expires, q, word_hi[q], fence):
            continue
        first = m  # the kept rows of an equal sum are the last ones
        while first > 0 and sums[kept[first - 1]] == sums[q]:
            first -= 1
        w = first
        for r in range(first, m):
            s = kept[r]
            if not (expires[q] >= expires[s] and beats(lo, q, hi, s)):
                kept[w], strong[w] = s, strong[r]
                w += 1
        kept[w], strong[w] = q, word_lo[q]
        m = w + 1
    return ascending(kept[:m])


@kernel
def latest_beater(lo, expires, word_lo, used, ordered, hi, i, word_hi, until, enough, fence):
    """The latest expiry of the first `used` clouds that surely beat hi[i], or `until` if none is later.

    It stops at `enough`. Clouds lie roughly by expiry, so the search runs from the last one back; where they lie
    exactly so (`ordered`), the first that is found is the latest.
    """
    end = used
    while end > 0:
        begin = max(end - BLOCK, 0)
        if any_covers(word_lo, begin, end, word_hi, fence):
            for c in range(end - 1, begin - 1, -1):
                if expires[c] > until and covers(word_lo[c], word_hi, fence) and beats(lo, c, hi, i):
                    until = expires[c]
                    if ordered or until >= enough:
                        return until
        end = begin
    return until


@kernel
def ladder(corner, words, some):
    """Clouds by each attribute of a corner, best first: (d, n) values, slots and words.

    Whoever is at least as good as x everywhere is so in the attribute where the fewest are: only those few need be
    looked at. Rows that survive a screening are outstanding somewhere, so they are few indeed.
    """
    n, d = some.shape[0], corner.shape[1]
    value, slot, word = np.empty((d, n)), np.empty((d, n), np.int64), np.empty((d, n), np.uint64)
    keys = np.empty(n)
    for j in range(d):
        for k in range(n):
            keys[k] = -corner[some[k], j]
        order = np.argsort(keys)
        for k in range(n):
            c = some[order[k]]
            value[j, k], slot[j, k], word[j, k] = corner[c, j], c, words[c]
    return value, slot, word


@kernel
def rung(value, corner, i):
    """The attribute in which the fewest of a ladder are at least as good as corner[i], and how many that is."""
    best, fewest = 0, value.shape[1] + 1
    for j in range(value.shape[0]):
        low, high = 0, value.shape[1]
        while low < high:
            middle = (low + high) // 2
            if value[j, middle] >= corner[i, j]:
                low = middle + 1
            else:
                high = middle
        if low < fewest:
            best, fewest = j, low
    return best, fewest


@kernel
def latest_on(steps, lo, expires, hi, i, word_hi, until, enough, fence):
    """As `latest_beater`, by a ladder of `lo`."""
    value, slot, word = steps
    j, m = rung(value, hi, i)
    words = word[j]
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(words, begin, end, word_hi, fence):
            for r in range(begin, end):
                c = slot[j, r]
                if expires[c] > until and covers(words[r], word_hi, fence) and beats(lo, c, hi, i):
                    until = expires[c]
                    if until >= enough:
                        return until
    return until


@kernel
def admit_many(live, columns, used, rows, expires, word_lo, word_hi, fence):
    """As `admit`, by ladders. (Sure dominance is transitive, so rows that are not kept need not be told apart.)"""
    n = rows.lo.shape[0]
    kept, until = np.empty(n, np.int64), np.empty(n)
    arriving = ladder(rows.lo, word_lo, np.arange(n))
    there = ladder(live.lo, columns.word_lo, np.arange(used))
    m = 0
    for i in range(n):
        end = expires[i]
        u = latest_on(arriving, rows.lo, expires, rows.hi, i, word_hi[i], -np.inf, end, fence)
        if u < end:
            u = latest_on(there, live.lo, columns.expires, rows.hi, i, word_hi[i], u, end, fence)
        if u < end:
            kept[m], until[m] = i, u
            m += 1
    return kept[:m], until[:m]


@kernel
def admit(live, columns, used, ordered, rows, expires, word_lo, word_hi, fence, many):
    """Which arriving rows can ever matter, and until when are those surely beaten (-inf: they are not)?

    A row that another, live or arriving, surely beats to the end of its life is not among them. From `many` rows on,
    ladders are worth building.
    """
    if rows.lo.shape[0] >= many:
        return admit_many(live, columns, used, rows, expires, word_lo, word_hi, fence)
    kept = outlived(rows, expires, word_lo, word_hi, fence)
    until = np.empty(kept.shape[0])
    m = 0
    for i in kept:
        u = latest_beater(
            live.lo, columns.expires, columns.word_lo, used, ordered, rows.hi, i, word_hi[i], -np.inf, expires[i], fence
        )
        if u < expires[i]:
            kept[m] = i
            until[m] = u
            m += 1
    kept, until = kept[:m], until[:m]
    strong, leave = word_lo[kept], expires[kept]
    lo = rows.lo[kept]
    for k in range(m):  # an arrival that expires earlier may beat another for a while
        i = kept[k]
        until[k] = latest_beater(lo, leave, strong, m, False, rows.hi, i, word_hi[i], until[k], np.inf, fence)
    return kept, until


@kernel
def subdue(live, columns, rows, i, c, expires, closed, told):
    """Row i surely beats cloud c, which dies if it expires no later, else is sealed.

    `told` counts the dead, those of them that were counted as pruned before, and the closed.
    """
    state = columns.state
    if state[c] >= OUT:
        closed[told[2]] = c
        told[2] += 1
        columns.until[c] = -np.inf
    if expires[i] >= columns.expires[c]:
        state[c] = DEAD
        columns.expires[c] = -np.inf
        told[0] += 1
        told[1] += columns.counted[c]
    else:
        state[c] = SEALED
        columns.until[c] = max(columns.until[c], expires[i])


@kernel
def conquer_many(live, columns, used, rows, which, expires, word_lo, fence, closed, told):
    """As `conquer`, by a ladder of what is worst: who is beaten is no better than the row in every attribute."""
    worst, best = -live.hi[:used], -rows.lo
    value, slot, word = ladder(worst, columns.word_hi, np.arange(used))
    for i in which:
        j, m = rung(value, best, i)
        words = word[j]
        for begin in range(0, m, BLOCK):
            end = min(begin + BLOCK, m)
            if not any_covered(words, begin, end, word_lo[i], fence):
                continue
            for r in range(begin, end):
                c = slot[j, r]
                if covers(word_lo[i], words[r], fence) and columns.state[c] != DEAD and beats(rows.lo, i, live.hi, c):
                    subdue(live, columns, rows, i, c, expires, closed, told)


@kernel
def conquer(live, columns, used, rows, which, expires, word_lo, fence, many):
    """What do the arriving rows `which` surely beat? Those that expire no later die; the others are sealed for a while.

    Writes the columns; returns how many died, how many of those were counted as pruned before, and the slots that
    were open and are no more.
    """
    closed, told = np.empty(used, np.int64), np.zeros(3, np.int64)
    if which.shape[0] >= many:
        conquer_many(live, columns, used, rows, which, expires, word_lo, fence, closed, told)
        return told[0], told[1], closed[: told[2]]
    for i in which:
        word = word_lo[i]
        for begin in range(0, used, BLOCK):
            end = min(begin + BLOCK, used)
            if not any_covered(columns.word_hi, begin, end, word, fence):
                continue
            for c in range(begin, end):
                if (
                    covers(word, columns.word_hi[c], fence)
                    and columns.state[c] != DEAD
                    and beats(rows.lo, i, live.hi, c)
                ):
                    subdue(live, columns, rows, i, c, expires, closed, told)
    return told[0], told[1], closed[: told[2]]


@kernel
def unseal(live, columns, used, now):
    """Sealed clouds whose seal has ended: `until` was the expiry of the last that surely beat them.

    They are open now; but those of whom only bounds are known leave, to come again with their distributions.
    """
    opened, vague = np.empty(used, np.int64), np.empty(used, np.int64)
    a = b = 0
    for c in range(used):
        if columns.state[c] != SEALED or columns.until[c] > now:
            continue
        if is_vague(live, c):
            columns.state[c] = DEAD  # its expiry stays until it has come again
            vague[b] = c
            b += 1
        else:
            columns.state[c] = OUT
            opened[a] = c
            a += 1
    return opened[:a], vague[:b]


@kernel
def is_vague(clouds, c):
    """Are only bounds known of one of its cells?"""
    for j in range(clouds.start.shape[1]):
        if clouds.start[c, j] == VAGUE:
            return True
    return False


@kernel
def screen(live, columns, used, latest, now, rows, expires, cuts, fence, many):
    """A first look at rows with bounds: who went, which rows can ever matter, until when they are surely beaten, and
    which of those must be known better. Whoever is surely beaten, to the end or for a while, need not.

    Better known, a row has the same box: its bounds are the least and the greatest of its values.
    """
    went = bury(columns, used, now)
    word_lo, word_hi = words(rows, cuts)
    which, until = admit(live, columns, used, latest < np.inf, rows, expires, word_lo, word_hi, fence, many)
    m = 0
    needed = np.empty(which.shape[0], np.int64)
    for k in range(which.shape[0]):
        if until[k] <= now and is_vague(rows, which[k]):
            needed[m] = which[k]
            m += 1
    return went, which, until, needed[:m]


@kernel
def bury(columns, used, now):
    """What has expired dies. Returns those that were open."""
    opened = np.empty(used, np.int64)
    m = 0
    for c in range(used):
        if columns.state[c] != DEAD and columns.expires[c] <= now:
            if columns.state[c] >= OUT:
                opened[m] = c
                m += 1
            columns.state[c] = DEAD
            columns.expires[c] = -np.inf
    return opened[:m]


@kernel
def news(columns, used, tolerance):
    """The slots whose part in the answer the world does not know yet."""
    found = np.empty(used, np.int64)
    m = 0
    for k in range(used):
        told = columns.reported[k] == columns.reported[k]
        inside = columns.state[k] == IN
        moved = inside and told and abs(columns.probability[k] - columns.reported[k]) > tolerance
        if inside != told or moved:
            found[m] = k
            m += 1
    return found[:m]


@kernel
def tell(columns, raw, which):
    """What is to be told of these slots, and remembered as told: (arrived, change, probability, exact, raw rows).

    Changes are 0 enter, 1 leave, 2 update.
    """
    n = which.shape[0]
    arrived, change, probability = np.empty(n), np.empty(n, np.int64), np.empty(n)
    exact, came = np.empty(n, np.bool_), np.empty((n, raw.shape[1]))
    for k in range(n):
        c = which[k]
        told = columns.reported[c] == columns.reported[c]
        inside = columns.state[c] == IN
        change[k] = (2 if told else 0) if inside else 1
        probability[k] = columns.probability[c] if inside else np.nan
        columns.reported[c] = probability[k]
        arrived[k], exact[k] = columns.arrived[c], columns.exact[c]
        for j in range(raw.shape[1]):
            came[k, j] = raw[c, j]
    return arrived, change, probability, exact, came


@kernel
def enter(columns, at, rows, which, arrived, expires, until, word_lo, word_hi, now, most):
    """Fill the columns of the slots `at`, `at + 1`, … for the arriving rows `which`. Returns those that are open.

    Whoever has more than `most` places will keep no sums: its number of places is written as 0.
    """
    opened = np.empty(which.shape[0], np.int64)
    m = 0
    for k in range(which.shape[0]):
        i, c = which[k], at + k
        places = 1.0
        for j in range(rows.lo.shape[1]):
            places *= rows.size[i, j]
        columns.arrived[c], columns.expires[c], columns.until[c] = arrived[i], expires[i], until[k]
        columns.probability[c], columns.reported[c] = 0.0, np.nan
        columns.exact[c], columns.counted[c] = True, False
        columns.places[c], columns.at[c] = (int(places) if places <= most else 0), -1
        columns.word_lo[c], columns.word_hi[c] = word_lo[i], word_hi[i]
        columns.state[c] = SEALED if until[k] > now else OUT
        if columns.state[c] == OUT:
            opened[m] = c
            m += 1
    return opened[:m]


@kernel
def meet(live, columns, used, pool, latest, now, rows, arrived, expires, sealed, cuts, fence, most, many):
    """One tick for the boxes: the expired leave, the rows enter, the surely beaten are forgotten, seals end.

    The caller has made room for all rows. Rows that `screen` has let through come with `sealed`, until when each is
    surely beaten; else it is empty. `latest` is the last expiry so far if slots lie in order of expiry, else
    +inf. Returns the rows that got slots (used, used + 1, …), the new end of the pools, the new `latest`, who opened,
    who was open and is no more, who comes again (see `unseal`), how many were forgotten, and how many of those counted
    before.
    """
    went = bury(columns, used, now)
    ordered = latest < np.inf
    word_lo, word_hi = words(rows, cuts)
    if sealed.shape[0]:
        which, until = np.arange(sealed.shape[0]), sealed
    else:
        which, until = admit(live, columns, used, ordered, rows, expires, word_lo, word_hi, fence, many)
    died, before, closed = conquer(live, columns, used, rows, which, expires, word_lo, fence, many)
    pool = copy_cells(rows, which, live, used, pool)
    came = enter(columns, used, rows, which, arrived, expires, until, word_lo, word_hi, now, most)
    for i in which:
        latest = expires[i] if expires[i] >= latest else np.inf
    opened, vague = unseal(live, columns, used, now)
    forgotten = died + rows.lo.shape[0] - which.shape[0]
    return which, pool, latest, np.concatenate((came, opened)), np.concatenate((went, closed)), vague, forgotten, before
