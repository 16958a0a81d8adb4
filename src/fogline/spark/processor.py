"""What becomes of a group when new rows, or only time, reach it?

A `Keeper` wakes the group's monitor from its state, moves its clock, hands it the rows that are due, and puts it to
sleep again; `Watcher` is the thin part that Spark calls. The clock of a group is the greatest time seen in it, held
back by the lateness; rows that are ahead of it wait. Where a group falls silent the query's watermark moves its clock.

Nothing outlives a call but the state: Spark may call any worker next. (A worker may remember what it wrote: `awake`.)
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.flow.cache import LARGE, Awake, digest, recall, remember
from fogline.flow.keys import key_values
from fogline.flow.parcel import Parcel, table_from_bytes, table_to_bytes
from fogline.flow.plan import Plan, reached, timer
from fogline.flow.screening import as_json
from fogline.impute.chain import CONTEXT, TOLD
from fogline.impute.scoring import Sums, add, from_plain, plain
from fogline.monitor import Monitor
from fogline.rows.columns import read_times, write_times

_HEAD = struct.Struct("<QqQ")  # bytes of the snapshot, the timer (-1: none), bytes of the rows that wait
_PRESS = pa.Codec("zstd", 1)  # to a quarter, in a tenth of the time that Spark takes to carry the rest

SCORES = "scores"  # of values that were hidden for a moment, as JSON: see `fogline.impute.scoring`
COUNTERS = (
    "rows", "rejected", "late", "outside_limits", "incomplete", "screened", "waiting", "live", "answer",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call leaves behind: the group's state, what there is to tell, and when time alone will change it."""

    state: bytes
    journal: pa.Table
    timer: int | None  # in milliseconds of event time
    before: int | None  # the timer that this one replaces
    group: Awake  # what the state holds


def journal_schema(plan: Plan) -> pa.Schema:
    """Changes, rejects and health in one table: `kind` says which columns are filled."""
    change = [("time", plan.kind), ("id", plan.id), ("arrived", plan.kind), ("change", pa.string())]
    change += [("probability", pa.float64()), ("exact", pa.bool_())]
    change += [(f"attribute_{j}", pa.float64()) for j in range(len(plan.query.names))]
    by = [(f"by_{k}", kind) for k, kind in enumerate(plan.by)]
    told = [(name, pa.string()) for name in ("row", "reason", SCORES)] + [(name, pa.int64()) for name in COUNTERS]
    return pa.schema([("kind", pa.string()), *by, *change, *told])


def changes_schema(plan: Plan) -> pa.Schema:
    """What `watch` tells, under the names of the stream."""
    query = plan.query
    head = [("time", plan.kind), *zip(query.by, plan.by, strict=True), ("id", plan.id), ("arrived", plan.kind)]
    tail = [("change", pa.string()), ("probability", pa.float64()), ("exact", pa.bool_())]
    return pa.schema([*head, *tail, *((name, pa.float64()) for name in query.names)])


def changes_of_journal(plan: Plan, journal: pa.Table) -> pa.Table:
    """The changes in a journal."""
    told = journal.filter(pc.equal(journal["kind"], "change"))
    by = [f"by_{k}" for k in range(len(plan.by))]
    attributes = [f"attribute_{j}" for j in range(len(plan.query.names))]
    names = ["time", *by, "id", "arrived", "change", "probability", "exact", *attributes]
    return told.select(names).rename_columns(changes_schema(plan).names)


