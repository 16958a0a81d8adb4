"""What may an engine do to the stages without changing what they report?

`Plain` does what an engine does where nothing goes wrong: state as bytes, one task after another, nothing cached.
`Faulty` does the same as an engine may do it on a bad day, as one `random.Random` decides: tasks die at any write, are
done and lost, are done twice at once; workers keep groups of any age, lose them, or are replaced; a whole batch is
lost before its commit, also after its changes have reached a sink, and is done again; everything begins anew between
batches. A task works on what was committed before its batch, and what it writes counts when the batch is committed.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from fogline.engine.audit import audit
from fogline.engine.latest import LatestGroup
from fogline.pipeline import loaded as cache
from fogline.pipeline.exchange import ArrivedRows, pack_bucket, pack_groups, unpack_bucket, unpack_groups
from fogline.pipeline.plans import Plans, plans_of
from fogline.pipeline.report import BatchResult
from fogline.pipeline.runner import Runners
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.shard import Shard
from fogline.pipeline.stages import Pruned, dealt, of_query, pruned
from fogline.pipeline.watermark import event
from fogline.state.store import StateStore
from tests.chaos.sim_same import Reports, same, same_reports, same_state
from tests.chaos.sim_state import Attempt, AttemptStore, Died, Entry
from tests.chaos.sim_streams import World


def plan_for(world: World, batch: int) -> Any:
    """The plan that a batch is done with."""
    known = world.repositories
    moved = batch >= world.border
    how: dict[str, Any] = dict(world.how)
    if known:
        how["opened"] = [lambda: known[0], lambda: known[1]][moved]
    if moved:
        how["formers"] = [lambda: known[0]]
    return plans_of(world.asked, world.schema, **how)


class Worker:
    """A process that does tasks: what it has made, and the groups that it has kept."""

    def __init__(self, plan: Any) -> None:
        self.plan, self.runners = plan, Runners(plan)
        self.cached = cache.Cache()
        self.stages: dict[int, SensorStage] = {}


# --- What comes in ----------------------------------------------------------------------------------------------------


class Input(NamedTuple):
    """What reaches the stages with state in one batch: packed rows by bucket and by shard, and the event time."""

    buckets: dict[int, list[bytes]]
    shards: dict[str, list[bytes]]
    event: int


def taken(plan: Plans, world: World, batch: Sequence[Sequence[Any]]) -> Input:
    """The rows of a batch as the stages without state hand them on."""
    buckets: dict[int, list[bytes]] = {}
    shards: dict[str, list[bytes]] = {}
    reached = 0
    for part in batch:
        if not part:
            continue
        rows = world.table(part).to_batches()
        if plan.deals:
            for bucket, some in dealt(plan, rows, chunk_rows=world.chunks["chunk_rows"]):
                number, _ = plan.of_bucket(bucket)
                buckets.setdefault(bucket, []).append(pack_bucket(plan.shared[number].plan, some))
            continue
        for chunk in pruned(plan, rows, **world.chunks):
            reached = max(reached, _deal(chunk, shards))
    return Input(buckets, shards, reached)


def _deal(chunk: Pruned, shards: dict[str, list[bytes]]) -> int:
    """Pack the rows of a chunk for their shards; the event time that it has reached."""
    for shard, _, groups in chunk.by_shard():
        shards.setdefault(str(shard), []).append(pack_groups(chunk.shared.plan, groups))
    return chunk.event or 0


# --- Engines ----------------------------------------------------------------------------------------------------------


class Plain:
    """Nothing goes wrong."""

    def __init__(self, plan: Any, world: World) -> None:
        self.plan, self.world = plan, world
        self.state: dict[Entry, bytes] = {}
        self.newest = self.watermark = 0
        self.workers = [Worker(plan)]
        self.faults = 0

    def batch(self, come: Input) -> Reports:
        """One batch; what is reported of each group, or shard."""
        reports, written = self._work(come)
        self._commit(written)
        return reports

    def move(self, plan: Any) -> None:
        """From now on the run has another repository."""
        self.plan, self.workers = plan, [Worker(plan) for _ in self.workers]

    def end(self, times: int) -> None:
        """Time goes on until nothing can expire: each time farther."""
        unit = 1_000_000 if pa.types.is_timestamp(self.plan.kind) else 1
        self.newest = event(self.plan.kind, 1e6 * 8**times * unit) or 0

    @property
    def timers(self) -> dict[str, int]:
        return {key: int(saved) for (what, key, _), saved in self.state.items() if what == "timer"}

    def groups(self) -> set[str]:
        """The names of queries, with the keys of the groups that there is a state of."""
        return keys_of(self.plan, lambda shard: AttemptStore(Attempt(self.state), str(shard)))

    def _commit(self, written: Mapping[Entry, bytes | None]) -> None:
        for entry, saved in written.items():
            self.state.pop(entry, None)
            if saved is not None:
                self.state[entry] = saved
        self.newest, self.watermark = self.reached, self.newest

    def _work(self, come: Input) -> tuple[Reports, dict[Entry, bytes | None]]:
        """All tasks of a batch: what they report, and what they have written."""
        written: dict[Entry, bytes | None] = {}
        shards, self.reached = {key: list(some) for key, some in come.shards.items()}, max(self.newest, come.event)
        watermark = self.newest
        for bucket in self._order(come.buckets):
            out = self._task(partial(self._sense, bucket, come.buckets[bucket]), written)
            self.reached = max(self.reached, _deal(out, shards))
        due = {key for key, timer in self.timers.items() if timer <= watermark}
        reports = {}
        for key in self._order({*shards, *due}):
            some = self._mixed(shards.get(key))
            reports[key] = self._task(partial(self._on_shard, key, some, watermark), written)
        return reports, written

    def _order(self, keys: Any) -> list[Any]:
        return sorted(keys)

    def _mixed(self, packed: list[bytes] | None) -> list[bytes] | None:
        """In which order values reach their group is not known."""
        return packed

    def _task(self, run: Callable[[Worker, Attempt], Any], written: dict[Entry, bytes | None]) -> Any:
        worker, attempt = self.workers[0], Attempt(self.state)
        cache._cached = cache.Cache()
        found = run(worker, attempt)
        written.update(attempt.written)
        return found

    def _sense(self, bucket: int, packed: list[bytes], worker: Worker, attempt: Attempt) -> Pruned:
        number, own = worker.plan.of_bucket(bucket)
        shared = worker.plan.shared[number]
        stage = worker.stages.setdefault(number, SensorStage(shared.plan, self.world.chunks["small"]))
        come = [unpack_bucket(shared.plan, each) for each in packed]
        return Pruned(shared, stage.take(own, come, AttemptStore(attempt, f"bucket {bucket}")))

    def _check(self, worker: Worker, attempt: Attempt, number: int) -> None:
        """Invariants of the groups of a shard are looked at now and then."""

    def _on_shard(
        self, place: str, packed: list[bytes] | None, watermark: int, worker: Worker, attempt: Attempt
    ) -> BatchResult:
        """Rows reach the groups of a shard, then time does."""
        number = int(place)
        name, plan = worker.plan.of_shard(number)
        shared = worker.plan.shared_by_name[name]
        come = ArrivedRows(of_query(shared, plan, unpack_groups(plan, each)) for each in packed or ())
        report = [] if packed is None else self._shard(worker, attempt, number, come, None)
        timer = attempt.get(("timer", place, 0))
        if timer is not None and int(timer) <= watermark:
            report += self._shard(worker, attempt, number, ArrivedRows(), watermark)
        return report

    def _shard(
        self, worker: Worker, attempt: Attempt, number: int, come: ArrivedRows, watermark: int | None
    ) -> BatchResult:
        held = Shard(worker.runners.of_shard(number), AttemptStore(attempt, str(number)))
        report = [part for each in held.take(come, watermark) for part in worker.runners.named(number, each)]
        before, timer = held.finish()
        entry = "timer", str(number), 0
        known = attempt.get(entry)
        assert before == (None if known is None else int(known)), "a timer of a shard was forgotten"
        attempt.put(entry, None if timer is None else str(timer).encode())
        self._check(worker, attempt, number)
        return report


def keys_of(plans: Plans, store_of: Callable[[int], StateStore]) -> set[str]:
    """The names of queries, with the keys of the groups that lie on their shards."""
    return {
        f"{plans.of_shard(number).name or ''}{key}"
        for number in range(plans.shards)
        for key in Shard(Runners(plans).of_shard(number), store_of(number)).group_keys()
    }


class Faulty(Plain):
    """A bad day."""

    def __init__(self, plan: Any, world: World, r: random.Random) -> None:
        super().__init__(plan, world)
        self.r = r
        self.workers = [Worker(plan) for _ in range(r.choice((1, 2, 3)))]
        self.rate = r.choice((0.0, 0.1, 0.3, 0.6))

    def batch(self, come: Input) -> Reports:
        self._between()
        before: list[Reports] = []
        while True:
            reports, written = self._work(come)
            for once in before:
                same_reports(once, reports, "a batch that was done again reports something else")
            if len(before) < 3 and self.r.random() < self.rate / 2:  # lost after its sinks had it, before its commit
                before.append(reports)
                self.faults += 1
                self._between()
                continue
            self._commit(written)
            return reports

    def _between(self) -> None:
        """What may befall workers when nothing is under way."""
        r = self.r
        if r.random() < self.rate / 2:
            self.faults += 1
            self.plan = pickle.loads(pickle.dumps(self.plan)) if not self.world.repositories else self.plan
            self.workers = [Worker(self.plan) for _ in range(r.choice((1, 2, 3)))]
        elif r.random() < self.rate:
            r.choice(self.workers).cached.clear()

    def _order(self, keys: Any) -> list[Any]:
        order = sorted(keys)
        self.r.shuffle(order)
        return order

    def _mixed(self, packed: list[bytes] | None) -> list[bytes] | None:
        return None if packed is None else self.r.sample(packed, len(packed))

    def _check(self, worker: Worker, attempt: Attempt, number: int) -> None:
        if self.r.random() < 0.1:
            look = AttemptStore(attempt.copy(), str(number))  # groups of another repository are moved when they load
            for each in Shard(worker.runners.of_shard(number), look).groups():
                audit(each.group.live)
                if isinstance(each.group, LatestGroup):
                    each.group.check()

    def _task(self, run: Callable[[Worker, Attempt], Any], written: dict[Entry, bytes | None]) -> Any:
        r = self.r
        while r.random() < self.rate:
            kind = r.random()
            if kind < 0.4:
                self._dies(run)
            elif kind < 0.7:
                self._done(run, Attempt(self.state))  # and lost
            else:
                return self._twice(run, written)
            self.faults += 1
        attempt = Attempt(self.state)
        found = self._done(run, attempt)
        written.update(attempt.written)
        return found

    def _done(self, run: Callable[[Worker, Attempt], Any], attempt: Attempt) -> Any:
        worker = self.r.choice(self.workers)
        cache._cached = worker.cached
        return run(worker, attempt)

    def _dies(self, run: Callable[[Worker, Attempt], Any]) -> None:
        """At one of its first writes, with its worker."""
        k = self.r.randrange(len(self.workers))
        cache._cached = self.workers[k].cached
        try:
            run(self.workers[k], Attempt(self.state, fuse=self.r.randint(1, 6)))
        except Died:
            self.workers[k] = Worker(self.plan)

    def _twice(self, run: Callable[[Worker, Attempt], Any], written: dict[Entry, bytes | None]) -> Any:
        """Two attempts at once; one of them counts."""
        self.faults += 1
        tries = [Attempt(self.state), Attempt(self.state)]
        found = [self._done(run, each) for each in tries]
        same(found[0], found[1], "a task that was done twice reports something else")
        if not any(
            plan.latest for _, plan in self.plan.named
        ):  # a large group may lie there as a whole, or as the turns that it took
            states = [each.written for each in tries]
            assert states[0].keys() == states[1].keys(), "a task that was done twice writes something else"
            assert all(same_state(states[0][each], states[1][each]) for each in states[0]), "… leaves another state"
        k = self.r.randrange(2)
        written.update(tries[k].written)
        return found[k]
