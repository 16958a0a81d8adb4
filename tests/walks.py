"""Sensors that wander: each of their attributes moves a little from reading to reading, two of them together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import fogline as fl

NAMES = ("heat", "damp", "light")
QUERY = fl.Query(attributes={"heat": "max", "damp": "min", "light": "max"}, id="sensor", time="t", lifetime=12)


LONGEST = 300


def walks(*, sensors: int = 12, steps: int = 200, gaps: float = 0.0, seed: int = 1, begin: int = 0) -> pa.Table:
    """One reading of every sensor per step, in a new order each time: `steps` of the seed's walk, from `begin` on."""
    rng = np.random.default_rng(seed)
    moves = np.round(rng.normal(0, 1, (LONGEST, sensors, 3)), 1)
    moves[:, :, 1] = -moves[:, :, 0] + np.round(rng.normal(0, 0.2, (LONGEST, sensors)), 1)
    moves[:, :, 2] = np.where(rng.random((LONGEST, sensors)) < 0.8, 0.0, np.round(10 * moves[:, :, 2]))
    values = np.round(rng.normal(0, 5, (sensors, 3)) + np.cumsum(moves, axis=0), 1)
    order = np.argsort(rng.random((LONGEST, sensors)), axis=1)
    hidden = rng.random(values.shape) < gaps
    span = slice(begin, begin + steps)
    shown, missing = (
        np.take_along_axis(each, order[:, :, None], axis=1)[span].reshape(-1, 3) for each in (values, hidden)
    )
    columns = {name: pa.array(shown[:, j], mask=missing[:, j]) for j, name in enumerate(NAMES)}
    names = pa.array([f"s{k}" for k in order[span].reshape(-1)])
    return pa.table({"sensor": names, "t": np.repeat(np.arange(begin, begin + steps), sensors), **columns})
