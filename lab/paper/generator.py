"""Which synthetic streams does the paper describe? (Section 6.1.)

5,000 seeds follow one of the distributions of Börzsönyi, Kossmann and Stocker (2001) on [0, 10]^d. All other objects,
of the stream and of R alike, are made from a seed "following DD rules" such as B(0.001) → A(0.01): here a copy of a
random seed, moved by at most δ / 2 = 0.005 in each attribute. So two copies of one seed are within δ = 0.01 in every
attribute, and the rules hold among them.

Where the paper contradicts itself: among copies of *different* seeds the rules cannot hold. 5,000 values on [0, 10] are
0.002 apart on average, so about one other seed is within 0.001 of any value, and nothing ties its other attributes.
What follows is what makes these streams interesting: a gap is imputed by copies of some seven seeds, with values
anywhere, and uncertain rows of different seeds overlap. R has |R| · 0.002 / 10 samples around a value: 24 of 120,000,
of which one in five copies of the own seed come on top; the paper counts 27 instances (Uniform).

`fogline.synthetic` keeps seeds 0.002 apart instead, in every attribute: there the rules hold throughout, a gap is
imputed by copies of its own seed alone, and dominance between rows of different seeds is 0 or 1.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Floats
from fogline.synthetic import copies, points

SEEDS = 5_000
EPSILON, DELTA = 0.001, 0.01  # of every rule of the paper's Table 7


def seed_objects(kind: str, d: int, n: int, rng: np.random.Generator) -> Floats:
    """(d, n) seeds, as the distribution has them."""
    return points(kind, d, n, rng)


def objects(seeds: Floats, n: int, rng: np.random.Generator) -> Floats:
    """(d, n) objects made from seeds (d, s), within [0, 10].

    >>> rng = np.random.default_rng(1)
    >>> made = objects(seed_objects("uniform", 2, 1, rng), 100, rng)
    >>> bool((np.ptp(made, axis=1) <= DELTA).all())
    True
    """
    return copies(seeds, n, rng, DELTA / 2)


def dependencies(names: tuple[str, ...]) -> tuple[str, ...]:
    """The paper's Table 7 for synthetic data: each attribute depends on the next one, the last on the first."""
    following = names[1:] + names[:1]
    return tuple(f"{given}({EPSILON:g}) -> {then}({DELTA:g})" for then, given in zip(names, following, strict=True))
