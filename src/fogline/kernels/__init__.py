"""Which loops are compiled, and how?

The only room that imports Numba. Kernels take arrays and return arrays; what belongs together travels as one of the
named tuples of `fogline.arrays`. They may call each other across files: a kernel is compiled anew
when its file changes, or one that this imports. `fastmath` stays off: NaN is how a missing value arrives.

A tick (`tick`) is `states`, `admit` and `conquer` for the boxes, by way of `words` and, for very many rows, `ladder`;
`sums` and `judge` for the probabilities, by way of `dominance` and `places`; `merged` and `bracket` where those have
too many places; and `report`.
"""
