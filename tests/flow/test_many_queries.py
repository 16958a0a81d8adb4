"""Does each of several queries over one stream report what it would report alone?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.errors import FoglineError, QueryError
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans, make_plans
from fogline.pipeline.report import BatchResult, schema_of
from fogline.queries import QUERY
from tests.flow.driving import Engine, ShardEngine, rows_by_time
from tests.walks import walks

ATTRIBUTES = (
    {"a": "max", "b": "max"},
    {"a": "min", "b": "max"},
    {"b": "max", "a": "max"},
    {"a": "max", "c": "min"},
    {"c": "max"},
    {"a": "max", "b": "min", "c": "max"},
)
WINDOWS = (
    {"lifetime": 1}, {"lifetime": 2}, {"lifetime": 3}, {"lifetime": 7}, {"lifetime": 2.5}, {"last": 2}, {"last": 4},
    {"expires": "until"}, {"latest": True}, {"latest": True, "lifetime": 3}, {"latest": True, "version": "v"},
    {"latest": True, "gone": "gone", "remember_removed": 2},
)  # fmt: skip
SCHEMA = pa.schema(
    [("id", pa.string()), ("site", pa.string()), ("floor", pa.int64()), ("t", pa.int64()), ("until", pa.int64()),
     ("v", pa.int64()), ("gone", pa.bool_()), *((name, pa.float64()) for name in "abc")]
)  # fmt: skip


@st.composite
def queries(draw, windows: Sequence[Mapping[str, Any]] = WINDOWS) -> dict[str, fl.Query]:
    """Up to five queries; one and a half of them are kin, mostly."""
    found = {}
    for name in draw(
        st.lists(st.sampled_from(["fire", "gas", "q 1", "ä", "wet"]), min_size=1, max_size=5, unique=True)
    ):
        if found and draw(st.booleans()):  # much as another one
            like = draw(st.sampled_from(sorted(found)))
            words = found[like].to_dict() | {"alpha": draw(st.sampled_from([0.2, 0.5, 0.7]))}
            if "lifetime" in words and draw(st.booleans()):
                words["lifetime"] = draw(st.sampled_from([1, 2, 4, 9]))
        else:
            words = {"attributes": draw(st.sampled_from(ATTRIBUTES)), "alpha": draw(st.sampled_from([0.3, 0.5]))}
            words |= draw(st.sampled_from(windows)) | {"by": draw(st.sampled_from([(), ("site",), ("floor", "site")]))}
            if draw(st.booleans()):
                words["limits"] = {next(iter(words["attributes"])): (0, 2)}
                words["outside"] = draw(st.sampled_from(["missing", "reject"]))
        found[name] = fl.Query(**words | {"id": "id", "time": "t"})
    return found


@st.composite
def tables(draw, *, gaps: bool) -> pa.Table:
    """A few rows of small numbers, many of them equal, roughly in the order of their times; some cannot be taken."""
    number = st.sampled_from([0.0, 1.0, 2.0, 3.0, *([None] if gaps else [])])
    rows, now = [], 0
    for k in range(draw(st.integers(1, 24))):
        now += draw(st.sampled_from([0, 0, 1, 1, 2]))
        t = max(0, now - draw(st.sampled_from([0, 0, 0, 1, 3])))
        row = {
            "id": draw(st.sampled_from(["x", "y", "z", f"r{k}", f"r{k}", None])),
            "t": t,
            "v": draw(st.integers(0, 2)),
        }
        row |= {
            "site": draw(st.sampled_from(["n", "s"])),
            "floor": draw(st.integers(0, 1)),
            "until": t + draw(st.integers(0, 5)),
        }
        row |= {"gone": draw(st.integers(0, 9)) == 0, **{name: draw(number) for name in "abc"}}
        if draw(st.integers(0, 12)) == 0:
            row[draw(st.sampled_from("abc"))] = float("inf")
        rows.append(row)
    return pa.Table.from_pylist(rows, SCHEMA)


def reports(journal: BatchResult, kind: str, by: Sequence[str], name: str | None = None) -> dict[Any, list[Any]]:
    """What was reported of each group, in its order, of one query if there are several."""
    found: dict[Any, list[Any]] = {}
    for each, table in journal:
        for row in table.to_pylist() if each == kind else ():
            if name is not None and row.pop(QUERY) != name:
                continue
            key = tuple(row.pop(column) for column in by)
            found.setdefault(key, []).append(row)
    return found


def same(named: dict[Any, list[Any]], alone: dict[Any, list[Any]], dropped: Sequence[str] = ()) -> None:
    """The same rows; columns that only other queries have are null."""
    assert named.keys() == alone.keys()
    for key, rows in alone.items():
        assert len(named[key]) == len(rows)
        for wide, row in zip(named[key], rows, strict=True):
            assert {each: wide[each] for each in row if each not in dropped} == {
                each: row[each] for each in row if each not in dropped
            }
            assert all(wide[each] is None for each in wide if each not in row)


def agree(
    asked: Mapping[str, fl.Query], table: pa.Table, cut: Sequence[int], engine: type[Engine] = Engine, **how: Any
) -> Plans:
    """Each query reports what it would report alone, batch by batch.

    With `idle` a silent group is moved on by rows that any of the queries has taken. So a query is looked at as long as
    those that it takes itself have led as far.
    """
    plans = make_plans(asked, table.schema, **how)
    alone = {
        name: Engine(make_plan(query, table.schema, **how | {"ahead": _given(plans.ahead)}))
        for name, query in asked.items()
    }
    together = engine(plans)
    ends = [*cut, table.num_rows]
    for begin, end in zip([0, *cut], ends, strict=True):
        half = (begin + end) // 2
        parts = [each for each in (table.slice(begin, half - begin), table.slice(half, end - half)) if each.num_rows]
        found = together.batch(parts)
        for kind, each in found:
            assert each.schema.equals(schema_of(plans, kind))
        for name, query in asked.items():
            one = alone[name].batch(parts)
            if "idle" in how and alone[name].watermark != together.watermark:
                return plans
            by = query.by
            same(reports(found, CHANGES, by, name), reports(one, CHANGES, by))
            same(reports(found, REJECTS, by, name), reports(one, REJECTS, by))
            counted = (
                "rows",
                "rejected",
                "held",
                "late",
                "incomplete",
                "outside_limits",
                "waiting",
                "answer",
                "inexact",
            )
            health = reports(found, HEALTH, by, name), reports(one, HEALTH, by)
            for both in health:
                for rows in both.values():
                    rows[:] = [{each: row[each] for each in (*counted, "time")} for row in rows]
            same(*health)
    return plans


def _given(length: float) -> Any:
    return "off" if length == np.inf else length


how = st.fixed_dictionaries(
    {"every": st.sampled_from(["tick", "batch"]), "lateness": st.sampled_from([0, 0, 2])},
    optional={"ahead": st.sampled_from(["off", 3, 6]), "idle": st.sampled_from([0, 3])},
)


@settings(max_examples=60)
@given(queries(), tables(gaps=False), st.data(), how)
def test_each_query_reports_what_it_would_report_alone(asked, table, data, how):
    cut = sorted(data.draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    agree(asked, table, cut, data.draw(st.sampled_from([Engine, ShardEngine])), **how)


@cache
def learnt() -> fl.Repository:
    return fl.Repository.fit(walks(), WALKING["whole"])


WALKING = {
    "whole": fl.Query(attributes={"heat": "max", "damp": "min", "light": "max"}, id="sensor", time="t", lifetime=12),
    "longer": fl.Query(attributes={"heat": "max", "damp": "min", "light": "max"}, id="sensor", time="t", lifetime=20),
    "strict": fl.Query(
        attributes={"heat": "max", "damp": "min", "light": "max"}, id="sensor", time="t", lifetime=12, alpha=0.8
    ),
    "two": fl.Query(attributes={"damp": "max", "heat": "max"}, id="sensor", time="t", lifetime=5),
    "newest": fl.Query(attributes={"heat": "max", "light": "min"}, id="sensor", time="t", latest=True),
}


def wandering(gaps: float = 0.25) -> pa.Table:
    return rows_by_time(walks(steps=14, gaps=gaps, begin=200, seed=1))


@pytest.mark.parametrize(
    "how",
    [
        {"hindsight": False},
        {"hindsight": False, "every": "batch"},
        {"lateness": 2},
        {"lateness": 2, "hindsight": False, "every": "batch"},
        {},
    ],
    ids=str,
)
def test_sensors_are_remembered_and_gaps_imputed_for_all(how):
    plans = agree(WALKING, wandering(), [30, 75, 120], ShardEngine, opened=learnt, buckets=2, **how)
    assert plans.first.remembers
    assert [[str(name) for name, _ in shared.queries] for shared in plans.shared] == (
        [["whole", "longer", "strict"], ["two"], ["newest"]]
        if how.get("hindsight") is False
        else [["whole", "strict"], ["longer"], ["two"], ["newest"]]
    )


def test_gaps_filled_by_rules_are_filled_as_for_each_alone():
    history = walks(steps=200)
    given = fl.Repository.fit(history, WALKING["whole"], retention=0)
    plans = agree(WALKING, wandering(), [50, 100], opened=lambda: given)
    assert not plans.first.remembers


def sharing(*queries: fl.Query, schema: pa.Schema = SCHEMA, **how: Any) -> list[list[str]]:
    plans = make_plans({f"q{k}": query for k, query in enumerate(queries)}, schema, **how)
    return [[str(name) for name, _ in shared.queries] for shared in plans.shared]


def asked(**other: Any) -> fl.Query:
    return fl.Query(**{"attributes": {"a": "max", "b": "max"}, "id": "id", "time": "t", "lifetime": 3, **other})


def test_queries_that_differ_in_alpha_or_lifetime_alone_share_what_comes_before_their_groups():
    assert sharing(asked(), asked(alpha=0.9), asked(lifetime=8)) == [["q0", "q1", "q2"]]
    for other in (
        asked(by=["site"]),
        asked(attributes={"a": "max", "b": "min"}),
        asked(attributes={"b": "max", "a": "max"}),
        asked(limits={"a": (0, 9)}),
        asked(lifetime=None, last=3),
        asked(lifetime=None, expires="until"),
        asked(latest=True),
    ):
        assert sharing(asked(), other) == [["q0"], ["q1"]]
    assert sharing(asked(latest=True), asked(latest=True, lifetime=9)) == [["q0"], ["q1"]]
    assert sharing(asked(latest=True), asked(latest=True, alpha=0.9)) == [["q0", "q1"]]
    assert sharing(asked(lifetime=2.5), asked(lifetime=3)) == [["q0"], ["q1"]]  # a clock that rounds


def test_a_row_runs_ahead_of_all_queries_or_of_none():
    plans = make_plans({"short": asked(lifetime=1), "long": asked(lifetime=30)}, SCHEMA)
    assert [plan.ahead for _, plan in plans.named] == [300, 300]


def test_queries_that_do_not_fit_each_other_are_refused_by_name():
    def refused(queries: Mapping[Any, Any]) -> str:
        with pytest.raises(FoglineError) as found:
            make_plans(queries, SCHEMA)
        return str(found.value)

    assert "'gas' has 'site'" in refused({"fire": asked(), "gas": asked(id="site")})
    assert "agree on its time" in refused({"fire": asked(), "gas": asked(time="until")})
    assert "an attribute of query 'fire' and a group of 'gas'" in refused(
        {"fire": asked(), "gas": asked(attributes={"c": "max"}, by=["a"])}
    )
    assert "there is no query" in refused({})
    assert "without '['" in refused({"fire[1]": asked()})
    assert "what 'gas' names is a Query, not dict" in refused({"gas": {}})
    assert "query 'gas': the stream has no attribute 'd'" in refused(
        {"fire": asked(), "gas": asked(attributes={"d": "max"})}
    )
    renamed = pa.schema([pa.field("query" if field.name == "site" else field.name, field.type) for field in SCHEMA])
    with pytest.raises(QueryError, match="collide with the column 'query'"):
        make_plans({"fire": asked(), "gas": asked(by=["query"])}, renamed)


def test_columns_of_all_queries_stand_behind_the_name():
    plans = make_plans({"fire": asked(by=["site"]), "gas": asked(attributes={"c": "max"}, by=["floor"])}, SCHEMA)
    assert schema_of(plans, CHANGES).names == [
        "query", "time", "site", "floor", "id", "t", "change", "probability", "probability_error", "reason",
        "beaten_by", "beaten_by_time", "a", "b", "c",
    ]  # fmt: skip
    assert schema_of(plans, REJECTS).names == ["query", "site", "floor", "row", "reason", "file", "line"]
    assert schema_of(plans, HEALTH).names[:4] == ["query", "site", "floor", "time"]


def test_a_slice_of_nothing_but_rejects_is_no_trouble_where_rows_are_replaced():
    rows = pa.Table.from_pylist([{"id": None, "t": k, "a": 1.0, "b": 1.0} for k in range(9)], SCHEMA)
    journal = Engine(make_plan(asked(latest=True), SCHEMA)).batch([rows])
    assert sum(table.num_rows for kind, table in journal if kind == REJECTS) == 9


@pytest.mark.parametrize("every", ["tick", "batch"])
def test_kin_drop_only_what_may_go_for_every_lifetime(every):
    """At every tick the short-lived see a row between two that beat it; at the end only the long-lived have one."""
    come = [("first", 0, 0.5), ("before", 1, 5.0), ("between", 2, 1.0), ("after", 4, 6.0), ("last", 9, 0.1)]
    rows = [{"id": name, "t": t, "a": a, "b": a} for name, t, a in come]
    table, queries = pa.Table.from_pylist(rows, SCHEMA), {"short": asked(lifetime=2), "long": asked(lifetime=20)}
    plans = make_plans(queries, SCHEMA, every=every, ahead="off")
    journal = Engine(plans, slice_rows=100, chunk_rows=100).batch([table])
    entered = {
        name: [row["id"] for row in reports(journal, CHANGES, (), name)[()] if row["change"] == "enter"]
        for name in queries
    }
    assert len(plans.shared) == 1
    if every == "tick":
        assert entered == {
            "short": ["first", "before", "between", "after", "last"],
            "long": ["first", "before", "after"],
        }
    else:
        assert entered == {"short": ["last"], "long": ["after"]}
