"""Which boxes may dominate which, without comparing attribute by attribute?

Each corner of a box has a *word* of 64 bits: per attribute a field that states between which cut points its value lies,
and a fence bit above it. If `a` is nowhere worse than `b`, every field of a's word is at least that of b's. One
subtraction checks all fields at once, since no borrow crosses a fence bit. Most pairs end there; the few that pass are
compared exactly. So cut points decide how many pairs pass, never what is true.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner, kernel

BLOCK = 32  # words that are compared at once before the single ones are looked at


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
    return np.ascontiguousarray(both[_spread(len(both), 2**bits)].T)


@lru_cache(maxsize=256)
def _spread(n: int, parts: int) -> Ints:
    """Where n sorted values are cut into so many parts."""
    return np.linspace(0, n - 1, parts + 1)[1:-1].astype(np.int64)


@inner
def level(cuts, k, x):
    """How many cut points of attribute k are at most x?"""
    low, high = 0, cuts.shape[1]
    while low < high:
        middle = (low + high) >> 1
        if cuts[k, middle] <= x:
            low = middle + 1
        else:
            high = middle
    return np.uint64(low)


@kernel
def words(lo, hi, cuts):
    """(n,) words of the worst and of the best corners."""
    count, levels = cuts.shape
    width = 2  # bits of a field, its fence bit included
    while (1 << (width - 1)) <= levels:
        width += 1
    n = lo.shape[0]
    word_lo, word_hi = np.empty(n, np.uint64), np.empty(n, np.uint64)
    for i in range(n):
        word_lo[i] = word_hi[i] = np.uint64(0)
        for k in range(count):
            shift = np.uint64(k * width)
            at = level(cuts, k, lo[i, k])
            word_lo[i] |= at << shift
            if hi[i, k] != lo[i, k]:
                at = level(cuts, k, hi[i, k])
            word_hi[i] |= at << shift
    return word_lo, word_hi


@kernel
def covers(a, b, fence):
    """Is every field of word `a` at least that of word `b`?"""
    return ((a | fence) - b) & fence == fence


@inner
def any_covers(words, begin, end, word, fence):
    """Does any of words[begin:end] cover the word? Without a branch, so that many are compared at once."""
    some = words[begin:end]  # a view from 0 on: an index that might be negative would be checked again
    found = np.uint64(0)
    for c in range(some.shape[0]):
        found |= np.uint64(((some[c] | fence) - word) & fence == fence)
    return found > 0


@inner
def any_covered(words, begin, end, word, fence):
    """Does the word cover any of words[begin:end]?"""
    some = words[begin:end]
    found = np.uint64(0)
    for c in range(some.shape[0]):
        found |= np.uint64(((word | fence) - some[c]) & fence == fence)
    return found > 0
