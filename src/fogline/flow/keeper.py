"""What becomes of a group when new rows, or only time, reach it?

A `Keeper` loads the group from its state, moves its clock, hands it the rows that are due, and saves it again. The
clock of a group is the greatest time seen in it, held back by the lateness; rows that are ahead of it wait. Where a
group falls silent the query's watermark moves its clock.

Nothing outlives a call but the state: the engine may call any worker next. (A worker may keep what it saved: `cache`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags
from fogline.errors import SnapshotError
from fogline.flow.block import RowBlock, concat, from_arrays, to_arrays
from fogline.flow.cache import LoadedGroup
from fogline.flow.journal import Journal, journal
from fogline.flow.parcel import Parcel
from fogline.flow.plan import Plan
from fogline.flow.rejects import as_json
from fogline.flow.watermark import reached, timer
from fogline.impute.scoring import Sums, add
from fogline.packing import pack, unpack
from fogline.rows.changes import Tables
from fogline.rows.keys import Key, key_values
from fogline.skyline.duplicates import DUPLICATE, Contents, duplicates
from fogline.skyline.group import Group
from fogline.skyline.store import join_groups, save_group, split_groups

_CODEC = pa.Codec("zstd", 1)  # to a quarter, in a tenth of the time that the engine takes to carry the rest
_FRAME = bytes.fromhex("28b52ffd")  # what zstd begins with
_WAITING = "waiting "  # before the names of arrays of rows that wait


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call leaves behind: the group's state, what there is to report, and when time alone will change it."""

    state: bytes
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
    ) -> Outcome:
        """Rows reach the group, or the watermark (in milliseconds) does. At the `end` of input no row waits."""
        loaded = state if isinstance(state, LoadedGroup) else self._load(state)
        newest = max((parcel.newest for parcel in parcels), default=-np.inf)
        clock = max(loaded.clock, newest - (0.0 if end else self.plan.lateness))
        if watermark is not None:
            clock = max(clock, reached(self.plan.kind, watermark))
        blocks = [parcel.rows for parcel in parcels if len(parcel.rows.arrived)]
        due, waiting = self._due([*([] if loaded.waiting is None else [loaded.waiting]), *blocks], clock)
        late = loaded.group.late
        rejects = [pair for parcel in parcels for pair in parcel.rejects]
        changes, conflicts = None, 0
        if np.isfinite(clock):
            rows, again, conflicts = self._without_duplicates(key, loaded, due)
            rejects += again
            changes = self._advance(key, loaded, clock, rows)
        then = LoadedGroup(loaded.group, clock, waiting, self._next(loaded.group, waiting))
        health = _health(parcels, len(rejects), loaded.group, loaded.group.late - late, waiting)
        health["conflicts"] = conflicts
        scores: Sums = {}
        for parcel in parcels:
            add(scores, parcel.scores)
        report = journal(self.plan, key, changes, rejects, health, scores, clock)
        return Outcome(self._save(then), report, then.timer, loaded.timer, then)

    def _advance(self, key: Key, loaded: LoadedGroup, clock: float, rows: RowBlock | None) -> pa.Table:
        plan = self.plan
        batch = None if rows is None else rows.batch(plan.query)
        deltas = loaded.group.advance(loaded.clock, clock, batch, plan.every == "tick")
        by = tuple(value.as_py() for value in key_values(key, plan.by))
        return self.tables.build([(by, delta) for delta in deltas], plan.kinds)

    def _without_duplicates(
        self, key: Key, loaded: LoadedGroup, rows: RowBlock | None
    ) -> tuple[RowBlock | None, list[tuple[str, str]], int]:
        """The rows but for copies, these as rejects, and how many copies are kept because others were dropped."""
        if rows is None:
            return None, [], 0
        query = self.plan.query
        names = rows.columns.column(query.id).to_pylist()
        contents = partial(Contents, rows.raw, rows.expires, rows.clouds, self.plan.signs)
        again, kept = duplicates(loaded.group, names, rows.arrived, loaded.clock, contents, rows.covering)
        if not again:
            return rows, [], len(kept)
        rejects = [(as_json(rows.row(i, query)), DUPLICATE) for i in again]
        stay = np.ones(len(names), np.bool_)
        stay[again] = False
        return _some(rows, stay), rejects, len(kept)

    def _due(self, blocks: list[RowBlock], clock: float) -> tuple[RowBlock | None, RowBlock | None]:
        """The rows up to the clock, and those beyond it."""
        if not blocks:
            return None, None
        rows = concat(blocks)
        if self.plan.lateness == 0:
            return rows, None
        due = rows.arrived <= clock
        return _some(rows, due), _some(rows, ~due)

    def _next(self, group: Group, waiting: RowBlock | None) -> int | None:
        """When time alone changes something: the next expiry, or a waiting row that becomes due."""
        instants = [] if waiting is None else [float(waiting.arrived.min())]
        if self.plan.query.last is None:
            instants.append(group.live.next_expiry)
        return timer(self.plan.kind, min(instants, default=np.inf))

    def _new_group(self) -> Group:
        plan, query = self.plan, self.plan.query
        fill = None if plan.chain is None else plan.chain.fill
        return Group(len(query.names), query.alpha, query.last, 1_000_000, plan.width, fill)

    def _load(self, state: bytes | None) -> LoadedGroup:
        if state is None:
            return LoadedGroup(self._new_group(), -np.inf, None, None)
        header, arrays = unpack(_decompressed(state), "state of a group")
        if header["plan"] != self._belongs():
            raise SnapshotError("this state is that of another query, or was saved with another repository.")
        (group,), _ = split_groups([header["group"]], arrays, self.plan.query, self._new_group)
        waiting = {n.removeprefix(_WAITING): array for n, array in arrays.items() if n.startswith(_WAITING)}
        rows = from_arrays(waiting, self.plan.signs, self.plan.width) if waiting else None
        return LoadedGroup(group, header["clock"], rows, header["timer"])

    def _save(self, loaded: LoadedGroup) -> bytes:
        header = {
            "plan": self._belongs(),
            "clock": loaded.clock,
            "timer": loaded.timer,
            "group": save_group(loaded.group),
        }
        arrays = join_groups([loaded.group], len(self.plan.query.names), self.plan.id)
        if loaded.waiting is not None:
            rows = to_arrays(loaded.waiting, self.plan.signs)
            arrays |= {f"{_WAITING}{name}": array for name, array in rows.items()}
        packed = pack(header, arrays)
        pressed: bytes = _CODEC.compress(packed, asbytes=True)
        return len(packed).to_bytes(8, "little") + pressed

    def _belongs(self) -> list[str | None]:
        repository = self.plan.repository
        return [self.plan.query.fingerprint(), None if repository is None else repository.fingerprint]


def _decompressed(state: bytes) -> bytes:
    """What `_save` compressed; states of other versions begin otherwise."""
    if state[8 : 8 + len(_FRAME)] != _FRAME:
        raise SnapshotError("this state of a group was saved by another version of Fogline; begin with a new output.")
    whole: bytes = _CODEC.decompress(memoryview(state)[8:], int.from_bytes(state[:8], "little"), asbytes=True)
    return whole


def _some(rows: RowBlock, stay: Flags) -> RowBlock | None:
    """Some of the rows; None if there are none."""
    return rows if stay.all() else rows.part(np.flatnonzero(stay)) if stay.any() else None


def _health(
    parcels: Sequence[Parcel], rejected: int, group: Group, late: int, waiting: RowBlock | None
) -> dict[str, int]:
    return {
        "rows": sum(parcel.came for parcel in parcels),
        "rejected": rejected,
        "late": late,
        "outside_limits": sum(parcel.outside_limits for parcel in parcels),
        "incomplete": sum(parcel.incomplete for parcel in parcels),
        "screened": sum(parcel.screened for parcel in parcels),
        "waiting": 0 if waiting is None else len(waiting.arrived),
        "live": group.live.alive,
        "answer": len(group.live.members()),
    }
