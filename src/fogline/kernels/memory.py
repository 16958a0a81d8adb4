"""What did a sensor say before, as numbers that a new reading can be compared with?

A memory holds the newest readings of each sensor, the newest first: when (s, k), -inf where there is none, and the
values (s, k, d), NaN where one was missing. A reading sees only what is older than itself, whenever it comes; so what
is said of it never depends on later ones.

The context of a reading, per attribute: its last value, how old that is, how far it lay above the three before, and
above the mean of them all, in which the newest count most.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import kernel

LAST, AGE, SECOND, THIRD, FOURTH, TIDE = range(6)
PARTS = 6
FADING = 0.8  # what a reading counts in the mean, beside the one after it


@kernel
def walk(sensor, time, values, when, said, longest, wanted, out):
    """Take readings one by one: tell the context of those that are wanted, then remember them.

    sensor (n,), time (n,), values (n, d) NaN = missing; `longest`: how old a remembered reading may be. Contexts go to
    out (wanted, d, PARTS), NaN where nothing is remembered.
    """
    at = 0
    for i in range(sensor.shape[0]):
        s = sensor[i]
        if wanted[i]:
            recall(when[s], said[s], time[i], longest, out[at])
            at += 1
        remember(when[s], said[s], time[i], values[i])


@kernel
def recall(when, said, now, longest, out):
    """The context (d, PARTS) of a reading at `now`."""
    for j in range(said.shape[1]):
        out[j] = np.nan
        found, weight, total, heavy = 0, 1.0, 0.0, 0.0
        for k in range(when.shape[0]):
            if when[k] < now - longest:
                break
            x = said[k, j]
            if when[k] >= now or np.isnan(x):
                continue
            if found == 0:
                out[j, LAST], out[j, AGE] = x, now - when[k]
            elif found <= 3:
                out[j, AGE + found] = out[j, LAST] - x
            total += weight * x
            heavy += weight
            weight *= FADING
            found += 1
        if found:
            out[j, TIDE] = out[j, LAST] - total / heavy


@kernel
def remember(when, said, now, values):
    """Put a reading in its place; the oldest one goes. One that is older than all, or of a known instant, is left."""
    most, d = said.shape
    k = 0
    while k < most and when[k] > now:
        k += 1
    if k == most or when[k] == now:
        return
    for m in range(most - 1, k, -1):
        when[m] = when[m - 1]
        for j in range(d):
            said[m, j] = said[m - 1, j]
    when[k] = now
    for j in range(d):
        said[k, j] = values[j]


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
