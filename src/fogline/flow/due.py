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
from fogline.flow.block import RowBlock, concat
from fogline.flow.carrying import Carrying
from fogline.flow.cells import Cells
from fogline.flow.newest import distinct, in_turn
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Piece, asked_at_once
from fogline.flow.plan import Plan
from fogline.flow.readings import ReadingStore, name_of
from fogline.flow.recall import Recall
from fogline.flow.screening import SMALL, Screening
from fogline.flow.sensors import decoded
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
        piece, sensors, copies = self._piece(key, came)
        if len(self.carrying.columns):
            piece = self.carrying.carry(piece, removals, group, clock)
        imputed = np.isnan(piece.rows.clouds.lo[:, self.carrying.columns])
        if len(self.carrying.columns) and self.plan.chain is not None:
            piece = asked_at_once(piece, self.plan)
        self.screening.small = SMALL if (piece.rows.arrived > clock).all() else math.inf
        parcel, state = self._screened(key, state, piece, sensors, parts)
        found = Settled(replace(parcel, screened=parcel.screened + copies), state, imputed[self.screening.kept])
        return found if removals is None else _with_removals(found, removals)

    def _piece(self, key: Key, rows: RowBlock) -> tuple[Piece, list[Key], int]:
        """The rows as one piece, the keys of their sensors, and how many copies were left out."""
        sensors, code = keyed(rows.columns, (*self.plan.query.by, self.plan.query.id))
        came = len(code)
        if self.plan.query.latest:
            one = distinct(decoded(rows, self.plan), code)
            rows, code = rows.part(one), code[one]
        group = np.zeros(len(code), np.int64)
        return Piece(decoded(rows, self.plan), rows, [key], group, code, whole=False), sensors, came - len(code)

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
        found = self.recall.recall(opened.kept, names, piece)
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
