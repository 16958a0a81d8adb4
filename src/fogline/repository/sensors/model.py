"""How does a sensor's value change from one reading to the next?

Where history names sensors and times, a missing value is best told from the sensor's own last one: in history, in
contexts like this (how old the last value is, how it moved before, how the other attributes move now), which *changes*
followed? The distribution is the last value plus those changes. A differential dependency with context determinants

    sensor, age, changes of the other attributes, … -> change of temperature

in which "close" is not one radius for all, but a box that trees found for each region of contexts (`kernels/forest`).

Readings are hidden at random while learning, so that contexts have gaps as in a stream. Whether an attribute is told
this way or by rules is decided on the newest tenth of the history, which the trial has not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Distributions, Floats, Ints
from fogline.errors import HistoryError, RuleError
from fogline.kernels import forest
from fogline.kernels import sensors as memory
from fogline.kernels.crps import crps
from fogline.model import Query, Rule
from fogline.repository.discover import WORTH, Trial
from fogline.repository.history import History
from fogline.repository.sensors.state import READINGS, Name, Recent, SensorState, sensor_names

TREES, LEAF, ROWS = 20, 20, 120_000
TRIAL_TREES, TRIAL_ROWS = 5, 20_000
HIDDEN, SEED = 0.3, 11
NEWEST = 2_000_000  # rows of a longer history from which sensors are learnt
FEWEST = 1_000  # readings that follow another of their sensor; from fewer nothing is learnt


class Forest(NamedTuple):
    """Trees, their nodes and leaves one after the other; tree (t, 2): where those of each begin."""

    feature: NDArray[Any]
    cut: NDArray[Any]
    child: NDArray[Any]
    kept: NDArray[Any]
    tree: NDArray[Any]

    def ask(self, rows: Floats) -> Floats:
        """(n, trees · KEPT) the changes that followed on contexts like these, sorted."""
        out = np.empty((len(rows), len(self.tree) * forest.KEPT))
        forest.ask(*self, np.ascontiguousarray(rows), out)
        return out


@dataclass(frozen=True)
class Transition:
    """Of one attribute: the changes, the values it may take, and how well it did on held-out rows."""

    changes: Forest
    grid: Floats  # values of the attribute that occurred, sorted
    step: float  # how near to one of them is the same
    error: float  # mean CRPS on held-out rows …
    without: float  # … and of what would be told otherwise

    @property
    def gain(self) -> float:
        """How much of the error it takes away."""
        return 1 - self.error / self.without if self.without else 0.0

    def distributions(
        self, last: Floats, features: Floats, gaps: Ints, low: float = -np.inf, high: float = np.inf
    ) -> Distributions:
        """Distributions for readings with these last values, features and numbers of gaps. O(trees · depth) each."""
        n = len(last)
        start, size = np.empty(n, np.int64), np.empty(n, np.int64)
        value, often = np.empty(n * forest.POINTS), np.empty(n * forest.POINTS)
        told = self.changes.ask(features)
        used = forest.spread(told, last, gaps, self.grid, self.step, low, high, start, size, value, often)
        return Distributions(start, size, value[:used], often[:used], np.zeros(n, np.int64))

    def bounds(self, last: Floats, features: Floats, gaps: Ints, low: float, high: float) -> tuple[Floats, Floats]:
        """The least and greatest value that `spread` gives."""
        least, most = np.empty((2, len(last)))
        forest.ends(self.changes.ask(features), gaps, least, most)
        return self._moved(last, least, low, high), self._moved(last, most, low, high)

    def rough_bounds(self, last: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Between which values `spread` stays whatever the features; found without asking the trees."""
        least, most = (np.full(len(last), end) for end in self.extremes)
        return self._moved(last, least, low, high), self._moved(last, most, low, high)

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The changes beyond which no leaf goes."""
        return float(self.changes.kept.min()), float(self.changes.kept.max())

    def _moved(self, last: Floats, by: Floats, low: float, high: float) -> Floats:
        out = np.empty(len(last))
        forest.moved(last, np.ascontiguousarray(by), self.grid, self.step, low, high, out)
        return out


_ROOT = Forest(
    np.full(1, -1, np.int32), np.zeros(1), np.zeros(1, np.int32), np.zeros((1, forest.KEPT)), np.zeros((1, 2), np.int64)
)
UNCHANGED = Transition(_ROOT, np.empty(0), 0.0, 0.0, 0.0)
"""The transition of one who always says the same again."""


@dataclass(frozen=True)
class SensorModel:
    """What history knows of its sensors: sensors per attribute, and what each sensor said last."""

    names: tuple[str, ...]  # the attributes, in the order in which contexts have them
    keys: tuple[str, ...]  # the columns that name a sensor
    longest: float  # how old a remembered reading may be, in units of the clock
    transitions: Mapping[str, Transition]
    recent: tuple[Rule, ...]  # about what the sensor itself said lately; `time` among what is given
    time: str  # the clock's column
    known_sensors: tuple[Name, ...]
    times: Floats
    values: Floats

    @cached_property
    def width(self) -> int:
        """Numbers of a context."""
        return self.empty_state().width

    @property
    def own_width(self) -> int:
        """Numbers of a context that are about the row's own attributes; those of rules about the recent past follow."""
        return len(self.names) * memory.PARTS

    @property
    def recent_width(self) -> int:
        """Numbers of a context for one rule about the recent past."""
        return READINGS

    def state(self, which: Sequence[int] | None = None) -> SensorState:
        """What is remembered when the stream begins; of these sensors only."""
        mine = range(len(self.known_sensors)) if which is None else which
        begun = self.empty_state().holding([self.known_sensors[k] for k in mine], self.times[mine], self.values[mine])
        begun.untouched = True
        return begun

    def check_keys(self, query: Query) -> None:
        """Does the query name sensors and times as the history did?"""
        mine, theirs = (*self.keys, self.time), (*query.by, query.id, query.time)
        if mine != theirs:
            raise HistoryError(
                f"the repository knows sensors by {', '.join(mine)}, and the query names them by {', '.join(theirs)}; "
                "fit it for this query (or with retention=0, to do without what sensors said before)."
            )

    def empty_state(self) -> SensorState:
        """A memory of nothing."""
        given = [[rule.given.get(name, np.nan) for name in self.names] for rule in self.recent]
        span = np.array([rule.given[self.time] for rule in self.recent], np.float64)
        then = np.array([self.names.index(rule.then) for rule in self.recent], np.int64)
        radius = np.array(given, np.float64).reshape(len(span), len(self.names))
        return SensorState(len(self.names), self.longest, recent=Recent(radius, span, then))

    def recent_values(self, r: int, context: Floats) -> Floats:
        """(n, READINGS) what the r-th rule about the recent past finds; NaN where there is nothing."""
        first = len(self.names) * memory.PARTS + r * READINGS
        return np.ascontiguousarray(context[:, first : first + READINGS])

    def distributions(self, name: str, values: Floats, context: Floats, low: float, high: float) -> Distributions:
        """Distributions of attribute `name`: values (n, d) of the same readings, context (n, width)."""
        return self.transitions[name].distributions(*self._asked(name, values, context), low, high)

    def bounds(self, name: str, values: Floats, context: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """The least and greatest values of the same."""
        return self.transitions[name].bounds(*self._asked(name, values, context), low, high)

    def _asked(self, name: str, values: Floats, context: Floats) -> tuple[Floats, Floats, Ints]:
        j = self.names.index(name)
        shaped = _shaped(context, len(self.names))
        last = np.ascontiguousarray(shaped[:, j, memory.LAST])
        return last, features(values, shaped, j), np.isnan(values).sum(axis=1)

    def last(self, name: str, context: Floats) -> Floats:
        """(n,) the last values of attribute `name`; NaN where nothing is remembered."""
        return np.ascontiguousarray(context[:, self.names.index(name) * memory.PARTS + memory.LAST])


def _shaped(context: Floats, d: int) -> Floats:
    """(n, d, PARTS) of a context."""
    return context[:, : d * memory.PARTS].reshape(len(context), d, memory.PARTS)


def counted(found: Floats) -> Distributions:
    """What rules about the recent past found (n, READINGS), as distributions."""
    start, size = np.empty(len(found), np.int64), np.empty(len(found), np.int64)
    value, often = np.empty(found.size), np.empty(found.size)
    used = memory.gather(found, start, size, value, often)
    return Distributions(start, size, value[:used], often[:used], np.zeros(len(found), np.int64))


def features(values: Floats, context: Floats, j: int) -> Floats:
    """(n, 6 + 3 (d - 1)) what may explain the change of attribute j."""
    out = np.empty((len(values), memory.PARTS + 3 * (values.shape[1] - 1)))
    memory.features(np.ascontiguousarray(values), np.ascontiguousarray(context), j, out)
    return out


# ------------------------------------------------------------------------------------------------------ learning


@dataclass(frozen=True)
class Past:
    """History as a stream of readings, some hidden: what was there, what was shown, and in which contexts."""

    names: tuple[str, ...]
    rows: Ints  # which rows of the history these are
    truth: Floats  # (n, d)
    shown: Floats  # (n, d)
    context: Floats  # (n, d, PARTS)

    @classmethod
    def of(cls, history: History, query: Query, longest: float = np.inf) -> Past | None:
        """None where history does not name sensors and times, or sensors hardly ever speak twice."""
        told = readings(history, query)
        if told is None or not longest > 0:
            return None
        rows, sensors, time, truth = told
        again = np.flatnonzero(np.bincount(sensors.code)[sensors.code] > 1)
        if len(again) < FEWEST or len(again) < len(rows) / 2:
            return None
        hidden = np.random.default_rng(SEED).random(truth.shape) < HIDDEN
        shown = np.where(hidden, np.nan, truth)
        everyone = np.ones(len(rows), np.bool_)
        context = SensorState(len(query.names), longest).update(sensors.known, time, shown, everyone, sensors.code)
        return cls(query.names, rows, truth, shown, _shaped(context, len(query.names)))

    def learn(self, j: int, among: Ints, trees: int, most: int) -> Forest | None:
        """Trees for the changes of attribute j, from at most so many of these readings."""
        change = self.truth[among, j] - self.context[among, j, memory.LAST]
        among, change = among[~np.isnan(change)], change[~np.isnan(change)]
        if len(among) < FEWEST:
            return None
        if len(among) > most:
            some = np.sort(np.random.default_rng(SEED).choice(len(among), most, replace=False))
            among, change = among[some], change[some]
        given = np.ascontiguousarray(features(self.shown[among], self.context[among], j).T)
        with ThreadPoolExecutor(max(1, min(trees, os.cpu_count() or 1))) as pool:
            grown = list(pool.map(lambda k: forest.grow(given, change, LEAF, SEED + k), range(trees)))
        ends = np.cumsum([[0, 0], *([len(each[0]), len(each[3])] for each in grown)], axis=0)
        feature, cut, child, kept = (np.concatenate(each) for each in zip(*grown, strict=True))
        return Forest(feature, cut, child, kept, ends[:-1])


class SensorCodes(NamedTuple):
    """Who a row is about: a number per row, and what the numbers stand for."""

    code: Ints
    known: list[Name]


def readings(history: History, query: Query) -> tuple[Ints, SensorCodes, Floats, Floats] | None:
    """The rows that say whose they are and when, in order: their numbers, sensors, times, and attributes (n, d)."""
    keys = (*query.by, query.id)
    if any(name not in history.columns for name in (*keys, query.time)):
        return None
    columns = [history.columns[name] for name in keys]
    time = history.columns[query.time]
    if time.words is not None:
        return None
    there = ~np.isnan(time.values)
    for column in columns:
        there &= ~np.isnan(column.values)
    rows = np.flatnonzero(there)
    rows = rows[np.argsort(time.values[rows], kind="stable")][-NEWEST:]
    named = np.stack([column.values[rows] for column in columns], axis=1)
    distinct, code = np.unique(named, axis=0, return_inverse=True)
    keyed = [
        tuple(v if c.words is None else c.words[int(v)] for c, v in zip(columns, each, strict=True))
        for each in distinct.tolist()
    ]
    known = sensor_names([key[-1] for key in keyed], [key[:-1] for key in keyed])
    truth = np.stack([history.columns[name].values[rows] for name in query.names], axis=1)
    return rows, SensorCodes(code.reshape(-1), known), time.values[rows], truth


def learn_one(history: History, past: Past, then: str, rules: tuple[Rule, ...]) -> Transition | None:
    """The transition of one attribute, if on held-out rows it does better than rules and whole history."""
    j = past.names.index(then)
    trial = Trial(history, then)
    if not trial.possible:
        return None
    held = np.flatnonzero(np.isin(past.rows, trial.rows))
    held = held[~np.isnan(past.context[held, j, memory.LAST])]
    before = np.flatnonzero(past.rows < trial.cut)
    tried = past.learn(j, before, TRIAL_TREES, TRIAL_ROWS)
    if tried is None or not len(held):
        return None
    grid, step = grid_of(history.columns[then].values)
    shaped = past.shown[held].copy()
    shaped[:, j] = np.nan
    spread = Transition(tried, grid, step, 0.0, 0.0).distributions(
        past.context[held, j, memory.LAST].copy(), features(shaped, past.context[held], j), np.ones(len(held), np.int64)
    )
    ours = _scores(spread, past.truth[held, j])
    theirs = trial.scores(rules)[np.searchsorted(trial.rows, past.rows[held])]
    if not ours.mean() < WORTH * theirs.mean():
        return None
    learnt = past.learn(j, np.arange(len(past.rows)), TREES, ROWS)
    assert learnt is not None
    return Transition(learnt, grid, step, float(ours.mean()), float(theirs.mean()))


def _scores(spread: Distributions, truth: Floats) -> Floats:
    """(n,) CRPS of each distribution."""
    often = spread.often.astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(np.add.reduceat(often, spread.start)))) if len(truth) else np.zeros(1, int)
    return np.asarray(crps(offsets, np.repeat(spread.value, often), truth))


