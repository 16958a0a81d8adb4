"""Which loops are compiled, and how?

The only room that imports Numba. Kernels take arrays and return arrays. They may call each other across files:
`compile` renews the cache of all of them when any file of this room changes. `fastmath` stays off: NaN is how a missing
value arrives.
"""
