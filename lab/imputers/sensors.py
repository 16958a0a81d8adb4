"""What do sensors' own readings give: Fogline's default, and two rivals that look at both sides of a gap?

`FoglineDefault` imputes as Fogline does by itself, by the rules or sensors it finds in the history: the repository, the
state of sensors and the search that a monitor uses. Where R also holds what comes later (the paper's protocol), sensors
are remembered from before the stream only, as with `last` and `con`. It does without hindsight; with hindsight a chain
must be asked again as readings come in, which `lab.revising` does.

`Between` is a rival of equal right to Fogline with hindsight: it is fed the same revisions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Distributions, Flags, Floats, Revisions
from fogline.impute.chain import Chain, chain_of
from fogline.impute.protocol import Eager, Evidence, points
from fogline.kernels.sensors import AGE, LAST, PARTS
from fogline.query import Query
from fogline.repository.sensors.state import SensorState
from lab.case import AT, SENSOR, matrix
from lab.imputers.fittable import before, fit_once, gathered, names_of, times_of


class FoglineDefault(Eager):
    """Where the set has sensors, they are what the query's id names; rows without one have the same."""

    def __init__(self) -> None:
        super().__init__("Fogline-past")

    def fit(self, history: pa.Table, query: Query) -> None:
        self.history, self.names = history, query.names
        self.chain = default_chain(history, query, hindsight=False)
        self.state: SensorState | None = None

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        if self.state is None:
            self.state = begun(self.chain, self.history, rows, self.names)
        context = None if self.state is None else seen(self.state, rows)
        known = self.chain.evidence(Evidence(rows.values, rows.missing, rows.source, rows.which, context))
        answers = self.chain.search(known, rows.missing)
        return gathered(len(rows.values), ((each.attribute, each.rows, each.found) for each in answers))


def default_chain(history: pa.Table, query: Query, *, hindsight: bool | None = None) -> Chain:
    """What a monitor would ask; `hindsight` None: as learnt."""
    if AT in history.schema.names:
        query = Query(attributes=query.attributes, id=SENSOR, time=AT, lifetime=1, alpha=query.alpha)
        if SENSOR not in history.schema.names:
            history = history.append_column(SENSOR, pa.repeat("", history.num_rows))
    chain = chain_of(fit_once(history, query), query, hindsight=hindsight)
    assert chain is not None
    return chain


def begun(chain: Chain, history: pa.Table, rows: Evidence, names: tuple[str, ...]) -> SensorState | None:
    """What sensors sent before the first of these rows; R may also hold what they send later. None: not remembered."""
    if chain.sensors is None:
        return None
    if pc.less_equal(pc.max(history.column(AT)), pc.min(rows.column(AT))).as_py():
        return chain.sensors.state()
    return filled(chain.sensors.empty_state(), history, rows, names)


def filled(state: SensorState, history: pa.Table, rows: Evidence, names: tuple[str, ...]) -> SensorState:
    """The state with what R holds from before the first of these rows."""
    seen(state, before(history, rows, names))
    return state


def seen(state: SensorState, rows: Evidence) -> Floats:
    """(n, w) the contexts of rows with gaps, NaN for the others; they join the state."""
    wanted = np.asarray(rows.missing.any(axis=1))
    out = np.full((len(wanted), state.width), np.nan)
    out[wanted] = state.update(names_of(rows), times_of(rows), rows.values, wanted)
    return out


# -------------------------------------------------------------------------------------------------- both sides of a gap


WAYS = ("linear", "nearest")
BEYOND = 100.0  # ranges of R on either side of it: no line between two readings leaves that


class Between:
    """Keeps of each attribute the last value, its age, the next value, and how much later that came.

    Before the sensor is read again, a gap is its last value. Then `linear` draws a line between the two readings, and
    `nearest` takes the one that is nearer in time. Both sides unknown: the mean over R. A first box spans many times
    the range of R, so nothing is clipped.
    """

    lasting = True

    def __init__(self, way: str, history: pa.Table, query: Query) -> None:
        self.name, self.d = way, len(query.names)
        self.width = 4 * self.d
        past = matrix(history, query.names)
        self.mean, low, high = past.mean(axis=0), past.min(axis=0), past.max(axis=0)
        apart = BEYOND * np.maximum(high - low, 1.0)
        self.low, self.high = low - apart, high + apart

    def look(self, rows: Evidence) -> Floats:
        n = len(rows.values)
        known = np.full((n, self.d, 4), np.nan)
        if rows.context is not None:
            past = rows.context[:, : self.d * PARTS].reshape(n, self.d, PARTS)
            known[:, :, 0], known[:, :, 1] = past[:, :, LAST], past[:, :, AGE]
            known[:, :, 2:] = rows.context[:, -2 * self.d :].reshape(n, self.d, 2)
        return known.reshape(n, self.width)

    def note(self, known: Floats, revisions: Revisions) -> Floats:
        """What was read next, once."""
        out = known.copy()
        values, ages = out[:, 2::4], out[:, 3::4]
        new = np.isnan(ages) & ~np.isnan(revisions.values)
        values[new] = revisions.values[new]
        ages[new] = np.broadcast_to((revisions.time - revisions.target)[:, None], new.shape)[new]
        return out

    def first(self, known: Floats) -> Floats:
        """The last values only."""
        out = known.copy()
        out[:, 2::4] = out[:, 3::4] = np.nan
        return out

    def able(self, known: Floats, j: int) -> Flags:
        return np.ones(len(known), np.bool_)

    def open(self, known: Floats, j: int) -> Flags:
        return np.asarray(np.isnan(known[:, 4 * j + 3]))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        value = self._value(known, j)
        return value, value.copy()

    def reach(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        value, opened = self._value(known, j), self.open(known, j)
        return np.where(opened, self.low[j], value), np.where(opened, self.high[j], value)

    def distributions(self, known: Floats, j: int) -> Distributions:
        return points(self._value(known, j))

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def _value(self, known: Floats, j: int) -> Floats:
        """(n,) the value that is imputed."""
        last, age, then, later = known[:, 4 * j : 4 * j + 4].T
        whole = age + later
        if self.name == WAYS[0]:
            with np.errstate(divide="ignore", invalid="ignore"):
                between = np.where(whole > 0, last + (then - last) * (age / whole), last)
        else:
            between = np.where(later < age, then, last)
        one = np.where(np.isnan(last), then, last)  # one side, if there is only one
        value = np.where(np.isnan(last) | np.isnan(then), one, between)
        return np.asarray(np.where(np.isnan(value), self.mean[j], value))
