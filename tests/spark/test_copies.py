"""Does a copy that the state refuses drop no other row, on Spark?"""

from __future__ import annotations

import pyarrow as pa

import fogline as fl
from fogline.rows.names import DUPLICATE
from tests.contracts import net
from tests.spark.crowd import write_files
from tests.spark.test_watch import journal_of, kind, run, stream_of


def test_a_copy_that_the_state_refuses_drops_no_other_row(spark, tmp_path):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10)
    first = pa.table({"id": [7], "t": [5], "a": [1.0]})
    then = pa.table({"id": [7, 8], "t": [5, 5], "a": [100.0, 50.0]})
    for k, table in enumerate((first, then)):
        write_files(table, tmp_path / "in", 1, start=k)
    stream = stream_of(spark, tmp_path / "in", spark.createDataFrame(first).schema)
    tables = run(journal_of(stream, query), tmp_path)
    assert {name[0] for name in net(kind(tables, "changes"))} == {8}
    assert kind(tables, "rejects")["reason"].to_pylist() == [DUPLICATE]
