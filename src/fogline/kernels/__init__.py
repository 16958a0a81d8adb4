"""Compiled loops: arrays in, arrays out. The only room that imports Numba (`compile`).

What belongs together travels as one of the named tuples of `fogline.arrays`. Kernels may call each other across files:
a kernel is compiled anew when its file changes, or one that this imports. `fastmath` stays off: NaN is how a missing
value arrives.

`uncertain` states how rows lie; `dominance` compares two of them, `words` many boxes at once. The probability of a row
is a sum over its `instances`: `sums` keeps it while others come and go, `sweep` and `bracket` work it out where
instances are very many, `skyband` where a few others may dominate it, `static` for rows that are looked at once, and
`what_if` if a cell were known.
"""