class Keeper:
    """Keeps groups between calls, each as one bytes object."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.schema = journal_schema(plan)

    def take(
        self,
        key: str,
        state: bytes | Awake | None,
        parcels: Sequence[Parcel] = (),
        *,
        watermark: int | None = None,
        end: bool = False,
    ) -> Taken:
        """Rows reach the group, or the watermark (in milliseconds) does. At the `end` of input no row waits."""
        group = state if isinstance(state, Awake) else self._wake(state)
        monitor, waiting = group.monitor, group.waiting
        monitor.rejects = deque()  # as many as there are: they all go on
        late = _late(monitor)
        newest = max((parcel.newest for parcel in parcels), default=-np.inf)
        clock = max(monitor.clock, newest - (0.0 if end else self.plan.lateness))
        if watermark is not None:
            clock = max(clock, reached(self.plan.kind, watermark))
        due, waiting = self._due([*waiting, *(parcel.rows for parcel in parcels if parcel.rows.num_rows)], clock)
        changes = None
        if np.isfinite(clock):
            now = write_times(np.array([clock]), self.plan.kind)[0]
            changes = monitor.advance(now, due, ticks=self.plan.every == "tick")
        rejects = [pair for parcel in parcels for pair in parcel.rejects]
        rejects += [(self._as_it_came(reject.row, key), reject.reason) for reject in monitor.rejects]
        health = {
            "rows": sum(parcel.came for parcel in parcels),
            "rejected": len(rejects),
            "late": _late(monitor) - late,
            "outside_limits": sum(parcel.outside_limits for parcel in parcels),
            "incomplete": sum(parcel.incomplete for parcel in parcels),
            "screened": sum(parcel.screened for parcel in parcels),
            "waiting": sum(table.num_rows for table in waiting),
            **_sizes(monitor),
        }
        scores: Sums = {}
        for parcel in parcels:
            add(scores, from_plain(parcel.scores))
        journal = self._journal(key, changes, rejects, health, scores, clock)
        then = Awake(monitor, waiting, self._next(monitor, waiting))
        return Taken(self._sleep(then), journal, then.timer, group.timer, then)

    def _wake(self, state: bytes | None) -> Awake:
        plan = self.plan
        if state is None:
            return Awake(Monitor(plan.inner, plan.repository, remember=False), [], None)
        size, timer, early = _HEAD.unpack_from(state)
        rows = state[_HEAD.size : _HEAD.size + early]
        snapshot = _PRESS.decompress(memoryview(state)[_HEAD.size + early :], size).to_pybytes()
        monitor = Monitor.restore(plan.inner, snapshot, plan.repository, remember=False)
        return Awake(monitor, [table_from_bytes(rows)] if rows else [], None if timer < 0 else timer)

    def _sleep(self, group: Awake) -> bytes:
        snapshot = group.monitor.snapshot()
        rows = table_to_bytes(pa.concat_tables(group.waiting)) if group.waiting else b""
        head = _HEAD.pack(len(snapshot), -1 if group.timer is None else group.timer, len(rows))
        return b"".join((head, rows, _PRESS.compress(snapshot, asbytes=True)))

    def _due(self, tables: list[pa.Table], clock: float) -> tuple[pa.Table | None, list[pa.Table]]:
        """The rows up to the clock, and those beyond it."""
        if not tables:
            return None, []
        rows = pa.concat_tables(tables).combine_chunks()
        if self.plan.lateness == 0:
            return rows, []
        due = self._times(rows) <= clock
        early = rows.filter(pa.array(~due))
        return rows.filter(pa.array(due)), [early] if early.num_rows else []

    def _times(self, rows: pa.Table) -> NDArray[np.float64]:
        return read_times(rows.column(self.plan.query.time).combine_chunks(), self.plan.query.time).value

    def _next(self, monitor: Monitor, waiting: list[pa.Table]) -> int | None:
        """When time alone changes something: the next expiry, or a waiting row that becomes due."""
        instants = [float(self._times(table).min()) for table in waiting]
        if self.plan.query.last is None:
            instants += [group.live.next_expiry for group in monitor.groups.values()]
        return timer(self.plan.kind, min(instants, default=np.inf))

    def _journal(
        self,
        key: str,
        changes: pa.Table | None,
        rejects: list[tuple[str, str]],
        health: dict[str, int],
        scores: Sums,
        clock: float,
    ) -> pa.Table:
        parts = []
        if changes is not None and changes.num_rows:
            columns = {name: changes.column(name) for name in ("change", "probability", "exact")}
            columns |= {f"attribute_{j}": changes.column(name) for j, name in enumerate(self.plan.query.names)}
            columns |= {name: changes.column(name) for name in ("time", "id", "arrived")}
            parts.append(self._part("change", key, columns, changes.num_rows))
        if rejects:
            columns = {name: pa.array([pair[k] for pair in rejects]) for k, name in enumerate(("row", "reason"))}
            parts.append(self._part("reject", key, columns, len(rejects)))
        columns = {name: pa.array([value], pa.int64()) for name, value in health.items()}
        columns[SCORES] = pa.array([json.dumps(plain(scores)) if scores else None], pa.string())
        if np.isfinite(clock):
            columns["time"] = write_times(np.array([clock]), self.plan.kind)
        parts.append(self._part("health", key, columns, 1))
        return pa.concat_tables(parts)

    def _part(self, kind: str, key: str, columns: dict[str, Any], n: int) -> pa.Table:
        columns["kind"] = pa.array([kind] * n)
        for k, value in enumerate(key_values(key, self.plan.by)):
            columns[f"by_{k}"] = pa.repeat(value, n)
        filled = [
            columns[each.name].cast(each.type) if each.name in columns else pa.nulls(n, each.type)
            for each in self.schema
        ]
        return pa.Table.from_arrays(filled, schema=self.schema)

    def _as_it_came(self, row: Any, key: str) -> str:
        by = dict(zip(self.plan.query.by, (v.as_py() for v in key_values(key, self.plan.by)), strict=True))
        ours = (self.plan.expires, CONTEXT, TOLD)
        return as_json({**by, **{name: value for name, value in row.items() if name not in ours}})


class Watcher(StatefulProcessor):
    """What Spark calls for each group of a micro-batch, and when a group's timer fires."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("group", "mark binary, saved binary")
        self.large = handle.getValueState("large", "saved binary")  # what is large lies apart, to be read if need be
        self.keeper: Keeper | None = None  # made when it is needed: Spark also calls this where there are no rows

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        parcels = [Parcel.from_bytes(bytes(each)) for frame in rows for each in frame["parcel"]]
        yield self._take(key[0], parcels, None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield self._take(key[0], [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Nothing is held."""

    def _take(self, key: str, parcels: list[Parcel], watermark: int | None) -> Any:
        self.keeper = self.keeper or Keeper(self.plan)
        taken = self.keeper.take(key, self._read(), parcels, watermark=watermark)
        self._write(taken)
        if taken.timer != taken.before or watermark is not None:
            if taken.before is not None and watermark is None:
                self.handle.deleteTimer(taken.before)
            if taken.timer is not None:
                self.handle.registerTimer(taken.timer)
        return pd.DataFrame({"journal": [table_to_bytes(taken.journal)]})

    def _read(self) -> bytes | Awake | None:
        found = self.state.get()
        self.apart = found is not None and found[1] is None
        if found is None:
            return None
        mark, saved = found
        if not self.apart:
            return bytes(saved)
        return recall((bytes(mark), self._source)) or bytes(self.large.get()[0])

    def _write(self, taken: Taken) -> None:
        if len(taken.state) < LARGE:
            self.state.update((b"", taken.state))
            if self.apart:
                self.large.clear()
            return
        mark = digest(taken.state)
        self.state.update((mark, None))
        self.large.update((taken.state,))
        remember((mark, self._source), taken.group, len(taken.state))

    @cached_property
    def _source(self) -> str:
        return "" if self.plan.repository is None else self.plan.repository.fingerprint


def _late(monitor: Monitor) -> int:
    return sum(group.late for group in monitor.groups.values())


def _sizes(monitor: Monitor) -> dict[str, int]:
    """Not `stats`: that looks at pairs."""
    groups = monitor.groups.values()
    return {
        "live": sum(group.live.alive for group in groups),
        "answer": sum(len(group.live.members()) for group in groups),
    }
