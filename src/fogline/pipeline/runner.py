"""What becomes of a group in a batch: its rows enter, its clock moves, its state is loaded and saved.

First: what becomes of it when its run goes on with another repository? What was imputed stays. Rows that live, wait or
are held have boxes by the repository that bounded them, and because of those boxes others may have been forgotten: so
what is still to be made of a box is made now, by that repository, and becomes the row's own. From then on nothing of it
asks a repository. Such rows are marked in what is kept of them (`ASKED_NO_MORE`): later readings revise them no more.
Rows that wait as they came, since they get their contexts when they are due, have nothing imputed yet, and stay so.

No probability changes by it: a distribution was as good as there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import ASKED_NO_MORE, BEGUN_ANEW, BOUNDS_ONLY, LEAVE, ONE, Delta, Flags, Revisions, UncertainRows
from fogline.engine.bulk import threads
from fogline.engine.copies import duplicates, entered
from fogline.engine.group import Group
from fogline.engine.kinds import new_group
from fogline.engine.live import EXACT_LIMIT
from fogline.engine.store import join_groups, save_group, split_groups
from fogline.impute.scores import Sums, add
from fogline.kernels.uncertain import dense
from fogline.pipeline import changelog as log
from fogline.pipeline import loaded as cache
from fogline.pipeline.clock_guard import Ahead, reports, sift_ahead
from fogline.pipeline.exchange import GroupRows, RowBlock, concat, from_arrays, to_arrays
from fogline.pipeline.explain import Explainer
from fogline.pipeline.latest import GroupUpdate, advance
from fogline.pipeline.limits import is_near
from fogline.pipeline.loaded import LoadedGroup, Log, Segment, at_most, open_segments, put_away, size_of
from fogline.pipeline.plan import Plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.rejects import RejectedRow, as_json
from fogline.pipeline.report import CLIPPED, BatchResult, GroupReport, Naming, counts
from fogline.pipeline.sensors import Settling
from fogline.pipeline.watermark import later, reached, timer
from fogline.rows.changes import Tables
from fogline.rows.names import DUPLICATE, Contents, KeyText
from fogline.saved import Arrays
from fogline.state.format import from_state, from_value, saved_by, to_state, to_value
from fogline.state.store import StateStore

Split = Callable[[dict[str, Any], Arrays], Group]  # a group from its small values and its arrays


def moved_group(
    key: KeyText, loaded: LoadedGroup, was: Plan, plan: Plan, split: Split, store: StateStore
) -> LoadedGroup:
    """A group that was loaded by the plan it was saved with (`was`), as the new plan goes on with it."""
    log.clear(loaded.log, store, key)  # it is written anew, as a whole
    stored, _ = open_segments(was, loaded.segments, np.inf, store, key)
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
    known[(uncertain.start != ONE).any(axis=1)] = ASKED_NO_MORE
    if was.chain is not None and gaps.any():
        uncertain = was.chain.fill(uncertain, rows.known, gaps)
    return rows._replace(uncertain=uncertain, known=known)


def _regrouped(group: Group, was: Plan, plan: Plan, split: Split) -> Group:
    """The group with distributions of its own in place of bounds, and of lists that rows share."""
    group.live.reveal()
    slots = group.live.slots
    arrays = join_groups([group], len(plan.query.names), plan.id, plan.kept)
    uncertain = dense(slots.uncertain, slots.alive())
    arrays |= {name: getattr(uncertain, name) for name in UncertainRows._fields}
    arrays["pools"] = np.array([len(uncertain.value)], np.int64)
    carried = arrays["known"][:, was.width :]  # which cells, that other rows may carry over, were imputed
    arrays["known"] = np.hstack((np.full((len(carried), plan.width), ASKED_NO_MORE), carried))
    return split({"group": save_group(group)}, arrays)


# --- Timers -----------------------------------------------------------------------------------------------------------


class GroupTimers:
    """When time alone changes a group, and when nothing is left of it to remember.

    `longest`: for how long readings are kept that lie with their group.
    """

    def __init__(self, plan: Plan, longest: float) -> None:
        self.plan, self.longest = plan, longest

    def next(self, then: LoadedGroup, watermark: int | None) -> int | None:
        """When time alone changes something: the next expiry, a waiting row that becomes due, or the group's end."""
        plan, instants = self.plan, [each.first for each in then.segments]
        if then.empty and plan.query.last is None:
            instants.append(self._end(then))
        elif plan.idle is None:
            return None  # the others do not move it
        elif plan.query.last is None:
            instants.append(then.group.live.look_at_expiries())
        if then.waiting is not None:
            instants.append(float(then.waiting.arrived.min()))
        soon = timer(plan.kind, later(min(instants, default=np.inf), plan.idle or 0.0))
        if soon is not None and watermark is not None and not plan.moves_idle:
            return max(soon, watermark + 1)  # it fires when the watermark moves again, by a query that moves groups on
        return soon

    def outlived(self, loaded: LoadedGroup, clock: float, watermark: int | None) -> bool:
        """Whether there is nothing to remember of an empty group: no row was ever taken, or that was long ago."""
        if watermark is None:
            return not np.isfinite(clock)
        passed = reached(self.plan.kind, watermark) - (self.plan.idle or 0.0)
        return self.plan.moves_idle and passed >= self._end(loaded)

    def of(self, clock: float, newest: float, first: float) -> int | None:
        """When time alone changes a group of which nothing is kept but live rows: `first` of these expires (inf: there
        are none), `newest` arrived last."""
        plan = self.plan
        if not np.isfinite(first):
            first = self._gone(clock, newest)
        elif plan.idle is None:
            return None
        return timer(plan.kind, later(first, plan.idle or 0.0))

    def _end(self, empty: LoadedGroup) -> float:
        """Where the watermark must be for an empty group to be forgotten."""
        kept = 0.0 if empty.sensors is None else self.longest
        marked = self.plan.remember_removed if self.plan.query.latest else 0.0
        return self._gone(empty.clock, empty.group.newest, max(kept, marked))

    def _gone(self, clock: float, newest: float, kept: float = 0.0) -> float:
        """The same of a group that is not kept for longer than that."""
        life = self.plan.query.longest_life
        if life is None:
            life = clock - newest if np.isfinite(newest) else 0.0
        return clock + self.plan.lateness + max(life, kept)


