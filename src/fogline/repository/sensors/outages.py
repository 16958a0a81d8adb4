"""What is hidden while it is learnt how sensors change?

In a stream single values are missing, runs of them, and sensors fall silent for minutes or days. All of that is made to
happen in the history: *singles*, one value of some rows; and *outages*, in which a sensor sends nothing of one
attribute, of several or of all. Outages are as long as those that the history itself has, and of all lengths up to a
fifth of it: so that the age of a last value is really there to be learnt from.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels import outages

SINGLES = 0.3  # of the rows lack a value
SPAN = 0.2  # of the history is the longest outage
LENGTHS = 512  # to choose from
LONG = 1.5  # usual distances between readings: more is a gap that the history itself has


def singles(shape: tuple[int, int], seed: int) -> Flags:
    """(n, d) one hidden cell in some rows."""
    rng, (n, d) = np.random.default_rng(seed), shape
    out = np.zeros(shape, np.bool_)
    rows = np.flatnonzero(rng.random(n) < SINGLES)
    out[rows, rng.integers(0, d, len(rows))] = True
    return out


def lengths(sensor: Ints, time: Floats, values: Floats) -> Floats:
    """How long outages are: half as in the history, where it has any, half of all lengths up to a fifth of it.

    sensor (n,), time (n,), values (n, d), by sensor and then by time. Empty where no sensor is read again later.
    """
    apart = np.diff(time)[(np.diff(sensor) == 0) & (np.diff(time) > 0)]
    if not len(apart):
        return np.empty(0)
    usual, rng = float(np.median(apart)), np.random.default_rng(len(time))
    longest = max(SPAN * (time.max() - time.min()), 2 * usual)
    even = np.exp(rng.uniform(np.log(usual), np.log(longest), LENGTHS))
    own = np.concatenate([_gaps(sensor, time, values[:, j], LONG * usual) for j in range(values.shape[1])])
    own = np.minimum(own, 2 * longest)
    return np.concatenate((even, rng.choice(own, LENGTHS))) if len(own) >= 20 else even


def _gaps(sensor: Ints, time: Floats, values: Floats, least: float) -> Floats:
    """The times between two values of a sensor that are longer than usual."""
    there = np.flatnonzero(~np.isnan(values))
    apart = np.diff(time[there])
    return np.asarray(apart[(np.diff(sensor[there]) == 0) & (apart > least)])


def silence(begins: Ints, time: Floats, choice: Floats, d: int, seed: int) -> tuple[Flags, Ints]:
    """(n, d) what outages of these lengths hide, (n,) which readings to learn from: 1, or 2 as first after silence.

    Readings of sensor s are begins[s] … begins[s + 1] - 1, by time.
    """
    hidden, asked = outages.silence(begins, time, choice, d, seed)
    return hidden, asked
