"""What has a row's sensor read before it, and which earlier gaps does the row itself revise?

Wherever the readings lie: in a bucket of sensors, where rows pass as they come, or with a group, when rows are due.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints, Revisions, objects
from fogline.engine.group import Group
from fogline.impute.fill import needs_of, put, why_rejected
from fogline.impute.scoring import Scorer
from fogline.intake.carry import Coming, carry_over, join_standing, standing_of
from fogline.intake.take import refused_first
from fogline.kernels.sensors import COPY, TAKEN, UNABLE
from fogline.pipeline.decode import DecodedRows, Decoder, Rows, asked_at_once, copies_in
from fogline.pipeline.exchange import NUMBERS, BucketRows, GroupRejects, GroupRows, RowBlock, RowsByGroup, concat
from fogline.pipeline.latest import in_turn
from fogline.pipeline.plan import Plan
from fogline.pipeline.prune import SMALL, Screening
from fogline.pipeline.rejects import rejected
from fogline.pipeline.sensor_state import Opened, ReadingStore, bucket_of, name_of
from fogline.pipeline.time_buckets import BucketCollector, hash_ids
from fogline.repository.sensors.gaps import Hidden, Revised, gaps_of
from fogline.repository.sensors.state import Name, SensorRows, SensorState
from fogline.rows.cells import Reasons
from fogline.rows.names import DUPLICATE, KeyText, keyed, others
from fogline.rows.reader import Decoded
from fogline.rows.table import RowSource
from fogline.state.store import StateStore

_SENSORS = "sensors"  # in the store of a bucket: its state; many readings lie beside it (`sensor_state`)


class Recalled(NamedTuple):
    """What a state of sensors gave some rows."""

    context: Floats  # (n, w) what their sensors have read before; NaN for rows that do not need it
    opened: Flags  # (n,) which rows have gaps that a later reading may revise
    revised: Revised | None  # which gaps they revise; None: there is no hindsight
    hidden: Hidden | None  # which known values are hidden, to keep score; None: that is not done
    fate: Ints  # (n,) what becomes of the rows, see `kernels.sensors.Candidates`

    @property
    def copies(self) -> list[int]:
        """The rows that do not count, since another of their stamp does."""
        return [int(k) for k in np.flatnonzero(self.fate == COPY)]


class Recall:
    """Asks states of sensors."""

    def __init__(self, plan: Plan) -> None:
        assert plan.chain is not None
        assert plan.chain.sensors is not None
        self.plan, self.query, self.chain, self.sensors = plan, plan.query, plan.chain, plan.chain.sensors
        self.scorer = Scorer(plan.chain) if plan.scores else None

    def recall(
        self, kept: SensorState, names: Sequence[Name], piece: DecodedRows, near: Flags | None = None
    ) -> Recalled:
        """What the sensors have read before, and what becomes of the rows; those that count join the state.

        Rows that are not `near` (None: all are) run ahead of their group, and are neither readings nor gaps yet.
        """
        rows, chain, n = piece.rows, self.chain, len(piece.rows.arrived)
        values, refused = chain.values(rows.uncertain, rows.raw), np.zeros(n, np.bool_)
        refused[list(rows.refused)] = True
        read = ~refused if near is None else near & ~refused
        if rows.gone is not None:
            read &= ~rows.gone
        values[~read] = np.nan
        wanted = np.asarray(np.isnan(values).any(axis=1))
        hiding = None if self.scorer is None else self.scorer.hiding(rows.arrived, values)
        gaps = None
        if chain.hindsight:
            gaps = gaps_of(self.query, np.isnan(rows.uncertain.lo), rows.expires)
            gaps.open[~read | _copies(kept, names, piece)] = False
        asked = SensorRows(names, rows.arrived, values, wanted, piece.name, gaps, hiding=hiding)
        needs = needs_of(chain, rows, None, refused)
        asked = chain.undecided(asked, copies_in(piece, self.plan), needs, read, rows.version)
        context, revised, fate = chain.take(kept, asked)
        opened = np.zeros(n, np.bool_) if gaps is None else gaps.open.any(axis=1) & (fate == TAKEN)
        hidden = None if hiding is None else hiding.hidden
        return Recalled(context, opened, revised if chain.hindsight else None, hidden, fate)

    def revisions(
        self, kept: SensorState, names: Sequence[Name], piece: DecodedRows, found: Recalled, stay: Ints
    ) -> dict[KeyText, Revisions]:
        """What the rows revise, by the keys of their groups. Rows that do not `stay` have no open gaps any longer."""
        if (revised := found.revised) is None:
            return {}
        gone = np.ones(len(found.opened), np.bool_)
        gone[stay] = False
        closed = np.flatnonzero(gone & found.opened)
        kept.close(names, piece.rows.arrived[closed], piece.name[closed])
        left = np.flatnonzero((revised.row < 0) | ~gone[revised.row])
        reading, rows = revised.reading[left], piece.rows
        values = self.chain.values(rows.uncertain.part(reading), rows.raw[reading])
        ids = objects(piece.block.columns.column(self.query.id).take(pa.array(reading)).to_pylist())
        events = Revisions(ids, revised.target[left], rows.arrived[reading], revised.cells[left], values)
        group = piece.group[reading]
        return {piece.keys[k]: events.part(np.flatnonzero(group == k)) for k in np.unique(group).tolist()}


def _copies(kept: SensorState, names: Sequence[Name], piece: DecodedRows) -> Flags:
    """(n,) which rows have the sensor and the time of an earlier one, as far as it is known: the gaps are its own."""
    arrived, gaps = piece.rows.arrived, kept.open_gaps()
    sensor = np.array([kept.number.get(name, -1) for name in names], np.int64)[piece.name]
    open_rows = np.repeat(np.arange(len(gaps.size)), gaps.size) + 1j * gaps.time
    out: Flags = np.isin(sensor + 1j * arrived, open_rows)
    late = np.flatnonzero(arrived <= kept.newest(names)[piece.name])
    out[late] |= (kept.times[sensor[late]] == arrived[late, None, None]).any(axis=(1, 2))
    return out


# --- Values that are carried over -------------------------------------------------------------------------------------
#
# What do rows that are due carry over from the rows of their ids, those of the group and those before them?
#
# The rule: `carry`.


class Carrying:
    """Fills in the attributes that are carried over."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        names = plan.query.names
        self.columns = np.array([names.index(name) for name in plan.query.carry], np.int64)

    def carry(self, piece: DecodedRows, removals: RowBlock | None, group: Group, clock: float) -> DecodedRows:
        """The piece, of rows of one group that are due, with what they carry over."""
        rows, query, d = piece.rows, self.plan.query, len(self.plan.query.names)
        if not np.isnan(rows.uncertain.lo[:, self.columns]).any():
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


