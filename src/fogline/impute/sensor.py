"""Imputers that know what the row's sensor has read before: `Past`, `Last`, `RecentRule`.

All three answer from the row's *context*: what the state of sensors knew of its sensor when the row came (see
`repository.sensors.state`). Where the state knows nothing they are not able.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Distributions, Flags, Floats, Revisions
from fogline.impute.protocol import BaseImputer, Evidence, listed, nothing, points, spread
from fogline.impute.scores import OWN
from fogline.kernels.explaining import note_next
from fogline.query import Query, Rule
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.transition import Lacking, Transition


class Past(BaseImputer):
    """Imputes by the transitions that were learnt: the sensor's last value, plus the changes that followed on such
    contexts in history; once the sensor has been read again, by what lay between two such readings.

    Keeps the context, the row's own values and, with hindsight, per attribute the next value that was read and how much
    later it came. For attribute j only next values count that came no later than that of j: so a revised answer stays.
    """

    name = OWN

    def __init__(self, sensors: SensorModel, query: Query) -> None:
        self.sensors, self.query, self.names = sensors, query, query.names
        self.context = sensors.own_width
        self.came = self.context + len(sensors.names)  # numbers known when the row comes; next values follow
        self.width = self.came + (2 * len(sensors.names) if sensors.hindsight else 0)
        self.limits = [query.limits.get(name, (-np.inf, np.inf)) for name in query.names]
        self.number = [sensors.names.index(name) if name in sensors.transitions else -1 for name in query.names]
        self.gains = [sensors.gains(name) for name in query.names]

    def look(self, rows: Evidence) -> Floats:
        out = np.full((len(rows.values), self.width), np.nan)
        if rows.context is not None:
            out[:, : self.context] = rows.context[:, : self.context]
            if self.sensors.hindsight:
                out[:, self.came :] = self.sensors.next_values(rows.context)
        out[:, self.context : self.came] = readings(rows.values, self.sensors, self.query)
        return out

    def note(self, known: Floats, revisions: Revisions) -> Floats:
        if not self.sensors.hindsight:
            return known
        came = revisions.time - revisions.target
        out: Floats = note_next(
            np.ascontiguousarray(known), self.came, readings(revisions.values, self.sensors, self.query), came
        )
        return out

    def first(self, known: Floats) -> Floats:
        out = known.copy()
        out[:, self.came :] = np.nan
        return out

    def able(self, known: Floats, j: int) -> Flags:
        if self.number[j] < 0:
            return np.zeros(len(known), np.bool_)
        return np.asarray(self._has_last(known, j) | self._revised(known, j))

    def open(self, known: Floats, j: int) -> Flags:
        return ~self._revised(known, j) if self.gains[j] else np.zeros(len(known), np.bool_)

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        able = self.able(known, j)
        low, high = np.full(len(known), np.nan), np.full(len(known), np.nan)
        if not able.any():
            return low, high
        if able.all():
            return self._bounds(known, j, rough)
        low[able], high[able] = self._bounds(known[able], j, rough)
        return low, high

    def reach(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        opened = self.open(known, j)
        if not opened.any():
            return self.bounds(known, j, rough=rough)
        final, after_last = ~opened, opened & self._has_last(known, j)
        if after_last.all():
            return self._reach(known, j, rough)
        low, high = np.full(len(known), np.nan), np.full(len(known), np.nan)
        low[opened], high[opened] = self._transition(j).span(*self.limits[j])
        if final.any():
            low[final], high[final] = self.bounds(known[final], j, rough=rough)
        if after_last.any():
            low[after_last], high[after_last] = self._reach(known[after_last], j, rough)
        return low, high

    def distributions(self, known: Floats, j: int) -> Distributions:
        able = self.able(known, j)
        if not able.any():
            return nothing(len(known))
        some = known if able.all() else known[able]
        return spread(self._transition(j).distributions(self._lacking(some, j), *self.limits[j]), able)

    def way(self, j: int) -> str:
        later = ", revised by its next reading" if self.gains[j] else ""
        return f"the sensor's own past{later}" if self.number[j] >= 0 else ""

    def _transition(self, j: int) -> Transition:
        return self.sensors.transitions[self.names[j]]

    def _lacking(self, known: Floats, j: int) -> Lacking:
        context, values = known[:, : self.context], known[:, self.context : self.came]
        return self.sensors.lacking(self.names[j], values, context, self._after(known, j))

    def _after(self, known: Floats, j: int) -> Floats | None:
        """(n, d, 2) the next values, and how much later they came, that count for attribute j; NaN elsewhere."""
        if not self.gains[j] or np.isnan(known[:, self.came + 2 * self.number[j] + 1]).all():
            return None
        after = known[:, self.came :].reshape(len(known), -1, 2).copy()
        after[~(after[:, :, 1] <= after[:, self.number[j], 1][:, None])] = np.nan
        return after

    def _bounds(self, known: Floats, j: int, rough: bool) -> tuple[Floats, Floats]:
        asked, revised = self._lacking(known, j), self._revised(known, j)
        if not rough or revised.all():
            return self._transition(j).bounds(asked, *self.limits[j])
        low, high = self._transition(j).rough_reach(asked, *self.limits[j])
        if revised.any():
            low[revised], high[revised] = self._bounds(known[revised], j, False)
        return low, high

    def _reach(self, known: Floats, j: int, rough: bool) -> tuple[Floats, Floats]:
        transition, asked = self._transition(j), self._lacking(known, j)
        return transition.rough_reach(asked, *self.limits[j]) if rough else transition.reach(asked, *self.limits[j])

    def _has_last(self, known: Floats, j: int) -> Flags:
        return np.asarray(~np.isnan(self.sensors.last(self.names[j], known)))

    def _revised(self, known: Floats, j: int) -> Flags:
        """(n,) for which rows the next value of attribute j is known."""
        if not self.gains[j]:
            return np.zeros(len(known), np.bool_)
        return np.asarray(~np.isnan(known[:, self.came + 2 * self.number[j] + 1]))


class Last(BaseImputer):
    """Imputes the last value again. Keeps it, of each attribute."""

    name, repeats_last = "last value", True

    def __init__(self, sensors: SensorModel, query: Query) -> None:
        self.sensors, self.query, self.width = sensors, query, len(query.names)

    def look(self, rows: Evidence) -> Floats:
        if rows.context is None:
            return np.full((len(rows.values), self.width), np.nan)
        return np.stack([self.sensors.last(name, rows.context) for name in self.query.names], axis=1)

    def able(self, known: Floats, j: int) -> Flags:
        return np.asarray(~np.isnan(known[:, j]))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        value = self._plausible(known, j)
        return value, value.copy()

    def distributions(self, known: Floats, j: int) -> Distributions:
        return points(self._plausible(known, j))

    def way(self, j: int) -> str:
        return "the sensor's last value"

    def _plausible(self, known: Floats, j: int) -> Floats:
        return np.clip(known[:, j], *self.query.limits.get(self.query.names[j], (-np.inf, np.inf)))


class RecentRule(BaseImputer):
    """Imputes by one rule about what the same sensor read lately. Keeps the values that the rule finds."""

    def __init__(self, rule: Rule, number: int, sensors: SensorModel, query: Query) -> None:
        self.name, self.rule, self.number, self.sensors = str(rule), rule, number, sensors
        self.attribute = query.names.index(rule.then) if rule.then in query.names else -1
        self.width = sensors.recent_width

    def look(self, rows: Evidence) -> Floats:
        if rows.context is None:
            return np.full((len(rows.values), self.width), np.nan)
        return self.sensors.recent_values(self.number, rows.context)

    def able(self, known: Floats, j: int) -> Flags:
        return np.asarray((j == self.attribute) & ~np.isnan(known).all(axis=1))

    def distributions(self, known: Floats, j: int) -> Distributions:
        return listed(known) if j == self.attribute else nothing(len(known))

    def way(self, j: int) -> str:
        return self.name if j == self.attribute else ""


def readings(values: Floats, sensors: SensorModel, query: Query) -> Floats:
    """(n, attributes of the sensors) the rows' values, in the order that contexts have."""
    if sensors.names == query.names:
        return values
    out = np.full((len(values), len(sensors.names)), np.nan)
    for k, name in enumerate(sensors.names):
        if name in query.attributes:
            out[:, k] = values[:, query.names.index(name)]
    return out
