"""Which loops are compiled, and how?

The only room that imports Numba. Kernels take arrays and return arrays; kernels that call each other share a file,
because Numba's cache does not see changes in another one. `fastmath` stays off: NaN is how a missing value arrives.
"""
