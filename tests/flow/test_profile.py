"""Does a dry run count what a stream of changing rows holds?"""

from __future__ import annotations

import pyarrow as pa

import fogline as fl
from fogline.pipeline.plan import make_plan
from fogline.runs.profile import profiled


def test_removals_are_counted_and_lack_nothing_and_a_row_may_come_again():
    query = fl.Query(
        attributes={"a": "max"}, id="id", time="t", latest=True, gone={"op": ["d"]}, version="v", remember_removed=5
    )
    rows = pa.table(
        {
            "id": ["x", "x", "y", "y", None, "z"],
            "t": [1, 1, 1, 2, 2, 3],
            "op": ["c", "c", "c", "d", "d", "u"],
            "v": ["1", "1", "x", "2", "3", "4"],
            "a": [1.0, 1.0, 1.0, None, None, 2.0],
        }
    )
    found = profiled(make_plan(query, rows.schema), rows.to_batches())
    assert (found["rows"], found["removals"], found["rejected"], found["missing"]["a"]) == (6, 1, 2, 0)
    assert found["complete"] == 3
    assert sorted(reason[:9] for reason in found["reasons"]) == ["the id 'i", "the versi"]
