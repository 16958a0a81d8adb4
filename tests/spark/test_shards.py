"""Does the processor of a shard keep its state, and its one timer, as Spark expects? No JVM: the handle is a dict."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.pipeline.exchange import RowsByGroup
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.stages import Pruned
from fogline.pipeline.watermark import event
from fogline.saved import table_from_bytes
from fogline.spark.processors import ShardProcessor, packed_groups
from tests.flow.test_shard import group_rows

SIMPLE = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10, by=["g"])
SCHEMA = pa.schema([("id", pa.string()), ("g", pa.string()), ("t", pa.int64()), ("a", pa.float64())])


class Variable:
    """A value or a map of the key that is being handled."""

    def __init__(self, kept: dict[Any, Any]) -> None:
        self.kept = kept

    def get(self) -> Any:
        return self.kept.get(())

    def update(self, value: Any) -> None:
        self.kept[()] = value

    def clear(self) -> None:
        self.kept.pop((), None)

    def getValue(self, key: Any) -> Any:
        return self.kept.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.kept[key] = value

    def removeKey(self, key: Any) -> None:
        del self.kept[key]


class Handle:
    """What Spark keeps of one shard."""

    def __init__(self) -> None:
        self.variables: dict[str, dict[Any, Any]] = {}
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: Any) -> Variable:
        return Variable(self.variables.setdefault(name, {}))

    def getMapState(self, name: str, key: Any, value: Any) -> Variable:
        return self.getValueState(name, value)

    def registerTimer(self, at: int) -> None:
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:
        self.timers.remove(at)


class Watermark:
    def __init__(self, at: int) -> None:
        self.at = at

    def getCurrentWatermarkInMs(self) -> int:
        return self.at


def changes(frames: Any) -> list[tuple[Any, ...]]:
    parts = [pair for frame in frames for pair in zip(frame["kind"], frame["part"], strict=True)]
    rows = [row for kind, part in parts if kind == "changes" for row in table_from_bytes(part).to_pylist()]
    return sorted((row["time"], row["g"], row["id"], row["change"]) for row in rows)


def handed(plan: Plan, handle: Handle, *rows: Any) -> list[tuple[Any, ...]]:
    """One micro-batch for a worker that begins anew."""
    processor = ShardProcessor(Plans.alone(plan))
    processor.init(handle)
    some = [(key, each) for key, several in group_rows(plan, *rows).items() for each in several]
    plans = Plans.alone(plan)
    packed = packed_groups(plans, Pruned(plans.shared[0], RowsByGroup.of(plan, some)))["rows"].to_pylist()
    out = changes(list(processor.handleInputRows((0,), [{"rows": packed}], None)))
    processor.close()
    return out


def fired(plan: Plan, handle: Handle, instant: float) -> list[tuple[Any, ...]]:
    """The timers up to then fire, as Spark's do: each is gone then."""
    at, processor = event(plan.kind, instant), ShardProcessor(Plans.alone(plan))
    assert at is not None
    processor.init(handle)
    due = {each for each in handle.timers if each <= at}
    handle.timers -= due
    return changes([frame for _ in due for frame in processor.handleExpiredTimer((0,), Watermark(at), None)])


def test_groups_of_a_shard_have_one_timer_which_follows_the_first_of_theirs():
    plan, handle = make_plan(SIMPLE, SCHEMA, idle=0, buckets=1), Handle()
    assert handed(plan, handle, ("a", "x", 1, 1.0), ("b", "y", 5, 1.0)) == [
        (1, "x", "a", "enter"),
        (5, "y", "b", "enter"),
    ]
    assert handle.timers == {event(plan.kind, 11)}
    assert handed(plan, handle, ("c", "x", 4, 2.0)) == [(4, "x", "a", "leave"), (4, "x", "c", "enter")]
    assert handle.timers == {event(plan.kind, 14)}
    assert fired(plan, handle, 14) == [(14, "x", "c", "leave")]
    assert handle.timers == {event(plan.kind, 15)}
    for instant in (100, 1_000, 2_000):
        fired(plan, handle, instant)
    assert not handle.timers
    assert not any(handle.variables.values())


def test_rows_that_wait_lie_with_their_group(monkeypatch):
    monkeypatch.setattr("fogline.pipeline.loaded.FEW", 0)
    plan, handle = make_plan(SIMPLE, SCHEMA, lateness=3, buckets=1), Handle()
    assert handed(plan, handle, ("a", "x", 1, 1.0), ("b", "y", 5, 1.0)) == []
    assert {key for what, key, _ in handle.variables["state"] if what == "waiting"} == {'["x"]', '["y"]'}
    assert handed(plan, handle, ("c", "x", 4, 2.0), ("d", "y", 6, 3.0)) == [(1, "x", "a", "enter")]
    assert {key for what, key, _ in handle.variables["state"] if what == "waiting"} == {'["x"]', '["y"]'}