# --- Steps of a group -------------------------------------------------------------------------------------------------
#
# What becomes of a group when new rows, or only time, reach it? A `GroupRunner` moves its clock, and hands it the rows
# that are due. The clock of a group is the greatest time of the rows that were taken (`clock_guard`), held back by the
# lateness; rows beyond it wait. Where a group falls silent, and there is an idle time, the query's watermark moves its
# clock, that far behind.
#
# A group in which no row lives or waits is forgotten when the watermark has passed its clock by the lateness and the
# lifetime: a row that this clock would call late has then expired. So the number of states is that of groups in use.
# (Where sensors' readings lie with their group, they also keep it, for as long as they are remembered.)
#
# Nothing outlives a call but the state: the engine may call any worker next. (A worker may keep what it saved: see
# `loaded`.)

_WAITING = "waiting "  # before the names of arrays of rows that wait
_SENSORS = "sensors"
_WHAT = "state of a group"


class StepResult(NamedTuple):
    """What became of a group in a call, before its state is written."""

    then: LoadedGroup
    forgotten: bool
    report: GroupReport


class _Taken(NamedTuple):
    """What became of the rows that were due."""

    deltas: list[Delta]
    rejects: list[RejectedRow]  # copies
    settled: GroupRows | None  # the rows with the contexts that they got here, if they did
    health: dict[str, float]
    clock: float  # of the group then
    update: GroupUpdate | None = (
        None  # what the group took, where each id has one current row; None: nothing has reached it
    )


