"""What has a row's sensor read before it, and which earlier gaps does the row itself revise?

Wherever the readings lie: in a bucket of sensors, where rows pass as they come, or with a group, when rows are due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints, Revisions, objects
from fogline.flow.piece import Piece, copies_in
from fogline.flow.plan import Plan
from fogline.impute.fill import needs_of
from fogline.impute.scoring import Scorer
from fogline.kernels.sensors import COPY, TAKEN
from fogline.repository.sensors.gaps import Hidden, Revised, gaps_of
from fogline.repository.sensors.state import Name, SensorRows, SensorState
from fogline.rows.names import Key


class Recalled(NamedTuple):
    """What a state of sensors gave some rows."""

    context: Floats  # (n, w) what their sensors have read before; NaN for rows that do not need it
    opened: Flags  # (n,) which rows have gaps that a later reading may revise
    revised: Revised | None  # which gaps they revise; None: there is no hindsight
    hidden: Hidden | None  # which known values are hidden, to keep score; None: that is not done
    fate: Ints  # (n,) what becomes of the rows, see `kernels.sensors.Candidates`

    @property
    def copies(self) -> list[int]:
        """The rows that do not count, since another of their stamp does."""
        return [int(k) for k in np.flatnonzero(self.fate == COPY)]


class Recall:
    """Asks states of sensors."""

    def __init__(self, plan: Plan) -> None:
        assert plan.chain is not None
        assert plan.chain.sensors is not None
        self.plan, self.query, self.chain, self.sensors = plan, plan.query, plan.chain, plan.chain.sensors
        self.scorer = Scorer(plan.chain) if plan.scores else None

    def recall(self, kept: SensorState, names: Sequence[Name], piece: Piece, near: Flags | None = None) -> Recalled:
        """What the sensors have read before, and what becomes of the rows; those that count join the state.

        Rows that are not `near` (None: all are) run ahead of their group, and are neither readings nor gaps yet.
        """
        rows, chain, n = piece.rows, self.chain, len(piece.rows.arrived)
        values, refused = chain.values(rows.uncertain, rows.raw), np.zeros(n, np.bool_)
        refused[list(rows.refused)] = True
        read = ~refused if near is None else near & ~refused
        if rows.gone is not None:
            read &= ~rows.gone
        values[~read] = np.nan
        wanted = np.asarray(np.isnan(values).any(axis=1))
        hiding = None if self.scorer is None else self.scorer.hiding(rows.arrived, values)
        gaps = None
        if chain.hindsight:
            gaps = gaps_of(self.query, np.isnan(rows.uncertain.lo), rows.expires)
            gaps.open[~read | _copies(kept, names, piece)] = False
        asked = SensorRows(names, rows.arrived, values, wanted, piece.name, gaps, hiding=hiding)
        needs = needs_of(chain, rows, None, refused)
        asked = chain.undecided(asked, copies_in(piece, self.plan), needs, read, rows.version)
        context, revised, fate = chain.take(kept, asked)
        opened = np.zeros(n, np.bool_) if gaps is None else gaps.open.any(axis=1) & (fate == TAKEN)
        hidden = None if hiding is None else hiding.hidden
        return Recalled(context, opened, revised if chain.hindsight else None, hidden, fate)

    def revisions(
        self, kept: SensorState, names: Sequence[Name], piece: Piece, found: Recalled, stay: Ints
    ) -> dict[Key, Revisions]:
        """What the rows revise, by the keys of their groups. Rows that do not `stay` have no open gaps any longer."""
        if (revised := found.revised) is None:
            return {}
        gone = np.ones(len(found.opened), np.bool_)
        gone[stay] = False
        closed = np.flatnonzero(gone & found.opened)
        kept.close(names, piece.rows.arrived[closed], piece.name[closed])
        left = np.flatnonzero((revised.row < 0) | ~gone[revised.row])
        reading, rows = revised.reading[left], piece.rows
        values = self.chain.values(rows.uncertain.part(reading), rows.raw[reading])
        ids = objects(piece.block.columns.column(self.query.id).take(pa.array(reading)).to_pylist())
        events = Revisions(ids, revised.target[left], rows.arrived[reading], revised.cells[left], values)
        group = piece.group[reading]
        return {piece.keys[k]: events.part(np.flatnonzero(group == k)) for k in np.unique(group).tolist()}


def _copies(kept: SensorState, names: Sequence[Name], piece: Piece) -> Flags:
    """(n,) which rows have the sensor and the time of an earlier one, as far as it is known: the gaps are its own."""
    arrived, gaps = piece.rows.arrived, kept.open_gaps()
    sensor = np.array([kept.number.get(name, -1) for name in names], np.int64)[piece.name]
    open_rows = np.repeat(np.arange(len(gaps.size)), gaps.size) + 1j * gaps.time
    out: Flags = np.isin(sensor + 1j * arrived, open_rows)
    late = np.flatnonzero(arrived <= kept.newest(names)[piece.name])
    out[late] |= (kept.times[sensor[late]] == arrived[late, None, None]).any(axis=(1, 2))
    return out
