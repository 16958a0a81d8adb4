"""Which ids sent rows in which time bucket?

A *bucket* is a time bucket of one group: its times t with the same floor(t / length). The sketch of a bucket is the
least hashes of the ids that sent rows in it. It depends on the set of ids alone, however rows are cut into batches.
Two sketches merge into the sketch of both sets.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner, kernel

KEPT = 32  # hashes of a sketch; fewer ids than that are counted exactly
FARTHEST = 2.0**51  # buckets beyond are one: as floats their numbers would not differ from the next


@inner
def mixed(x):
    """64 bits, well mixed: the end of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def hash_numbers(values):
    """(n,) uint64: hashes of 64-bit integers."""
    out = np.empty(values.shape[0], np.uint64)
    for i in range(values.shape[0]):
        out[i] = mixed(np.uint64(values[i]) + np.uint64(0x9E3779B97F4A7C15))
    return out


@kernel
def hash_texts(ends, letters):
    """(n,) uint64: hashes of the texts between `ends` (n + 1,) in `letters`, which are bytes."""
    out = np.empty(ends.shape[0] - 1, np.uint64)
    for i in range(out.shape[0]):
        h = np.uint64(0xCBF29CE484222325)
        for k in range(ends[i], ends[i + 1]):
            h = (h ^ np.uint64(letters[k])) * np.uint64(0x100000001B3)
        out[i] = mixed(h)
    return out


@kernel
def find_buckets(group, arrived, length):
    """(n,) the bucket of each row; of each bucket the group, its number in time, least and greatest time, rows.

    A hash table.
    """
    n = arrived.shape[0]
    room = 16
    while room < 2 * n:
        room *= 2
    table, bucket = np.full(room, -1, np.int64), np.empty(n, np.int64)
    of, number, least, greatest = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
    rows = np.zeros(n, np.int64)
    found, c = 0, -1
    for i in range(n):
        t, g = arrived[i], group[i]
        s = min(max(np.floor(t / length), -FARTHEST), FARTHEST)
        if c < 0 or of[c] != g or number[c] != s:
            h = np.uint64(np.int64(s)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(g) * np.uint64(0xC2B2AE3D27D4EB4F)
            at = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(room - 1))
            while table[at] >= 0 and (of[table[at]] != g or number[table[at]] != s):
                at = (at + 1) & (room - 1)
            if table[at] < 0:
                table[at] = found
                of[found], number[found], least[found], greatest[found] = g, s, t, t
                found += 1
            c = table[at]
        bucket[i] = c
        least[c], greatest[c], rows[c] = min(least[c], t), max(greatest[c], t), rows[c] + 1
    return bucket, of[:found], number[:found], least[:found], greatest[:found], rows[:found]


@kernel
def sketch(bucket, buckets, hashes):
    """(buckets, KEPT) the least hashes of each bucket, ascending, and (buckets,) how many there are."""
    least, size = np.empty((buckets, KEPT), np.uint64), np.zeros(buckets, np.int64)
    for i in range(bucket.shape[0]):
        c, h = bucket[i], hashes[i]
        m = size[c]
        if m == KEPT and h >= least[c, KEPT - 1]:
            continue
        low, high = 0, m
        while low < high:
            middle = (low + high) // 2
            if least[c, middle] < h:
                low = middle + 1
            else:
                high = middle
        if low < m and least[c, low] == h:
            continue
        last = min(m, KEPT - 1)
        for k in range(last, low, -1):
            least[c, k] = least[c, k - 1]
        least[c, low] = h
        size[c] = min(m + 1, KEPT)
    return least, size


@kernel
def newest_of_each(group, hashes, arrived):
    """The newest time of each (group, id) pair. An open hash table."""
    n = arrived.shape[0]
    room = 16
    while room < 2 * n:
        room *= 2
    table, newest, first = np.full(room, -1, np.int64), np.empty(n), np.empty(n, np.int64)
    found = 0
    for i in range(n):
        h = hashes[i] + np.uint64(group[i]) * np.uint64(0x9E3779B97F4A7C15)
        at = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(room - 1))
        while table[at] >= 0:
            k = first[table[at]]
            if hashes[k] == hashes[i] and group[k] == group[i]:
                break
            at = (at + 1) & (room - 1)
        if table[at] < 0:
            table[at], first[found], newest[found] = found, i, arrived[i]
            found += 1
        elif arrived[i] > newest[table[at]]:
            newest[table[at]] = arrived[i]
    return newest[:found]


@kernel
def merged(a, b, most):
    """The least of two ascending lists of different words, at most so many, ascending."""
    out = np.empty(min(most, a.shape[0] + b.shape[0]), np.uint64)
    i = j = n = 0
    while n < out.shape[0] and (i < a.shape[0] or j < b.shape[0]):
        if j == b.shape[0] or (i < a.shape[0] and a[i] <= b[j]):
            out[n] = a[i]
            j += j < b.shape[0] and a[i] == b[j]
            i += 1
        else:
            out[n] = b[j]
            j += 1
        n += 1
    return out[:n]
