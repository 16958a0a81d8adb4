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

from fogline.arrays import Flags, Ints
from fogline.flow.block import RowBlock, concat
from fogline.flow.carrying import Carrying
from fogline.flow.cells import Cells
from fogline.flow.newest import distinct, in_turn
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Piece, asked_at_once
from fogline.flow.plan import Plan
from fogline.flow.readings import Opened, ReadingStore, name_of
from fogline.flow.recall import Recall, Recalled
from fogline.flow.screening import SMALL, Screening
from fogline.flow.sensors import decoded
from fogline.repository.sensors.state import Name
from fogline.rows.clock import Reasons
from fogline.rows.keys import Key, keyed
from fogline.skyline.store import AnyGroup


class Settled(NamedTuple):
    """Rows of a group as its live set takes them."""

    parcel: Parcel  # with what is to be reported of them
    sensors: bytes | None  # the readings then; None: what history knows
    imputed: Flags  # (n, carried) which cells that a row may carry over were imputed


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
            return Settled(Parcel(rows, {}, 0, 0, 0, 0), state, none)
        piece, sensors, copies, imputed = self._carried(key, state, came, removals, group, clock, parts)
        self.screening.small = SMALL if (piece.rows.arrived > clock).all() else math.inf
        parcel, state = self._screened(key, state, piece, sensors, parts)
        found = Settled(replace(parcel, screened=parcel.screened + copies), state, imputed[self.screening.kept])
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
    ) -> tuple[Piece, list[Key], int, Flags]:
        """The rows as one piece, with what they carry over; the keys of their sensors, how many copies were left out,
        and which cells that may be carried over are to be imputed.

        What is rejected gives nothing, and is no copy of another: once more without it.
        """
        refused: Reasons = {}
        while True:
            piece, sensors, place = self._piece(key, rows, refused)
            if len(self.carrying.columns):
                piece = self.carrying.carry(piece, removals, group, clock)
            imputed = np.isnan(piece.rows.clouds.lo[:, self.carrying.columns])
            if len(self.carrying.columns) and self.plan.chain is not None:
                piece = asked_at_once(piece, self.plan)
            if self.plan.query.latest:
                self._refuse_gaps(key, state, piece, sensors, parts)
            if len(piece.rows.refused) == len(refused):
                return piece, sensors, len(rows.arrived) - len(place), imputed
            refused = {int(place[k]): reason for k, reason in piece.rows.refused.items()}

    def _refuse_gaps(self, key: Key, state: bytes | None, piece: Piece, sensors: list[Key], parts: Cells) -> None:
        """Refuse the rows with a gap that no imputer can fill."""
        trial = replace(piece, rows=piece.rows._replace(refused=dict(piece.rows.refused)))
        self.screening.refuse_gaps(trial, None)
        if len(trial.rows.refused) == len(piece.rows.refused):
            return
        context = None
        if self.readings is not None:  # what their sensors have read may help; nothing of this is saved
            names = [name_of(each) for each in sensors]
            context = self._recalled(self.readings.open(key, state, names, parts), names, piece).context
        self.screening.refuse_gaps(piece, context)

    def _recalled(self, opened: Opened, names: list[Name], piece: Piece) -> Recalled:
        """What sensors have read before; a row with a gap that cannot be filled is a reading all the same."""
        assert self.recall is not None
        refused = dict(piece.rows.refused)
        piece.rows.refused.clear()
        found = self.recall.recall(opened.kept, names, piece)
        piece.rows.refused.update(refused)
        return found

    def _piece(self, key: Key, rows: RowBlock, refused: Reasons) -> tuple[Piece, list[Key], Ints]:
        """The rows but for copies as one piece, the keys of their sensors, and which rows those are."""
        sensors, code = keyed(rows.columns, (*self.plan.query.by, self.plan.query.id))
        place = np.arange(len(code))
        if self.plan.query.latest:
            fine = place[~np.isin(place, list(refused))]
            one = fine[distinct(decoded(rows.part(fine), self.plan), code[fine])]
            place = place[np.isin(place, one) | np.isin(place, list(refused))]
            rows, code = rows.part(place), code[place]
        found = decoded(rows, self.plan)
        found.refused.update((k, refused[i]) for k, i in enumerate(place.tolist()) if i in refused)
        return Piece(found, rows, [key], np.zeros(len(code), np.int64), code, whole=False), sensors, place

    def _screened(
        self, key: Key, state: bytes | None, piece: Piece, sensors: list[Key], parts: Cells
    ) -> tuple[Parcel, bytes | None]:
        """The rows with bounds for their gaps, and the readings then."""
        if self.recall is None or self.readings is None:
            self.screening.take(piece)
            [(_, parcel)] = self.screening.pack()
            return parcel, state
        names = [name_of(each) for each in sensors]
        opened = self.readings.open(key, state, names, parts)
        fresh = piece.rows.arrived > opened.kept.newest(names)[piece.name]
        found = self._recalled(opened, names, piece)
        self.screening.take(piece, found.context, fresh, found.hidden)
        [(_, parcel)] = self.screening.pack()
        events = self.recall.revisions(opened.kept, names, piece, found, self.screening.kept)
        parcel = replace(parcel, revisions=events.get(key), unwatched=opened.kept.lost)
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
    return found._replace(parcel=replace(found.parcel, rows=both), imputed=np.vstack((found.imputed, none)))
