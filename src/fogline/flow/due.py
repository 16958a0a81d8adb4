"""What is a row's gap, by the moment the row is due?

Where rows wait for those that come late (`lateness`), the order in which they came shows nothing: a row's context, what
its sensor has read before, is that of the moment it is due, in the order of time. And what a row carries over is of the
row that it replaces. Only its group knows that moment, and that row. So rows travel and wait as they came, none of them
screened, since each is a reading; the readings of a group's sensors lie with the group's state. When they are due, and
are known as readings, those that cannot matter are dropped as elsewhere, unless some are late.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags
from fogline.engine.store import AnyGroup
from fogline.flow.block import RowBlock, concat
from fogline.flow.carrying import Carrying
from fogline.flow.cells import Cells
from fogline.flow.newest import in_turn
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Piece, asked_at_once, copies_in
from fogline.flow.plan import Plan
from fogline.flow.readings import ReadingStore, name_of
from fogline.flow.recall import Recall
from fogline.flow.screening import SMALL, Screening
from fogline.flow.sensors import decoded
from fogline.impute.fill import needs_of, why_rejected
from fogline.intake import refused_first
from fogline.kernels.sensors import UNABLE
from fogline.rows.cells import Reasons
from fogline.rows.names import DUPLICATE, Key, keyed, others


class Settled(NamedTuple):
    """Rows of a group as its live set takes them."""

    parcel: Parcel  # with what is to be reported of them
    sensors: bytes | None  # the readings then; None: what history knows
    imputed: Flags  # (n, carried) which cells that a row may carry over were imputed
    newest: float  # the greatest time of the rows and removals that are not rejected


class Settling:
    """Gives rows that are due their contexts, and with these their bounds."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.recall = plan, Recall(plan) if plan.remembers else None
        self.screening = Screening(plan)
        self.readings = None if self.recall is None else ReadingStore(plan, self.recall.sensors)
        self.carrying = Carrying(plan)

    @property
    def longest(self) -> float:
        """How long readings are remembered."""
        return 0.0 if self.recall is None else self.recall.sensors.longest

    def settle(
        self, key: Key, state: bytes | None, rows: RowBlock, clock: float, parts: Cells, group: AnyGroup
    ) -> Settled:
        """The rows of a group as its live set takes them, with what is to be reported of them; and the readings then.

        `state`: the readings before, large ones in `parts`; None: what history knows. `clock`: of the group so far.
        """
        came, removals = _set_apart(rows)
        if came is None:
            none = np.zeros((len(rows.arrived), len(self.carrying.columns)), np.bool_)
            return Settled(Parcel(rows, {}, 0, 0, 0, 0), state, none, float(rows.arrived.max()))
        piece, sensors, imputed = self._carried(key, state, came, removals, group, clock, parts)
        self.screening.small = SMALL if (piece.rows.arrived > clock).all() else math.inf
        left_out = len(came.arrived) - len(piece.rows.arrived)
        parcel, state = self._screened(key, state, piece, sensors, parts)
        taken = np.delete(piece.rows.arrived, list(piece.rows.refused)).max(initial=-np.inf)
        parcel = replace(parcel, screened=parcel.screened + left_out)
        found = Settled(parcel, state, imputed[self.screening.kept], float(taken))
        return found if removals is None else _with_removals(found, removals)

    def _carried(
        self,
        key: Key,
        state: bytes | None,
        rows: RowBlock,
        removals: RowBlock | None,
        group: AnyGroup,
        clock: float,
        parts: Cells,
    ) -> tuple[Piece, list[Key], Flags]:
        """The rows as one piece, with what they carry over, the keys of their sensors, and which cells that may be
        carried over are to be imputed.

        What is rejected gives nothing, and is no copy of another: once more without it, of each sensor the first.
        """
        columns = self.carrying.columns
        if not len(columns):
            return *self._piece(key, rows), np.zeros((len(rows.arrived), 0), np.bool_)
        refused: Reasons = {}
        while True:
            piece, sensors = self._piece(key, rows)
            piece.rows.refused.update(refused)
            stay = np.delete(np.arange(len(rows.arrived)), others(copies_in(piece, self.plan)))
            piece, sensors = self._piece(key, rows.part(stay))
            piece.rows.refused.update((k, refused[i]) for k, i in enumerate(stay.tolist()) if i in refused)
            piece = self.carrying.carry(piece, removals, group, clock)
            imputed = np.isnan(piece.rows.uncertain.lo[:, columns])
            if self.plan.chain is not None:
                piece = asked_at_once(piece, self.plan)
            self._refuse_first(key, state, piece, sensors, parts, copied=len(stay) < len(rows.arrived))
            if len(piece.rows.refused) == len(refused):
                return piece, sensors, imputed
            refused = {int(stay[k]): reason for k, reason in piece.rows.refused.items()}

    def _refuse_first(
        self, key: Key, state: bytes | None, piece: Piece, sensors: list[Key], parts: Cells, *, copied: bool
    ) -> None:
        """Refuse rows with gaps that nothing can fill, as many as are sure of it. `copied`: some have copies."""
        rows, chain = piece.rows, self.plan.chain
        refused = np.zeros(len(rows.arrived), np.bool_)
        refused[list(rows.refused)] = True
        needs = needs_of(chain, rows, None, refused)
        if needs is None:
            return
        unable = np.asarray(needs.any(axis=1))
        if self.recall is not None and self.readings is not None:  # what sensors have read may help; nothing is saved
            names = [name_of(each) for each in sensors]
            opened = self.readings.open(key, state, names, parts)
            unable = self.recall.recall(opened.kept, names, piece).fate == UNABLE
        carried = np.arange(needs.shape[1]) if copied and chain is not None else self.carrying.columns
        for k in refused_first(chain, needs, unable, carried, piece.name, rows.arrived).tolist():
            j = int(np.flatnonzero(needs[k])[0])
            rows.refused[k] = why_rejected(self.plan.query, j, rows.raw[k, j], self.plan.repository)

    def _piece(self, key: Key, rows: RowBlock) -> tuple[Piece, list[Key]]:
        """The rows as one piece, and the keys of their sensors."""
        sensors, code = keyed(rows.columns, (*self.plan.query.by, self.plan.query.id))
        found = decoded(rows, self.plan)
        return Piece(found, rows, [key], np.zeros(len(code), np.int64), code, whole=False), sensors

    def _screened(
        self, key: Key, state: bytes | None, piece: Piece, sensors: list[Key], parts: Cells
    ) -> tuple[Parcel, bytes | None]:
        """The rows with bounds for their gaps, and the readings then."""
        latest = self.plan.query.latest
        if self.recall is None or self.readings is None:
            self.screening.take(piece)
            [(_, parcel)] = self.screening.pack()
            return parcel, state
        names = [name_of(each) for each in sensors]
        opened = self.readings.open(key, state, names, parts)
        fresh = piece.rows.arrived > opened.kept.newest(names)[piece.name]
        found = self.recall.recall(opened.kept, names, piece)
        if not latest:
            piece.rows.refused.update((k, DUPLICATE) for k in found.copies)
        self.screening.take(piece, found.context, fresh, found.hidden, found.copies if latest else ())
        [(_, parcel)] = self.screening.pack()
        events = self.recall.revisions(opened.kept, names, piece, found, self.screening.kept)
        parcel = replace(parcel, revisions=events.get(key), unwatched=opened.kept.lost)
        parcel = replace(parcel, sensors_forgotten=opened.kept.forgotten)
        return parcel, self.readings.save(opened, parts) or state

    def forget(self, state: bytes | None, parts: Cells) -> None:
        """The readings of this state leave."""
        if state is not None and self.readings is not None:
            self.readings.clear(state, parts)


def _set_apart(rows: RowBlock) -> tuple[RowBlock | None, RowBlock | None]:
    """Rows in the order in which they are taken, and removals; None where there are none."""
    if rows.gone is None or rows.version is None:
        return rows, None
    removed, came = np.flatnonzero(rows.gone), np.flatnonzero(~rows.gone)
    came = came[in_turn(rows.arrived[came], rows.version[came])]
    return rows.part(came) if len(came) else None, rows.part(removed) if len(removed) else None


def _with_removals(found: Settled, removals: RowBlock) -> Settled:
    """The removals are due as well; nothing is asked about them."""
    rows = found.parcel.rows
    both = concat([rows, removals]) if len(rows.arrived) else removals
    none = np.zeros((len(removals.arrived), found.imputed.shape[1]), np.bool_)
    newest = max(found.newest, float(removals.arrived.max()))
    return Settled(replace(found.parcel, rows=both), found.sensors, np.vstack((found.imputed, none)), newest)
