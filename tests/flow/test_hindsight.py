"""Do the stages of a pipeline revise gaps as a monitor does, however the stream is cut?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fogline as fl
from fogline.arrays import BOUNDS_ONLY
from fogline.cli import app
from fogline.errors import FoglineError, SnapshotError
from fogline.impute.fill import bounded, look
from fogline.kernels.uncertain import ends
from fogline.output.folder import LocalFolder
from fogline.pipeline.exchange import GroupRows, pack_bucket, pack_groups, unpack_bucket, unpack_groups
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import BatchResult
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.stages import dealt
from fogline.repository.repository import Repository
from fogline.runs.config import Output, RunConfig
from fogline.spark.errors import identity_of
from fogline.state.store import MemoryStore
from tests.contracts import CLOSE, agree, net
from tests.flow.driving import Engine, changes_of, cut, rows_of, take
from tests.flow.test_due import few_sensors_a_part, learnt, query, shuffled, with_sites
from tests.flow.test_runner import NONE
from tests.walks import NAMES, QUERY, walks


@st.composite
def readings(draw, most: int = 10):
    """Readings of few sensors with many gaps, in the order of time; some come twice."""
    steps, seed = draw(st.integers(2, most)), draw(st.integers(1, 5))
    table = with_sites(walks(sensors=3, steps=steps, begin=200, gaps=0.5, seed=seed))
    again = draw(st.lists(st.integers(0, table.num_rows - 1), max_size=2))
    return pa.concat_tables([table, table.take(pa.array(again, pa.int64()))]).sort_by("t")


def monitored(table: pa.Table, by: bool, **how) -> pa.Table:
    return fl.Monitor(query(by=by), learnt(by), **how).advance(max(table["t"].to_pylist()), table)


@given(readings(), st.booleans(), st.sampled_from([None, None, False]), st.data())
@settings(deadline=None, max_examples=60)
def test_revisions_are_those_of_a_monitor_whatever_the_cut(table, by, hindsight, data):
    repository, buckets = learnt(by), data.draw(st.sampled_from([1, 3]))
    plan = make_plan(query(by=by), table.schema, opened=lambda: repository, buckets=buckets, hindsight=hindsight)
    engine, journal = Engine(plan, 4, 6, data.draw(st.sampled_from([0, 2000]))), BatchResult()
    with few_sensors_a_part(data.draw(st.sampled_from([1, 1000]))):
        for piece in cut(table, data.draw(st.lists(st.integers(0, table.num_rows), max_size=5))):
            owner = [data.draw(st.integers(0, 1)) for _ in range(piece.num_rows)]
            journal += engine.batch([piece.filter(pa.array([w == k for w in owner], pa.bool_())) for k in range(2)])
    changes, expected = changes_of(journal, plan), monitored(table, by, hindsight=hindsight)
    for time in range(200, max(table["t"].to_pylist()) + 1):
        agree(net(changes, plan.query.by, until=time), net(expected, plan.query.by, until=time), 2.5 * CLOSE)
    health = rows_of(journal, "health")
    assert sum(row["rows"] for row in health) == table.num_rows
    assert 0 <= sum(row["clipped"] for row in health) <= sum(row["revised"] for row in health) * 3
    assert hindsight is None or not any(row["revised"] for row in health)


@given(shuffled(), st.sampled_from(["tick", "batch"]), st.sampled_from([0, 2000]))
@settings(deadline=None, max_examples=40)
def test_late_readings_and_late_gaps_are_treated_as_in_a_monitor_that_gets_the_same_rows(given_rows, every, small):
    table, pieces = given_rows
    plan = make_plan(query(by=False), table.schema, opened=lambda: learnt(False), buckets=2, every=every)
    engine, monitor = Engine(plan, 4, 6, small), fl.Monitor(plan.query, learnt(False))
    clock, kept, expected = 0, NONE, NONE
    for partitions in pieces:
        if (whole := pa.concat_tables(partitions)).num_rows:
            clock = max(clock, *whole["t"].to_pylist())
            kept = net(changes_of(engine.batch(partitions), plan), since=kept)
            expected = net(monitor.advance(clock, whole, every=every), since=expected)
            agree(kept, expected, 2.5 * CLOSE)


def test_rough_bounds_hold_what_later_readings_may_say():
    table = walks(steps=30, begin=200, gaps=0.5)
    plan = make_plan(QUERY, table.schema, opened=lambda: learnt(False), buckets=1)
    come = [each for _, each in dealt(Plans.alone(plan), table.to_batches())]
    piece, context = SensorStage(plan).impute(0, come, MemoryStore())
    assert piece is not None
    assert plan.chain is not None
    looked = look(plan.chain, piece.rows, None, context)
    rough, exact = (bounded(plan.chain, looked, rough=each).uncertain for each in (True, False))
    filled = plan.chain.fill(exact, looked.of_all(), exact.start == BOUNDS_ONLY)
    low, high = ends(filled, np.arange(len(filled.lo)))
    assert (rough.lo <= exact.lo).all()
    assert (exact.lo <= low).all()
    assert (high <= exact.hi).all()
    assert (exact.hi <= rough.hi).all()
    assert (exact.hi - exact.lo > high - low).any()


LONG = fl.Query.from_dict(QUERY.to_dict() | {"lifetime": 5000})
Row = tuple[str, int, float | None, float | None, float | None]


def rows(*given: Row) -> pa.Table:
    names = ("sensor", "t", *NAMES)
    return pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in given], schema=walks(steps=1).schema)


def planned(**how) -> Plan:
    return make_plan(LONG, rows().schema, opened=lambda: learnt(False), buckets=1, **how)


def handed(stage: SensorStage, store: MemoryStore, table: pa.Table) -> GroupRows:
    """What the one bucket makes of these rows, as it travels."""
    plan = stage.plan
    come = [unpack_bucket(plan, pack_bucket(plan, each)) for _, each in dealt(Plans.alone(plan), table.to_batches())]
    [(_, found)] = unpack_groups(plan, pack_groups(plan, stage.take(0, come, store)))
    return found


GAP = ("s0", 200, None, 1.0, 90.0)
CROWD = (("s1", 201, 0.0, 0.0, 0.0), ("s2", 202, 90.0, -90.0, 90.0), ("s3", 203, 0.0, 0.0, 0.0))  # s2 beats the others


def test_what_a_reading_revises_travels_though_the_reading_does_not():
    stage, store = SensorStage(planned(), small=0), MemoryStore()
    first = handed(stage, store, rows(GAP))
    assert first.revisions is None
    then = handed(stage, store, rows(*CROWD, ("s0", 202, 3.0, None, -90.0)))
    assert then.screened == 1
    assert "s0" not in then.rows.columns["sensor"].to_pylist()
    assert then.revisions is not None
    assert (then.revisions.id.tolist(), then.revisions.target.tolist(), then.revisions.time.tolist()) == (
        ["s0"], [200.0], [202.0],
    )  # fmt: skip
    assert then.revisions.cells.tolist() == [[True, False, False]]
    np.testing.assert_array_equal(then.revisions.values, [[3.0, np.nan, -90.0]])


@pytest.mark.parametrize("borders", [[5], []])
def test_a_gap_of_a_row_that_cannot_matter_is_not_revised(borders):
    stage, store = SensorStage(planned(), small=0), MemoryStore()
    table = rows(*CROWD, ("s0", 202, None, 90.0, -90.0), ("s3", 204, 0.0, 0.0, 0.0), ("s0", 205, 3.0, 90.0, -90.0))
    found = [handed(stage, store, piece) for piece in cut(table, borders)]
    assert found[0].screened > 0
    assert all(of_group.revisions is None for of_group in found)


def test_a_row_that_is_refused_is_no_reading_and_a_copy_opens_no_gap():
    stage, store = SensorStage(planned(), small=0), MemoryStore()
    handed(stage, store, rows(GAP, GAP))
    handed(stage, store, rows(GAP, ("s0", 201, float("inf"), 0.0, 0.0)))
    then = handed(stage, store, rows(("s0", 202, 3.0, 0.0, 0.0)))
    assert then.revisions is not None
    assert then.revisions.target.tolist() == [200.0]


def crowd(begin: int, end: int) -> list[Row]:
    """Others, every ten ticks."""
    return [(f"s{1 + k % 3}", 10 * k, float(k % 7), float(k % 5), float(k % 4)) for k in range(begin // 10, end // 10)]


AHEAD: list[Row] = [("s0", 1250, None, 1.0, 90.0), ("s0", 1251, 3.0, 1.0, 90.0)]


@pytest.mark.parametrize("alone", [False, True])
def test_a_revision_waits_with_its_reading_where_that_is_held(alone):
    """One id runs ahead, at first or later; when others follow it enters, and so does what it revises."""
    gap: list[Row] = [] if alone else [("s0", 1005, None, 2.0, 95.0)]
    pieces: list[list[Row]] = [[*gap, *crowd(1000, 1090)], AHEAD, crowd(1090, 1100), crowd(1100, 1300)]
    if alone:
        pieces[:2] = [AHEAD, pieces[0]]
    plan, journal, held = planned(ahead=100), BatchResult(), []
    engine = Engine(plan)
    for piece in pieces:
        journal += engine.batch([rows(*piece)])
        held.append(engine.groups["[]"].ahead.held_revisions is not None)
    assert held == [False, True, True, False]
    table = rows(*sorted((row for piece in pieces for row in piece), key=lambda row: row[1]))
    expected, without = (fl.Monitor(LONG, learnt(False), hindsight=each).advance(1290, table) for each in (True, False))
    agree(net(changes_of(journal, plan)), net(expected), 2.5 * CLOSE)
    assert net(without) != net(expected)


def test_revisions_of_a_reading_that_is_given_up_leave_with_it():
    engine, held = Engine(planned(ahead=100)), []
    pieces: list[list[Row]] = [[("s0", 1005, None, 2.0, 95.0), *crowd(1000, 1090)], [("s0", 4000, 4.0, 1.0, 90.0)]]
    for piece in [*pieces, *(crowd(begin, begin + 100) for begin in range(1090, 1400, 100))]:
        engine.batch([rows(*piece)])
        held.append(engine.groups["[]"].ahead.held_revisions is not None)
    assert held == [False, True, True, False, False, False]


def test_another_choice_of_hindsight_is_refused_by_name(tmp_path):
    plans = [planned(hindsight=each) for each in (None, True, False)]
    assert plans[0].digest == plans[1].digest != plans[2].digest
    assert identity_of(plans[0]) == identity_of(plans[1]) != identity_of(plans[2])
    state = take(plans[0], "[]", None, come := [handed(SensorStage(plans[0]), MemoryStore(), rows(GAP))]).state
    with pytest.raises(SnapshotError, match="hindsight was true and is now false"):
        take(plans[2], "[]", state, come)
    first, other = (
        Output(LocalFolder(tmp_path), RunConfig("in", str(tmp_path), LONG, learnt(False), hindsight=each))
        for each in (None, False)
    )
    first.begin({})
    first.place.put("checkpoint/offsets/0", b"")
    with pytest.raises(FoglineError, match="begun with another hindsight"):
        other.shape()


def test_hindsight_that_was_not_learnt_is_an_error_with_the_way_out(tmp_path, monkeypatch):
    without = Repository.fit(walks(), QUERY, retention=0)
    with pytest.raises(FoglineError, match="leave hindsight out"):
        make_plan(LONG, rows().schema, opened=lambda: without, hindsight=True)
    with pytest.raises(FoglineError, match="there is no repository"):
        make_plan(LONG, rows().schema, hindsight=True)
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(json.dumps(LONG.to_dict()))
    without.save("repo")
    monkeypatch.setattr("fogline.cli.run.on_spark", lambda *given: pytest.fail("Spark was started"))
    words = ["run", "in", "-q", "q.yaml", "-r", "repo", "-o", "out", "--engine", "spark", "--hindsight"]
    found = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert found.exit_code == 2
    assert "hindsight is on" in found.output
    assert "leave hindsight out" in found.output
