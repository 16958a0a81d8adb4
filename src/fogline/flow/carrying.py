"""What do rows that are due carry over from the rows of their ids, those of the group and those before them?

The rule: `skyline.carry`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fogline.carry import Coming, carry_over, join_standing, standing_of
from fogline.engine.current import LatestGroup
from fogline.engine.store import AnyGroup
from fogline.flow.block import RowBlock
from fogline.flow.piece import Piece
from fogline.flow.plan import Plan
from fogline.impute.fill import put


class Carrying:
    """Fills in the attributes that are carried over."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        names = plan.query.names
        self.columns = np.array([names.index(name) for name in plan.query.carry], np.int64)

    def carry(self, piece: Piece, removals: RowBlock | None, group: AnyGroup, clock: float) -> Piece:
        """The piece, of rows of one group that are due, with what they carry over."""
        rows, query, d = piece.rows, self.plan.query, len(self.plan.query.names)
        if not isinstance(group, LatestGroup) or not np.isnan(rows.uncertain.lo[:, self.columns]).any():
            return piece
        number: dict[object, int] = {}
        taken = np.array([k for k in range(len(rows.arrived)) if k not in rows.refused], np.int64)
        given = piece.block.part(taken)  # what is rejected gives nothing, and gets nothing
        blocks = [given, *([] if removals is None else [removals])]
        code = [number.setdefault(each, len(number)) for block in blocks for each in block.names(query).tolist()]
        standing = standing_of(group, list(number), np.arange(len(number)), self.columns, clock)
        n = len(taken)
        gone = np.arange(len(code)) >= n

        def joined(name: str) -> Any:
            return np.concatenate([getattr(block, name) for block in blocks])

        cells = ("lo", "hi", "start", "size")  # those of removals have no lists
        uncertain = given.uncertain._replace(
            **{name: np.concatenate([getattr(block.uncertain, name) for block in blocks]) for name in cells}
        )
        numbers = joined("arrived"), joined("version"), joined("expires"), gone, joined("raw")
        coming = Coming(np.array(code, np.int64), *numbers, uncertain)
        raw, found = carry_over(coming, join_standing([standing], d), self.columns, clock)
        values = rows.raw.copy()
        values[taken] = raw[:n]
        rows = rows._replace(raw=values, uncertain=put(rows.uncertain, taken, found.part(slice(n))))
        return replace(piece, rows=rows, block=piece.block._replace(raw=rows.raw, uncertain=rows.uncertain))
