"""Do users meet their own names, and words where a call is wrong?"""

# mypy: disable-error-code="arg-type"
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fogline as fl
from fogline.queries import asked_of
from tests.walks import walks

ASKED: dict[str, Any] = {"attributes": {"gas": "max"}, "id": "sensor", "time": "ts", "lifetime": 10}
QUERY = fl.Query(**ASKED)
ROWS = [{"sensor": "a", "ts": 1, "gas": 5.0}, {"sensor": "b", "ts": 3, "gas": 7.0}]


def test_rows_come_back_under_the_names_of_the_query():
    monitor = fl.Monitor(fl.Query(**ASKED | {"by": ["room"]}))
    changes = monitor.advance([row | {"room": "hall"} for row in ROWS])
    leaving = ["reason", "beaten_by", "beaten_by_time"]
    stated = ["change", "probability", "probability_error"]
    assert changes.column_names == ["time", "room", "sensor", "ts", *stated, *leaving, "gas"]
    assert changes.select(["time", "sensor", "ts", "change", "beaten_by", "beaten_by_time"]).to_pylist() == [
        {"time": 1, "sensor": "a", "ts": 1, "change": "enter", "beaten_by": None, "beaten_by_time": None},
        {"time": 3, "sensor": "a", "ts": 1, "change": "leave", "beaten_by": "b", "beaten_by_time": 3},
        {"time": 3, "sensor": "b", "ts": 3, "change": "enter", "beaten_by": None, "beaten_by_time": None},
    ]
    assert monitor.answer().to_pylist() == [
        {"room": "hall", "sensor": "b", "ts": 3, "probability": 1.0, "probability_error": 0.0, "gas": 7.0}
        | {"certainty": "certain"}
    ]


@pytest.mark.parametrize("name", ["time", "Time"])
def test_a_time_column_that_is_called_as_the_tick_is_shown_as_arrived(name):
    query = fl.Query(**ASKED | {"time": name})
    monitor = fl.Monitor(query)
    [change] = monitor.advance(2, [{"sensor": "a", name: 1, "gas": 5.0}]).to_pylist()
    assert (change["time"], change["arrived"]) == (1, 1)
    assert monitor.answer().column_names[:2] == ["sensor", "arrived"]
    with pytest.raises(fl.errors.QueryError, match=r"'arrived' \(attribute\) would collide with the column 'arrived'"):
        fl.Query(**ASKED | {"time": name, "attributes": {"arrived": "max"}})
    assert fl.Query(**ASKED | {"attributes": {"arrived": "max"}}).arrived == "ts"


@pytest.mark.parametrize(
    "name", ["change", "Probability", "probability_error", "certainty", "beaten_by", "batch", "row"]
)
@pytest.mark.parametrize("role", ["attributes", "id", "time", "by"])
def test_a_column_that_is_called_as_one_that_outputs_add_is_refused(name, role):
    given = {"attributes": {name: "max"}, "by": [name]}.get(role, name)
    with pytest.raises(
        fl.errors.QueryError,
        match=rf"{name!r} \({role.removesuffix('s')}\) would collide with the column .*in the source",
    ):
        fl.Query(**ASKED | {role: given})


def test_names_of_cells_are_refused_only_beside_them():
    assert fl.Query(**ASKED | {"attributes": {"low": "min", "high": "max"}}).names == ("low", "high")
    with pytest.raises(fl.errors.QueryError, match=r"'rank' \(id\) would collide"):
        fl.Query(**ASKED | {"id": "rank"})
    with pytest.raises(fl.errors.QueryError, match=r"'x\.low' \(attribute\) would collide"):
        fl.Query(**ASKED | {"attributes": {"x": "max", "x.low": "max"}})


# --- advance ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [list, pa.Table.from_pylist, pd.DataFrame, pl.DataFrame])
def test_without_now_the_clock_moves_to_the_newest_time_of_the_rows(make):
    stated, silent = fl.Monitor(QUERY), fl.Monitor(QUERY)
    expected = stated.advance(3, ROWS)
    assert silent.advance(make(ROWS)).equals(expected)
    assert silent.clock == 3
    assert silent.advance(rows=make([{"sensor": "late", "ts": 2, "gas": 9.0}])).num_rows == 2
    assert silent.clock == 3
    with pytest.raises(fl.errors.ClockError, match="stands at 3"):
        silent.advance(2)


def test_without_rows_and_without_now_nothing_moves():
    monitor = fl.Monitor(QUERY)
    tables: list[Any] = [[], None, pd.DataFrame(ROWS).iloc[:0], {"sensor": [], "ts": [], "gas": []}]
    for empty in tables:
        assert monitor.advance(empty).num_rows == 0
        assert monitor.clock == float("-inf")
    monitor.advance(ROWS)
    assert monitor.advance().num_rows == 0
    assert monitor.clock == 3


