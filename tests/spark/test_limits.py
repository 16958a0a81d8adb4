"""Do limits hold on Spark as they do in one process, and is nothing lost when they stop a run?"""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from fogline.errors import LimitError
from fogline.output.about import read_alarms
from fogline.output.folder import LocalFolder
from fogline.pipeline.limits import GroupLimits
from fogline.runs import taken
from fogline.runs.config import SPARK
from fogline.spark import files
from fogline.spark.errors import plainly
from fogline.spark.running import Run
from tests.flow.embedding import config_of, reported, write_stream
from tests.flow.test_limits import SITES, begun


def test_a_group_beyond_a_limit_stops_a_run_and_with_a_higher_one_it_goes_on_exactly(spark, tmp_path):
    write_stream(SITES, tmp_path / "in")
    begun(config_of(SITES, tmp_path, "calm"), files=1)
    limits = {"max_live": GroupLimits(max_live=150), "max_state": GroupLimits(max_state=90_000)}
    done = 0
    for name, each in limits.items():
        running = Run(spark, config_of(SITES, tmp_path, engine=SPARK, limits=each))
        expected = f"the group site north has .* of {name} .*--{name.replace('_', '-')}"
        with pytest.raises(LimitError, match=expected), plainly():
            running.start(files_per_batch=1).awaitTermination()
        before, done = done, len(list((tmp_path / "out" / "changes").glob("*.parquet")))
        assert before < done < SITES.files
    higher = GroupLimits(max_live=400, when_full="warn")
    Run(spark, config_of(SITES, tmp_path, engine=SPARK, limits=higher)).start(files_per_batch=1).awaitTermination()
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")
    assert [each.group for each in read_alarms(LocalFolder(tmp_path / "out"))] == ["the group site north"]


def test_a_batch_takes_files_of_about_so_many_rows(tmp_path):
    write_stream(SITES, tmp_path / "in")
    paths, remarks = sorted((tmp_path / "in").iterdir()), list[str]()
    each = sum(path.stat().st_size for path in paths) / sum(pq.read_metadata(path).num_rows for path in paths)
    assert files.limit_of(str(tmp_path / "in"), None, 200, remarks.append) == ("maxBytesPerTrigger", int(200 * each))
    assert not remarks
    assert files.limit_of(str(tmp_path / "in"), None, 50, remarks.append) == ("maxBytesPerTrigger", int(50 * each))
    assert "000.parquet" in remarks[0]
    assert "more than about 50 rows" in remarks[0]
    assert files.limit_of(str(tmp_path / "in"), 3, None, remarks.append) == ("maxFilesPerTrigger", 3)
    assert files.limit_of(str(tmp_path / "in"), None, None, remarks.append)[1] <= taken.BATCH
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.csv").write_text("id,t\n" + "abc,1\n" * 100_000)
    assert files.limit_of(str(tmp_path / "text"), None, 1_000, remarks.append)[1] == pytest.approx(6_000, rel=0.01)
