"""What has a row's sensor read by the moment the row is due?

Where rows wait for those that come late (`lateness`), the order in which they came shows nothing: a row's context is
that of the moment it is due, in the order of time. Only its group knows that moment. So rows travel and wait as they
came, none of them screened, since each is a reading; the readings of a group's sensors lie with the group's state. When
they are due, and are known as readings, those that cannot matter are dropped as elsewhere, unless some are late.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fogline.flow.block import RowBlock
from fogline.flow.cells import Cells
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Piece
from fogline.flow.plan import Plan
from fogline.flow.readings import ReadingStore, name_of
from fogline.flow.recall import Recall
from fogline.flow.screening import SMALL, Screening
from fogline.flow.sensors import decoded
from fogline.rows.keys import Key, keyed


class Settling:
    """Gives rows that are due their contexts, and with these their bounds."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.recall = plan, Recall(plan)
        self.screening, self.readings = Screening(plan), ReadingStore(plan, self.recall.sensors)

    def settle(
        self, key: Key, state: bytes | None, rows: RowBlock, clock: float, parts: Cells
    ) -> tuple[Parcel, bytes | None]:
        """The rows of a group as its live set takes them, with what is to be reported of them; and the readings then.

        `state`: the readings before, large ones in `parts`; None: what history knows. `clock`: of the group so far.
        """
        sensors, code = keyed(rows.columns, (*self.plan.query.by, self.plan.query.id))
        piece = Piece(decoded(rows, self.plan), rows, [key], np.zeros(len(code), np.int64), code, whole=False)
        names = [name_of(each) for each in sensors]
        opened = self.readings.open(key, state, names, parts)
        fresh = rows.arrived > opened.kept.newest(names)[code]
        found = self.recall.recall(opened.kept, names, piece)
        self.screening.small = SMALL if (rows.arrived > clock).all() else math.inf
        self.screening.take(piece, found.context, fresh, found.hidden)
        [(_, parcel)] = self.screening.pack()
        events = self.recall.revisions(opened.kept, names, piece, found, self.screening.kept)
        parcel = replace(parcel, revisions=events.get(key), unwatched=opened.kept.lost)
        return parcel, self.readings.save(opened, parts) or state

    def forget(self, state: bytes | None, parts: Cells) -> None:
        """The readings of this state leave."""
        if state is not None:
            self.readings.clear(state, parts)
