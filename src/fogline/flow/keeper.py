"""What becomes of a group when new rows, or only time, reach it?

A `Keeper` loads the group from its state, moves its clock, hands it the rows that are due, and saves it again. The
clock of a group is the greatest time seen in it, held back by the lateness; rows that are ahead of it wait. Where a
group falls silent the query's watermark moves its clock.

A group in which no row lives or waits is forgotten when the watermark has passed its clock by the lateness and the
lifetime: a row that this clock would call late has then expired. So the number of states is that of groups in use.

Nothing outlives a call but the state: the engine may call any worker next. (A worker may keep what it saved: `cache`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags
from fogline.flow.block import RowBlock, concat, from_arrays, to_arrays
from fogline.flow.cache import LoadedGroup
from fogline.flow.cells import Cells
from fogline.flow.journal import Journal, journal
from fogline.flow.parcel import Parcel
from fogline.flow.plan import Plan
from fogline.flow.rejects import as_json
from fogline.flow.state import from_state, to_state
from fogline.flow.waiting import Slot, open_slots, put_away
from fogline.flow.watermark import reached, timer
from fogline.impute.scoring import Sums, add
from fogline.model import duration
from fogline.rows.changes import Tables
from fogline.rows.keys import Key, key_values
from fogline.skyline.duplicates import DUPLICATE, duplicates
from fogline.skyline.group import Group
from fogline.skyline.store import join_groups, save_group, split_groups

_WAITING = "waiting "  # before the names of arrays of rows that wait


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call leaves behind: the group's state, what there is to report, and when time alone will change it."""

    state: bytes | None  # None: the group is forgotten
    journal: Journal
    timer: int | None  # in milliseconds of event time
    before: int | None  # the timer that this one replaces
    group: LoadedGroup  # what the state holds


