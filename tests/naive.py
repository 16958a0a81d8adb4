"""What is the answer for hundreds of rows, in plain floating point?

The product form over the whole window, vectorised: nothing is forgotten, pruned or kept from one tick to the next.
"""

from __future__ import annotations

from itertools import product

import numpy as np


def places(cells):
    """(k, d) points and (k,) weights of a row whose cells are numbers or lists of (value, weight)."""
    lists = [cell if isinstance(cell, list) else [(cell, 1.0)] for cell in cells]
    points = np.array([[value for value, _ in chosen] for chosen in product(*lists)], float)
    weights = np.array([np.prod([weight for _, weight in chosen]) for chosen in product(*lists)])
    return points, weights / weights.sum()


def probabilities(rows):
    """The skyline probability of every row (a list of cells), larger being better."""
    uncertain = [places(row) for row in rows]
    points = np.concatenate([p for p, _ in uncertain])
    weights = np.concatenate([w for _, w in uncertain])
    owner = np.repeat(np.arange(len(uncertain)), [len(w) for _, w in uncertain])
    out = np.zeros(len(uncertain))
    for i, (own_points, chance) in enumerate(uncertain):
        for point, weight in zip(own_points, chance, strict=True):
            beaten = (points >= point).all(axis=1) & (points > point).any(axis=1)
            by = np.bincount(owner[beaten], weights[beaten], minlength=len(uncertain))
            by[i] = 0.0
            out[i] += weight * np.prod(1.0 - by)
    return out


def surely_beaten(rows):
    """Which rows have another whose worst corner beats their best? In floats, only this shows a probability of 0."""
    ends = [[[v for v, _ in cell] if isinstance(cell, list) else [cell] for cell in row] for row in rows]
    lo = np.array([[min(cell) for cell in row] for row in ends], float)
    hi = np.array([[max(cell) for cell in row] for row in ends], float)
    return np.array([((lo >= best).all(axis=1) & (lo > best).any(axis=1)).any() for best in hi])
