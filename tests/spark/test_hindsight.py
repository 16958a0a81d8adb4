"""Are gaps revised on Spark as in a monitor, in any order that the lateness allows, and after a restart?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import fogline as fl
from fogline.repository.repository import Repository
from tests.contracts import CLOSE, agree, net
from tests.flow.test_sensors import renamed
from tests.spark.crowd import delayed, write_files
from tests.spark.test_watch import journal_of, kind, run, stream_of
from tests.walks import QUERY, walks

HOLD = 3
FIRST = 2**60  # ids that floating point would merge


def test_with_lateness_rows_know_their_sensors_by_the_moment_they_are_due_also_after_a_restart(spark, tmp_path):
    history, table = (
        renamed(each, FIRST, pa.int64()) for each in (walks(), walks(steps=16, begin=200, gaps=0.4, sensors=12))
    )
    repository = Repository.fit(history, QUERY)
    come, reported = delayed(table, HOLD - 1, seed=3), []
    assert come["t"].to_pylist() != table["t"].to_pylist()
    frame = spark.createDataFrame(table)
    for k in range(2):
        write_files(come.slice(96 * k, 96), tmp_path / "in", 2, start=2 * k)
        rows = stream_of(spark, tmp_path / "in", frame.schema).repartition(2)
        reported += run(journal_of(rows, QUERY, repository, lateness=HOLD), tmp_path)
    end = 215 - HOLD
    expected = fl.Monitor(QUERY, repository).advance(end, table.filter(pc.less_equal(table["t"], end)))
    changes = kind(reported, "changes")
    for time in range(200, end + 1):
        agree(net(changes, until=time), net(expected, until=time), 2.5 * CLOSE)
    health = kind(reported, "health")
    assert pc.sum(health["rows"]).as_py() == table.num_rows
    assert pc.sum(health["revised"]).as_py() > 0
    assert kind(reported, "rejects").num_rows == 0
