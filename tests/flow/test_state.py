"""Is state of another plan refused, by the name of what differs, before anything of it is used?"""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from functools import cache

import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import SnapshotError
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.sensors import Dealer, SensorStage
from fogline.repository.repository import Repository
from fogline.state.store import MemoryStore
from tests.flow.driving import pruned_rows, take
from tests.walks import QUERY, walks

SCHEMA = pa.schema([(name, pa.int64()) for name in ("id", "other", "t", "s", "g")] + [("a", pa.float64())])
SCHEMA = SCHEMA.append(pa.field("b", pa.float64())).append(pa.field("e", pa.int64()))
ASKED = {"attributes": {"a": "max"}, "id": "id", "time": "t", "lifetime": 10}
ROW = {"id": 1, "other": 1, "t": 3, "s": 3, "g": 1, "a": 1.0, "b": 1.0, "e": 9}


def plan(schema: pa.Schema = SCHEMA, **how) -> Plan:
    asked = {name: value for name, value in (ASKED | how).items() if value is not None}
    given = {name: asked.pop(name) for name in ("every", "lateness", "imputer", "buckets") if name in asked}
    return make_plan(fl.Query(**asked), schema, **given)


def some(rows):
    """An impute function."""
    return {"a": [1.0] * rows.num_rows}


TEXT = pa.schema([pa.field(f.name, pa.string()) if f.name in ("id", "g") else f for f in SCHEMA])
REAL = pa.schema([pa.field(f.name, pa.float64()) if f.name == "t" else f for f in SCHEMA])
CHANGED = {
    "attributes": plan(attributes={"a": "max", "b": "max"}),
    "id": plan(id="other"),
    "time": plan(time="s"),
    "lifetime": plan(lifetime=11),
    "last": plan(lifetime=None, last=3),
    "expires": plan(lifetime=None, expires="e"),
    "alpha": plan(alpha=0.4),
    "by": plan(by=["g"]),
    "limits": plan(limits={"a": (0, 5)}),
    "outside": plan(outside="reject"),
    "max_sensors": plan(max_sensors=7),
    "every": plan(every="batch"),
    "lateness": plan(lateness=2),
    "clock": plan(REAL),
    "type of id": plan(TEXT),
    "imputer": plan(imputer=some),
    "latest": plan(latest=True),
    "gone": plan(latest=True, gone={"other": ["1"]}),
    "version": plan(latest=True, version="other"),
    "carry": plan(latest=True, carry=["a"]),
    "remember_removed": plan(latest=True, remember_removed=5),
    "skyband": plan(skyband=2),
    "keep": plan(keep=["other"]),
}


def taken(asked: Plan, state: MemoryStore | None = None) -> MemoryStore:
    """The state of a group after a row."""
    batch = pa.Table.from_pylist([ROW], schema=SCHEMA)
    found = take(asked, "[]", state, pruned_rows(plan(), batch)["[]"]).state
    assert found is not None
    return found


@pytest.mark.parametrize("name", CHANGED)
def test_the_state_of_a_group_is_refused_by_any_other_plan_with_the_name_of_what_differs(name):
    state = taken(plan())
    with pytest.raises(SnapshotError, match=rf"another query: .*\b{name} was .* and is now ") as refused:
        take(CHANGED[name], "[]", state, pruned_rows(plan(), pa.Table.from_pylist([ROW], schema=SCHEMA))["[]"])
    assert "Go on with the old one, or begin with a new checkpoint" in str(refused.value)
    assert taken(pickle.loads(pickle.dumps(plan())), state)  # the old one goes on


def test_every_field_of_a_plan_and_of_its_query_is_described():
    asked = {each.name for each in fields(fl.Query)} | {each.name for each in fields(Plan)}
    described = {name for each in CHANGED.values() for name in each.described}
    renamed = {"query", "kind", "kept", "opened", "buckets", "hindsight"}  # all of it; as clock, types; see below
    assert asked - renamed <= described | {"idle", "moves_idle", "formers", "explain", "views", "max_state"}
    assert len({each.digest for each in (plan(), *CHANGED.values())}) == len(CHANGED) + 1


def test_words_name_what_it_was_and_what_it_is():
    with pytest.raises(SnapshotError, match=r": lifetime was 10.0 and is now 11.0, lateness was 0.0 and is now 2.0, "):
        taken(replace(plan(lifetime=11), lateness=2.0), taken(plan()))


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


@cache
def learnt_otherwise() -> Repository:
    return Repository.fit(walks(seed=5), QUERY)


WIDER = fl.Query(attributes={**QUERY.attributes, "t2": "max"}, id="sensor", time="t", lifetime=12)


@cache
def learnt_wider() -> Repository:
    table = walks()
    return Repository.fit(table.append_column("t2", table["heat"]), WIDER)


def test_the_state_of_a_bucket_is_refused_by_any_other_plan_before_a_kernel_sees_it(monkeypatch):
    table = walks(steps=20, gaps=0.2, begin=200)
    wide = table.append_column("t2", table["heat"])
    begun = make_plan(QUERY, table.schema, opened=learnt)
    [(bucket, come), *_] = Dealer(begun).deal(table.combine_chunks().to_batches()[0])
    store = MemoryStore()
    SensorStage(begun).take(bucket, [come], store)
    others = (
        ("repository", make_plan(QUERY, table.schema, opened=learnt_otherwise), table),
        ("attributes", make_plan(WIDER, wide.schema, opened=learnt_wider), wide),
        ("buckets was 8 and is now 16", make_plan(QUERY, table.schema, opened=learnt, buckets=16), table),
        ("lateness", make_plan(QUERY, table.schema, opened=learnt, lateness=3), table),
        ("hindsight was true", make_plan(QUERY, table.schema, opened=learnt, hindsight=False), table),
    )
    monkeypatch.setattr("fogline.kernels.sensors.walk", None)  # no reading reaches it
    for name, other, rows in others:
        come = [each for _, each in Dealer(other).deal(rows.combine_chunks().to_batches()[0])]
        with pytest.raises(SnapshotError, match=f"state of sensors is that of another query: .*{name}"):
            SensorStage(other).take(bucket, come[:1], store)
