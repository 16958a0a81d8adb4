"""How does what explains groups become tables: near rows, and cells to measure next?

One table of each for all groups of a call. A group of which there is nothing to show has one row of nulls, so that a
reader knows that what it showed before has gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import LEAVE, Delta, Flags, Floats, Ints, Objects
from fogline.engine.answer import ShownRows, standing
from fogline.engine.ask import questions
from fogline.engine.explain import explained
from fogline.engine.live import LiveSet
from fogline.engine.slots import row_means
from fogline.kernels.states import IN, OUT
from fogline.pipeline.names import NEAR, NEXT, near_schema, next_schema
from fogline.pipeline.plan import Plan
from fogline.query import Query
from fogline.rows.clock import show_time, write_times
from fogline.rows.kept import shown as shown_kept
from fogline.rows.names import KeyText, key_columns


class NearRows(NamedTuple):
    """Possible rows of a group: those that are in, and the best of those that are out; values as the user sees them."""

    id: Objects
    arrived: Floats
    inside: Flags
    certainty: list[str | None]
    probability: Floats
    within: Floats
    cells: Floats  # (n, 4 d) of each attribute: as it came (NaN: a gap), the least, the greatest and the mean value
    why: list[str | None]
    kept: Objects | None = None  # what else comes along with each row; None: nothing does


class GroupView(NamedTuple):
    """What explains a group after a call."""

    why: list[str | None]  # beside its changes, in their order
    near: NearRows | None = None  # None: it is not asked for, or as it was
    next: pa.Table | None = None  # the columns from that of the id on


def view_tables(
    plan: Plan, clocks: Sequence[float], views: Sequence[GroupView | None], groups: list[pa.Array]
) -> list[tuple[str, pa.Table]]:
    """The tables of all groups of a call, with their kinds; `groups`: their columns."""
    shown = [k for k, view in enumerate(views) if view is not None and view.near is not None]
    if not shown:
        return []
    near = [view.near for view in views if view is not None and view.near is not None]
    cells = [view.next for view in views if view is not None and view.next is not None]
    times = np.array([clocks[k] for k in shown])
    return [(NEAR, _near(plan, near, shown, times, groups)), (NEXT, _next(plan, cells, shown, times, groups))]


def _near(plan: Plan, parts: list[NearRows], shown: list[int], times: Floats, groups: list[pa.Array]) -> pa.Table:
    sizes = [max(1, len(each.id)) for each in parts]
    of = np.repeat(np.arange(len(parts)), sizes)
    empty = np.array([not len(parts[k].id) for k in of], np.bool_)
    ids = [name for each in parts for name in (each.id.tolist() or [None])]

    def floats(arrays: list[Floats]) -> Floats:
        return np.concatenate([each if len(each) else np.full((1, *each.shape[1:]), np.nan) for each in arrays])

    schema = near_schema(plan.query, plan.kinds)
    cells = floats([each.cells for each in parts])
    columns = [each.take(pa.array(np.array(shown)[of])) for each in groups]
    columns += [
        _instants(plan, times[of]),
        pa.array(ids, plan.id),
        _instants(plan, floats([each.arrived for each in parts])),
        pa.array(np.concatenate([each.inside if len(each.id) else [False] for each in parts]), mask=empty),
        pa.array([name for each in parts for name in [*each.certainty] or [None]], pa.string()),
        *(_floats(floats(list(each))) for each in zip(*((p.probability, p.within) for p in parts), strict=True)),
        *(_floats(column) for column in cells.T),
        *shown_kept(_kept(parts), len(of), plan.kept),
        pa.array([text for each in parts for text in [*each.why] or [None]], pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _kept(parts: list[NearRows]) -> Objects:
    """What else comes along with the rows of all groups; nothing with the one that stands for a group without any."""
    return np.concatenate(
        [np.full(max(1, len(each.id)), None) if each.kept is None or not len(each.id) else each.kept for each in parts]
    )


def _next(plan: Plan, parts: list[pa.Table], shown: list[int], times: Floats, groups: list[pa.Array]) -> pa.Table:
    schema = next_schema(plan.query, plan.kinds)
    rest = pa.schema(list(schema)[len(plan.query.by) + 2 :])  # behind the time and the rank
    none = pa.Table.from_pylist([{}], rest)
    sizes = [max(1, each.num_rows) for each in parts]
    of = np.repeat(np.arange(len(parts)), sizes)
    ranks = [k for each in parts for k in (range(each.num_rows) or [None])]
    columns = [each.take(pa.array(np.array(shown)[of])) for each in groups]
    columns += [_instants(plan, times[of]), pa.array(ranks, pa.int64())]
    cells = pa.concat_tables([each.cast(rest) if each.num_rows else none for each in parts])
    return pa.Table.from_arrays([*columns, *cells.columns], schema=schema)


def _instants(plan: Plan, values: Floats) -> pa.Array:
    unknown = ~np.isfinite(values)
    return write_times(np.where(unknown, 0.0, values), plan.kind, unknown)


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


# --- Explaining -------------------------------------------------------------------------------------------------------
#
# What explains a group after a call: why its rows are in, which others are near, and what should be measured next?
#
# All of it is of the state at the end of the call, not of the ticks within it: so of the changes of a row in one batch
# the last one is explained, if the row is in the answer then. It is worked out from the live set alone, which does not
# change by it: a run reports the same changes with explanations and without.
#
# A batch may concern very many rows, and no run shall be stopped by explaining them: of each group and call there are
# explanations of the first `CHANGED` rows that entered or were updated, and for near rows of as many as `SHOWN` more.
# To look for rows that are out, and for cells, takes the square of the open rows: beyond `OPEN` of them it is left out.

CHANGED = 200  # rows that entered or were updated, whose changes are explained
SHOWN = 100  # near rows that are explained beside them: first those that are out
MEMBERS, OUTSIDE = 500, 50  # near rows that are in, and that are out
CELLS = 20  # to measure next
OPEN = 2_000  # with more rows that none surely beats, a group shows its members alone, and no cells to measure next


class Explainer:
    """Explains the groups of one query."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def view(self, key: KeyText, live: LiveSet, deltas: list[Delta], *, moved: bool) -> GroupView | None:
        """What explains a group whose last changes these are, if that is asked for.

        `moved`: whether anything may be otherwise than before.
        """
        if not self.plan.explain:
            return None
        by = tuple(column[0].as_py() for column in key_columns([key], self.plan.by))
        changed = _last_changes(live, deltas)
        why = self._why(live, by, list(changed.values())[:CHANGED])
        beside: list[str | None] = [None] * sum(len(delta.id) for delta in deltas)
        for place, slot in changed.items():
            beside[place] = why.get(slot)
        if not self.plan.views or not moved:
            return GroupView(beside)
        few = np.count_nonzero(live.slots.columns.state[: live.slots.used] >= OUT) <= OPEN
        near = _near_of(standing(live, "possible" if few else "likely"), live)
        more = [slot for slot in _outside_first(near.slots, live) if slot not in why][:SHOWN]
        rows = self._rows(live, near, why | self._why(live, by, more))
        asks = few and self.plan.query.skyband == 1  # what to measure next is worked out in skylines
        return GroupView(beside, rows, self._cells(live, by, CELLS if asks else 0))

    def _why(self, live: LiveSet, by: tuple[Any, ...], slots: list[int]) -> dict[int, str]:
        """Explanations as JSON, by slot."""
        plan = self.plan
        found = explained(live, slots, by, lambda time: show_time(time, plan.kind), plan.query, plan.chain)
        texts = (json.dumps(each.to_dict(), ensure_ascii=False, allow_nan=False) for each in found)
        return dict(zip(slots, texts, strict=True))

    def _rows(self, live: LiveSet, near: ShownRows, why: dict[int, str]) -> NearRows:
        s, which = live.slots, near.slots
        inside = s.columns.state[which] == IN
        texts = [why.get(slot) for slot in which.tolist()]
        cells = _cells(live, which, self.plan.query)
        certainty: list[str | None] = near.certainty.tolist()
        return NearRows(
            s.id[which], s.columns.arrived[which], inside, certainty, near.probability, near.within, cells, texts,
            None if s.kept is None else s.kept[which],
        )  # fmt: skip

    def _cells(self, live: LiveSet, by: tuple[Any, ...], most: int) -> pa.Table:
        plan = self.plan
        found = questions([(by, live)] if most else [], most, plan.query, plan.kinds)
        return found.select(range(len(plan.by), found.num_columns))


