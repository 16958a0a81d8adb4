"""How does a synthetic stream become a case?

5,000 seeds, and every row a copy of a random seed: see `fogline.synthetic`. The paper's rules ask that rows within
0.001 in one attribute are within 0.01 in another; copies of one seed are, and no others.
"""

from __future__ import annotations

from string import ascii_uppercase

import numpy as np
import pyarrow as pa

from fogline.synthetic import DISTRIBUTIONS, SEEDS, copies, seed_points
from lab.case import DEFAULTS, Case, LabError, Settings, build

KINDS = DISTRIBUTIONS


def synthetic(kind: str, settings: Settings = DEFAULTS) -> Case:
    """A case of one of the KINDS. `paper`: R is drawn from a pool that holds the stream's own rows."""
    if kind not in KINDS:
        raise LabError(f"{kind!r} is no kind of synthetic stream; there are {', '.join(KINDS)}.")
    d = 4 if settings.d is None else settings.d
    names = tuple(ascii_uppercase[:d])
    seeds = seed_points(kind, d, SEEDS, np.random.default_rng([settings.seed, 10]))
    stream, past = (
        np.ascontiguousarray(copies(seeds, n, np.random.default_rng([settings.seed, part])).T)
        for n, part in ((settings.rows, 11), (settings.history, 12))
    )
    if settings.protocol == "paper":
        pool = np.concatenate((stream, past))
        chosen = np.random.default_rng([settings.seed, 13]).choice(len(pool), settings.history, replace=False)
        past = pool[np.sort(chosen)]
    history = pa.table({name: past[:, j] for j, name in enumerate(names)})
    return build(kind, settings, dict.fromkeys(names, "max"), history, stream, {}, rules(names))


def rules(names: tuple[str, ...]) -> tuple[str, ...]:
    """The paper's Table 2: each attribute explained by the next one, the last by the first."""
    return tuple(f"{given}(0.001) -> {then}(0.01)" for then, given in zip(names, names[1:] + names[:1], strict=True))
