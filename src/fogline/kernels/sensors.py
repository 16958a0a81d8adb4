"""What did a sensor say before, as numbers that a new reading can be compared with?

A memory holds the newest values of each sensor's attributes, the newest first: when (s, d, k), -inf where there is
none, and said (s, d, k). A missing value takes no place: however long an attribute is silent, its last value is there.
A reading sees only what is older than itself, whenever it comes; so what is said of it never depends on later ones.

The context of a reading, per attribute: its last value, how old that is, how far it lay above the three before, and
above the mean of them all, in which the newest count most.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.clouds import count_in
from fogline.kernels.compile import kernel
from fogline.kernels.sorting import ascending

LAST, AGE, SECOND, THIRD, FOURTH, TIDE = range(6)
PARTS = 6
FADING = 0.8  # what a reading counts in the mean, beside the one after it


@kernel
def walk(sensor, time, values, when, said, longest, radius, span, then, wanted, out):
    """Take readings one by one: tell the context of those that are wanted, then remember them.

    sensor (n,), time (n,), values (n, d) NaN = missing; `longest`: how old a remembered reading may be. Rules about the
    recent past: radius (r, d), NaN where an attribute does not matter, span (r,), then (r,). To out (wanted, d · PARTS
    + r · k), NaN where nothing is remembered: the context, and what each rule finds among the sensor's k readings.
    """
    at = 0
    d, k = said.shape[1], said.shape[2]
    for i in range(sensor.shape[0]):
        s = sensor[i]
        if wanted[i]:
            recall(when[s], said[s], time[i], longest, out[at, : d * PARTS].reshape(d, PARTS))
            for r in range(span.shape[0]):
                found = out[at, d * PARTS + r * k : d * PARTS + (r + 1) * k]
                recent(when[s], said[s], time[i], min(span[r], longest), values[i], radius[r], then[r], found)
            at += 1
        remember(when[s], said[s], time[i], values[i])


@kernel
def recall(when, said, now, longest, out):
    """The context (d, PARTS) of a reading at `now`."""
    for j in range(said.shape[0]):
        out[j] = np.nan
        found, weight, total, heavy = 0, 1.0, 0.0, 0.0
        for k in range(when.shape[1]):
            if when[j, k] < now - longest or when[j, k] == -np.inf:
                break
            if when[j, k] >= now:
                continue
            x = said[j, k]
            if found == 0:
                out[j, LAST], out[j, AGE] = x, now - when[j, k]
            elif found <= 3:
                out[j, AGE + found] = out[j, LAST] - x
            total += weight * x
            heavy += weight
            weight *= FADING
            found += 1
        if found:
            out[j, TIDE] = out[j, LAST] - total / heavy


@kernel
def recent(when, said, now, span, values, radius, j, out):
    """What attribute j was in the readings no older than `span` that are close to these values; NaN for the others."""
    for k in range(when.shape[1]):
        out[k] = np.nan
        at = when[j, k]
        if at < now and now - at <= span:
            near = True
            for q in range(values.shape[0]):
                near = near and (np.isnan(radius[q]) or _close(when[q], said[q], at, values[q], radius[q]))
            if near:
                out[k] = said[j, k]


@kernel
def _close(when, said, at, value, radius):
    """Whether the attribute was close to `value` in the reading at that time."""
    for k in range(when.shape[0]):
        if when[k] == at:
            return abs(said[k] - value) <= radius
    return False


@kernel
def remember(when, said, now, values):
    """Put what a reading says in its place; the oldest goes. What is older than all, or of a known instant, is left."""
    most = when.shape[1]
    for j in range(values.shape[0]):
        if np.isnan(values[j]):
            continue
        k = 0
        while k < most and when[j, k] > now:
            k += 1
        if k == most or when[j, k] == now:
            continue
        for m in range(most - 1, k, -1):
            when[j, m], said[j, m] = when[j, m - 1], said[j, m - 1]
        when[j, k], said[j, k] = now, values[j]


@kernel
def features(values, context, j, out):
    """What may explain the change of attribute j, one line per reading: (n, 6 + 3 (d - 1)).

    Its own context, and of every other attribute the change, the value, and how far that lies above its mean.
    """
    n, d = values.shape
    for i in range(n):
        for k in range(PARTS):
            out[i, k] = context[i, j, k]
        at = PARTS
        for q in range(d):
            if q != j:
                out[i, at] = values[i, q] - context[i, q, LAST]
                out[i, at + 1] = values[i, q]
                out[i, at + 2] = out[i, at] + context[i, q, TIDE]
                at += 3


@kernel
def gather(found, start, size, value, often):
    """The values of each line (n, k), NaN = none, as distributions: value[start : start + size], how often."""
    filled = 0
    for i in range(found.shape[0]):
        line = ascending(found[i])  # NaN last
        start[i] = filled
        for x in line:
            if np.isnan(x):
                break
            filled = count_in(x, start[i], filled, value, often)
        size[i] = filled - start[i]
    return filled
