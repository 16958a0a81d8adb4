"""Do changes add up to the rows as they came, gaps included?"""

from __future__ import annotations

import pyarrow as pa

import fogline as fl
from fogline.rows.changes import answer_of


def test_a_gap_of_the_newest_row_of_an_id_is_not_shown_as_the_value_of_the_row_before():
    query = fl.Query(attributes={"x": "max", "y": "max"}, id="i", time="t", latest=True)
    columns = ("time", "id", "arrived", "change", "probability", "exact", "within", "x", "y")
    rows = [(1, "a", 1, "enter", 1.0, True, 0.0, 5.0, 5.0), (2, "a", 2, "update", 0.75, True, 0.0, None, 6.0)]
    changes = [pa.Table.from_pylist([dict(zip(columns, row, strict=True))]) for row in rows]
    (shown,) = answer_of(changes, query).to_pylist()
    assert (shown["arrived"], shown["x"], shown["y"]) == (2, None, 6.0)
