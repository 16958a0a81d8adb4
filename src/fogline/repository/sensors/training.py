"""How it is learnt from a history how sensors change, and whether that pays.

A history that names sensors and times is replayed as a stream, with values hidden as they are in a stream: *singles*,
one value of some rows, and *outages*, in which a sensor sends nothing of one attribute, of several or of all. Outages
are as long as those that the history itself has, and of all lengths up to a fifth of it, so that old last values are
there to learn from.

Learnt is what follows on the past alone, and what lies between the last and the next reading. An attribute gets a
transition if that imputes the newest tenth of the history, which the trees of the trial have not seen, clearly better
than rules do. Hindsight is part of it where it does better than the past alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeVar

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels import explaining, forest
from fogline.kernels.forest import Forest
from fogline.kernels.gaps import outages
from fogline.kernels.score import crps
from fogline.kernels.sensors import AGE, LAST
from fogline.query import Query, Rule
from fogline.repository.access import readonly
from fogline.repository.held_out import WORTH, HeldOut
from fogline.repository.history import History, numbered
from fogline.repository.sensors.state import Name, SensorState
from fogline.repository.sensors.transition import AS_LEARNT, Lacking, Transition, by_attribute, grid_of

SINGLES = 0.3  # of the rows lack one value
SPAN, LENGTHS = 0.2, 512  # the longest outage, as a share of the history; so many lengths to choose from
LONG = 1.5  # usual distances between readings: more is a gap that the history itself has
TREES, LEAF, ROWS = 20, 20, 60_000
TRIAL_TREES, TRIAL_ROWS = 10, 20_000
OUTAGES, REPLAYS, SEED = 60_000, 8, 11  # so many examples in outages, from so many replays at most
OUTSIDE = 0.01, 0.05  # so much of what hindsight gives may lie beyond the reach, of singles and in outages: see `_pad`
HELD, FARTHEST = 3_000, 8.0  # held-out rows that are looked at; and no `pad` is larger
COVERED, BINS, WIDER = 0.8, 12, (1.0, 4.0)  # see `_widths`: the middle share, bins of ages, how much wider at most
Array = TypeVar("Array", Flags, Ints)

ALL, AGES, NOTHING = "all that is known", "ages alone", "nothing: the last value stays"
NEWEST = 2_000_000  # rows of a longer history from which sensors are learnt
FEWEST = 100  # readings that follow another of their sensor; from fewer nothing is learnt


def singles(shape: tuple[int, int], seed: int) -> Flags:
    """(n, d) one hidden cell in some rows."""
    rng, (n, d) = np.random.default_rng(seed), shape
    out = np.zeros(shape, np.bool_)
    rows = np.flatnonzero(rng.random(n) < SINGLES)
    out[rows, rng.integers(0, d, len(rows))] = True
    return out


def lengths(sensor: Ints, time: Floats, values: Floats) -> Floats:
    """How long outages are: of all lengths up to a fifth of the history, and half of them as it has them, if any.

    sensor (n,), time (n,), values (n, d), by sensor and then by time. Empty where no sensor is read twice.
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


class HistoryReadings(NamedTuple):
    """The rows of a history that name their sensor and their time, in the order of time."""

    rows: Ints  # (n,) which rows of the history these are
    sensor: Ints  # (n,) the number of each one's sensor
    known: list[Name]  # what the numbers stand for
    time: Floats  # (n,)
    values: Floats  # (n, d)


def readings(history: History, query: Query) -> HistoryReadings | None:
    """The newest rows of a history; None where it does not name sensors and times."""
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
    code, first = numbered([column.values[rows] for column in columns])
    known = [column.called(column.values[rows[first]]) for column in columns]
    values = np.stack([history.columns[name].values[rows] for name in query.names], axis=1)
    return HistoryReadings(rows, code, list(zip(*known, strict=True)), time.values[rows], values)