class GroupRunner:
    """Takes rows and time for the groups of one query; loads and saves them."""

    def __init__(self, plan: Plan) -> None:
        threads()  # an error now, and not in the midst of the first large tick
        self.plan = plan
        self.tables = Tables(plan.query)
        self.settling = Settling(plan) if plan.settles else None
        self.timers = GroupTimers(plan, 0.0 if self.settling is None else self.settling.longest)
        self.explainer = Explainer(plan)

    def step(
        self,
        key: KeyText,
        loaded: LoadedGroup,
        come: Sequence[GroupRows],
        watermark: int | None,
        store: StateStore,
        *,
        end: bool = False,
    ) -> StepResult:
        """Rows reach the group, or the watermark (in milliseconds) does. At the `end` of input no row waits.

        Many rows that wait, many readings and updates of the group go into the store at once; its state is still to be
        written (`save`), and what it reports to be made a table (`report.batch_result`). At the end nothing is kept.
        """
        plan, since = self.plan, loaded.clock
        found = sift_ahead(loaded.ahead, come, plan.ahead)
        before = self._begun_anew(key, loaded, store) if found.anew else None
        least = loaded.clock
        if watermark is not None and plan.idle is not None and plan.moves_idle:
            least = max(least, reached(plan.kind, watermark) - plan.idle)
        clock = max(least, found.newest - (0.0 if end else plan.lateness))
        outlived = loaded.empty and self.timers.outlived(loaded, clock, watermark)
        stored, segments = open_segments(plan, loaded.segments, clock, store, key)
        due, waiting = self._due([*stored, *([] if loaded.waiting is None else [loaded.waiting]), *found.taken], clock)
        step = self._take(key, loaded, (least, clock), due, found.revisions, store)
        clock = step.clock
        counted = come if step.settled is None else [*come, replace(step.settled, came=0)]
        rejects = [pair for each in counted for pair in each.rejects] + step.rejects
        held = reports(found, plan, end=end)
        if not end:
            waiting, segments = put_away(plan, waiting, segments, store, key)
        then = LoadedGroup(loaded.group, clock, waiting, None, found.state, segments, loaded.sensors, loaded.log)
        forgotten = outlived and then.empty
        if forgotten and self.settling is not None:
            self.settling.forget(key, then.sensors, store)
        then.timer = None if forgotten else self.timers.next(then, watermark)
        health = counts(counted, len(rejects), loaded.group, then.waits) | step.health
        health |= {"released": found.released, "screened": health["screened"] - found.screened}
        health |= {"rejected" if end else "held": (len(rejects) if end else 0) + found.newly_held}
        scores: Sums = {}
        for each in counted:
            add(scores, each.scores)
        deltas = step.deltas if before is None else [*before, *step.deltas]
        if not end and plan.query.latest:
            self._write(key, then, None if forgotten else step.update, store, forgotten=forgotten)
        moved = bool(come or deltas) or clock != since
        view = self.explainer.view(key, then.group.live, deltas, moved=moved)
        near = not forgotten and plan.max_state is not None and is_near(at_most(plan, then), plan.max_state)
        size = size_of(plan, then) if near else 0
        size = size if is_near(size, plan.max_state) else 0
        report = GroupReport(key, deltas, rejects + held, health, scores, clock, view, size)
        return StepResult(then, forgotten, report)

    def _take(
        self,
        key: KeyText,
        loaded: LoadedGroup,
        clocks: tuple[float, float],
        rows: RowBlock | None,
        revised: Revisions | None,
        store: StateStore,
    ) -> _Taken:
        """Rows that are due enter, gaps are revised, and time goes on up to the clock.

        `clocks`: the clock that the group has without the rows, and with them. Where it shows only now that rows are
        rejected, these move no clock; but rows that have waited did so when they came.
        """
        least, clock = clocks
        if not np.isfinite(clock):
            return _Taken([], [], None, {}, clock)
        group, settled = loaded.group, None
        before = self._counted(group)
        rows, rejects, conflicts = self._without_duplicates(key, loaded, rows)
        imputed = np.zeros((0 if rows is None else len(rows.arrived), 0), np.bool_)
        if rows is not None and self.settling is not None:
            settled, loaded.sensors, imputed, newest = self.settling.settle(
                key, loaded.sensors, rows, loaded.clock, store, group
            )
            clock = max(least, newest) if self.plan.lateness == 0 else clock
            if not np.isfinite(clock):
                return _Taken([], rejects, settled, {}, clock)
            rows, revised = settled.rows if len(settled.rows.arrived) else None, settled.revisions
        expired = self._expired(rows, loaded.clock)  # of late rows none is screened
        update = GroupUpdate(loaded.clock, clock, rows, imputed)
        deltas = advance(self.plan, group, update, revised)
        health = {name: now - before.get(name, 0) for name, now in self._counted(group).items()}
        health |= {"expired": expired, "conflicts": conflicts}
        idle = rows is None and update.since == update.until
        return _Taken(deltas, rejects, settled, health, clock, None if idle else update)

    def _counted(self, group: Group) -> dict[str, float]:
        """What is counted while a group takes an update."""
        clipped = 0.0 if group.chain is None else group.chain.tally.clipped  # a group that stayed loaded has its own
        counts = {"late": group.late, "revised": group.live.counts.revised, CLIPPED: clipped}
        return counts | group.counters()

    @property
    def _points(self) -> bool:
        """Whether single values of gaps may have been given as rows came; see `Contents`."""
        chain = self.plan.chain
        return chain is not None and len(chain.lasting) < len(chain.imputers)

    def _begun_anew(self, key: KeyText, loaded: LoadedGroup, store: StateStore) -> list[Delta]:
        """All that the group held leaves: its clock ran ahead. What that was comes again, or is held."""
        members = loaded.group.live.members()
        slots, n = loaded.group.live.slots, len(members)
        gone = np.full(n, LEAVE), np.full(n, BEGUN_ANEW), np.full(n, np.nan), np.zeros(n)
        delta = slots.delta(slots.by_key(members), loaded.clock, gone)
        open_segments(self.plan, loaded.segments, np.inf, store, key)
        if self.settling is not None:
            self.settling.forget(key, loaded.sensors, store)
        log.clear(loaded.log, store, key)
        loaded.group, loaded.clock, loaded.waiting, loaded.segments, loaded.log = self.empty(), -np.inf, None, [], None
        loaded.sensors = None
        return [delta] if n else []

    def _expired(self, rows: RowBlock | None, clock: float) -> int:
        """How many rows had expired before they could enter."""
        if rows is None or self.plan.query.last is not None:
            return 0
        return int(np.count_nonzero((rows.arrived < clock) & (rows.expires <= clock)))

    def _without_duplicates(
        self, key: KeyText, loaded: LoadedGroup, rows: RowBlock | None
    ) -> tuple[RowBlock | None, list[RejectedRow], int]:
        """The rows but for copies, these as rejects, and how many copies are kept because others were dropped."""
        if rows is None or self.plan.query.latest:
            return rows, [], 0
        query = self.plan.query
        names = rows.columns.column(query.id).to_pylist()
        kept: list[int] = []
        if self.settling is not None:  # which of copies counts is settled when it is known what can be imputed
            again = entered(loaded.group, names, rows.arrived, loaded.clock)
        else:
            contents = partial(Contents, rows.raw, rows.expires, rows.uncertain, self.plan.signs, self._points)
            again, kept = duplicates(
                loaded.group, names, rows.arrived, loaded.clock, contents, rows.covering, skyband=query.skyband > 1
            )
        if not again:
            return rows, [], len(kept)
        rejects = [RejectedRow(as_json(rows.row(i, query)), DUPLICATE) for i in again]
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

    def empty(self) -> Group:
        """A group that no row has reached."""
        plan = self.plan
        remember = plan.remember_removed if plan.query.latest else np.inf
        return new_group(plan.query, plan.chain, EXACT_LIMIT, remember, width=plan.width, points=self._points)

    def load(self, key: KeyText, state: bytes, store: StateStore) -> LoadedGroup:
        """A group from its state."""
        if (was := saved_by(self.plan, state)) is not self.plan:
            return self.moved(key, GroupRunner(was).load(key, state, store), was, store)
        header, arrays = from_state(self.plan, state, _WHAT)
        group, where = self._open(key, header, arrays, store)
        waiting = {n.removeprefix(_WAITING): array for n, array in arrays.items() if n.startswith(_WAITING)}
        rows = from_arrays(waiting, self.plan.signs, self.plan.width) if waiting else None
        ahead = Ahead.from_arrays(arrays, self.plan.signs, self.plan.width)
        segments = [Segment(*each) for each in header["segments"]]
        sensors = arrays[_SENSORS].tobytes() if _SENSORS in arrays else None
        return LoadedGroup(group, header["clock"], rows, header["timer"], ahead, segments, sensors, where)

    def new(self) -> LoadedGroup:
        """A group that nothing has reached."""
        return LoadedGroup(self.empty(), -np.inf, None, None)

    def moved(self, key: KeyText, loaded: LoadedGroup, was: Plan, store: StateStore) -> LoadedGroup:
        """A group of a plan that the run had before, as this one goes on with it."""
        return moved_group(key, loaded, was, self.plan, self._split, store)

    def _open(
        self, key: KeyText, header: dict[str, Any], arrays: Arrays, store: StateStore
    ) -> tuple[Group, Log | None]:
        """The group of a state, and where it lies, if not there."""
        if header.get("log") is None:
            return self._split(header, arrays), None
        where = Log.from_plain(header["log"])
        return log.read(self.plan, where, store, key, self._based), where

    def _based(self, saved: bytes) -> Group:
        """A group as it lies in the base of its log."""
        return self._split(*from_value(saved, _WHAT))

    def _split(self, header: dict[str, Any], arrays: Arrays) -> Group:
        return split_groups([header["group"]], arrays, self.plan.query, self.empty)[0][0]

    def _base(self, group: Group) -> bytes:
        return to_value(*self._joined(group))

    def _joined(self, group: Group) -> tuple[dict[str, Any], Arrays]:
        """The inverse of `_split`."""
        plan = self.plan
        return {"group": save_group(group)}, join_groups([group], len(plan.query.names), plan.id, plan.kept)

    def _write(
        self, key: KeyText, then: LoadedGroup, update: GroupUpdate | None, store: StateStore, *, forgotten: bool
    ) -> None:
        """Where a group is large, only what has reached it is written."""
        if forgotten:
            log.clear(then.log, store, key)
            return
        base = partial(self._base, then.group)
        then.log = log.write(self.plan, then.log, then.group, update, store, key, base)
        if then.log is not None:
            cache.put((then.log.mark.encode(), self.plan.digest), then, at_most(self.plan, then))

    def save(self, loaded: LoadedGroup) -> bytes:
        """The state of a group."""
        header: dict[str, Any] = {"clock": loaded.clock, "timer": loaded.timer, "segments": loaded.segments}
        arrays: Arrays = {}
        if loaded.log is None:
            more, arrays = self._joined(loaded.group)
            header |= more
        else:
            header["log"] = loaded.log.to_plain()
        if loaded.waiting is not None:
            rows = to_arrays(loaded.waiting, self.plan.signs)
            arrays |= {f"{_WAITING}{name}": array for name, array in rows.items()}
        if loaded.sensors is not None:
            arrays[_SENSORS] = np.frombuffer(loaded.sensors, np.uint8)
        arrays |= loaded.ahead.to_arrays(self.plan.signs, self.plan.id)
        return to_state(self.plan, header, arrays)


def _some(rows: RowBlock, stay: Flags) -> RowBlock | None:
    """Some of the rows; None if there are none."""
    return rows if stay.all() else rows.part(np.flatnonzero(stay)) if stay.any() else None


# --- Runners of a stream with several queries -------------------------------------------------------------------------


class Runners:
    """A runner for each query of a stream, made when its first group is met. It sees the group's own key."""

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.known: dict[str | None, GroupRunner] = {}
        self.naming = Naming(plans) if plans.have_names else None

    def of_shard(self, shard: int) -> GroupRunner:
        """The runner of the groups on a shard."""
        name, plan = self.plans.of_shard(shard)
        if name not in self.known:
            self.known[name] = GroupRunner(plan)
        return self.known[name]

    def named(self, shard: int, report: BatchResult) -> BatchResult:
        """What is reported of a shard, with the name of its query, if it has one."""
        name = self.plans.of_shard(shard).name
        return report if name is None or self.naming is None else self.naming.named(name, report)
