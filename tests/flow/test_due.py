"""With lateness, does a row know what its sensor has read by the moment it is due, in the order of time?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.pipeline import sensor_state as readings
from fogline.pipeline import sensors as due
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import BatchResult
from fogline.pipeline.watermark import event
from fogline.repository.repository import Repository
from tests.contracts import CLOSE, agree, net
from tests.flow.driving import Engine, changes_of, cut, rows_by_time, rows_of
from tests.flow.test_runner import flush
from tests.walks import QUERY, walks

HOLD = 3


@cache
def learnt(by: bool) -> Repository:
    return Repository.fit(with_sites(walks()), query(by=by))


def query(*, by: bool) -> fl.Query:
    return fl.Query.from_dict(QUERY.to_dict() | ({"by": ["site"]} if by else {}))


def with_sites(table: pa.Table) -> pa.Table:
    """Two sites, each of half of the sensors."""
    sites = [int(name[1:]) % 2 for name in table["sensor"].to_pylist()]
    return table.append_column("site", pa.array(sites))


@st.composite
def shuffled(draw, most: int = 8):
    """Rows in the order of time, and in another that is off by less than HOLD, as batches of partitions."""
    steps = draw(st.integers(2, most))
    table = with_sites(walks(sensors=4, steps=steps, begin=200, gaps=0.4, seed=draw(st.integers(1, 4))))
    late = [draw(st.sampled_from([0, 1, HOLD - 0.5])) for _ in range(table.num_rows)]
    pieces = []
    for piece in cut(rows_by_time(table, late), draw(st.lists(st.integers(0, table.num_rows), max_size=5))):
        owner = [draw(st.integers(0, 1)) for _ in range(piece.num_rows)]
        pieces.append([piece.filter(pa.array([w == k for w in owner], pa.bool_())) for k in range(2)])
    return table, pieces


@contextmanager
def few_sensors_a_part(few: int) -> Iterator[None]:
    """So many sensors lie in a state; beyond, they lie in parts of two."""
    before = readings.SMALL, readings.PART
    readings.SMALL, readings.PART = few, 2
    try:
        yield
    finally:
        readings.SMALL, readings.PART = before


@given(shuffled(), st.booleans(), st.sampled_from([1, 1000]), st.sampled_from([0, 2000]))
@settings(deadline=None, max_examples=60)
def test_within_the_lateness_no_order_and_no_cut_changes_what_a_monitor_reports(rows, by, few, small):
    table, pieces = rows
    asked, repository = query(by=by), learnt(by)
    plan = make_plan(asked, table.schema, opened=lambda: repository, lateness=HOLD, idle=0)
    engine, journal = Engine(plan), BatchResult()
    with few_sensors_a_part(few), pytest.MonkeyPatch.context() as patch:
        patch.setattr(due, "SMALL", small)
        for partitions in pieces:
            journal += engine.batch(partitions)
        journal += flush(engine)
    assert bool(engine.beside("[0]" if by else "[]", "readings")) is (few == 1)
    changes = changes_of(journal, plan)
    end = max(table["t"].to_pylist())
    expected = fl.Monitor(asked, repository).advance(end, table)
    for time in range(200, end + 1):
        agree(net(changes, asked.by, until=time), net(expected, asked.by, until=time), 2.5 * CLOSE)
    health = rows_of(journal, "health")
    assert sum(row["rows"] for row in health) == table.num_rows
    gaps = sum(None in row.values() for row in table.to_pylist())
    assert sum(row["incomplete"] for row in health) == gaps
    assert not rows_of(journal, "rejects")


def halves(rows):
    """An impute function: heat is one of two things."""
    return {"heat": [[(-5.0, 1.0), (5.0, 1.0)]] * rows.num_rows}


def test_an_imputer_that_cannot_wait_is_asked_before_rows_wait():
    table = walks(steps=8, begin=200, gaps=0.3)
    plan = make_plan(QUERY, table.schema, opened=lambda: learnt(False), lateness=HOLD, imputer=halves, idle=0)
    engine, journal = Engine(plan, 10, 30), BatchResult()
    for piece in cut(table, [5, 40]):
        journal += engine.batch([piece])
    changes = changes_of(journal + flush(engine), plan)
    expected = fl.Monitor(QUERY, learnt(False), imputer=halves).advance(207, table)
    for time in range(200, 208):
        agree(net(changes, until=time), net(expected, until=time), 2.5 * CLOSE)


@pytest.mark.parametrize("retention", [None, 20])
def test_readings_keep_their_group_for_as_long_as_they_are_remembered(retention):
    repository = Repository.fit(walks(), QUERY, **({} if retention is None else {"retention": retention}))
    table = walks(steps=5, begin=200, gaps=0.3)
    plan = make_plan(QUERY, table.schema, opened=lambda: repository, lateness=HOLD, idle=0)
    with few_sensors_a_part(1):
        engine = Engine(plan)
        engine.batch([table])
        assert engine.beside("[]", "readings")
        flush(engine)
        there = []
        for passed in (HOLD + 19, HOLD + 20):
            engine.newest = event(plan.kind, 1e9 + passed)
            engine.batch([])
            there.append(bool(engine.states))  # once it is gone, the engine looks that no part is left
    assert there == ([True, True] if retention is None else [True, False])


def test_rows_that_are_due_together_and_cannot_matter_are_dropped_unless_some_are_late(monkeypatch):
    monkeypatch.setattr(due, "SMALL", 0)
    table = walks(steps=12, begin=200, gaps=0.3)
    plan = make_plan(QUERY, table.schema, opened=lambda: learnt(False), lateness=HOLD, idle=0)
    engine = Engine(plan)
    health = rows_of(engine.batch([table]), "health")
    assert health[0]["screened"] > 10
    assert health[0]["rows"] == table.num_rows
    late = rows_of(engine.batch([walks(steps=3, begin=205, seed=2), walks(steps=12, begin=212, seed=2)]), "health")
    assert (late[0]["screened"], late[0]["late"] + late[0]["rejected"]) == (0, 36)  # some are copies of live rows
    assert late[0]["late"] > 0