def newest_state(history: History, query: Query, longest: float) -> SensorState:
    """A state with what the sensors have read last in this history."""
    state, found = SensorState(len(query.names), longest), readings(history, query)
    if found is not None:
        state.update(found.known, found.time, found.values, np.zeros(len(found.rows), np.bool_), found.sensor)
    return state


@dataclass(frozen=True)
class Examples:
    """Rows to learn from: what was there, what of it was shown, what came before and after."""

    row: Ints  # (n,) its number in the history
    truth: Floats  # (n, d)
    shown: Floats  # (n, d)
    context: Floats  # (n, d, PARTS)
    after: Floats  # (n, d, 2) the next value of each attribute, and how much later it came; NaN: none did
    reading: Ints  # (n, d) which of `readings` that is; -1: none
    hidden: Flags  # (n, d) the attributes that may be learnt from it
    readings: Floats  # (m, d) all that were shown, in any replay

    def part(self, which: Ints | Flags) -> Examples:
        """Some of them."""
        return replace(self, **{name: getattr(self, name)[which] for name in _OF_EACH})

    @staticmethod
    def joined(parts: Sequence[Examples]) -> Examples:
        """All of the parts; they share their readings."""
        return replace(parts[0], **{name: np.concatenate([getattr(one, name) for one in parts]) for name in _OF_EACH})

    def asked(self, j: int, *, both: bool) -> Lacking:
        """The rows as if they lacked attribute j; `both`: with what came next."""
        shown = self.shown.copy()
        shown[:, j] = np.nan
        after = np.asarray(explaining.noted(self.after, self.reading, self.readings, j)) if both else None
        return Lacking(shown, self.context, after, j)


_OF_EACH = [each.name for each in fields(Examples) if each.name != "readings"]


