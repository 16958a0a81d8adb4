"""Imputing as Fogline does by itself: by what it finds in the history, rules or sensors, and nothing else.

The same repository, the same state of sensors and the same search that a monitor uses. Where R also holds what comes
later (the paper's protocol), sensors are remembered from before the stream only, as with `last` and `con`.

`FoglineDefault` does without hindsight, and imputes every row at once: a rival like the others. With hindsight a chain
must be asked again as readings come in; `lab.revising` does that.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Distributions, Floats
from fogline.impute.chain import Chain, chain_of
from fogline.impute.imputer import Eager, Evidence
from fogline.model import Query
from fogline.repository.sensors.state import SensorState
from lab.case import AT, SENSOR
from lab.imputers.fittable import gathered
from lab.imputers.once import fit_once
from lab.imputers.sensor_numbers import before, names_of, times_of


class FoglineDefault(Eager):
    """See the module. Where the set has sensors, they are what the query's id names; rows without one have the same."""

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
