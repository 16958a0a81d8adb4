"""Do changes add up to what was reported last?"""

from __future__ import annotations

import pyarrow as pa

import fogline as fl
from fogline.rows.changes import answer_of, last_changes

NEWEST = fl.Query(attributes={"heat": "max", "gas": "max"}, id="sensor", time="t", latest=True)


def table(*rows: tuple[int, str, str, float | None, float | None, float | None]) -> pa.Table:
    names = ("time", "id", "change", "probability", "heat", "gas")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    flags = [None if each is None else True for each in columns["probability"]]
    exact = {"arrived": columns["time"], "exact": flags, "within": [0.0] * len(rows)}
    return pa.table({**columns, **exact})


def test_a_gap_of_the_newest_row_does_not_show_what_an_earlier_row_of_the_id_had():
    reported = table((1, "a", "enter", 1.0, 30.0, 2.0), (2, "a", "update", 0.75, None, 2.5))
    (row,) = answer_of([reported], NEWEST).to_pylist()
    assert (row["heat"], row["gas"], row["probability"]) == (None, 2.5, 0.75)


def test_the_last_change_of_a_row_may_be_its_leave():
    reported = table((1, "a", "enter", 1.0, 1.0, 1.0), (1, "b", "enter", 1.0, 2.0, 0.0), (2, "a", "leave", *[None] * 3))
    assert [(row["id"], row["change"]) for row in last_changes(reported, NEWEST).to_pylist()] == [
        ("a", "leave"),
        ("b", "enter"),
    ]
