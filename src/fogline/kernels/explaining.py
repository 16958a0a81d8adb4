"""The numbers from which trees explain a value that a sensor did not send (`kernels.forest`).

Its own past and that of the row's other attributes (`before`); and once the sensor has been read again, what it read
then (`between`). One line of numbers per reading, NaN where something is not known. Ages enter by their logarithms: the
first minutes differ more than the same minutes a day later.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner, kernel
from fogline.kernels.sensors import AGE, LAST, PARTS, TIDE

OWN_AGE = AGE  # which number of a line is the age of the attribute's own last value
BETWEEN = PARTS + 4  # numbers about the attribute itself, where its next value is known
AGES_BEFORE, AGES_BETWEEN = (AGE,), (AGE, PARTS, PARTS + 3)  # which numbers of a line are ages


@kernel
def before(values, context, j):
    """(n, PARTS + 3 (d - 1)) what may explain the change of attribute j, from values (n, d) and context (n, d, PARTS).

    The context of j; and of every other attribute its change, its value, and how far that lies above its mean.
    """
    n, d = values.shape
    out = np.empty((n, PARTS + 3 * (d - 1)))
    for i in range(n):
        for k in range(PARTS):
            out[i, k] = context[i, j, k]
        out[i, AGE] = np.log(context[i, j, AGE])
        at = PARTS
        for q in range(d):
            if q != j:
                out[i, at] = values[i, q] - context[i, q, LAST]
                out[i, at + 1] = values[i, q]
                out[i, at + 2] = out[i, at] + context[i, q, TIDE]
                at += 3
    return out


@kernel
def between(values, context, after, j):
    """(n, BETWEEN + 5 (d - 1)) what may explain how far attribute j lies from the line between last and next value.

    after (n, d, 2): next values and how much later they came. Of j: its context, how much later the next value came,
    how far that is from the last, which part of the time has passed, and half the harmonic mean of both times. Of every
    other attribute: its change, its value, how far that lies above its mean, above its next value, and above the line
    between its own last and next.
    """
    n, d = values.shape
    out = np.empty((n, BETWEEN + 5 * (d - 1)))
    for i in range(n):
        for k in range(PARTS):
            out[i, k] = context[i, j, k]
        age, later = context[i, j, AGE], after[i, j, 1]
        out[i, AGE], out[i, PARTS] = np.log(age), np.log(later)
        out[i, PARTS + 1] = after[i, j, 0] - context[i, j, LAST]
        out[i, PARTS + 2] = age / (age + later)
        out[i, PARTS + 3] = np.log(age * later / (age + later))
        at = BETWEEN
        for q in range(d):
            if q != j:
                x = values[i, q]
                out[i, at] = x - context[i, q, LAST]
                out[i, at + 1] = x
                out[i, at + 2] = out[i, at] + context[i, q, TIDE]
                out[i, at + 3] = x - after[i, q, 0]
                out[i, at + 4] = x - _line(context[i, q, LAST], context[i, q, AGE], after[i, q, 0], after[i, q, 1])
                at += 5
    return out


@inner
def _line(last, age, following, later):
    """The line between two values, `age` after the last and `later` before the following one."""
    return last + (following - last) * (age / (age + later))


@kernel
def on_line(context, after, j):
    """(n,) attribute j on the line between its last and its next value; NaN where one of them is not known."""
    out = np.empty(context.shape[0])
    for i in range(context.shape[0]):
        out[i] = _line(context[i, j, LAST], context[i, j, AGE], after[i, j, 0], after[i, j, 1])
    return out


@kernel
def turned(values, context, after):
    """(n, d, PARTS) contexts as if time ran backwards: the next value stands as the last one."""
    out = np.full(context.shape, np.nan)
    for i in range(values.shape[0]):
        for q in range(values.shape[1]):
            out[i, q, LAST], out[i, q, AGE] = after[i, q, 0], after[i, q, 1]
    return out


@kernel
def follow(sensor, time, values, sensors):
    """(n, d, 2) of each reading the next value of each attribute and how much later it came, NaN where none did; and
    (n, d) in which reading it came, -1 where none did.

    sensor (n,), time (n,) and values (n, d) are sorted by time. O(n · d).
    """
    n, d = values.shape
    out, reading = np.full((n, d, 2), np.nan), np.full((n, d), -1, np.int64)
    latest = np.full((sensors, d), -1, np.int64)
    for i in range(n - 1, -1, -1):
        s = sensor[i]
        for j in range(d):
            r = latest[s, j]
            if r >= 0 and time[r] > time[i]:
                out[i, j, 0], out[i, j, 1], reading[i, j] = values[r, j], time[r] - time[i], r
        for j in range(d):
            if not np.isnan(values[i, j]):
                latest[s, j] = i
    return out, reading


@kernel
def noted(after, reading, values, j):
    """(n, d, 2) the next values that are known when attribute j is revised: those of the reading in which j comes."""
    out = np.full(after.shape, np.nan)
    for i in range(after.shape[0]):
        r = reading[i, j]
        if r >= 0:
            for q in range(after.shape[1]):
                if not np.isnan(values[r, q]):
                    out[i, q, 0], out[i, q, 1] = values[r, q], after[i, j, 1]
    return out


@kernel
def note_next(known, first, values, came):
    """(n, width) the numbers of rows, with what readings (n, d) that came so much later (n,) add: values not known yet.

    From number `first` on stand the next value of each attribute and how much later it came. A cell that was final by
    then must not see what is noted now, so a new age is greater than those that are there.
    """
    out = known.copy()
    for i in range(out.shape[0]):
        latest = -np.inf
        for q in range(values.shape[1]):
            age = out[i, first + 2 * q + 1]
            if age > latest:
                latest = age
        later = came[i]
        if latest > -np.inf:
            later = max(later, np.nextafter(latest, np.inf))
        for q in range(values.shape[1]):
            at = first + 2 * q
            if np.isnan(out[i, at + 1]) and not np.isnan(values[i, q]):
                out[i, at], out[i, at + 1] = values[i, q], later
    return out