def test_a_row_that_cannot_be_taken_moves_no_clock():
    monitor = fl.Monitor(QUERY)
    monitor.advance([*ROWS, {"sensor": "c", "ts": None, "gas": 1.0}, {"sensor": "d", "ts": 99, "gas": "oops"}])
    assert (monitor.clock, len(monitor.rejects)) == (3, 2)
    monitor.advance([{"sensor": "d", "ts": 99, "gas": "oops"}])
    assert monitor.clock == 3


def test_timestamps_move_the_clock_too():
    monitor = fl.Monitor(fl.Query(**ASKED | {"lifetime": "1 minute"}))
    at = datetime(2024, 5, 1, tzinfo=UTC)
    assert monitor.advance([{"sensor": "a", "ts": at, "gas": 1.0}])["time"].to_pylist() == [at]
    assert fl.Monitor.restore(monitor.query, monitor.snapshot()).advance().num_rows == 0


def test_every_batch_reports_from_call_to_call():
    assert fl.Monitor(QUERY).advance(ROWS, every="batch")["sensor"].to_pylist() == ["b"]
    with pytest.raises(fl.FoglineError, match="every is 'call'; it is one of tick, batch"):
        fl.Monitor(QUERY).advance(ROWS, every="call")
    with pytest.raises(fl.FoglineError, match=r"advance was given two tables; .* advance\(rows\)"):
        fl.Monitor(QUERY).advance(ROWS, ROWS)


def test_monitors_in_several_threads_use_one_repository():
    query = fl.Query(attributes={"heat": "max", "damp": "min"}, id="sensor", time="t", lifetime=6)
    repository = fl.Repository.fit(walks(sensors=6, steps=120), query)
    rows = walks(sensors=6, steps=40, begin=120, gaps=0.3)

    def played(_: int) -> list[dict[str, Any]]:
        monitor, found = fl.Monitor(query, repository), list[dict[str, Any]]()
        for part in range(0, rows.num_rows, 30):
            found += monitor.advance(rows.slice(part, 30)).to_pylist()
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(played, range(4))) == [played(0)] * 4


# --- Wrong types ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: fl.Monitor(QUERY, "plant.repo"), r"not str; give Repository\.load\('plant\.repo'\)"),
        (lambda: fl.Monitor(QUERY, QUERY), r"not Query; give Repository\.fit\(history, query\)"),
        (lambda: fl.Monitor("query.yaml"), r"not str; give Query\.load\('query\.yaml'\)"),
        (lambda: fl.Monitor(ASKED), r"not dict; give Query\.from_dict\(…\)\."),
        (lambda: fl.Monitor([QUERY]), "not list; give one; fl.run and fl.spark.watch answer several by their names"),
        (
            lambda: fl.Monitor({"gas": QUERY}),
            "not dict; fl.run and fl.spark.watch answer several",
        ),
        (lambda: fl.Monitor(QUERY, exact_limit=0), "exact_limit is 0; .* a whole number from 1 on"),
        (lambda: asked_of([QUERY]), "several queries are answered by their names: {'fire': query"),
        (lambda: asked_of("query.yaml"), r"not str; give Query\.load\('query\.yaml'\)"),
        (lambda: fl.skyline(ROWS, QUERY, "plant.repo"), r"give Repository\.load\('plant\.repo'\)"),
        (lambda: fl.Repository.fit(ROWS, "query.yaml"), r"give Query\.load\('query\.yaml'\)"),
    ],
)
def test_a_wrong_type_is_an_error_in_words_with_the_way_out(wrong, words):
    with pytest.raises(fl.FoglineError, match=words):
        wrong()


def test_a_repository_for_a_query_is_an_error_in_words():
    repository = fl.Repository.fit(ROWS, QUERY, method="mean")
    with pytest.raises(fl.FoglineError, match="not Repository; the query comes first, then the repository"):
        fl.Monitor(repository, QUERY)


def test_times_that_are_no_timestamps_are_warned_of_with_the_way_out():
    monitor = fl.Monitor(fl.Query({"gas": "max"}, id="s", time="t", lifetime="1 hour"))
    with pytest.warns(fl.RowsRejectedWarning, match=r"not a timestamp .*pandas.to_datetime\(.* fl.run reads files"):
        monitor.advance([{"s": "a", "t": "23.05.2024 08:00", "gas": 1}, {"s": "b", "t": "2024-05-23", "gas": 1}])
