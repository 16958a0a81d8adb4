"""Are the same sensors remembered by a monitor, the stages and a run, however the stream is cut?"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import QueryError
from fogline.output.about import read_alarms
from fogline.output.folder import LocalFolder
from fogline.pipeline import sensor_state as readings
from fogline.pipeline.limits import FORGOTTEN
from fogline.pipeline.plan import BUCKETS, make_plan
from fogline.pipeline.report import BatchResult
from fogline.pipeline.sensor_state import bucket_of, store_of
from tests.flow.driving import Engine, changes_of, cut, rows_of
from tests.flow.embedding import Case, config_of, run, write_stream
from tests.walks import NAMES, QUERY, walks

MOST = 6
FEW = replace(QUERY, max_sensors=MOST)


@cache
def learnt() -> fl.Repository:
    return fl.Repository.fit(walks(), QUERY)


def crowd(seed: int, steps: int = 40, sensors: int = 15) -> pa.Table:
    """At every instant some of many sensors read something, each row lacks something now and then."""
    rng = np.random.default_rng(seed)
    names, times = [], []
    for t in range(steps):
        some = rng.choice(sensors, rng.integers(1, 6), replace=False)
        names += [f"n{k}" for k in some]
        times += [300 + t] * len(some)
    values = np.round(rng.normal(0, 3, (len(names), 3)), 1)
    hidden = rng.random(values.shape) < 0.3
    columns = {name: pa.array(values[:, j], mask=hidden[:, j]) for j, name in enumerate(NAMES)}
    return pa.table({"sensor": names, "t": times, **columns})


def remembered(table: pa.Table, most: int, known: dict[Any, float]) -> tuple[set[str], int]:
    """The sensors heard last in a dict that is looked through when an instant is past; how many were forgotten.

    `known`: when the sensors of the history were heard.
    """
    last, clock, forgotten = dict(known), max(known.values(), default=-np.inf), 0
    for row in table.to_pylist():
        if row["t"] > clock and len(last) > most:
            stay = sorted(last, key=lambda name: (last[name], name))[-most:]
            forgotten += sum(last[name] > -np.inf for name in last.keys() - stay)
            last = {name: last[name] for name in stay}
        last.setdefault(row["sensor"], -np.inf)
        if any(row[name] is not None for name in NAMES):
            last[row["sensor"]] = clock = row["t"]
    return set(last), forgotten


def history() -> dict[Any, float]:
    found = learnt().sensors
    assert found is not None
    state = found.state()
    return {name: float(state.last_read(k)) for (name,), k in state.number.items()}


def monitored(query: fl.Query, table: pa.Table, borders: list[int], *, saved: bool = False) -> fl.Monitor:
    monitor = fl.Monitor(query, learnt())
    for piece in cut(table, borders):
        monitor.advance(pc.max(piece["t"]).as_py(), piece)
        monitor = fl.Monitor.restore(query, monitor.snapshot(), learnt()) if saved else monitor
    return monitor


def sensors_of(monitor: fl.Monitor) -> set[str]:
    assert monitor.intake is not None
    assert monitor.intake.state is not None
    return {name for (name,) in monitor.intake.state.number}


def answer_of(monitor: fl.Monitor) -> dict[Any, float]:
    return {(row["sensor"], row["t"]): round(row["probability"], 9) for row in monitor.answer().to_pylist()}


def added_up(changes: list[dict[str, Any]]) -> dict[Any, float]:
    """The answer that changes lead to."""
    out: dict[Any, float] = {}
    for row in changes:
        name = row["sensor"], row["t"]
        if row["change"] == "leave":
            out.pop(name, None)
        else:
            out[name] = round(row["probability"], 9)
    return out


@pytest.mark.parametrize("seed", range(3))
def test_a_monitor_remembers_the_same_sensors_in_any_cut_and_counts_those_it_forgets(seed):
    rng, table = np.random.default_rng(seed), crowd(seed)
    whole = monitored(FEW, table, [])
    stay, forgotten = remembered(table, MOST, history())
    assert sensors_of(whole) == stay
    assert whole.stats()["sensors_forgotten"] == forgotten > 20
    assert whole.stats()["sensors"] == len(stay)
    for saved in (False, True):
        borders = sorted(rng.choice(np.arange(1, table.num_rows), 12, replace=False).tolist())
        again = monitored(FEW, table, borders, saved=saved)
        assert sensors_of(again) == stay
        assert again.stats()["sensors_forgotten"] == forgotten
        assert answer_of(again) == answer_of(whole)
    assert answer_of(monitored(QUERY, table, [])) != answer_of(whole)  # it does make a difference


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("lateness", [0, 2])
def test_the_stages_remember_the_sensors_that_a_monitor_does(monkeypatch, small, lateness):
    if small:  # a bucket of few sensors lies in parts
        monkeypatch.setattr(readings, "SMALL", 2)
        monkeypatch.setattr(readings, "PART", 1)
    table = crowd(5)
    last = pa.table({name: pa.nulls(2, kind.type) for name, kind in zip(table.column_names, table.schema, strict=True)})
    last = last.set_column(0, "sensor", pa.array(["x", "y"])).set_column(1, "t", pa.array([360, 360]))
    table = pa.concat_tables([table, last])  # all others are due then
    monitor = monitored(FEW, table, [])
    for borders in ([], [7, 20, 21, 60, 90], list(range(0, 120, 9))):
        plan = make_plan(FEW, table.schema, opened=learnt, buckets=1, lateness=lateness, ahead="off")
        engine, journal = Engine(plan, 1000, 1000), BatchResult()
        for piece in cut(table, borders):
            journal += engine.batch([piece])
        if not lateness:
            store = engine.readings[0]
            names = [(f"n{k}",) for k in range(15)]
            opened = store_of(plan).open(0, store.get("sensors"), names, store)
            assert {name for (name,) in opened.kept.number} >= sensors_of(monitor) - {"x", "y"}
            assert opened.sensors == len(sensors_of(monitor))
            assert added_up(changes_of(journal, plan).to_pylist()) == answer_of(monitor)
            assert (
                sum(row["sensors_forgotten"] for row in rows_of(journal, "health"))
                == monitor.stats()["sensors_forgotten"]
            )
        else:  # the last rows wait
            early = monitored(FEW, table.filter(pc.less_equal(table["t"], 358)), [])
            assert added_up(changes_of(journal, plan).to_pylist()) == {
                key: each for key, each in answer_of(early).items() if key[1] + 12 > 358
            }
            assert (
                sum(row["sensors_forgotten"] for row in rows_of(journal, "health"))
                == early.stats()["sensors_forgotten"]
            )


def test_a_run_forgets_the_same_sensors_in_any_cut_with_an_alarm_that_stays(tmp_path: Path):
    most = 2
    case = Case(replace(QUERY, max_sensors=most), lambda: crowd(8, sensors=40), {}, learnt, files=9)
    write_stream(case, tmp_path / "in")
    known, table = history(), case.table()
    expected = 0
    for k in range(BUCKETS):
        some = table.filter(pa.array([bucket_of((name,), BUCKETS) == k for name in table["sensor"].to_pylist()]))
        own = {name: at for name, at in known.items() if bucket_of((name,), BUCKETS) == k}
        expected += remembered(some, most, own)[1] if some.num_rows else 0
    answers = []
    for files in (1, 4, None):
        output = tmp_path / f"out {files}"
        running = run(config_of(case, tmp_path, output.name), files)
        assert pc.sum(pq.read_table(output / "health")[FORGOTTEN]).as_py() == expected > 20
        assert running.status.sensors_forgotten == expected
        [alarm] = read_alarms(LocalFolder(output))
        assert alarm.limit == FORGOTTEN
        assert "more sensors than max_sensors" in alarm.sentence()
        answers.append(added_up(sorted(pq.read_table(output / "changes").to_pylist(), key=lambda row: row["time"])))
    assert answers[0] == answers[1] == answers[2]


def test_sensors_of_the_history_count_and_leave_first():
    rows = [{"sensor": f"n{k}", "t": 300 + k, "heat": 1.0, "damp": 1.0, "light": 1.0} for k in range(3)]
    monitor = fl.Monitor(FEW, learnt())
    monitor.advance(310, rows)
    monitor.advance(311, [{"sensor": "n2", "t": 311, "heat": 1.0, "damp": 1.0, "light": 1.0}])
    assert sensors_of(monitor) == {"n0", "n1", "n2", "s7", "s8", "s9"}  # the history's were heard at one instant
    assert monitor.stats()["sensors_forgotten"] == len(history()) - 3


@pytest.mark.parametrize("most", [0, -1, 2.5, "many", True])
def test_a_bound_is_a_whole_number_from_one_on(most):
    with pytest.raises(QueryError, match=r"max_sensors is .*; it is a whole number, from 1 on"):
        replace(QUERY, max_sensors=most)
