"""Where the newest row of each id counts: what is carried over, and what sensors have read, on the pipeline as well?

Held to Monitors, one per group, with the same repository.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.pipeline import loaded as cached
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import BatchResult
from tests.flow.driving import Engine, cut, rows_of
from tests.flow.test_latest import SIZES, Judge, table_of, tiny
from tests.test_carry import ATTRIBUTES, REPOSITORY, partial, query_of
from tests.walks import NAMES, walks

SENSORS = fl.Query(
    attributes={"heat": "max", "damp": "min", "light": "max"}, id="sensor", time="t", by=["site"], latest=True,
    gone="gone", version="v",
)  # fmt: skip


@given(
    partial(), st.sampled_from(["tick", "batch"]), st.sampled_from([0, 0, 2]), st.lists(st.integers(1, 4), max_size=2)
)
@settings(max_examples=120)
def test_rows_carry_over_what_they_would_in_a_monitor(made, every, lateness, borders):
    calls, window, alpha = made
    query = query_of(window, alpha)
    how: dict[str, Any] = {"every": every, "lateness": lateness, "ahead": "off"}
    plan = make_plan(query, table_of([], list(ATTRIBUTES)).schema, opened=lambda: REPOSITORY, **how)
    with tiny():
        engine, judge = Engine(plan, **SIZES, at_hand=False), Judge(plan, REPOSITORY)
        for _, rows in calls:
            cached._cached.clear()  # the base is loaded, and what came since is taken again
            if rows:
                judge.hold_to(engine.batch(list(cut(table_of(rows, list(ATTRIBUTES)), borders))), rows)


@given(partial(), st.lists(st.integers(1, 4), max_size=2))
@settings(max_examples=40)
def test_a_function_is_asked_after_values_are_carried_over(made, borders):
    calls, window, alpha = made
    plan = make_plan(query_of(window, alpha), table_of([], list(ATTRIBUTES)).schema, imputer=some, ahead="off")
    with tiny():
        engine, judge = Engine(plan, **SIZES), Judge(plan)
        for _, rows in calls:
            if rows:
                judge.hold_to(engine.batch(list(cut(table_of(rows, list(ATTRIBUTES)), borders))), rows)


def some(rows: pa.RecordBatch) -> dict[str, Any]:
    """An impute function."""
    return {name: [[(1, 1), (2, 1)]] * rows.num_rows for name in ATTRIBUTES}


def test_a_gap_that_is_not_carried_over_is_rejected_where_nothing_imputes_it():
    query = fl.Query(
        attributes=ATTRIBUTES, id="id", time="t", by=["g"], latest=True, gone="gone", version="v", carry=["place"]
    )
    plan = make_plan(query, table_of([], list(ATTRIBUTES)).schema)
    engine = Engine(plan)
    common = {"g": "x", "v": 0, "gone": False, "e": 9}
    journal = engine.batch([table_of([{"id": "a", "t": 1, "place": 2, "heat": 1, **common}], list(ATTRIBUTES))])
    rows = [
        {"id": "a", "t": 2, "place": None, "heat": 3, **common},
        {"id": "b", "t": 2, "place": None, "heat": 9, **common},
        {"id": "a", "t": 3, "place": None, "heat": 4, **common},
    ]
    journal += engine.batch([table_of(rows, list(ATTRIBUTES))])
    [reject] = rows_of(journal, REJECTS)
    assert "'place' is missing, and there is no repository to impute it from" in reject["reason"]
    assert '"b"' in reject["row"]
    assert [(row["id"], row["place"], row["heat"]) for row in rows_of(journal, CHANGES)] == [
        ("a", 2.0, 1.0), ("a", 2.0, 3.0), ("a", 2.0, 4.0),
    ]  # fmt: skip
    assert sum(row["rejected"] for row in rows_of(journal, HEALTH)) == 1


def test_a_row_that_is_rejected_gives_nothing_and_is_no_copy_however_the_stream_is_cut():
    asked = fl.Query.from_dict({**query_of({}).to_dict(), "attributes": ATTRIBUTES})
    common = {"g": "x", "v": 0, "gone": False, "e": 9}
    rows = [
        {"id": "a", "t": 1, "place": 2, "heat": None, **common},
        {"id": "a", "t": 2, "place": None, "heat": 3, **common},
        {"id": "b", "t": 3, "place": 5, "heat": None, **common},
        {"id": "b", "t": 3, "place": 3, "heat": 3, **common},
    ]
    for cuts in ([4], [1, 1, 2]):
        engine, journal = Engine(make_plan(asked, table_of([], list(ATTRIBUTES)).schema)), BatchResult()
        left = list(rows)
        for n in cuts:
            journal += engine.batch([table_of(left[:n], list(ATTRIBUTES))])
            left = left[n:]
        assert [(row["id"], row["place"], row["heat"]) for row in rows_of(journal, CHANGES)] == [("b", 3.0, 3.0)]
        assert [row["reason"].split()[0] for row in rows_of(journal, REJECTS)] == ["'heat'", "'place'", "'heat'"]
        assert sum(row["rejected"] for row in rows_of(journal, HEALTH)) == 3
        assert sum(row["rows"] for row in rows_of(journal, HEALTH)) == 4


@cache
def learnt(carry: tuple[str, ...] = ()) -> fl.Repository:
    return fl.Repository.fit(sited(walks()), query(carry))


def sited(rows: pa.Table) -> pa.Table:
    """Sensors at two sites."""
    return rows.append_column("site", pa.array([f"x{int(each[1:]) % 2}" for each in rows["sensor"].to_pylist()]))


def query(carry: tuple[str, ...] = ()) -> fl.Query:
    asked = {**SENSORS.to_dict(), "by": ["site"], "lifetime": 9} | ({"carry": list(carry)} if carry else {})
    return fl.Query.from_dict(asked)


def readings(seed: int) -> pa.Table:
    """Readings of sensors at two sites, with gaps; some come again, corrected, some later, some sensors are removed."""
    table, rng = walks(steps=30, gaps=0.3, begin=200, sensors=6), np.random.default_rng(seed)
    n = table.num_rows
    again = np.sort(rng.choice(n, n // 6, replace=False))
    order = np.argsort(np.concatenate((np.arange(n), again + rng.choice([0, 3, 20], len(again)))), kind="stable")
    rows = pa.concat_tables([table, table.take(pa.array(again))])
    version = rng.choice([0, 1, 2], n + len(again))
    gone = pa.array(np.concatenate((rng.random(n) < 0.05, np.zeros(len(again), np.bool_))))
    for name in NAMES:  # what comes again holds other values
        column = rows[name].to_numpy() + np.concatenate((np.zeros(n), rng.choice([-1.0, 1.0], len(again))))
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(column, from_pandas=True))
    rows = sited(rows).append_column("v", pa.array(version)).append_column("gone", gone)
    return rows.take(pa.array(order))


@pytest.mark.parametrize("carry", [(), ("light",)])
@pytest.mark.parametrize("lateness", [0, 2])
@pytest.mark.parametrize("every", ["tick", "batch"])
def test_what_sensors_have_read_counts_as_in_a_monitor(carry, lateness, every):
    asked, table = query(carry), readings(len(carry) + lateness)
    how: dict[str, Any] = {"every": every, "lateness": lateness, "ahead": "off"}
    plan = make_plan(asked, table.schema, opened=lambda: learnt(carry), **how)
    assert plan.remembers
    assert plan.settles == bool(carry or lateness)
    engine, waiting = Engine(plan, **SIZES), {"x0": table.slice(0, 0), "x1": table.slice(0, 0)}
    monitors = {site: fl.Monitor(asked, learnt(carry)) for site in waiting}
    with tiny(few=3, updates=3):
        for begin in range(0, table.num_rows, 23):
            part = table.slice(begin, 23)
            journal: BatchResult = engine.batch(list(cut(part, [7, 15])))
            for site, monitor in monitors.items():
                here = part.filter(pa.compute.equal(part["site"], site))
                waiting[site] = pa.concat_tables([waiting[site], here])
                found = [row for row in rows_of(journal, CHANGES) if row["site"] == site]
                expected = []
                for health in rows_of(journal, HEALTH):
                    if health["site"] == site:
                        late = pa.compute.less_equal(waiting[site]["t"], health["time"])
                        due, waiting[site] = waiting[site].filter(late), waiting[site].filter(pa.compute.invert(late))
                        changes = monitor.advance(health["time"], due, every=every)
                        expected += changes.to_pylist()
                assert found == expected
    assert sum(monitor.stats()["incomplete"] for monitor in monitors.values()) > 20


def test_where_sensors_are_remembered_a_rejected_row_gives_nothing_either():
    history = walks(sensors=4, steps=60)
    place = history.schema.get_field_index("light")
    history = sited(history.set_column(place, "light", pa.nulls(history.num_rows, pa.float64())))
    asked = query(("damp",))
    repository = fl.Repository.fit(history, asked, method="last")
    common = {"site": "x0", "v": 0, "gone": False}
    rows = [
        {"sensor": "s0", "t": 200, "heat": 5.0, "damp": 2.0, "light": None, **common},
        {"sensor": "s0", "t": 201, "heat": 5.0, "damp": None, "light": 3.0, **common},
        {"sensor": "s0", "t": 202, "heat": 6.0, "damp": None, "light": None, **common},
        {"sensor": "s2", "t": 203, "heat": 9.0, "damp": 1.0, "light": None, **common},
        {"sensor": "s2", "t": 203, "heat": 4.0, "damp": 1.0, "light": 3.0, **common},
    ]
    table = pa.Table.from_pylist(rows, schema=readings(0).select([*rows[0]]).schema)
    plan = make_plan(asked, table.schema, opened=lambda: repository, ahead="off")
    assert plan.remembers
    for borders in ([5], [1, 2, 3, 5]):
        engine, monitor = Engine(plan), fl.Monitor(asked, repository)
        for part in cut(table, borders):
            journal = engine.batch([part])
            expected = monitor.advance(max(part["t"].to_pylist()), part).to_pylist()
            assert rows_of(journal, CHANGES) == expected
        assert monitor.stats()["rejected"] == 2
