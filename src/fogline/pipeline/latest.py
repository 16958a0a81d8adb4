"""Where each id has one current row, what of many rows counts, and what does a group take of them?

A row or a removal counts no longer once something newer of its id is there: of a later time or, at one time, of a
greater version. Before a group has taken them, that is sure only of one instant: at an earlier one the row may have
been in the answer. Where the answer after each batch is all that is reported, the newest of each id will do.
(Of equal time and version all travel: their group chooses.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import ONE, Batch, Delta, Flags, Floats, Ints, Revisions
from fogline.engine.group import Group, Incoming
from fogline.pipeline.exchange import RowBlock
from fogline.pipeline.plan import Plan
from fogline.rows.reader import Decoded


class GroupUpdate(NamedTuple):
    """What reaches a group in one call: time, and what is due by then."""

    since: float  # the clock before
    until: float  # and after
    rows: RowBlock | None  # removals among them; None: there are none
    imputed: Flags  # (n, carried) which of the cells that a row may carry over were imputed, and are no facts


def advance(plan: Plan, group: Group, update: GroupUpdate, revisions: Revisions | None = None) -> list[Delta]:
    """The group takes an update. The same updates from the same state lead to the same changes and the same state."""
    rows, removals = update.rows, None
    if rows is not None and rows.gone is not None and rows.gone.any():
        removals = rows.part(np.flatnonzero(rows.gone)).removals(plan.query)
    batch = None if rows is None else _batch(plan, rows, update.imputed)
    return group.advance(update.since, update.until, Incoming(batch, revisions, removals), plan.every == "tick")


def _batch(plan: Plan, rows: RowBlock, imputed: Flags) -> Batch:
    """The rows but for removals, as their group takes them."""
    came = np.arange(len(rows.arrived)) if rows.gone is None else np.flatnonzero(~rows.gone)
    batch = (rows if len(came) == len(rows.arrived) else rows.part(came)).batch(plan.query)
    return batch._replace(known=np.hstack((batch.known, imputed[came]))) if imputed.shape[1] else batch


def newest(cell: Ints, name: Ints, arrived: Floats, version: Ints, *, at_end: bool) -> Ints:
    """The rows that no other of their cell and id surely replaces; `at_end`: only the end of the batch is reported."""
    if not len(cell):
        return cell
    order = np.lexsort((version, arrived, name, cell))
    keys = [cell[order], name[order], *([] if at_end else [arrived[order]])]
    ends = np.flatnonzero(np.append(np.logical_or.reduce([each[1:] != each[:-1] for each in keys]), True))
    last = order[np.repeat(ends, np.diff(ends, prepend=-1))]  # the greatest of each row's id
    stay = (arrived[order] == arrived[last]) & (version[order] == version[last])
    return np.sort(order[stay])


def in_turn(arrived: Floats, version: Ints) -> Ints:
    """The order in which rows are taken: of one instant the greatest version first, so that it is the reading."""
    return np.lexsort((~version, arrived))


def without_values(rows: Decoded) -> Decoded:
    """Of removals nothing but name and time is looked at: there is no gap in them."""
    if rows.gone is None or not rows.gone.any():
        return rows
    gone, uncertain = rows.gone, rows.uncertain
    lo, hi, start, size = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy(), uncertain.size.copy()
    lo[gone], hi[gone], start[gone], size[gone] = 0.0, 0.0, ONE, 1
    return rows._replace(
        expires=np.where(gone, np.inf, rows.expires), uncertain=uncertain._replace(lo=lo, hi=hi, start=start, size=size)
    )
