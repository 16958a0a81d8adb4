"""What becomes of a group when its run goes on with another repository?

What was imputed stays. Rows that live, wait or are held have boxes by the repository that bounded them, and because of
those boxes others may have been forgotten: so what is still to be made of a box is made now, by that repository, and
becomes the row's own. From then on nothing of it asks a repository. Such rows are marked in what is kept of them
(`SETTLED`): later readings revise them no more.

Rows that wait as they came, since they get their contexts when they are due, have nothing imputed yet, and stay so.

No probability changes by it: a distribution was as good as there before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fogline.arrays import BOUNDS_ONLY, ONE, SETTLED, UncertainRows
from fogline.engine.store import AnyGroup, join_groups, save_group
from fogline.flow import log
from fogline.flow.block import RowBlock, concat
from fogline.flow.cache import LoadedGroup
from fogline.flow.cells import Cells
from fogline.flow.plan import Plan
from fogline.flow.waiting import open_slots
from fogline.kernels.uncertain import dense
from fogline.saved import Arrays

Split = Callable[[dict[str, Any], Arrays], AnyGroup]  # a group from its small values and its arrays


def moved_group(
    loaded: LoadedGroup, was: Plan, plan: Plan, split: Split, cells: Cells | None, pages: Cells | None
) -> LoadedGroup:
    """A group that was loaded by the plan it was saved with (`was`), as the new plan goes on with it."""
    if loaded.log is not None and pages is not None:
        log.clear(loaded.log, pages)  # it is written anew, as a whole
    stored, _ = open_slots(was, loaded.slots, np.inf, cells)
    blocks = [*stored, *([] if loaded.waiting is None else [loaded.waiting])]
    waiting = concat([_settled(each, was, plan) for each in blocks]) if blocks else None
    held, first = (
        None if each is None else _settled(each, was, plan) for each in (loaded.ahead.held, loaded.ahead.first)
    )
    ahead = replace(loaded.ahead, held=held, first=first, held_revisions=None, first_revisions=None)
    group = _regrouped(loaded.group, was, plan, split)
    return LoadedGroup(group, loaded.clock, waiting, loaded.timer, ahead, [], loaded.sensors, None)


def _settled(rows: RowBlock, was: Plan, plan: Plan) -> RowBlock:
    """Rows on their way in, with distributions in place of bounds."""
    uncertain, gaps = rows.uncertain, rows.uncertain.start == BOUNDS_ONLY
    known = np.full((len(rows.arrived), plan.width), np.nan)
    known[(uncertain.start != ONE).any(axis=1)] = SETTLED
    if was.chain is not None and gaps.any():
        uncertain = was.chain.fill(uncertain, rows.known, gaps)
    return rows._replace(uncertain=uncertain, known=known)


def _regrouped(group: AnyGroup, was: Plan, plan: Plan, split: Split) -> AnyGroup:
    """The group with distributions of its own in place of bounds, and of lists that rows share."""
    group.live.reveal()
    slots = group.live.slots
    arrays = join_groups([group], len(plan.query.names), plan.id)
    uncertain = dense(slots.uncertain, slots.alive())
    arrays |= {name: getattr(uncertain, name) for name in UncertainRows._fields}
    arrays["pools"] = np.array([len(uncertain.value)], np.int64)
    carried = arrays["known"][:, was.width :]  # which cells, that other rows may carry over, were imputed
    arrays["known"] = np.hstack((np.full((len(carried), plan.width), SETTLED), carried))
    return split({"group": save_group(group)}, arrays)
