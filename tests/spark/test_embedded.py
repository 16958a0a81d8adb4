"""Do both engines report the same changes, at every tick, and explain them alike?"""

from __future__ import annotations

import pytest

from fogline.pipeline.names import NEAR, VIEWS
from fogline.runs.config import EMBEDDED, SPARK
from fogline.spark.running import Run
from tests.flow.embedding import CASES, config_of, reported, run, write_stream


@pytest.mark.parametrize("name", ["timestamps", "lateness", "sensors, with hindsight", "the newest of each id"])
def test_both_engines_report_the_same_changes(spark, tmp_path, name):
    case, explain = CASES[name], name != "timestamps"
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, EMBEDDED, explain=explain), files_per_batch=3)
    started = Run(spark, config_of(case, tmp_path, SPARK, SPARK, explain=explain)).start(files_per_batch=3)
    assert started.awaitTermination(300)
    assert len(reported(tmp_path / EMBEDDED)) > 20
    for kind in ("changes", "rejects", *VIEWS):
        assert reported(tmp_path / EMBEDDED, kind) == reported(tmp_path / SPARK, kind)
    assert bool(reported(tmp_path / SPARK, NEAR)) == explain
