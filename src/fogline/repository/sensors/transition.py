"""How a sensor's value changes from one reading to the next, and what it does between two that are known.

Which *changes* followed in history on contexts like this one: how old the last value is, how it moved before, how the
other attributes move now? The distribution is the last value plus those changes. It is a differential dependency with
context determinants,

    sensor, age, changes of the other attributes, … -> change of temperature

in which "close" is no single radius: trees find a box for each region of contexts (`kernels.forest`). Once the sensor
has been read again, a second forest answers how far the value lay from the line between the last and the next one.

A value that is older than any learnt from counts for less and less: the attribute's distribution over the history
joins in, until it is all there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fogline.arrays import Distributions, Floats, Ints
from fogline.kernels import explaining, forest
from fogline.kernels.forest import Forest, ValueGrid
from fogline.kernels.sensors import AGE, LAST, PARTS
from fogline.repository.held_out import gain

FADING = 2.0  # doublings of the oldest age that was learnt until a last value counts for nothing
EDGES = 64  # ages by which `rough_reach` distinguishes
PAST, BOTH = 1, 2  # rows of `Transition.widths`
AS_LEARNT = np.array([[0.0], [1.0], [1.0]])  # widths that change nothing


class Lacking(NamedTuple):
    """Readings that lack an attribute, and what is known of them."""

    values: Floats  # (n, d)
    context: Floats  # (n, d, PARTS)
    after: Floats | None  # (n, d, 2) the next values, and how much later they came; NaN: not known
    attribute: int


@dataclass(frozen=True)
class Transition:
    """What was learnt of one attribute, and how well it did on held-out rows."""

    before: Forest  # changes since the last value
    between: Forest | None  # distances from the line between last and next value; None: that is not learnt
    grid: Floats  # values of the attribute that occurred, sorted
    step: float  # how near to one of them is the same
    whole: Floats  # (w,) the attribute's distribution over the history: evenly spaced quantiles, as many as targets
    oldest: float  # the greatest age that was learnt from
    widths: Floats  # (3, k) logarithms of ages, ascending, and how much wider it is made there: past, both sides
    pad: float  # how far the reach goes beyond the ends, in shares of the way to the outermost targets
    error: float  # mean CRPS on held-out rows, from the past alone …
    without: float  # … of what rules or the whole history would give instead …
    nothing: float  # … of the attribute's distribution over the whole history …
    error_last: float  # … of the last value again …
    error_between: float  # … and from both sides

    @property
    def gain(self) -> float:
        """The share of the error of knowing nothing that it takes away."""
        return gain(self.error, self.nothing)

    def distributions(self, asked: Lacking, low: float = -np.inf, high: float = np.inf) -> Distributions:
        """A distribution per reading, within the limits. O(trees · depth) each."""
        base, changes = self.changes(asked)
        start, size, value, often = forest.spread(changes, base, _gaps(asked), self._grid(low, high), forest.CUT)
        return Distributions(start, size, value, often, np.zeros(len(base), np.int64))

    def bounds(self, asked: Lacking, low: float, high: float) -> tuple[Floats, Floats]:
        """(n,) the least and greatest value that `distributions` gives."""
        base, changes = self.changes(asked)
        least, most = forest.ends(changes, base, _gaps(asked), self._grid(low, high), forest.CUT)
        return least, most

    def reach(self, asked: Lacking, low: float, high: float) -> tuple[Floats, Floats]:
        """(n,) between which values nearly all of any later distribution stays: the ends of that from the past, moved
        outwards by `pad` of the way to the outermost targets."""
        last, changes = self._past(asked)
        least, most = forest.beyond_ends(changes, last, float(self.pad), self._grid(low, high), forest.CUT)
        return least, most

    def rough_reach(self, asked: Lacking, low: float, high: float) -> tuple[Floats, Floats]:
        """(n,) values beyond which `reach` never goes, without asking the trees."""
        j = asked.attribute
        last, age = asked.context[:, j, LAST], asked.context[:, j, AGE]
        edges, extremes = self.extremes
        found = extremes[np.searchsorted(edges, np.log(age))]
        more = (self._wider(age, PAST) - 1) * (found[:, 1] - found[:, 0])
        least, most = found[:, 0] - more, found[:, 1] + more
        if len(self.whole) and (old := age > self.oldest).any():
            least = np.where(old, np.minimum(least, self.whole[0] - last), least)
            most = np.where(old, np.maximum(most, self.whole[-1] - last), most)
        more = max(self.pad - 1, 0.0) * (most - least)
        return self._moved(last, least - more, low, high), self._moved(last, most + more, low, high)

    def span(self, low: float, high: float) -> tuple[float, float]:
        """The least and the greatest value in history, within the limits."""
        return min(max(float(self.grid[0]), low), high), min(max(float(self.grid[-1]), low), high)

    @cached_property
    def extremes(self) -> tuple[Floats, Floats]:
        """Logarithms of ages, ascending, and between them the changes beyond which no leaf goes."""
        cuts = np.unique(self.before.cut[self.before.feature == explaining.OWN_AGE])
        edges = cuts[np.linspace(0, len(cuts) - 1, min(len(cuts), EDGES)).astype(np.int64)]
        return edges, np.asarray(forest.within_reach(self.before, explaining.OWN_AGE, edges))

    def changes(self, asked: Lacking) -> tuple[Floats, Floats]:
        """(n,) a base, and (n, targets) changes from it, ascending: from both sides where the next value is known."""
        if asked.after is None or self.between is None:
            return self._past(asked)
        j = asked.attribute
        there, last = ~np.isnan(asked.after[:, j, 0]), ~np.isnan(asked.context[:, j, LAST])
        if there.all() and last.all():
            return self._both(self.between, asked)
        base, changes = np.empty(len(there)), np.empty((len(there), len(self.between.tree) * forest.KEPT))
        for which, ways in ((there & last, 2), (there & ~last, 1), (~there, 0)):
            if which.any():
                some = Lacking(asked.values[which], asked.context[which], asked.after[which], j)
                if ways == 1:
                    some = some._replace(context=np.asarray(explaining.turned(some.values, some.context, some.after)))
                base[which], changes[which] = self._both(self.between, some) if ways == 2 else self._past(some)
        return base, changes

    def ages(self, asked: Lacking) -> Floats:
        """(n,) the age of what is known; from both sides, half of either age where they are equal."""
        age = asked.context[:, asked.attribute, AGE]
        if asked.after is None:
            return age
        later = asked.after[:, asked.attribute, 1]
        return age * later / (age + later)

    def _past(self, asked: Lacking) -> tuple[Floats, Floats]:
        j = asked.attribute
        last, age = asked.context[:, j, LAST].copy(), asked.context[:, j, AGE]
        changes = forest.ask(self.before, explaining.before(asked.values, asked.context, j))
        forest.widen(changes, self._wider(age, PAST))
        return last, self._faded(changes, last, age)

    def _both(self, between: Forest, asked: Lacking) -> tuple[Floats, Floats]:
        assert asked.after is not None
        j = asked.attribute
        line = np.asarray(explaining.on_line(asked.context, asked.after, j))
        away = forest.ask(between, explaining.between(asked.values, asked.context, asked.after, j))
        forest.widen(away, self._wider(self.ages(asked), BOTH))
        return line, self._faded(away, line, np.minimum(asked.context[:, j, AGE], asked.after[:, j, 1]))

    def _faded(self, changes: Floats, base: Floats, age: Floats) -> Floats:
        """The changes; beyond the oldest age that was learnt, a growing share is of the whole distribution instead."""
        old = np.flatnonzero(age > self.oldest)
        if not len(old) or not len(self.whole):
            return changes
        width = changes.shape[1]
        share = np.minimum(np.log2(age[old] / self.oldest) / FADING, 1.0)
        order = (np.arange(width) * _STRIDE) % width if width % _STRIDE else np.arange(width)
        taken = (order[None, :] + 0.5) / width < share[:, None]  # evenly among the targets
        changes[old] = np.sort(np.where(taken, self.whole[None, :] - base[old, None], changes[old]), axis=1)
        return changes

    def _wider(self, age: Floats, side: int) -> Floats:
        """(n,) how much wider changes are made at these ages, since forests err more often than their leaves show."""
        return np.asarray(np.interp(np.log(age), self.widths[0], self.widths[side]), np.float64)

    def _moved(self, last: Floats, by: Floats, low: float, high: float) -> Floats:
        return np.asarray(forest.moved(last, np.ascontiguousarray(by), self._grid(low, high)))

    def _grid(self, low: float, high: float) -> ValueGrid:
        return ValueGrid(self.grid, float(self.step), float(low), float(high))


_STRIDE = 37  # no divisor of usual numbers of targets: walks through all of them, far apart


def _gaps(asked: Lacking) -> Ints:
    """(n,) how many attributes each row lacks."""
    return np.asarray(np.isnan(asked.values).sum(axis=1))


def by_attribute(context: Floats, d: int) -> Floats:
    """(n, d, PARTS) of a context (n, width)."""
    return np.ascontiguousarray(context[:, : d * PARTS]).reshape(len(context), d, PARTS)


def grid_of(values: Floats) -> tuple[Floats, float]:
    """The values that occurred, sorted, and how far apart they usually lie.

    >>> grid, step = grid_of(np.array([0.2, 0.1, np.nan, 0.2, 0.3]))
    >>> grid.tolist(), round(step, 3)
    ([0.1, 0.2, 0.3], 0.1)
    """
    grid = np.unique(values[~np.isnan(values)])
    return grid, float(np.median(np.diff(grid))) if len(grid) > 1 else 0.0
