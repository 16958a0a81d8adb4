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
    single: Flags  # (m,) whether no value before it is hidden, nor was the attribute silent for long
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
        self.hidden = Hidden(trials.row[which], trials.attribute[which], np.ones(len(which), np.bool_), None)

    def asked(self, place: Ints, width: int) -> HiddenValues:
        """The question to a state whose contexts are so wide; place (n,): where each row is in the order of time."""
        row, attribute, run, together, sure = self.trials
        order = np.argsort(place[row], kind="stable")
        what = place[row][order], self.at[attribute[order]], run[order], together[order], sure[order]
        room = np.empty(self.most, np.int64), np.empty(self.most, np.bool_), np.empty((self.most, width))
        return HiddenValues(*what, *room, np.zeros(1, np.int64))

    def answered(self, asked: HiddenValues, order: Ints) -> None:
        """Take what the state found; order (n,): the row at each place in the order of time."""
        used = int(asked.used[0])
        which, number = asked.hidden[:used], np.zeros(int(self.at.max()) + 1, np.int64)
        number[self.at] = np.arange(len(self.at))
        single = (asked.run[which] == 0) & ~asked.silent[:used]
        self.hidden = Hidden(order[asked.row[which]], number[asked.attribute[which]], single, asked.context[:used])


_NONE = np.empty(0, np.int64)
NOTHING = Trials(_NONE, _NONE, _NONE, _NONE.astype(np.bool_), _NONE.astype(np.bool_))
