"""Is a value the same key, or another one, for a Monitor, for a table in one line, and on pipelines?"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.pipeline.decode import numbered
from fogline.pipeline.plan import make_plan
from fogline.rows.names import keyed
from fogline.runs.config import EMBEDDED, RunConfig
from tests.flow.driving import Engine, changes_of, rows_of
from tests.flow.embedding import run

BY = fl.Query(attributes={"x": "max"}, id="id", time="t", lifetime=100, by=["k"])
IDS = fl.Query(attributes={"x": "max", "y": "min"}, id="k", time="t", lifetime=100)
NAN, CENT = math.nan, pa.decimal128(9, 2)
NANO = pa.array([1_001, 1_000, 2_000], pa.timestamp("ns"))

# A column, and what each of its values is called: the same letter, the same key; "-": it is missing.
CASES = {
    "zeros": (pa.array([0.0, -0.0, 1.0]), "aab"),
    "zeros, the negative one first": (pa.array([-0.0, 0.0, 1.0], pa.float32()), "aab"),
    "NaN and null": (pa.array([NAN, None, 1.0]), "--a"),
    "NaN and null, short": (pa.array([None, NAN, 1.0], pa.float32()), "--a"),
    "null and texts": (pa.array([None, "None", "nan", "null", ""]), "-abcd"),
    "null and texts, encoded": (pa.array([None, "None", "nan", "None"]).dictionary_encode(), "-aba"),
    "whole numbers": (pa.array([2**60, 2**60 + 1, None, 2**60]), "ab-a"),
    "decimals": (pa.array([Decimal("0.00"), Decimal("-0.00"), Decimal("5.00"), None], CENT), "aab-"),
    "truth values": (pa.array([True, False, None, True]), "ab-a"),
    "instants": (NANO, "aab"),
}


def answer_of_monitor(rows: Any, query: fl.Query) -> tuple[pa.Table, list[str]]:
    monitor = fl.Monitor(query)
    monitor.advance(0, rows)
    return monitor.answer(), [reject.reason for reject in monitor.rejects]


def answer_of_stages(rows: pa.Table, query: fl.Query) -> tuple[pa.Table, list[str]]:
    if rows["k"].type == pa.timestamp("ns"):  # Spark has microseconds
        rows = rows.set_column(2, "k", rows["k"].cast(pa.timestamp("us"), safe=False))
    plan = make_plan(query, rows.schema)
    journal = Engine(plan).batch([rows])
    return changes_of(journal, plan), [row["reason"] for row in rows_of(journal, "rejects")]


def answer_of_files(rows: pa.Table, query: fl.Query, folder: Path, name: str = "rows") -> tuple[pa.Table, list[str]]:
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(rows, folder / "in" / f"{name}.parquet")
    run(RunConfig(str(folder / "in"), str(folder / "out"), query, None, engine=EMBEDDED))
    rejects = folder / "out" / "rejects"
    reasons = pq.read_table(rejects)["reason"].to_pylist() if [*rejects.glob("*.parquet")] else []
    return pq.read_table(folder / "out" / "changes"), reasons


def table_of(column: pa.Array) -> pa.Table:
    """Rows of one instant, each better in x and worse in y than those before."""
    n = len(column)
    return pa.table({"id": np.arange(n), "t": np.zeros(n, np.int64), "k": column, "x": np.arange(n), "y": np.arange(n)})


def last_of_each(letters: str) -> list[int]:
    return sorted({letter: i for i, letter in enumerate(letters)}.values())


@pytest.mark.parametrize(("column", "letters"), CASES.values(), ids=CASES)
def test_rows_of_one_key_are_one_group_wherever_they_come(column, letters, tmp_path):
    table, expected = table_of(column), last_of_each(letters)
    shown = [None if letters[i] == "-" else table["k"][i].as_py() for i in expected]
    for answer, rejects in (
        answer_of_monitor(table, BY),
        answer_of_monitor(table.to_pylist(), BY),
        answer_of_stages(table, BY),
        answer_of_files(table, BY, tmp_path),
    ):
        rows = {row["id"]: row["k"] for row in answer.to_pylist() if row.get("change") != "leave"}
        assert rejects == []
        assert sorted(rows) == expected
        assert not any(isinstance(each, float) and math.copysign(1, each) < 0 for each in rows.values())
        assert [rows[i] for i in expected] == shown
    for kind in (
        table,
        table.to_pylist(),
        table.to_pandas(types_mapper=pd.ArrowDtype),
        pd.DataFrame(table.to_pylist(), dtype=object),
    ):
        found = fl.skyline(kind, {"x": "max"}, by="k")
        ids = [row["id"] for row in found] if isinstance(found, list) else list(found["id"].to_numpy())
        assert ids == expected
        assert sorted(fl.skyline(kind, BY)["id"].to_pylist()) == expected


@pytest.mark.parametrize(("column", "letters"), CASES.values(), ids=CASES)
def test_rows_of_one_key_are_copies_wherever_they_come_and_without_one_they_are_rejected(column, letters, tmp_path):
    table = table_of(column)
    expected = [i for i in last_of_each(letters) if letters[i] != "-"]
    reasons = ["the id 'k' is missing"] * letters.count("-")
    reasons += ["a row with this id and time is there already"] * (len(letters) - len(reasons) - len(expected))
    for answer, rejects in (
        answer_of_monitor(table, IDS),
        answer_of_monitor(table.to_pylist(), IDS),
        answer_of_stages(table, IDS),
        answer_of_files(table, IDS, tmp_path),
    ):
        assert sorted(row["x"] for row in answer.to_pylist()) == expected
        assert sorted(rejects) == sorted(reasons)


def test_names_are_numbered_by_the_same_rule():
    assert len({*numbered(pa.array([0.0, -0.0])).tolist()}) == 1
    assert len({*numbered(pa.array([math.nan, None])).tolist()}) == 1


MIXED: dict[str, tuple[list[Any], str]] = {
    "5 and 5.0": ([5, 5.0, 6, 5], "aaba"),
    "5 and decimals": ([Decimal("5.00"), 5, Decimal("5.50")], "aab"),
    "NumPy's": ([np.int64(5), np.float32(5), 5, np.float64("nan"), None], "aaa--"),
    "marks for missing": ([pd.NaT, None, pd.NA, datetime(2024, 1, 1)], "---a"),
    "large numbers": ([2**60, 2**60 + 1, 2**60], "aba"),
}
ONE_NAME = {
    "zeros": (0.0, [pa.array([-0.0]), pa.array([0.0]), pa.array([-0.0])]),
    "short zeros": (0.0, [pa.array([x], pa.float32()) for x in (0.0, -0.0)]),
    "times of day": (time(0, 0, 0, 1), [pa.array([x], pa.time64("ns")) for x in (1_001, 1_000)]),
}


@pytest.mark.parametrize(("shown", "columns"), ONE_NAME.values(), ids=ONE_NAME)
def test_a_key_is_shown_alike_whenever_it_comes_so_that_changes_add_up(shown, columns, tmp_path):
    """Readers of an output know a row again by its id, and a group by its key, as they are shown."""
    queries = [fl.Query(attributes={"x": "max"}, id="k", time="t", latest=True)]
    queries += [fl.Query(attributes={"x": "max"}, id="id", time="t", latest=True, by=["k"])]
    for q, query in enumerate(queries):
        folder = tmp_path / str(q)
        folder.mkdir()
        for i, column in enumerate(columns):
            rows = pa.table({"id": ["a"], "t": [i], "k": column, "x": [float(i)]})
            changes, _ = answer_of_files(rows, query, folder, str(i))
        assert sorted(changes["change"].to_pylist()) == ["enter"] + ["update"] * (len(columns) - 1)
        (member,) = read_answer(LocalFolder(str(folder / "out")), "out").to_pylist()
        name = member["k"]
        assert (name, member["t"]) == (shown, len(columns) - 1)
        assert not (isinstance(name, float) and math.copysign(1, name) < 0)


@pytest.mark.parametrize("ask", [answer_of_monitor, None], ids=["monitor", "in one line"])
@pytest.mark.parametrize(("values", "letters"), MIXED.values(), ids=MIXED)
def test_numbers_that_mean_the_same_are_one_key(values, letters, ask: Callable[..., Any] | None):
    rows = [{"id": i, "t": 0, "k": value, "x": i} for i, value in enumerate(values)]
    if ask is None:
        assert [row["id"] for row in fl.skyline(rows, {"x": "max"}, by="k")] == last_of_each(letters)
        return
    answer, rejects = ask(rows, BY)
    assert rejects == []
    assert sorted(answer["id"].to_pylist()) == last_of_each(letters)


@pytest.mark.parametrize(
    "values", [[1, 2, True], [1.0, 2.0, True], [1, 2, "1"], ["None", "a", 3], [True, False, 0], [5, 6, [1]]], ids=repr
)
def test_a_value_of_another_kind_is_never_taken_for_one_of_the_others(values):
    rows = [{"id": i, "t": 0, "k": value, "x": i} for i, value in enumerate(values)]
    answer, [reason] = answer_of_monitor(rows, BY)
    assert sorted(answer["id"].to_pylist()) == [0, 1]
    assert "one stream has one kind of value there" in reason or "can name nothing" in reason
    if isinstance(values[-1], list):
        with pytest.raises(fl.errors.QueryError, match="can make no groups"):
            fl.skyline(rows, {"x": "max"}, by="k")
    else:
        assert len(fl.skyline(rows, {"x": "max"}, by="k")) == 3


def test_a_stream_keeps_its_kind_and_takes_numbers_that_are_the_same_in_it():
    monitor = fl.Monitor(IDS)
    monitor.advance(0, [{"k": 5, "t": 0, "x": 1, "y": 1}])
    monitor.advance(1, pa.table({"k": [5.0, 6.0, 6.5], "t": [1, 1, 1], "x": [2, 3, 4], "y": [2, 3, 4]}))
    monitor.advance(2, [{"k": Decimal("7.0"), "t": 2, "x": 5, "y": 5}])
    assert monitor.answer()["k"].type == pa.int64()
    assert sorted(monitor.answer()["k"].to_pylist()) == [5, 5, 6, 7]
    assert [reject.reason for reject in monitor.rejects] == [
        "'k' is 6.5; one stream has one kind of value there: int64"
    ]


def test_a_later_file_of_truth_values_names_no_numbers(tmp_path):
    table = table_of(pa.array([1, 2]))
    answer_of_files(table, IDS, tmp_path)
    later = table_of(pa.array([True, None])).set_column(1, "t", pa.array([1, 1]))
    _, rejects = answer_of_files(later, IDS, tmp_path, "later")
    assert "'k' is True, which is no whole number" in rejects


def test_in_one_line_bytes_are_no_texts():
    rows = [{"x": 1, "k": b"a"}, {"x": 2, "k": "a"}]
    assert len(fl.skyline(rows, {"x": "max"}, by="k")) == 2
    assert len(fl.skyline(pd.DataFrame(rows), {"x": "max"}, by="k")) == 2


def test_keys_of_many_columns_with_many_values_differ():
    size, many = 8_191, 6  # 2**13 codes with that of null, six times: more than an integer holds
    columns = [pa.array([*range(size), *((0, 1) if k == 0 else (7, 7))]) for k in range(many)]
    keys, which = keyed(pa.record_batch(columns, [f"c{k}" for k in range(many)]), [f"c{k}" for k in range(many)])
    assert len(keys) == size + 2
    assert [keys[k] for k in which[-2:]] == ["[0, 7, 7, 7, 7, 7]", "[1, 7, 7, 7, 7, 7]"]
