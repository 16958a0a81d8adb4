"""What may a missing value be, by the sensor's own past?

`Past`: the sensor's last value plus the changes that followed on contexts like this one in history (a `Transition` per
attribute). `Last`: the last value again. `RecentRule`: a user's rule about what the same sensor read lately. All three
answer from the context that the sensor's state gave the row when it came; where the state knows nothing, they are not
able.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fogline.arrays import Distributions, Flags, Floats
from fogline.impute.imputer import Evidence, ends, listed, nothing, points, spread
from fogline.model import Query, Rule
from fogline.repository.sensors.model import SensorModel

OWN = "sensor's own past"


class Past:
    """Keeps the context of a row's attributes, and the readings it came with."""

    name, lasting = OWN, True

    def __init__(self, sensors: SensorModel, query: Query) -> None:
        self.sensors, self.query = sensors, query
        self.context = sensors.own_width
        self.width = self.context + len(sensors.names)
        self.limits = [query.limits.get(name, (-np.inf, np.inf)) for name in query.names]

    def look(self, rows: Evidence) -> Floats:
        out = np.full((len(rows.values), self.width), np.nan)
        if rows.context is not None:
            out[:, : self.context] = rows.context[:, : self.context]
        out[:, self.context :] = readings(rows.values, self.sensors, self.query)
        return out

    def able(self, known: Floats, j: int) -> Flags:
        name = self.query.names[j]
        if name not in self.sensors.transitions:
            return np.zeros(len(known), np.bool_)
        return np.asarray(~np.isnan(self.sensors.last(name, known)))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        low, high = np.full(len(known), np.nan), np.full(len(known), np.nan)
        able, name = self.able(known, j), self.query.names[j]
        if able.any():
            context, values = known[able, : self.context], known[able, self.context :]
            if rough:
                found = self.sensors.rough_reach(name, context, *self.limits[j])
            else:
                found = self.sensors.bounds(name, values, context, None, *self.limits[j])
            low[able], high[able] = found
        return low, high

    def distributions(self, known: Floats, j: int) -> Distributions:
        able, name = self.able(known, j), self.query.names[j]
        if not able.any():
            return nothing(len(known))
        context, values = known[able, : self.context], known[able, self.context :]
        return spread(self.sensors.distributions(name, values, context, None, *self.limits[j]), able)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)


class Last:
    """Keeps the last value of each attribute."""

    name, lasting = "last value", True

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

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def _plausible(self, known: Floats, j: int) -> Floats:
        return np.clip(known[:, j], *self.query.limits.get(self.query.names[j], (-np.inf, np.inf)))


class RecentRule:
    """One rule about what the same sensor read lately. Keeps what the rule finds."""

    lasting = True

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

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return ends(self.distributions(known, j))

    def distributions(self, known: Floats, j: int) -> Distributions:
        return listed(known) if j == self.attribute else nothing(len(known))

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)


def readings(values: Floats, sensors: SensorModel, query: Query) -> Floats:
    """(n, attributes of the sensors) what the rows read, in the order in which contexts have it."""
    out = np.full((len(values), len(sensors.names)), np.nan)
    for k, name in enumerate(sensors.names):
        if name in query.attributes:
            out[:, k] = values[:, query.names.index(name)]
    return out