def _last_changes(live: LiveSet, deltas: Iterable[Delta]) -> dict[int, int]:
    """The places, among all changes in their order, of the last one of each row that is in now; and its slot."""
    s, members = live.slots, live.members()
    named = zip(s.id[members].tolist(), s.columns.arrived[members].tolist(), strict=True)
    there = dict(zip(named, members.tolist(), strict=True))
    last: dict[int, int] = {}
    place = 0
    for delta in deltas:
        names = zip(delta.id.tolist(), delta.arrived.tolist(), (delta.change != LEAVE).tolist(), strict=True)
        for k, (id, arrived, stays) in enumerate(names, place):
            if stays and (slot := there.get((id, arrived))) is not None:
                last[slot] = k
        place += len(delta.id)
    return dict(sorted((k, slot) for slot, k in last.items()))


def _near_of(found: ShownRows, live: LiveSet) -> ShownRows:
    """The likeliest of the rows that are in, and then of those that are out."""
    inside = live.slots.columns.state[found.slots] == IN
    order = np.argsort(-found.probability, kind="stable")
    best = [order[inside[order]][:MEMBERS], order[~inside[order]][:OUTSIDE]]
    return found.part(np.concatenate(best))


def _outside_first(slots: Ints, live: LiveSet) -> list[int]:
    inside = live.slots.columns.state[slots] == IN
    return [*slots[~inside].tolist(), *slots[inside].tolist()]


def _cells(live: LiveSet, which: Ints, query: Query) -> Floats:
    """(n, 4 d) of each attribute: as it came, and the least, the greatest and the mean value that it may have."""
    signs = np.array(query.signs)
    s, c, (n, d) = live.slots, live.slots.uncertain, (len(which), len(signs))
    ends = np.sort(np.stack((c.lo[which] * signs, c.hi[which] * signs)) + 0.0, axis=0)
    means = row_means(c, which) * signs + 0.0
    return np.stack((query.plausible(s.raw[which]), ends[0], ends[1], means), axis=2).reshape(n, 4 * d)
