"""How are gaps filled from a sensor's own past, row by row?

For the imputers that know the sensor alone: `last` repeats its previous value, `con` lets it move on at the likeliest
speed. Both keep one line of numbers per sensor, and walk once over the rows of a tick.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats
from fogline.kernels.compile import kernel


class Movement(NamedTuple):
    """Where each sensor was last, attribute by attribute, and how it moved there."""

    value: Floats  # (sensors, d) NaN: not seen yet
    when: Floats  # (sensors, d)
    speed: Floats  # (sensors, d) NaN: unknown


class SpeedModel(NamedTuple):
    """How sensors move, as counted in R."""

    best: Floats  # (d, levels) the likeliest next speed by the level of the last one
    width: Floats  # (d,) of a level
    horizon: float  # after a longer silence no speed is known
    mean: Floats  # (d,) for sensors that were not seen yet
    low: Floats  # (d,) no value below, …
    high: Floats  # (d,) … and none above


@kernel
def carry(values, sensor, last, otherwise):
    """Fill gaps (n, d) in place with the sensor's previous value, then remember the row's own; row by row.

    last (sensors, d) is that memory, NaN where there is none: then `otherwise` (d,).
    """
    n, d = values.shape
    for i in range(n):
        s = sensor[i]
        for j in range(d):
            if np.isnan(values[i, j]):
                values[i, j] = otherwise[j] if np.isnan(last[s, j]) else last[s, j]
            else:
                last[s, j] = values[i, j]


@kernel
def speed_level(speed, width, levels):
    """Between which marks a speed lies, counted from 0; the middle one is standing still."""
    half = levels // 2
    return min(max(int(np.rint(speed / width)), -half), half) + half


@kernel
def move_on(values, sensor, at, last, model):
    """Fill gaps (n, d) in place from where the sensor was and how fast it moved, then remember the row's own values.

    `last` (Movement) is that memory, changed in place; `model` (SpeedModel) what was learnt.
    """
    n, d = values.shape
    for i in range(n):
        s = sensor[i]
        for j in range(d):
            passed = at[i] - last.when[s, j]
            there = not np.isnan(last.value[s, j])
            if np.isnan(values[i, j]):
                guess = reached(last, model, s, j, passed) if there else model.mean[j]
                values[i, j] = min(max(guess, model.low[j]), model.high[j])
                continue
            if there and passed > 0:
                moved = values[i, j] - last.value[s, j]
                last.speed[s, j] = moved / passed if passed <= model.horizon else np.nan
            last.value[s, j], last.when[s, j] = values[i, j], at[i]


@kernel
def reached(last, model, s, j, passed):
    """Where sensor s is after that time, if it goes on at the likeliest speed; where it was, if none is known."""
    speed = last.speed[s, j]
    if np.isnan(speed) or not 0 < passed <= model.horizon:
        return last.value[s, j]
    level = speed_level(speed, model.width[j], model.best.shape[1])
    return last.value[s, j] + model.best[j, level] * passed


@kernel
def speed_counts(values, sensor, at, sensors, width, levels, horizon):
    """How often each speed (d, levels), and each change from one speed to the next (d, 2 · levels - 1), occurs."""
    n, d = values.shape
    speeds, turns = np.zeros((d, levels)), np.zeros((d, 2 * levels - 1))
    last, level = np.full(sensors, -1), np.full((sensors, d), -1)
    for i in range(n):
        s = sensor[i]
        passed = at[i] - at[last[s]] if last[s] >= 0 else np.inf
        for j in range(d):
            if not 0 < passed <= horizon:
                level[s, j] = -1
                continue
            now = speed_level((values[i, j] - values[last[s], j]) / passed, width[j], levels)
            speeds[j, now] += 1.0
            if level[s, j] >= 0:
                turns[j, now - level[s, j] + levels - 1] += 1.0
            level[s, j] = now
        last[s] = i
    return speeds, turns
