"""What would be known of a sensor if a value that it has read were missing, and perhaps those before it, too?

The state of sensors is asked as rows pass (`SensorState.watch`), since what it knows of a sensor goes on with them. No
context of a row, and nothing that is remembered, depends on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.hiding import Trials
from fogline.kernels.sensors import HiddenValues


class Hidden(NamedTuple):
    """Values that are hidden, one of a row."""

    row: Ints  # (m,)
    attribute: Ints  # (m,)
    single: Flags  # (m,) whether no value before it is hidden, nor was the attribute silent
    context: Floats | None  # (m, w) what its sensor would have read before; None: sensors are not remembered

    def part(self, which: Ints | Flags) -> Hidden:
        """Some of them."""
        context = None if self.context is None else self.context[which]
        return Hidden(self.row[which], self.attribute[which], self.single[which], context)


class Hiding:
    """Values of the rows of a call that may be hidden, and which of them are.

    As long as no state is asked those are the ones that are hidden in any case. `most`: so many at most. `at` (d,): the
    numbers that the rows' attributes have in a state.
    """

    def __init__(self, trials: Trials, most: int, at: Ints) -> None:
        self.trials, self.most, self.at = trials, most, at
        which = np.flatnonzero(trials.sure)[:most]
        row = trials.row[which]
        self.hidden = Hidden(row, trials.attribute[row], np.ones(len(row), np.bool_), None)

    def asked(self, order: Ints, width: int) -> HiddenValues:
        """The question to a state whose contexts are so wide; order (n,): which row is where in the order of time."""
        attribute, row, run, together, sure = self.trials
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        turn = np.argsort(place[row])
        what = self.at[attribute[order]], place[row][turn], run[turn], together[turn], sure[turn]
        cells = np.empty(self.most, np.int64), np.empty(self.most, np.int64), np.empty(self.most, np.bool_)
        return HiddenValues(*what, *cells, np.empty((self.most, width)), np.zeros(1, np.int64))

    def answered(self, asked: HiddenValues, order: Ints) -> None:
        """Take what the state found."""
        used = int(asked.used[0])
        number = np.zeros(int(self.at.max()) + 1, np.int64)
        number[self.at] = np.arange(len(self.at))
        row, attribute = order[asked.reading[:used]], number[asked.which[:used]]
        self.hidden = Hidden(row, attribute, asked.single[:used], asked.context[:used])


def nothing(width: int) -> HiddenValues:
    """No question."""
    none, never = np.empty(0, np.int64), np.empty(0, np.bool_)
    lots = none, none, none, never, never
    return HiddenValues(*lots, none, none, never, np.empty((0, width)), np.zeros(1, np.int64))