def grid_of(values: Floats) -> tuple[Floats, float]:
    """The values that occurred, sorted, and how far apart they usually lie."""
    grid = np.unique(values[~np.isnan(values)])
    return grid, float(np.median(np.diff(grid))) if len(grid) > 1 else 0.0


def remembered(history: History, query: Query, longest: float) -> SensorState:
    """What the sensors said last, in this history."""
    told = readings(history, query)
    memory = SensorState(len(query.names), longest)
    if told is not None:
        rows, sensors, time, truth = told
        memory.update(sensors.known, time, truth, np.zeros(len(rows), np.bool_), sensors.code)
    return memory


def about_recent(rules: Iterable[Rule], query: Query) -> tuple[Rule, ...]:
    """The rules that speak of time: of what the same sensor said lately, if they say so."""
    mine = tuple(rule for rule in rules if query.time in rule.given)
    keys = (*query.by, query.id)
    for rule in mine:
        strange = [name for name in rule.given if name not in (query.time, *keys, *query.names)]
        if strange or any(rule.given.get(name) != 0 for name in keys) or rule.then not in query.names:
            raise RuleError(
                f"the rule '{rule}' speaks of {query.time!r}: such a rule tells an attribute of the query from "
                f"what the same sensor said lately, so it must give {' and '.join(map(repr, keys))} (equal), and may "
                "give other attributes of the query."
            )
    return mine


def learn(history: History, query: Query, rules: tuple[Rule, ...], longest: float = np.inf) -> SensorModel | None:
    """The sensors of every attribute for which they pay; None if they pay for none."""
    past = Past.of(history, query, longest)
    if past is None:
        return None
    found = {name: learn_one(history, past, name, rules) for name in query.names}
    return gathered(history, query, longest, {name: each for name, each in found.items() if each is not None})


def gathered(
    history: History, query: Query, longest: float, transitions: Mapping[str, Transition], recent: tuple[Rule, ...] = ()
) -> SensorModel | None:
    """Habits, rules about the recent past, and what the sensors said last; None where nothing of it is needed."""
    if recent and not longest > 0:
        raise RuleError(f"the rule '{recent[0]}' needs what sensors said before, and retention is 0.")
    if not (transitions or recent) or not longest > 0:
        return None
    memory = remembered(history, query, longest)
    keys = (*query.by, query.id)
    return SensorModel(
        query.names, keys, longest, transitions, recent, query.time, tuple(memory.number), *memory.arrays()
    )
