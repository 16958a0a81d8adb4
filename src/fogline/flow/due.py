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

from fogline.arrays import Flags, Floats
from fogline.flow.block import RowBlock, concat, empty_block
from fogline.flow.carrying import Carrying
from fogline.flow.cells import Cells
from fogline.flow.newest import distinct, in_turn
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Piece, asked_at_once
from fogline.flow.plan import Plan
from fogline.flow.readings import ReadingStore, name_of
from fogline.flow.recall import Recall, Recalled
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
        if rows.gone is None or rows.version is None:
            return self._settle(key, state, rows, None, clock, parts, group)
        removed, came = np.flatnonzero(rows.gone), np.flatnonzero(~rows.gone)
        removals = rows.part(removed) if len(removed) else None
        if not len(came):
            none = empty_block(len(self.plan.query.names), self.plan.width)
            found = Settled(Parcel(none, {}, 0, 0, 0, 0), state, np.empty((0, len(self.plan.query.carry)), np.bool_))
        else:
            rows = rows.part(came[in_turn(rows.arrived[came], rows.version[came])])
            found = self._settle(key, state, rows, removals, clock, parts, group)
        return found if removals is None else _with_removals(found, removals)

    def _settle(
        self,
        key: Key,
        state: bytes | None,
        rows: RowBlock,
        removals: RowBlock | None,
        clock: float,
        parts: Cells,
        group: AnyGroup,
    ) -> Settled:
        sensors, code = keyed(rows.columns, (*self.plan.query.by, self.plan.query.id))
        copies = 0
        if self.plan.query.latest:
            one = distinct(decoded(rows, self.plan), code)
            copies = len(code) - len(one)
            rows, code = rows.part(one), code[one]
        piece = Piece(decoded(rows, self.plan), rows, [key], np.zeros(len(code), np.int64), code, whole=False)
        carried = self.carrying.columns
        if len(carried):
            piece = self.carrying.carry(piece, removals, group, clock)
            piece = piece if self.plan.chain is None else asked_at_once(piece, self.plan)
        imputed = np.isnan(piece.rows.clouds.lo[:, carried])
        context: Floats | None = None
        fresh, recalled = None, None
        names = [name_of(each) for each in sensors]
        if self.recall is not None and self.readings is not None:
            opened = self.readings.open(key, state, names, parts)
            fresh = rows.arrived > opened.kept.newest(names)[code]
            recalled = self.recall.recall(opened.kept, names, piece)
            context = recalled.context
        self.screening.small = SMALL if (rows.arrived > clock).all() else math.inf
        self.screening.take(piece, context, fresh)
        [(_, parcel)] = self.screening.pack()
        parcel = replace(parcel, screened=parcel.screened + copies)
        if self.recall is not None and self.readings is not None and recalled is not None:
            events = self.recall.revisions(opened.kept, names, piece, recalled, self.screening.kept)
            parcel = replace(parcel, revisions=events.get(key))
            state = self.readings.save(opened, parts) or state
        return Settled(parcel, state, imputed[self.screening.kept])

    def forget(self, state: bytes | None, parts: Cells) -> None:
        """The readings of this state leave."""
        if state is not None and self.readings is not None:
            self.readings.clear(state, parts)


def _with_removals(found: Settled, removals: RowBlock) -> Settled:
    """The removals are due as well; nothing is asked about them."""
    rows = found.parcel.rows
    both = concat([rows, removals]) if len(rows.arrived) else removals
    none = np.zeros((len(removals.arrived), found.imputed.shape[1]), np.bool_)
    return found._replace(parcel=replace(found.parcel, rows=both), imputed=np.vstack((found.imputed, none)))
