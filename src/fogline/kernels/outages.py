"""Which readings fall into outages that are made up?

Sensor by sensor, an outage follows another after a stretch about as long as itself, at least a few readings. Numbers
come from dice, so that the same history always has the same outages.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import kernel
from fogline.kernels.forest import uniform

PAUSE = 8  # readings between two outages, at least
ALONE, SOME = 0.5, 0.7  # below: of one attribute; of some; else of all, the sensor is silent
ASKED = 8  # readings of each outage that are learnt from


@kernel
def silence(begins, time, lengths, d, seed):
    """(n, d) what is hidden, (n,) 1 for readings to learn from, 2 if as the first after a silence; 0 for others.

    Readings of sensor s are begins[s] … begins[s + 1] - 1, in the order of time (n,). An outage is as long as one of
    `lengths`. Of each one a few readings are learnt from, half of them near its ends.
    """
    dice = np.array([seed], np.uint64)
    n = time.shape[0]
    hidden, asked = np.zeros((n, d), np.bool_), np.zeros(n, np.int64)
    for s in range(begins.shape[0] - 1):
        at, end = begins[s], begins[s + 1]
        at += int(uniform(dice) * PAUSE)
        while at < end:
            length = lengths[int(uniform(dice) * lengths.shape[0])] * (0.5 + uniform(dice))
            last = at
            while last < end and time[last] < time[at] + length:
                last += 1
            kind, one = uniform(dice), int(uniform(dice) * d)
            for j in range(d):
                gone = kind >= SOME or j == one or (kind >= ALONE and uniform(dice) < 0.5)
                if gone:
                    hidden[at:last, j] = True
            for k in range(ASKED):
                far = int(np.exp(uniform(dice) * np.log(last - at + 0.0)))  # 1 … readings of the outage
                i = at + int(uniform(dice) * (last - at))
                if k % 2 == 0:
                    i = at + far - 1 if k % 4 == 0 else last - far
                if at <= i < last:
                    asked[i] = 2 if kind >= SOME and uniform(dice) < 0.5 else 1
            pause, since = 0, time[min(last, end - 1)]
            while last < end and (pause < PAUSE or time[last] - since < length * uniform(dice)):
                last += 1
                pause += 1
            at = last
    return hidden, asked
