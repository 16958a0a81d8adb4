"""What becomes of rows whose gaps are known better now?

Open ones leave and come again with their new distributions, among the rows that arrive. Dominated ones only learn what
is known, and are filled when they open. What either may have kept out before is judged again. Rows that are no longer
live, or never were, are left alone. Boxes never widen: that is what makes it right to forget rows, and an imputer that
widens one is refused here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fogline.arrays import ASKED_NO_MORE, BOUNDS_ONLY, Batch, Flags, Floats, Ints, Objects, Revisions, UncertainRows
from fogline.engine.slots import NO_SLOTS, Slots
from fogline.errors import FoglineError
from fogline.kernels.states import DEAD, IS_GONE, OUT
from fogline.kernels.tick import NARROWER, WIDER, arrived_at, compare_boxes, release

# rows, what is known of each, which cells to fill
Fill = Callable[[UncertainRows, Floats, Flags], UncertainRows]
Note = Callable[[Floats, Revisions], Floats]  # what is known of rows, a revision of each: what is known then


class Returning(NamedTuple):
    """Rows on their way in, after revisions."""

    rows: Batch | None
    origin: Ints  # (n,) the slots that they come from; -1: they arrive; empty: all do
    went: Ints  # slots that were open and are closed now
    many: int  # so many rows were revised


def fill_within(fill: Fill, uncertain: UncertainRows, known: Floats, gaps: Flags) -> tuple[UncertainRows, bool]:
    """The rows with distributions where `gaps` (n, d) are, and whether any box became narrower."""
    out = fill(uncertain, known, gaps)
    found = compare_boxes(uncertain, out, gaps)
    if found == WIDER:
        raise FoglineError(
            "an imputer gave a distribution beyond the bounds that it gave the same cell before, because of which rows "
            "may have been forgotten; let its bounds cover whatever it may give later."
        )
    return out, bool(found == NARROWER)


def revise(slots: Slots, now: float, rows: Batch | None, revisions: Revisions, fill: Fill, note: Note) -> Returning:
    """Apply revisions to live rows, and to rows that are just arriving. O(live + revisions · open)."""
    if np.any(revisions.time[1:] < revisions.time[:-1]):
        revisions = revisions.part(np.argsort(revisions.time, kind="stable"))
    columns, n, count = slots.columns, slots.used, 0
    if rows is not None and len(rows.id):
        which, event = _same_names(rows.arrived, rows.expires, now, rows.id, rows.known, revisions)
        if len(which):
            rows = _revise_arriving(rows, which, revisions.part(event), note)
            count += len(np.unique(which))
    target, event = _same_names(columns.arrived[:n], columns.expires[:n], now, slots.id, slots.known, revisions)
    if not len(target):
        return Returning(rows, NO_SLOTS, NO_SLOTS, count)
    which, known, cells = _learn(slots.known, slots.uncertain, target, revisions.part(event), note)
    slots.known[which] = known
    count += len(which)
    opened, some = columns.state[which] >= OUT, cells.any(axis=1)
    hidden = np.flatnonzero(~opened & some)
    if len(hidden):
        release(slots.live_arrays(), which[hidden])  # they guarded others, before they were dominated
        _keep_bounds_only(slots.uncertain, which[hidden], cells[hidden])
    went, cells = which[opened & some], cells[opened & some]
    if not len(went):
        return Returning(rows, NO_SLOTS, NO_SLOTS, count)
    again = slots.again(went)
    _keep_bounds_only(again.uncertain, np.arange(len(went)), cells)
    again = again._replace(uncertain=fill_within(fill, again.uncertain, again.known, cells)[0])
    columns.state[went], columns.expires[went], columns.until[went] = DEAD, -np.inf, IS_GONE  # to come again, …
    release(slots.live_arrays(), went)  # … so they guard what they did no longer
    if rows is None or not len(rows.id):
        return Returning(again, went, went, count)
    return Returning(_join(rows, again), np.concatenate((np.full(len(rows.id), -1), went)), went, count)


def _same_names(
    arrived: Floats, expires: Floats, now: float, ids: Objects, known: Floats, revisions: Revisions
) -> tuple[Ints, Ints]:
    """Which rows, neither expired nor asked about no more, a revision names by arrival and id, and which one that is.

    By row; a row may have several, and those are in the order in which they came.
    """
    order = np.argsort(revisions.target, kind="stable")
    row, at = arrived_at(arrived, expires, now, revisions.target[order])
    if not len(row):
        return NO_SLOTS, NO_SLOTS
    event = order[at]
    same = np.flatnonzero((ids[row] == revisions.id[event]) & ~(known[row] == ASKED_NO_MORE).any(axis=1))
    return row[same], event[same]


def _learn(
    known: Floats, uncertain: UncertainRows, target: Ints, events: Revisions, note: Note
) -> tuple[Ints, Floats, Flags]:
    """The rows that are revised, once each, what is known of them then, and which of their cells are to be filled anew.

    Several events of one row are taken one after the other, in the order of time. A box of one value stays.
    """
    if np.all(target[1:] > target[:-1]):  # one event each: nearly always
        return target, note(known[target], events), events.cells & (uncertain.lo[target] < uncertain.hi[target])
    which, row = np.unique(target, return_inverse=True)
    turn = _turns(row)
    learnt, cells = known[which], np.zeros((len(which), events.cells.shape[1]), np.bool_)
    for k in range(int(turn.max()) + 1):
        part = np.flatnonzero(turn == k)
        learnt[row[part]] = note(learnt[row[part]], events.part(part))
        cells[row[part]] |= events.cells[part]
    return which, learnt, cells & (uncertain.lo[which] < uncertain.hi[which])


def _turns(row: Ints) -> Ints:
    """For each entry, how many before it are equal."""
    order = np.argsort(row, kind="stable")
    first = np.searchsorted(row[order], row[order], "left")
    turn = np.empty(len(row), np.int64)
    turn[order] = np.arange(len(row)) - first
    return turn


def _revise_arriving(rows: Batch, target: Ints, events: Revisions, note: Note) -> Batch:
    """Rows that arrive and are revised at the same tick."""
    which, learnt, cells = _learn(rows.known, rows.uncertain, target, events, note)
    known, start, size = rows.known.copy(), rows.uncertain.start.copy(), rows.uncertain.size.copy()
    known[which] = learnt
    uncertain = rows.uncertain._replace(start=start, size=size)
    _keep_bounds_only(uncertain, which, cells)
    return rows._replace(known=known, uncertain=uncertain)


def _keep_bounds_only(uncertain: UncertainRows, rows: Ints, cells: Flags) -> None:
    """Only the boxes of these cells (n, d) of some rows count any longer."""
    row, j = np.nonzero(cells)
    uncertain.start[rows[row], j], uncertain.size[rows[row], j] = BOUNDS_ONLY, 1


def _join(a: Batch, b: Batch) -> Batch:
    """The rows of both."""
    start = np.where(b.uncertain.start >= 0, b.uncertain.start + len(a.uncertain.value), b.uncertain.start)
    uncertain = UncertainRows(
        *(np.concatenate(both) for both in zip(a.uncertain, b.uncertain._replace(start=start), strict=True))
    )
    return Batch(
        np.concatenate((a.id, b.id)),
        np.concatenate((a.arrived, b.arrived)),
        np.concatenate((a.expires, b.expires)),
        np.concatenate((a.raw, b.raw)),
        np.concatenate((a.known, b.known)),
        uncertain,
        kept=None if a.kept is None or b.kept is None else np.concatenate((a.kept, b.kept)),
    )
