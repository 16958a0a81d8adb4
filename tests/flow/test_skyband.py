"""Do the stages together answer as one monitor does, where fewer than k others may beat a row?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.kernels.cover import Lives, matter
from fogline.pipeline import loaded, small_groups
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import BatchResult
from fogline.runs.embedded import Embedded
from tests.contracts import CLOSE, agree, answer_of, net, query_of
from tests.flow.driving import Engine, changes_of, plan_of, rows_of
from tests.flow.embedding import CASES, config_of, reported, run, write_stream
from tests.flow.test_embedded import lines, of_a_monitor
from tests.flow.test_runner import NONE, as_tables, drives, flush, taken, truth
from tests.strategies import late_streams

bands = st.sampled_from([2, 3, 2, 5])


@given(st.one_of(drives(), drives(lateness=True)), bands)
@settings(deadline=None, max_examples=150)
def test_netted_per_tick_the_changes_do_not_depend_on_the_cut(drive, k):
    stream, pieces, hold, slice_rows, chunk_rows = drive
    stream = replace(stream, skyband=k)
    plan = plan_of(stream, pieces[0][0].schema, lateness=hold, idle=0)
    engine, journal = Engine(plan, slice_rows, chunk_rows), BatchResult()
    for partitions in pieces:
        journal += engine.batch(partitions)
    journal += flush(engine)
    changes = changes_of(journal, plan)
    for time, answer in truth(stream):
        agree(net(changes, stream.by, until=time), answer, 2.5 * CLOSE)


@given(st.one_of(drives(groups=1), drives(groups=1, lateness=True)), bands)
@settings(deadline=None, max_examples=100)
def test_every_batch_ends_with_the_answer_that_a_monitor_has_at_its_clock(drive, k):
    stream, pieces, hold, slice_rows, chunk_rows = drive
    stream = replace(stream, skyband=k)
    plan = plan_of(stream, pieces[0][0].schema, every="batch", lateness=hold, explain=True, views=True)
    engine, answer, seen = Engine(plan, slice_rows, chunk_rows), {}, []
    for partitions in pieces:
        journal = engine.batch(partitions)
        seen += [row for part in partitions for row in part.to_pylist()]
        answer = net(changes_of(journal, plan), stream.by, since=answer)
        clocks = [row["time"] for row in rows_of(journal, "health") if row["time"] is not None]
        if clocks:
            monitor = fl.Monitor(query_of(stream))
            rows = [row for row in seen if row["t"] <= clocks[-1]]
            monitor.advance(clocks[-1], rows or None)
            agree(answer, answer_of(monitor), 2.5 * CLOSE)


@given(late_streams(), st.integers(1, 5), st.integers(1, 9), bands)
@settings(deadline=None, max_examples=100)
def test_late_rows_enter_at_the_clock_of_their_group(stream, slice_rows, chunk_rows, k):
    stream = replace(stream, skyband=k)
    calls = [(now, table) for (now, _), table in zip(stream.calls, as_tables(stream), strict=True) if table.num_rows]
    if not calls:
        return
    plan = plan_of(stream, calls[0][1].schema)
    engine, monitor, clock = Engine(plan, slice_rows, chunk_rows), fl.Monitor(query_of(stream)), None
    kept, expected = NONE, NONE
    for _, table in calls:
        good = [t for t, e in zip(*(table.column(c).to_pylist() for c in "te"), strict=True) if taken(stream, t, e)]
        clock = max([*good, *([] if clock is None else [clock])], default=None)
        kept = net(changes_of(engine.batch([table]), plan), since=kept)
        if clock is not None:
            expected = net(monitor.advance(clock, table), since=expected)
            agree(kept, expected, 2.5 * CLOSE)


# --- What need not travel ---------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(2, 4), st.booleans())
@settings(deadline=None, max_examples=60)
def test_what_is_dropped_of_a_chunk_k_rows_that_stay_dominate_all_its_life(seed, k, at_once):
    random, n = np.random.default_rng(seed), 40
    lo = random.integers(0, 4, (n, 2)).astype(np.float64)
    hi = lo + random.integers(0, 2, (n, 2))
    arrived = np.zeros(n) if at_once else random.integers(0, 5, n).astype(np.float64)
    expires = arrived + random.integers(1, 6, n)
    group, covers, stays = random.integers(0, 2, n), random.random(n) < 0.8, random.random(n) < 0.2
    kept, covering = matter(group, Lives(lo, hi, arrived, expires, covers, stays), skyband=k)
    staying, marked = set(kept.tolist()), set(kept[covering].tolist())
    assert set(np.flatnonzero(stays).tolist()) <= staying
    assert all(covers[s] for s in marked)

    def above(s: int, q: int) -> bool:
        alike = group[s] == group[q] and arrived[s] <= arrived[q] and expires[s] >= expires[q]
        return bool(alike and (lo[s] >= hi[q]).all() and (lo[s] > hi[q]).any())

    for q in set(range(n)) - staying:
        assert sum(above(s, q) for s in marked) >= k
    for q in staying - set(np.flatnonzero(stays).tolist()):
        by = [s for s in staying if covers[s] and above(s, q)]
        assert len(by) < k or any(lo[s].sum() == lo[q].sum() for s in by)


@pytest.mark.parametrize(("worse", "conflicts"), [(9, 0), (5, 1)])
def test_of_k_rows_that_dropped_others_each_stays_unless_one_of_its_name_is_as_good(worse, conflicts):
    """Two rows that come again drop others; `worse`: what one of them was when it came first."""
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", expires="e", skyband=2)
    edges = [{"id": "first", "t": 0, "e": 99, "a": 0}, {"id": "last", "t": 2, "e": 99, "a": 0}]
    best = [{"id": name, "t": 1, "e": 99, "a": 9} for name in ("x", "y")]
    table = pa.Table.from_pylist([edges[0], *best, *({"id": i, "t": 1, "e": 50, "a": 7} for i in "stuv"), edges[1]])
    engine = Engine(make_plan(query, table.schema), 100, 100)
    engine.batch([pa.Table.from_pylist([best[0], best[1] | {"a": worse}])])
    health = rows_of(engine.batch([table]), "health")[-1]
    assert (health["screened"], health["conflicts"]) == (4, conflicts)


# --- Runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_stops_after_every_batch_reports_what_an_undisturbed_one_does(name, tmp_path, monkeypatch):
    monkeypatch.setattr(loaded, "MOST", 30_000)  # groups that lie apart come and go
    monkeypatch.setattr(loaded, "LARGE", 0)
    monkeypatch.setattr(small_groups, "ROWS", 2)
    case = replace(CASES[name], query=replace(CASES[name].query, skyband=3))
    write_stream(case, tmp_path / "in")
    whole = run(config_of(case, tmp_path, "whole"), files_per_batch=1)
    for _ in range(case.files):
        loaded._cached.clear()  # as in another process
        started = Embedded(config_of(case, tmp_path)).start(files_per_batch=1)
        assert not started.awaitTermination(0)
        started.running.close()
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "whole", kind)
    assert len(reported(tmp_path / "out")) == whole.status.changes > 20


@pytest.mark.parametrize("name", ["rows that are appended, in groups", "timestamps", "sensors, with hindsight"])
def test_the_changes_of_a_run_are_those_of_a_monitor(name, tmp_path):
    case = replace(CASES[name], query=replace(CASES[name].query, skyband=2))
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    assert lines(pq.read_table(tmp_path / "out" / "changes")) == lines(of_a_monitor(case))