# --- Rows in the buckets of their sensors ----------------------------------------------------------------------------
#
# Sensors are dealt into the plan's number of buckets; each has its readings as state (`sensor_state`), so buckets work
# in parallel and every reading is remembered exactly once, as any state of the engine is. Decoded rows go to their
# bucket, one `BucketRows` for each bucket and chunk; there those with gaps get their context, and all are pruned at
# once. From there on no stage needs to know whose readings they are.
#
# With hindsight a bucket also keeps the open gaps of rows that went on from here. What a reading revises goes to the
# group of the row, as an event at the reading's tick.


class Dealer:
    """Decodes rows and deals them to the buckets of their sensors."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.decoder = plan, Decoder(plan)

    def deal(self, batch: Rows) -> Iterator[tuple[int, BucketRows]]:
        """Each bucket that any of the rows is in, with these."""
        plan = self.plan
        piece, sensors = self.decoder.decode_sensors(batch)
        piece = asked_at_once(piece, plan)
        bucket = np.array([bucket_of(name_of(key), plan.buckets) for key in sensors], np.int64)[piece.name]
        rows = piece.rows
        bucket[list(rows.refused)] = -1
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(plan.buckets + 1))
        for k in range(plan.buckets):
            which = order[ends[k] : ends[k + 1]]
            if len(which):
                yield k, _bucket_rows(piece, sensors, which)
        if rows.refused:
            none = np.empty(0, np.int64)
            yield 0, BucketRows(None, [], none, [], none, None, list(self._rejected(piece)))

    def _rejected(self, piece: DecodedRows) -> Iterator[GroupRejects]:
        found: dict[int, list[int]] = {}
        for i in sorted(piece.rows.refused):
            found.setdefault(int(piece.group[i]), []).append(i)
        outside = piece.rows.outside
        for k, which in found.items():
            shown = [rejected(piece.row(i, self.plan), piece.rows.refused[i]) for i in which]
            yield GroupRejects(piece.keys[k], shown, 0 if outside is None else int(outside[which].sum()))


def _bucket_rows(piece: DecodedRows, sensors: list[KeyText], which: Ints) -> BucketRows:
    there, code = np.unique(piece.name[which], return_inverse=True)
    outside = piece.rows.outside
    return BucketRows(
        piece.block.part(which),
        piece.keys,
        piece.group[which],
        [sensors[k] for k in there.tolist()],
        code.reshape(-1),
        None if outside is None else outside[which],
        [],
    )


class Remembered(NamedTuple):
    """The rows of a bucket, with what their sensors have read before; all are in the state then."""

    piece: DecodedRows
    names: list[Name]  # of sensors: piece.name counts them
    opened: Opened
    fresh: Flags  # (n,) which rows are later than all that their sensors have sent
    recalled: Recalled


class SensorStage:
    """Keeps the readings of buckets of sensors, and their open gaps, between calls."""

    def __init__(self, plan: Plan, small: float = SMALL) -> None:
        self.plan, self.recall = plan, Recall(plan)
        self.screening, self.readings = Screening(plan, small), ReadingStore(plan, self.recall.sensors)

    def take(self, bucket: int, come: Sequence[BucketRows], store: StateStore) -> RowsByGroup:
        """What can matter of the rows of a bucket, by their groups; its state, in the store, follows.

        What a reading revises travels, though the reading itself may not; gaps of rows that do not are forgotten.
        """
        for each in come:
            for bad in each.rejects:
                self.screening.add_rejects(bad.key, bad.rejects, bad.outside_limits)
        found = self._remember(bucket, come, store)
        if found is None:
            return self.screening.pack()
        piece, recalled, opened = found.piece, found.recalled, found.opened
        left_out = recalled.copies if self.plan.query.latest else ()  # else they are rejected
        self.screening.take(piece, recalled.context, found.fresh, recalled.hidden, left_out)
        groups = self.screening.pack()
        events = self.recall.revisions(opened.kept, found.names, piece, recalled, self.screening.kept)
        groups = groups.with_revisions(events)
        lost = opened.kept.lost, opened.kept.forgotten  # it is not known of which groups: the first one reports it
        groups.numbers[0, [NUMBERS.index(name) for name in ("unwatched", "sensors_forgotten")]] = lost
        self._save(opened, store)
        return groups

    def impute(self, bucket: int, come: Sequence[BucketRows], store: StateStore) -> tuple[DecodedRows | None, Floats]:
        """The rows of a bucket (None: there are none) with their contexts; its state, in the store, follows."""
        found = self._remember(bucket, come, store)
        if found is None:
            return None, np.empty((0, self.recall.sensors.width))
        self._save(found.opened, store)
        return found.piece, found.recalled.context

    def _save(self, opened: Opened, store: StateStore) -> None:
        if (state := self.readings.save(opened, store)) is not None:
            store.put(_SENSORS, "", 0, state)

    def _remember(self, bucket: int, come: Sequence[BucketRows], store: StateStore) -> Remembered | None:
        """The rows of a bucket with their contexts; they join the state. None: there are only rejects."""
        there = [each for each in come if each.rows is not None]
        if not there:
            return None
        piece, sensors = self._joined(there)
        names = [name_of(key) for key in sensors]
        opened = self.readings.open(bucket, store.get(_SENSORS), names, store)
        fresh = piece.rows.arrived > opened.kept.newest(names)[piece.name]
        found = self.recall.recall(opened.kept, names, piece, self._near(piece))
        if not self.plan.query.latest:
            piece.rows.refused.update((k, DUPLICATE) for k in found.copies)
        return Remembered(piece, names, opened, fresh, found)

    def _near(self, piece: DecodedRows) -> Flags | None:
        """Which rows do not run ahead of their groups, as far as this call shows it; None: all."""
        collector, ids = BucketCollector(self.plan.ahead), piece.block.columns.column(self.plan.query.id)
        found = collector.hear(piece.group, piece.rows.arrived, hash_ids(ids))
        return collector.near(found)

    def _joined(self, come: Sequence[BucketRows]) -> tuple[DecodedRows, list[KeyText]]:
        """The rows of several chunks as one, and the keys of the sensors that its names stand for."""
        groups: dict[KeyText, int] = {}
        sensors: dict[KeyText, int] = {}
        group, name, blocks, outside = [], [], [], []
        for each in come:
            assert each.rows is not None
            numbers = np.array([groups.setdefault(key, len(groups)) for key in each.groups], np.int64)
            codes = np.array([sensors.setdefault(key, len(sensors)) for key in each.sensors], np.int64)
            group.append(numbers[each.group])
            name.append(codes[each.sensor])
            blocks.append(each.rows)
            outside.append(np.zeros(len(each.group), np.int64) if each.outside is None else each.outside)
        block = concat(blocks)
        columns = tuple(np.concatenate(each) for each in (group, name, outside))
        if block.version is not None:
            order = in_turn(block.arrived, block.version)
            block, columns = block.part(order), tuple(each[order] for each in columns)
        of_group, of_sensor, beyond = columns
        rows = decoded(block, self.plan, beyond)
        return DecodedRows(rows, block, list(groups), of_group, of_sensor, whole=False), list(sensors)


def decoded(block: RowBlock, plan: Plan, outside: Ints | None = None) -> Decoded:
    """The rows of a block, to be looked at by imputers."""
    gaps, few = bool(np.isnan(block.uncertain.lo).any()), outside if outside is not None and outside.any() else None
    columns = block.columns
    if plan.imputer is not None:  # it may ask for attributes as they came
        left = [(j, name) for j, name in enumerate(plan.query.names) if name not in columns.schema.names]
        for j, name in left:
            columns = columns.append_column(name, pa.array(block.raw[:, j], from_pandas=True))
    source = RowSource(columns)
    cells = block.raw, block.uncertain, few, gaps
    return Decoded(source, plan.kind, block.arrived, block.expires, *cells, {}, block.gone, block.version)


# --- Rows that are due ------------------------------------------------------------------------------------------------
#
# What is a row's gap, by the moment the row is due?
#
# Where rows wait for those that come late (`lateness`), the order in which they came shows nothing: a row's context,
# what its sensor has read before, is that of the moment it is due, in the order of time. And what a row carries over is
# of the row that it replaces. Only its group knows that moment, and that row. So rows travel and wait as they came,
# none of them screened, since each is a reading; the readings of a group's sensors lie with the group's state. When
# they are due, and are known as readings, those that cannot matter are dropped as elsewhere, unless some are late.


class Settled(NamedTuple):
    """Rows of a group as its live set takes them."""

    group_rows: GroupRows  # with what is to be reported of them
    sensors: bytes | None  # the readings then; None: what history knows
    imputed: Flags  # (n, carried) which cells that a row may carry over were imputed
    newest: float  # the greatest time of the rows and removals that are not rejected


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
        self, key: KeyText, state: bytes | None, rows: RowBlock, clock: float, store: StateStore, group: Group
    ) -> Settled:
        """The rows of a group as its live set takes them, with what is to be reported of them; and the readings then.

        `state`: the readings before, many of them beside it, in the store; None: what history knows. `clock`: of the
        group so far.
        """
        came, removals = _set_apart(rows)
        if came is None:
            none = np.zeros((len(rows.arrived), len(self.carrying.columns)), np.bool_)
            return Settled(GroupRows(rows, {}, 0, 0, 0, 0), state, none, float(rows.arrived.max()))
        piece, sensors, imputed = self._carried(key, state, came, removals, group, clock, store)
        self.screening.small = SMALL if (piece.rows.arrived > clock).all() else math.inf
        left_out = len(came.arrived) - len(piece.rows.arrived)
        group_rows, state = self._screened(key, state, piece, sensors, store)
        taken = np.delete(piece.rows.arrived, list(piece.rows.refused)).max(initial=-np.inf)
        group_rows = replace(group_rows, screened=group_rows.screened + left_out)
        found = Settled(group_rows, state, imputed[self.screening.kept], float(taken))
        return found if removals is None else _with_removals(found, removals)

    def _carried(
        self,
        key: KeyText,
        state: bytes | None,
        rows: RowBlock,
        removals: RowBlock | None,
        group: Group,
        clock: float,
        store: StateStore,
    ) -> tuple[DecodedRows, list[KeyText], Flags]:
        """The rows as one piece, with what they carry over, the keys of their sensors, and which cells that may be
        carried over are to be imputed.

        What is rejected gives nothing, and is no copy of another: once more without it, of each sensor the first.
        """
        columns = self.carrying.columns
        if not len(columns):
            return *self._piece(key, rows), np.zeros((len(rows.arrived), 0), np.bool_)
        refused: Reasons = {}
        while True:
            piece, sensors = self._piece(key, rows)
            piece.rows.refused.update(refused)
            stay = np.delete(np.arange(len(rows.arrived)), others(copies_in(piece, self.plan)))
            piece, sensors = self._piece(key, rows.part(stay))
            piece.rows.refused.update((k, refused[i]) for k, i in enumerate(stay.tolist()) if i in refused)
            piece = self.carrying.carry(piece, removals, group, clock)
            imputed = np.isnan(piece.rows.uncertain.lo[:, columns])
            if self.plan.chain is not None:
                piece = asked_at_once(piece, self.plan)
            self._refuse_first(key, state, piece, sensors, store, copied=len(stay) < len(rows.arrived))
            if len(piece.rows.refused) == len(refused):
                return piece, sensors, imputed
            refused = {int(stay[k]): reason for k, reason in piece.rows.refused.items()}

    def _refuse_first(
        self,
        key: KeyText,
        state: bytes | None,
        piece: DecodedRows,
        sensors: list[KeyText],
        store: StateStore,
        *,
        copied: bool,
    ) -> None:
        """Refuse rows with gaps that nothing can fill, as many as are sure of it. `copied`: some have copies."""
        rows, chain = piece.rows, self.plan.chain
        refused = np.zeros(len(rows.arrived), np.bool_)
        refused[list(rows.refused)] = True
        needs = needs_of(chain, rows, None, refused)
        if needs is None:
            return
        unable = np.asarray(needs.any(axis=1))
        if self.recall is not None and self.readings is not None:  # what sensors have read may help; nothing is saved
            names = [name_of(each) for each in sensors]
            opened = self.readings.open(key, state, names, store)
            unable = self.recall.recall(opened.kept, names, piece).fate == UNABLE
        carried = np.arange(needs.shape[1]) if copied and chain is not None else self.carrying.columns
        for k in refused_first(chain, needs, unable, carried, piece.name, rows.arrived).tolist():
            j = int(np.flatnonzero(needs[k])[0])
            rows.refused[k] = why_rejected(self.plan.query, j, rows.raw[k, j], self.plan.repository)

    def _piece(self, key: KeyText, rows: RowBlock) -> tuple[DecodedRows, list[KeyText]]:
        """The rows as one piece, and the keys of their sensors."""
        sensors, code = keyed(rows.columns, (*self.plan.query.by, self.plan.query.id))
        found = decoded(rows, self.plan)
        return DecodedRows(found, rows, [key], np.zeros(len(code), np.int64), code, whole=False), sensors

    def _screened(
        self, key: KeyText, state: bytes | None, piece: DecodedRows, sensors: list[KeyText], store: StateStore
    ) -> tuple[GroupRows, bytes | None]:
        """The rows with bounds for their gaps, and the readings then."""
        latest = self.plan.query.latest
        if self.recall is None or self.readings is None:
            self.screening.take(piece)
            [(_, group_rows)] = self.screening.pack()
            return group_rows, state
        names = [name_of(each) for each in sensors]
        opened = self.readings.open(key, state, names, store)
        fresh = piece.rows.arrived > opened.kept.newest(names)[piece.name]
        found = self.recall.recall(opened.kept, names, piece)
        if not latest:
            piece.rows.refused.update((k, DUPLICATE) for k in found.copies)
        self.screening.take(piece, found.context, fresh, found.hidden, found.copies if latest else ())
        [(_, group_rows)] = self.screening.pack()
        events = self.recall.revisions(opened.kept, names, piece, found, self.screening.kept)
        group_rows = replace(group_rows, revisions=events.get(key), unwatched=opened.kept.lost)
        group_rows = replace(group_rows, sensors_forgotten=opened.kept.forgotten)
        return group_rows, self.readings.save(opened, store) or state

    def forget(self, key: KeyText, state: bytes | None, store: StateStore) -> None:
        """The readings of this state leave."""
        if state is not None and self.readings is not None:
            self.readings.clear(key, state, store)


def _set_apart(rows: RowBlock) -> tuple[RowBlock | None, RowBlock | None]:
    """Rows in the order in which they are taken, and removals; None where there are none."""
    if rows.gone is None or rows.version is None:
        return rows, None
    removed, came = np.flatnonzero(rows.gone), np.flatnonzero(~rows.gone)
    came = came[in_turn(rows.arrived[came], rows.version[came])]
    return rows.part(came) if len(came) else None, rows.part(removed) if len(removed) else None


def _with_removals(found: Settled, removals: RowBlock) -> Settled:
    """The removals are due as well; nothing is asked about them."""
    rows = found.group_rows.rows
    both = concat([rows, removals]) if len(rows.arrived) else removals
    none = np.zeros((len(removals.arrived), found.imputed.shape[1]), np.bool_)
    newest = max(found.newest, float(removals.arrived.max()))
    return Settled(replace(found.group_rows, rows=both), found.sensors, np.vstack((found.imputed, none)), newest)
