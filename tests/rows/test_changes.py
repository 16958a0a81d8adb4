"""Do changes add up to the rows as they came, gaps included?"""

from __future__ import annotations

import pyarrow as pa

import fogline as fl
from fogline.rows.changes import answer_of, last_changes


def test_a_gap_of_the_newest_row_of_an_id_is_not_shown_as_the_value_of_the_row_before():
    query = fl.Query(attributes={"x": "max", "y": "max"}, id="i", time="t", latest=True)
    columns = ("time", "i", "t", "change", "probability", "probability_error", "x", "y")
    rows = [(1, "a", 1, "enter", 1.0, 0.0, 5.0, 5.0), (2, "a", 2, "update", 0.75, 0.0, None, 6.0)]
    changes = [pa.Table.from_pylist([dict(zip(columns, row, strict=True))]) for row in rows]
    (shown,) = answer_of(changes, query).to_pylist()
    assert (shown["t"], shown["x"], shown["y"]) == (2, None, 6.0)


def test_the_last_change_of_a_row_may_be_its_leave():
    query = fl.Query(attributes={"x": "max"}, id="i", time="t", latest=True)
    reported = pa.table({"time": [1, 1, 2], "i": ["a", "b", "a"], "change": ["enter", "enter", "leave"]})
    last = last_changes(reported, query).to_pylist()
    assert [(row["i"], row["change"]) for row in last] == [("a", "leave"), ("b", "enter")]


def test_many_changes_are_shown_as_few_are():
    query = fl.Query(attributes={"x": "max", "y": "max"}, id="i", time="t", lifetime=5)
    rows = [{"i": k, "t": 1, "x": float(k), "y": float(-k)} for k in range(100)]
    whole, one = fl.Monitor(query), fl.Monitor(query)
    found = [whole.advance(1, rows), whole.advance(6)]
    parts = [one.advance(1, [row]) for row in rows]
    assert found[0].num_rows == 100
    assert found[0].to_pylist() == pa.concat_tables(parts).to_pylist()
    gone = found[1].to_pylist()
    assert {(row["change"], row["reason"], row["probability"]) for row in gone} == {("leave", "expired", None)}
    assert [row["x"] for row in gone] == [row["x"] for row in rows]