@dataclass(frozen=True)
class TrainingSet:
    """Examples from a history that was replayed as a stream."""

    names: tuple[str, ...]
    singles: Examples  # every row, with single values hidden
    outages: Examples  # some rows, each within an outage that was made up

    @classmethod
    def of(cls, history: History, query: Query, longest: float = np.inf) -> TrainingSet | None:
        """None where history does not name sensors and times, or hardly any sensor is read twice."""
        found = readings(history, query)
        if found is None or not longest > 0:
            return None
        again = np.flatnonzero(np.bincount(found.sensor)[found.sensor] > 1)
        if len(again) < FEWEST or len(again) < len(found.rows) / 2:
            return None
        everywhere = np.ones(found.values.shape, np.bool_)
        replay = _Replay(found, longest)
        first = replay.examples(singles(found.values.shape, SEED), everywhere[:, 0], everywhere)
        second, shown = replay.in_outages(OUTAGES), np.concatenate(replay.shown)
        return cls(query.names, replace(first, readings=shown), replace(second, readings=shown))

    def some(self, j: int, most: int, *, before: int | None = None, both: bool = False) -> Examples:
        """At most so many examples for attribute j, of rows before that one; two thirds of them singles."""
        parts = []
        for each, room in ((self.singles, most * 2 // 3), (self.outages, most // 3)):
            usable = each.hidden[:, j] & ~np.isnan(each.truth[:, j]) & ~np.isnan(each.context[:, j, LAST])
            usable &= True if before is None else each.row < before
            usable &= ~np.isnan(each.after[:, j, 0]) if both else True
            which = np.flatnonzero(usable)
            if len(which) > room:
                which = np.sort(np.random.default_rng(SEED).choice(which, room, replace=False))
            parts.append(each.part(which))
        return Examples.joined(parts)


class _Replay:
    """Replays a history as a stream, again and again, with other values hidden each time."""

    def __init__(self, found: HistoryReadings, longest: float) -> None:
        self.found, self.longest = found, longest
        self.order = np.lexsort((found.time, found.sensor))  # by sensor, then by time
        self.begins = np.concatenate(([0], np.cumsum(np.bincount(found.sensor))))
        self.shown = [found.values]  # what was shown in each replay; first, everything
        self.everything = self._after(found.values)

    def examples(self, hidden: Flags, asked: Flags, learnt: Flags) -> Examples:
        """Examples of the rows that are asked for (n,), with cells hidden (n, d)."""
        found, d = self.found, self.found.values.shape[1]
        shown = np.where(hidden, np.nan, found.values)
        context = SensorState(d, self.longest).update(found.known, found.time, shown, asked, found.sensor)
        after, reading = self._after(shown)
        after, reading = after[asked], reading[asked]
        reading[reading >= 0] += sum(len(each) for each in self.shown)
        self.shown.append(shown)
        seen = found.rows[asked], found.values[asked], shown[asked], by_attribute(context, d)
        return Examples(*seen, after, reading, learnt[asked], found.values[:0])

    def in_outages(self, enough: int) -> Examples:
        """Examples from outages, of as many replays as it takes."""
        found, made = self.found, []
        d = found.values.shape[1]
        choice = lengths(found.sensor[self.order], found.time[self.order], found.values[self.order])
        for k in range(REPLAYS if len(choice) else 0):
            gone, of_use = outages(self.begins, found.time[self.order], choice, d, SEED + k)
            hidden, asked = self._back(gone), self._back(of_use)
            also = singles(hidden.shape, SEED + 1 + k) & (asked == 0)[:, None]
            some = self.examples(hidden | also, asked > 0, hidden)
            first = asked[asked > 0] == 2  # as if a silence ended here: the row is there, and so is the next
            after, reading = (each[asked > 0][first] for each in self.everything)
            some.shown[first], some.after[first], some.reading[first] = some.truth[first], after, reading
            made.append(some)
            if sum(len(each.row) for each in made) >= enough:
                break
        if not made:
            none = np.zeros(found.values.shape, np.bool_)
            return self.examples(none, none[:, 0], none)
        return Examples.joined(made)

    def _back(self, by_sensor: Array) -> Array:
        """From the order by sensor and time back to that of the rows."""
        out = np.empty_like(by_sensor)
        out[self.order] = by_sensor
        return out

    def _after(self, shown: Floats) -> tuple[Floats, Ints]:
        """(n, d, 2) the next value of each attribute and how much later it comes, and (n, d) in which row."""
        found = self.found
        after, reading = explaining.follow(found.sensor, found.time, shown, len(found.known))
        return after, reading


def _grown(given: Floats, then: Floats, trees: int) -> Forest:
    """Trees over given (n, f) for then (n,)."""
    columns = np.ascontiguousarray(given.T)
    with ThreadPoolExecutor(max(1, min(trees, os.cpu_count() or 1))) as pool:
        grown = list(pool.map(lambda k: forest.grow(columns, then, LEAF, SEED + k), range(trees)))
    ends = np.cumsum([[0, 0], *([len(each[0]), len(each[3])] for each in grown)], axis=0)
    feature, cut, child, kept = (readonly(np.concatenate(each)) for each in zip(*grown, strict=True))
    return Forest(feature, cut, child, kept, readonly(ends[:-1]))


class _Learner:
    """Learns one attribute."""

    def __init__(self, training: TrainingSet, history: History, then: str, *, hindsight: bool) -> None:
        self.training, self.j, self.hindsight = training, training.names.index(then), hindsight
        grid, self.step = grid_of(history.columns[then].values)
        self.grid, values = readonly(grid), history.columns[then].values
        self.values = values[~np.isnan(values)]

    def learn(self, trees: int, most: int, before: int | None = None, from_: str = ALL) -> Transition | None:
        """A transition from at most so many examples of each kind, of rows before that one."""
        j, past = self.j, self.training.some(self.j, most, before=before)
        if len(past.row) < FEWEST:
            return None
        asked = past.asked(j, both=False)
        changes = past.truth[:, j] - past.context[:, j, LAST]
        given = _only(explaining.before(asked.values, asked.context, j), explaining.AGES_BEFORE, from_)
        one = _grown(given, np.zeros(len(changes)) if from_ == NOTHING else changes, trees)
        levels = (np.arange(trees * forest.KEPT) + 0.5) / (trees * forest.KEPT)
        whole, oldest = readonly(np.quantile(self.values, levels)), float(past.context[:, j, AGE].max())
        two = self._between(trees, most, before, from_) if self.hindsight and from_ != NOTHING else None
        return Transition(one, two, self.grid, self.step, whole, oldest, AS_LEARNT, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def _between(self, trees: int, most: int, before: int | None, from_: str) -> Forest | None:
        j, both = self.j, self.training.some(self.j, most, before=before, both=True)
        if len(both.row) < FEWEST:
            return None
        asked = both.asked(j, both=True)
        away = both.truth[:, j] - explaining.on_line(asked.context, asked.after, j)
        given = explaining.between(asked.values, asked.context, asked.after, j)
        return _grown(_only(given, explaining.AGES_BETWEEN, from_), away, trees)


def _only(given: Floats, ages: tuple[int, ...], from_: str) -> Floats:
    """What is given, with all but ages blanked unless everything may be used."""
    if from_ != ALL:
        given[:, [k for k in range(given.shape[1]) if k not in ages]] = 0.0
    return given


def learn_transition(
    history: History, training: TrainingSet, then: str, rules: tuple[Rule, ...], *, hindsight: bool = True
) -> Transition | None:
    """The transition of one attribute; None unless on held-out rows it does clearly better than rules and history."""
    j, held_out = training.names.index(then), HeldOut(history, then)
    if not held_out.possible:
        return None
    held = np.flatnonzero(np.isin(training.singles.row, held_out.rows))
    held = held[~np.isnan(training.singles.context[held, j, LAST])]
    learner = _Learner(training, history, then, hindsight=hindsight)
    tried = learner.learn(TRIAL_TREES, TRIAL_ROWS, held_out.cut)
    if tried is None or not len(held):
        return None
    rows = training.singles.part(held)
    error, last = float(_errors(tried, rows, j, both=False).mean()), _error_of_last(rows, j)
    from_ = ALL
    for less in (AGES, NOTHING):  # learnt from a short history, more may be worse than less
        if error > last:
            plain = learner.learn(TRIAL_TREES, TRIAL_ROWS, held_out.cut, less)
            assert plain is not None
            if (other := float(_errors(plain, rows, j, both=False).mean())) < error:
                tried, error, from_ = plain, other, less
    same = np.searchsorted(held_out.rows, rows.row)
    without = float(held_out.scores(rules)[same].mean())
    if not error < WORTH * without:
        return None
    followed = rows.part(~np.isnan(rows.after[:, j, 0]))
    alone, with_next = (_errors(tried, followed, j, both=each) for each in (False, True))
    better = tried.between is not None and len(alone) and with_next.mean() < alone.mean()
    tried = replace(tried, widths=_widths(tried, training, j, held_out.cut))
    learnt = learner.learn(TREES, ROWS, from_=from_)
    assert learnt is not None
    return replace(
        learnt,
        between=learnt.between if better else None,
        widths=tried.widths,
        pad=_pad(tried, training, j, held_out.cut),
        error=error,
        without=without,
        nothing=float(held_out.level_0[same].mean()),
        error_last=last,
        error_between=float(with_next.mean()) if better else error,
    )


def _error_of_last(rows: Examples, j: int) -> float:
    """The mean error of imputing the last value again."""
    return float(np.abs(rows.truth[:, j] - rows.context[:, j, LAST]).mean())


def _errors(tried: Transition, rows: Examples, j: int, *, both: bool) -> Floats:
    """(rows,) the CRPS of a transition on rows as if they lacked attribute j."""
    return np.asarray(crps(*tried.distributions(rows.asked(j, both=both))[:4], rows.truth[:, j]))


def _widths(tried: Transition, training: TrainingSet, j: int, cut: int) -> Floats:
    """How much wider distributions must be at which ages, for their middle COVERED to hold that share of truths."""
    far = []
    for both in (False, True) if tried.between is not None else (False,):
        held = [_held(each, j, cut, both=both) for each in (training.singles, training.outages)]
        far.append(_far_off(tried, Examples.joined(held), j, both=both))
    ages = np.concatenate([age for age, _ in far])
    if not len(ages):
        return AS_LEARNT
    edges = np.linspace(ages.min(), ages.max(), BINS + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    found = [np.ones(BINS), np.ones(BINS)]
    for side, (age, off) in enumerate(far):
        bin_ = np.clip(np.searchsorted(edges, age) - 1, 0, BINS - 1)
        enough = np.flatnonzero(np.bincount(bin_, minlength=BINS) >= FEWEST)
        if len(enough):
            needed = [float(np.quantile(off[bin_ == k], COVERED)) for k in enough]
            found[side] = np.interp(centres, centres[enough], np.clip(needed, *WIDER))
    return readonly(np.stack((centres, *found)))


def _far_off(tried: Transition, rows: Examples, j: int, *, both: bool) -> tuple[Floats, Floats]:
    """Logarithms of ages, and how many times wider each distribution must be for its middle to hold the truth."""
    asked = rows.asked(j, both=both)
    base, changes = tried.changes(asked)
    width = changes.shape[1]
    middle, truth = changes[:, width // 2], rows.truth[:, j] - base
    side = np.where(
        truth > middle, changes[:, int((1 + COVERED) / 2 * width)], changes[:, int((1 - COVERED) / 2 * width)]
    )
    room = np.abs(side - middle)
    off = np.maximum(np.abs(truth - middle) - tried.step / 2, 0.0) / np.maximum(room, 1e-300)
    return np.log(tried.ages(asked)), off


def _held(examples: Examples, j: int, cut: int, *, both: bool) -> Examples:
    """At most HELD examples for attribute j that the trees of the trial have not seen."""
    there = examples.hidden[:, j] & (examples.row >= cut) & ~np.isnan(examples.context[:, j, LAST])
    there &= ~np.isnan(examples.truth[:, j])
    there &= ~np.isnan(examples.after[:, j, 0]) if both else True
    which = np.flatnonzero(there)
    return examples.part(np.sort(np.random.default_rng(SEED).choice(which, min(len(which), HELD), replace=False)))


def _pad(tried: Transition, training: TrainingSet, j: int, cut: int) -> float:
    """How far beyond its ends the reach must go to hold nearly all that hindsight gives to held-out rows."""
    kinds = (training.singles, training.outages)
    return max(_far(tried, each, j, cut, outside) for each, outside in zip(kinds, OUTSIDE, strict=True))


def _far(tried: Transition, examples: Examples, j: int, cut: int, outside: float) -> float:
    """The same, for one kind of examples."""
    rows = _held(examples, j, cut, both=True)
    if not len(rows.row):
        return 0.0
    low, high = replace(tried, pad=0.0).reach(rows.asked(j, both=False), -np.inf, np.inf)
    lowest, highest = replace(tried, pad=1.0).reach(rows.asked(j, both=False), -np.inf, np.inf)
    found = tried.distributions(rows.asked(j, both=True))
    of = np.repeat(np.arange(len(found.size)), found.size)
    way = np.where(found.value < low[of], low[of] - lowest[of], highest[of] - high[of])
    off = np.maximum(low[of] - found.value, found.value - high[of]) / np.maximum(way, tried.step)
    order = np.argsort(off)
    share = np.cumsum((found.often / np.bincount(of, found.often)[of])[order]) / len(found.size)
    far = float(off[order][min(int(np.searchsorted(share, 1 - outside)), len(off) - 1)])
    return min(max(far, 0.0), FARTHEST)
