"""Which boxes surely beat which, without comparing attribute by attribute?

Each corner of a box also has a *word*: per attribute a few bits that say between which cut points its value lies, and a
guard bit. `a` at least as good as `b` everywhere implies that every field of a's word is at least that of b's, and that
is one subtraction for all attributes together (no borrow can cross a guard bit). Most pairs end there; the few that
pass are compared exactly. Cut points only decide how many pass, never what is true.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.clouds import Floats
from fogline.kernels.compile import kernel

DEAD, SEALED, OUT, IN = 0, 1, 2, 3  # what a slot of the live set holds


def fields(d: int) -> tuple[int, int]:
    """How many attributes have a field in the word, and how many bits a field's value has."""
    count = min(d, 32)
    return count, min(8, 64 // count - 1)


def guards(d: int) -> np.uint64:
    """The word with only its guard bits set."""
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
def words(corner, cuts):
    """(n,) words of the corners (n, d)."""
    count, levels = cuts.shape
    shift = 1
    while (1 << shift) <= levels:
        shift += 1
    out = np.zeros(corner.shape[0], np.uint64)
    for i in range(corner.shape[0]):
        word = np.uint64(0)
        for k in range(count):
            level = np.searchsorted(cuts[k], corner[i, k], side="right")
            word |= np.uint64(level) << np.uint64(k * (shift + 1))
        out[i] = word
    return out


@kernel
def covers(a, b, guard):
    """Is every field of word `a` at least that of word `b`?"""
    return ((a | guard) - b) & guard == guard


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
def outlived(lo, hi, expires, word_lo, word_hi, guard, order):
    """Which rows of a batch stay when each one surely beaten by another that expires no earlier is dropped?

    `order` has the sums of `lo` falling. A row that beats another has at least its sum (adding floats in one order is
    monotone), so only rows of an equal sum can still beat one that was kept before them.
    """
    n, d = lo.shape
    keep = np.ones(n, np.bool_)
    kept = np.empty(n, np.int64)
    sums = np.zeros(n)
    for i in range(n):
        for j in range(d):
            sums[i] += lo[i, j]
    m = 0
    for q in order:
        for r in range(m):
            s = kept[r]
            if covers(word_lo[s], word_hi[q], guard) and expires[s] >= expires[q] and beats(lo, s, hi, q):
                keep[q] = False
                break
        if not keep[q]:
            continue
        first = m  # the kept rows of an equal sum are the last ones
        while first > 0 and sums[kept[first - 1]] == sums[q]:
            first -= 1
        w = first
        for r in range(first, m):
            s = kept[r]
            if expires[q] >= expires[s] and beats(lo, q, hi, s):
                keep[s] = False
            else:
                kept[w] = s
                w += 1
        kept[w] = q
        m = w + 1
    return keep


@kernel
def sure_guard(lo, expires, word_lo, used, hi, i, word_hi, until, enough, guard):
    """The latest expiry of those that surely beat `hi[i]`, or `until` if none is later; stops at `enough`.

    Slots lie roughly by expiry, so the search runs from the newest back and rarely looks twice.
    """
    for c in range(used - 1, -1, -1):
        if expires[c] > until and covers(word_lo[c], word_hi, guard) and beats(lo, c, hi, i):
            until = expires[c]
            if until >= enough:
                break
    return until


@kernel
def screen(live, expires, word_lo, used, rows, row_expires, row_word_lo, row_word_hi, guard):
    """For each arriving row: until when is it surely beaten by a live cloud or by another arrival? (-inf: not at all.)

    From its own expiry on it will never matter; dead slots have expiry -inf, so they never count.
    """
    n = rows.lo.shape[0]
    until = np.empty(n)
    for i in range(n):
        u = sure_guard(
            live.lo, expires, word_lo, used, rows.hi, i, row_word_hi[i], -np.inf, row_expires[i], guard
        )
        until[i] = sure_guard(
            rows.lo, row_expires, row_word_lo, n, rows.hi, i, row_word_hi[i], u, row_expires[i], guard
        )
    return until


@kernel
def reseal(live, expires, word_lo, word_hi, used, which, guard):
    """The same for clouds of the live set whose seal has gone."""
    until = np.empty(which.shape[0])
    for k in range(which.shape[0]):
        c = which[k]
        until[k] = sure_guard(live.lo, expires, word_lo, used, live.hi, c, word_hi[c], -np.inf, np.inf, guard)
    return until


@kernel
def conquer(live, expires, until, state, word_hi, used, rows, row_expires, row_word_lo, guard):
    """What do the arriving rows surely beat? Those that expire no later die; the others are sealed for a while.

    Writes `state` and `until`; returns the slots that died and those that were open before and are no more.
    """
    died = np.empty(used, np.int64)
    closed = np.empty(used, np.int64)
    a = b = 0
    for i in range(rows.lo.shape[0]):
        word = row_word_lo[i]
        for c in range(used):
            if not covers(word, word_hi[c], guard) or state[c] == DEAD or not beats(rows.lo, i, live.hi, c):
                continue
            was_open = state[c] >= OUT
            if row_expires[i] >= expires[c]:
                state[c] = DEAD
                died[a] = c
                a += 1
            elif was_open or row_expires[i] > until[c]:
                state[c] = SEALED
                until[c] = row_expires[i]
            if was_open:
                closed[b] = c
                b += 1
    return died[:a], closed[:b]
