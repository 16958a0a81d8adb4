"""Which synthetic streams does the paper use?

5,000 seeds after Börzsönyi, Kossmann and Stocker (2001): uniform, correlated, anti-correlated. Every row is a copy of a
random seed. The paper's rules ask that rows within 0.001 in one attribute are within 0.01 in another; on [0, 10] with
5,000 seeds that leaves one way: the values of each attribute, in their order, 0.002 apart, and copies within ±0.0005.
So two rows are within 0.001 in one attribute if and only if they are copies of one seed, and then in all.
"""

from __future__ import annotations

from string import ascii_uppercase

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.lab.case import TOP, Case, LabError, Settings, build

KINDS = ("uniform", "correlated", "anti")
SEEDS, NEAR = 5_000, 0.0005
PAPER_INSTANCES = {"uniform": 27, "correlated": 25, "anti": 27}  # per incomplete object, the paper's Table 3


def synthetic(kind: str, settings: Settings = Settings()) -> Case:  # noqa: B008 (frozen)
    """A case of one of the KINDS. `paper`: R is drawn from a pool that holds the stream's own rows."""
    if kind not in KINDS:
        raise LabError(f"{kind!r} is no kind of synthetic stream; there are {', '.join(KINDS)}.")
    d = 4 if settings.d is None else settings.d
    names = tuple(ascii_uppercase[:d])
    seeds = spaced(seed_points(kind, SEEDS, d, np.random.default_rng([settings.seed, 10])))
    stream = copies(seeds, settings.rows, np.random.default_rng([settings.seed, 11]))
    past = copies(seeds, settings.history, np.random.default_rng([settings.seed, 12]))
    if settings.protocol == "paper":
        pool = np.concatenate((stream, past))
        chosen = np.random.default_rng([settings.seed, 13]).choice(len(pool), settings.history, replace=False)
        past = pool[np.sort(chosen)]
    history = pa.table({name: past[:, j] for j, name in enumerate(names)})
    return build(kind, settings, dict.fromkeys(names, "max"), history, stream, {}, rules(names))


def rules(names: tuple[str, ...]) -> tuple[str, ...]:
    """The paper's Table 2: each attribute explained by the next one, the last by the first."""
    return tuple(f"{given}(0.001) -> {then}(0.01)" for then, given in zip(names, names[1:] + names[:1], strict=True))


def copies(seeds: Floats, n: int, rng: np.random.Generator) -> Floats:
    """(n, d) rows, each near a random seed."""
    chosen = seeds[rng.integers(len(seeds), size=n)]
    return np.asarray(chosen + rng.uniform(-NEAR, NEAR, chosen.shape))


def spaced(points: Floats) -> Floats:
    """The same order in every attribute, evenly over [0, TOP]."""
    return np.asarray((points.argsort(axis=0).argsort(axis=0) + 0.5) * (TOP / len(points)))


def seed_points(kind: str, n: int, d: int, rng: np.random.Generator) -> Floats:
    """(n, d) points of [0, 1]^d."""
    if kind == "uniform":
        return rng.uniform(0, 1, (n, d))
    out = np.empty((0, d))
    while len(out) < n:
        draw = _correlated if kind == "correlated" else _anti
        point = draw(4 * n, d, rng)
        out = np.concatenate((out, point[((point >= 0) & (point <= 1)).all(axis=1)]))
    return out[:n]


def _correlated(n: int, d: int, rng: np.random.Generator) -> Floats:
    """A place on the diagonal, most often near its middle, moved a little."""
    level = rng.uniform(0, 1, (n, 12)).mean(axis=1)
    return np.asarray(level[:, None] + rng.normal(0, 0.05, (n, d)))


def _anti(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Anywhere on a plane across the diagonal, close to its middle: good in one attribute, bad in another."""
    point = rng.uniform(0, 1, (n, d))
    return np.asarray(point + rng.normal(0.5, 0.05, (n, 1)) - point.mean(axis=1, keepdims=True))
