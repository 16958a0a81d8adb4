"""How does a distribution of very many values become one of at most a thousand?

Neighbouring values of little weight are merged into the one in their middle. The least and the greatest value stay,
as does any value of much weight, so bounds are what they were; the probability of being at least any number moves by
less than 2 / VALUES. What a cell costs, in time and in state, does not grow with the history.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Distributions, Floats

VALUES = 1000  # of a distribution that is imputed


def fewer(found: Distributions) -> Distributions:
    """The distributions, each of at most VALUES values."""
    if not len(found.size) or int(found.size.max()) <= VALUES:
        return found
    value, often, start, size = [], [], np.empty_like(found.start), np.empty_like(found.size)
    done: dict[tuple[int, int], tuple[int, int]] = {}  # rows may share a list
    used = 0
    for k, (first, n) in enumerate(zip(found.start.tolist(), found.size.tolist(), strict=True)):
        if (first, n) not in done:
            some = merged(found.value[first : first + n], found.often[first : first + n])
            value.append(some[0])
            often.append(some[1])
            done[first, n] = used, len(some[0])
            used += len(some[0])
        start[k], size[k] = done[first, n]
    return found._replace(start=start, size=size, value=np.concatenate(value), often=np.concatenate(often))


def merged(value: Floats, often: Floats) -> tuple[Floats, Floats]:
    """A sorted list of values and how often each occurs, as one of at most VALUES."""
    if len(value) <= VALUES:
        return value, often
    inner, weight = value[1:-1], often[1:-1]
    filled = np.cumsum(weight)
    run = np.floor((filled - weight / 2) * ((VALUES - 2) / filled[-1]))
    first = np.flatnonzero(np.diff(run, prepend=-1))
    before, after = filled[first] - weight[first], np.append(filled[first[1:] - 1], filled[-1])
    middle = np.searchsorted(filled, (before + after) / 2)
    return (
        np.concatenate((value[:1], inner[middle], value[-1:])),
        np.concatenate((often[:1], np.add.reduceat(weight, first), often[-1:])),
    )
