"""Does a run on Spark move to another repository as one in this process does, also when it is killed in between?"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from fogline.errors import FoglineError
from fogline.runs.config import SPARK
from fogline.spark.running import Run
from fogline.spark.writing import SparkRun
from tests.flow import moving
from tests.flow.embedding import reported, run
from tests.flow.moving import BORDER, FILES, MOVES, config_of, write_part


def on_spark(spark, config, files_per_batch: int = 1) -> None:
    started = Run(spark, config).start(files_per_batch=files_per_batch)
    assert started.awaitTermination(300)


@pytest.mark.parametrize("name", ["rules, with lateness", "sensors, with hindsight"])
def test_both_engines_move_alike(spark, tmp_path, monkeypatch, name):
    """And on Spark the plug is pulled between a batch's files and its commit, before the move and after it."""
    monkeypatch.setattr(moving, "FILES", 4)
    monkeypatch.setattr(moving, "BORDER", 2)
    move = MOVES[name]
    write_part(move, tmp_path / "in", range(2))
    run(config_of(move, tmp_path, "before", "embedded"), 1)
    on_spark(spark, config_of(move, tmp_path, "before", SPARK, SPARK))
    write_part(move, tmp_path / "in", range(2, 4))
    run(config_of(move, tmp_path, "after", "embedded", accepts=True), 1)
    accepting = config_of(move, tmp_path, "after", SPARK, SPARK, accepts=True)
    with monkeypatch.context() as patched:
        patched.setattr(SparkRun, "_write", _killed(SparkRun._write))
        started = Run(spark, accepting).start(files_per_batch=1)
        with pytest.raises(Exception, match="the plug was pulled"):
            started.awaitTermination(300)
    on_spark(spark, accepting)
    assert len(reported(tmp_path / SPARK)) > 20
    for kind in ("changes", "rejects"):
        assert reported(tmp_path / "embedded", kind) == reported(tmp_path / SPARK, kind)
    about = [json.loads((tmp_path / each / "about.json").read_bytes()) for each in ("embedded", SPARK)]
    assert about[0]["repositories"] == about[1]["repositories"]


def _killed(write):
    def done(self, batch, number):
        write(self, batch, number)
        raise RuntimeError("the plug was pulled")

    return done


def test_a_batch_that_spark_has_begun_is_finished_by_the_old_repository(spark, tmp_path, monkeypatch):
    move = MOVES["rules"]
    write_part(move, tmp_path / "in", range(BORDER - 1))
    on_spark(spark, config_of(move, tmp_path, "before", SPARK, SPARK), files_per_batch=BORDER - 1)
    write_part(move, tmp_path / "in", range(BORDER - 1, BORDER))
    with monkeypatch.context() as patched:
        patched.setattr(SparkRun, "_write", _killed(SparkRun._write))
        started = Run(spark, config_of(move, tmp_path, "before", SPARK, SPARK)).start()
        with pytest.raises(Exception, match="the plug was pulled"):
            started.awaitTermination(300)
    written = reported(tmp_path / SPARK)
    write_part(move, tmp_path / "in", range(BORDER, FILES))
    with pytest.raises(FoglineError, match="begun with another repository"):
        Run(spark, config_of(move, tmp_path, "after", SPARK, SPARK)).start()
    on_spark(spark, config_of(move, tmp_path, "after", SPARK, SPARK, accepts=True), files_per_batch=10)
    found = reported(tmp_path / SPARK)
    assert set(written) < set(found)
    about = json.loads((tmp_path / SPARK / "about.json").read_bytes())
    assert [each["since"] for each in about["repositories"]] == [0, 2]
    table = pq.read_table(tmp_path / SPARK / "changes")
    assert moving.as_expected(table, move) > 30