class Keeper:
    """Keeps groups between calls, each as one bytes object."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tables = Tables(plan.query)

    def take(
        self,
        key: Key,
        state: bytes | LoadedGroup | None,
        parcels: Sequence[Parcel] = (),
        *,
        watermark: int | None = None,
        end: bool = False,
        cells: Cells | None = None,
    ) -> Outcome:
        """Rows reach the group, or the watermark (in milliseconds) does. At the `end` of input no row waits.

        Where many rows wait they lie in the `cells` of this group; without, all lie in its state.
        """
        loaded = state if isinstance(state, LoadedGroup) else self._load(state)
        newest = max((parcel.newest for parcel in parcels), default=-np.inf)
        clock = max(loaded.clock, newest - (0.0 if end else self.plan.lateness))
        if watermark is not None:
            clock = max(clock, reached(self.plan.kind, watermark))
        outlived = loaded.empty and self._outlived(loaded, clock, watermark)
        blocks = [parcel.rows for parcel in parcels if len(parcel.rows.arrived)]
        stored, slots = open_slots(self.plan, loaded.slots, clock, cells)
        due, waiting = self._due([*stored, *([] if loaded.waiting is None else [loaded.waiting]), *blocks], clock)
        late = loaded.group.late
        rejects = [pair for parcel in parcels for pair in parcel.rejects]
        changes = None
        if np.isfinite(clock):
            rows, again = self._without_duplicates(key, loaded, due)
            rejects += again
            changes = self._advance(key, loaded, clock, rows)
        waiting, slots = put_away(self.plan, waiting, slots, cells)
        then = LoadedGroup(loaded.group, clock, waiting, None, slots=slots)
        forgotten = outlived and then.empty
        then.timer = None if forgotten else self._next(then)
        health = _health(parcels, len(rejects), loaded.group, loaded.group.late - late, then.waits)
        scores: Sums = {}
        for parcel in parcels:
            add(scores, parcel.scores)
        report = journal(self.plan, key, changes, rejects, health, scores, clock)
        return Outcome(None if forgotten else self._save(then), report, then.timer, loaded.timer, then)

    def _advance(self, key: Key, loaded: LoadedGroup, clock: float, rows: RowBlock | None) -> pa.Table:
        plan = self.plan
        batch = None if rows is None else rows.batch(plan.query)
        deltas = loaded.group.advance(loaded.clock, clock, batch, plan.every == "tick")
        by = tuple(value.as_py() for value in key_values(key, plan.by))
        return self.tables.build([(by, delta) for delta in deltas], plan.kinds)

    def _without_duplicates(
        self, key: Key, loaded: LoadedGroup, rows: RowBlock | None
    ) -> tuple[RowBlock | None, list[tuple[str, str]]]:
        if rows is None:
            return None, []
        query = self.plan.query
        names = rows.columns.column(query.id).to_pylist()
        again = duplicates(loaded.group, names, rows.arrived, loaded.clock)
        if not again:
            return rows, []
        rejects = [(as_json(rows.row(i, query)), DUPLICATE) for i in again]
        stay = np.ones(len(names), np.bool_)
        stay[again] = False
        return _some(rows, stay), rejects

    def _due(self, blocks: list[RowBlock], clock: float) -> tuple[RowBlock | None, RowBlock | None]:
        """The rows up to the clock, and those beyond it."""
        if not blocks:
            return None, None
        rows = concat(blocks)
        if self.plan.lateness == 0:
            return rows, None
        due = rows.arrived <= clock
        return _some(rows, due), _some(rows, ~due)

    def _next(self, then: LoadedGroup) -> int | None:
        """When time alone changes something: the next expiry, a waiting row that becomes due, or the group's end."""
        instants = [slot.first for slot in then.slots]
        if then.waiting is not None:
            instants.append(float(then.waiting.arrived.min()))
        if self.plan.query.last is None:
            instants.append(self._end(then) if then.empty else then.group.live.next_expiry)
        return timer(self.plan.kind, min(instants, default=np.inf))

    def _outlived(self, loaded: LoadedGroup, clock: float, watermark: int | None) -> bool:
        """Whether there is nothing to remember of an empty group: no row was ever taken, or that was long ago."""
        if watermark is None:
            return not np.isfinite(clock)
        return reached(self.plan.kind, watermark) >= self._end(loaded)

    def _end(self, empty: LoadedGroup) -> float:
        """Where the watermark must be for an empty group to be forgotten."""
        life: Any = self.plan.query.lifetime
        if life is None:
            life = empty.clock - empty.group.newest if np.isfinite(empty.group.newest) else 0.0
        elif isinstance(life, str):
            life = duration(life)
        return empty.clock + self.plan.lateness + float(life)

    def _new_group(self) -> Group:
        plan, query = self.plan, self.plan.query
        fill = None if plan.chain is None else plan.chain.fill
        return Group(len(query.names), query.alpha, query.last, 1_000_000, plan.width, fill)

    def _load(self, state: bytes | None) -> LoadedGroup:
        if state is None:
            return LoadedGroup(self._new_group(), -np.inf, None, None)
        header, arrays = from_state(self.plan, state, "state of a group")
        (group,), _ = split_groups([header["group"]], arrays, self.plan.query, self._new_group)
        waiting = {n.removeprefix(_WAITING): array for n, array in arrays.items() if n.startswith(_WAITING)}
        rows = from_arrays(waiting, self.plan.signs, self.plan.width) if waiting else None
        slots = [Slot(*each) for each in header["slots"]]
        return LoadedGroup(group, header["clock"], rows, header["timer"], slots=slots)

    def _save(self, loaded: LoadedGroup) -> bytes:
        header = {
            "clock": loaded.clock,
            "timer": loaded.timer,
            "slots": loaded.slots,
            "group": save_group(loaded.group),
        }
        arrays = join_groups([loaded.group], len(self.plan.query.names), self.plan.id)
        if loaded.waiting is not None:
            rows = to_arrays(loaded.waiting, self.plan.signs)
            arrays |= {f"{_WAITING}{name}": array for name, array in rows.items()}
        return to_state(self.plan, header, arrays)


def _some(rows: RowBlock, stay: Flags) -> RowBlock | None:
    """Some of the rows; None if there are none."""
    return rows if stay.all() else rows.part(np.flatnonzero(stay)) if stay.any() else None


def _health(parcels: Sequence[Parcel], rejected: int, group: Group, late: int, waiting: int) -> dict[str, int]:
    return {
        "rows": sum(parcel.came for parcel in parcels),
        "rejected": rejected,
        "late": late,
        "outside_limits": sum(parcel.outside_limits for parcel in parcels),
        "incomplete": sum(parcel.incomplete for parcel in parcels),
        "screened": sum(parcel.screened for parcel in parcels),
        "waiting": waiting,
        "live": group.live.alive,
        "answer": len(group.live.members()),
    }
