"""What a history knows of its sensors.

A transition per attribute, rules about what the same sensor has read lately, and the newest readings of every sensor,
with which a stream begins. Any of the three may be all there is: `method="last"` needs only the readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.errors import HistoryError, RuleError
from fogline.kernels.sensors import AGE, LAST, PARTS, Recent
from fogline.query import Query, Rule
from fogline.repository.history import TEXTS, History
from fogline.repository.sensors.gaps import no_gaps
from fogline.repository.sensors.state import READINGS, Name, SensorState
from fogline.repository.sensors.training import newest_state
from fogline.repository.sensors.transition import Lacking, Transition, by_attribute


@dataclass(frozen=True)
class SensorModel:
    """How sensors change, which rules speak of the recent past, and what each sensor has read last."""

    names: tuple[str, ...]  # the attributes, in the order that contexts have
    keys: tuple[str, ...]  # the columns that name a sensor
    longest: float  # how old a remembered reading may be, in units of the clock
    transitions: Mapping[str, Transition]
    recent: tuple[Rule, ...]  # about what the same sensor has read lately; `time` is among what is given
    time: str  # the clock's column
    known: tuple[pa.Array, ...]  # of each key, what it is for each sensor, as texts
    times: Floats  # (sensors, d, READINGS) of their newest readings, -inf = none
    values: Floats  # (sensors, d, READINGS)
    most: int | None = None  # sensors that a stream's state may hold (`Query.max_sensors`); None: any number

    @cached_property
    def known_sensors(self) -> tuple[Name, ...]:
        """What the sensors of the history are called."""
        return tuple(zip(*(part.to_pylist() for part in self.known), strict=True))

    @cached_property
    def width(self) -> int:
        """How many numbers a context has."""
        return self.empty_state().width

    @property
    def own_width(self) -> int:
        """Numbers of a context that are about the row's own attributes; those of rules about the recent past follow."""
        return len(self.names) * PARTS

    @property
    def recent_width(self) -> int:
        """Numbers of a context for one rule about the recent past."""
        return READINGS

    def state(self, which: Sequence[int] | None = None) -> SensorState:
        """The state with which a stream begins; `which`: of these sensors only."""
        these = range(len(self.known_sensors)) if which is None else which
        known = [self.known_sensors[k] for k in these]
        begun = self.empty_state().holding(known, self.times[these], self.values[these])
        begun.untouched = True
        return begun

    def taken_over(self, kept: SensorState, names: Sequence[str]) -> SensorState:
        """The readings of another model's state, whose attributes had these names; its gaps are closed."""
        (times, values), newest = kept.arrays(), kept.open_gaps().heard
        shape = (len(times), len(self.names), READINGS)
        all_times, all_values = np.full(shape, -np.inf), np.full(shape, np.nan)
        for j, name in enumerate(self.names):
            if name in names:
                all_times[:, j], all_values[:, j] = times[:, names.index(name)], values[:, names.index(name)]
        found = self.empty_state()
        found.holding(kept.names, all_times, all_values, no_gaps(newest, len(self.names)))
        found.untouched = kept.untouched
        found.rows = kept.rows[: len(times)].copy()
        if kept.versions is not None:
            found.versions, was = found.all_versions(), kept.all_versions()[: len(times)]
            for j, name in enumerate(self.names):
                if name in names:
                    found.versions[:, j] = was[:, names.index(name)]
        return found

    def empty_state(self) -> SensorState:
        """A state without readings."""
        given = [[rule.given.get(name, np.nan) for name in self.names] for rule in self.recent]
        span = np.array([rule.given[self.time] for rule in self.recent], np.float64)
        then = np.array([self.names.index(rule.then) for rule in self.recent], np.int64)
        radius = np.array(given, np.float64).reshape(len(span), len(self.names))
        rules = Recent(radius, span, then)
        return SensorState(len(self.names), self.longest, recent=rules, most=self.most, hindsight=self.hindsight)

    def check_keys(self, query: Query) -> None:
        """An error unless the query names sensors and times as the history did."""
        fitted, asked = (*self.keys, self.time), (*query.by, query.id, query.time)
        if fitted != asked:
            raise HistoryError(
                f"the repository knows sensors by {', '.join(fitted)}, and the query names them by {', '.join(asked)}; "
                "fit it for this query (or with retention=0, to do without earlier readings)."
            )

    def recent_values(self, r: int, context: Floats) -> Floats:
        """(n, READINGS) what the r-th rule about the recent past finds; NaN where there is nothing."""
        first = len(self.names) * PARTS + r * READINGS
        return np.ascontiguousarray(context[:, first : first + READINGS])

    @property
    def hindsight(self) -> bool:
        """Whether some gap is imputed better once its sensor has been read again."""
        return any(self.gains(name) for name in self.transitions)

    def gains(self, name: str) -> bool:
        """Whether this attribute is."""
        return name in self.transitions and self.transitions[name].between is not None

    def without_hindsight(self) -> SensorModel:
        """The same model, by the past alone."""
        return replace(self, transitions={name: replace(each, between=None) for name, each in self.transitions.items()})

    def next_values(self, context: Floats) -> Floats:
        """(n, d · 2) the next value of each attribute and how much later it came, where it was there before the row."""
        return np.ascontiguousarray(context[:, self.width - 2 * len(self.names) :])

    def lacking(self, name: str, values: Floats, context: Floats, after: Floats | None = None) -> Lacking:
        """What to ask the transition of attribute `name`: values (n, d) and contexts (n, width) of the same readings.

        after (n, d, 2): of each attribute the sensor's next value, and how much later it came; NaN where that is not
        known, or came later than the next value of `name` itself. Without the latter the past alone is used. Only for
        readings whose last or next value is known.
        """
        after = None if after is None else np.ascontiguousarray(after)
        own = by_attribute(context, len(self.names))
        return Lacking(np.ascontiguousarray(values), own, after, self.names.index(name))

    def last(self, name: str, context: Floats) -> Floats:
        """(n,) the last values of attribute `name`; NaN where nothing is remembered."""
        return np.ascontiguousarray(context[:, self.names.index(name) * PARTS + LAST])

    def age(self, name: str, context: Floats) -> Floats:
        """(n,) how old the last values are; NaN where nothing is remembered."""
        return np.ascontiguousarray(context[:, self.names.index(name) * PARTS + AGE])


