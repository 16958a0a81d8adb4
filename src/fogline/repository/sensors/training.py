"""From which readings is learnt how sensors change, and does it pay?

Where history names sensors and times, it is replayed as a stream of readings. Readings are hidden at random meanwhile,
so that contexts have gaps as in a stream. An attribute gets a transition if that imputes the newest tenth of the
history, which the trees of the trial have not seen, clearly better than rules do.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels import forest
from fogline.kernels.crps import crps
from fogline.kernels.forest import Forest
from fogline.kernels.sensors import LAST
from fogline.model import Query, Rule
from fogline.repository.access.protocol import readonly
from fogline.repository.held_out import WORTH, HeldOut
from fogline.repository.history import History, numbered
from fogline.repository.sensors.state import Name, SensorState
from fogline.repository.sensors.transition import Transition, by_attribute, features, grid_of

TREES, LEAF, ROWS = 20, 20, 120_000
TRIAL_TREES, TRIAL_ROWS = 5, 20_000
HIDDEN, SEED = 0.3, 11
NEWEST = 2_000_000  # rows of a longer history from which sensors are learnt
FEWEST = 1_000  # readings that follow another of their sensor; from fewer nothing is learnt


class HistoryReadings(NamedTuple):
    """The rows that name their sensor and their time, in order."""

    rows: Ints  # (n,) which rows of the history these are
    sensor: Ints  # (n,) the number of each one's sensor
    known: list[Name]  # what the numbers stand for
    time: Floats  # (n,)
    values: Floats  # (n, d)


def readings(history: History, query: Query) -> HistoryReadings | None:
    """The newest readings of a history; None where it does not name sensors and times."""
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
    """What the sensors have read last, in this history."""
    state, found = SensorState(len(query.names), longest), readings(history, query)
    if found is not None:
        state.update(found.known, found.time, found.values, np.zeros(len(found.rows), np.bool_), found.sensor)
    return state


@dataclass(frozen=True)
class TrainingSet:
    """History as a stream of readings, some hidden: what was there, what was shown, and in which contexts."""

    names: tuple[str, ...]
    rows: Ints  # which rows of the history these are
    truth: Floats  # (n, d)
    shown: Floats  # (n, d)
    context: Floats  # (n, d, PARTS)

    @classmethod
    def of(cls, history: History, query: Query, longest: float = np.inf) -> TrainingSet | None:
        """None where history does not name sensors and times, or hardly any sensor is read twice."""
        found = readings(history, query)
        if found is None or not longest > 0:
            return None
        again = np.flatnonzero(np.bincount(found.sensor)[found.sensor] > 1)
        if len(again) < FEWEST or len(again) < len(found.rows) / 2:
            return None
        hidden = np.random.default_rng(SEED).random(found.values.shape) < HIDDEN
        shown = np.where(hidden, np.nan, found.values)
        all_rows = np.ones(len(found.rows), np.bool_)
        d = len(query.names)
        context = SensorState(d, longest).update(found.known, found.time, shown, all_rows, found.sensor)
        return cls(query.names, found.rows, found.values, shown, by_attribute(context, d))

    def learn(self, j: int, among: Ints, trees: int, most: int) -> Forest | None:
        """Trees for the changes of attribute j, from at most so many of these readings."""
        change = self.truth[among, j] - self.context[among, j, LAST]
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
        feature, cut, child, kept = (readonly(np.concatenate(each)) for each in zip(*grown, strict=True))
        return Forest(feature, cut, child, kept, readonly(ends[:-1]))

    def trial(self, j: int, tried: Transition, held: Ints) -> Floats:
        """(held,) the CRPS of a transition on readings of which attribute j is hidden."""
        shown = self.shown[held]
        shown[:, j] = np.nan
        last, context = self.context[held, j, LAST].copy(), self.context[held]
        found = tried.distributions(last, features(shown, context, j), np.ones(len(held), np.int64))
        return np.asarray(crps(*found[:4], self.truth[held, j]))


def learn_transition(history: History, training: TrainingSet, then: str, rules: tuple[Rule, ...]) -> Transition | None:
    """The transition of one attribute, if on held-out rows it does better than rules and whole history."""
    j, held_out = training.names.index(then), HeldOut(history, then)
    if not held_out.possible:
        return None
    held = np.flatnonzero(np.isin(training.rows, held_out.rows))
    held = held[~np.isnan(training.context[held, j, LAST])]
    trees = training.learn(j, np.flatnonzero(training.rows < held_out.cut), TRIAL_TREES, TRIAL_ROWS)
    if trees is None or not len(held):
        return None
    grid, step = grid_of(history.columns[then].values)
    grid = readonly(grid)
    error = float(training.trial(j, Transition(trees, grid, step, 0.0, 0.0), held).mean())
    without = float(held_out.scores(rules)[np.searchsorted(held_out.rows, training.rows[held])].mean())
    if not error < WORTH * without:
        return None
    learnt = training.learn(j, np.arange(len(training.rows)), TREES, ROWS)
    assert learnt is not None
    return Transition(learnt, grid, step, error, without)