def about_recent(rules: Iterable[Rule], query: Query) -> tuple[Rule, ...]:
    """The rules about what the same sensor has read lately: those that give the query's time."""
    found = tuple(rule for rule in rules if query.time in rule.given)
    keys = (*query.by, query.id)
    for rule in found:
        strange = [name for name in rule.given if name not in (query.time, *keys, *query.names)]
        if strange or any(rule.given.get(name) != 0 for name in keys) or rule.then not in query.names:
            raise RuleError(
                f"the rule '{rule}' speaks of {query.time!r}: such a rule imputes an attribute of the query from "
                f"what the same sensor has read lately, so it must give {' and '.join(map(repr, keys))} (equal), and "
                "may give other attributes of the query."
            )
    return found


def gathered(
    history: History,
    query: Query,
    longest: float,
    transitions: Mapping[str, Transition],
    recent: tuple[Rule, ...] = (),
    *,
    keep_state: bool = False,
) -> SensorModel | None:
    """The model, with the newest readings of the history; None where nothing needs it.

    `keep_state`: the newest readings are needed by themselves.
    """
    if recent and not longest > 0:
        raise RuleError(f"the rule '{recent[0]}' needs what sensors have read before, and retention is 0.")
    if not (transitions or recent or keep_state) or not longest > 0:
        return None
    state, keys = newest_state(history, query, longest), (*query.by, query.id)
    names = list(zip(*state.names, strict=True)) or [()] * len(keys)
    known, kept = tuple(pa.array(part, TEXTS) for part in names), state.arrays()
    return SensorModel(query.names, keys, longest, transitions, recent, query.time, known, *kept)
