"""Are answers exact where a task of a batch is killed, or runs twice at once, once it has written its state?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.attempts import BATCHES
from tests.integration.components.cluster import ROOTS, Cluster, cluster
from tests.integration.scenario import CHANGE, FILES, all_changes, in_order, prepare

LIMIT = 600.0  # seconds


@pytest.fixture(scope="module")
def there() -> Iterator[Cluster]:
    """Two workers; for Spark on two machines, since it starts no second attempt on the machine of the first."""
    with cluster() as found:
        found.add()
        found.add(host="127.0.0.2")
        yield found


@pytest.mark.whole
@pytest.mark.parametrize("how", ["worker", "executor", "straggler"])
def test_state_of_an_attempt_that_was_given_up_is_never_read(there, tmp_path, how):
    prepare(tmp_path)
    paths = os.pathsep.join([*map(str, ROOTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "tests.integration.attempts", str(tmp_path), how, there.url]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(tmp_path.glob("disturbed-*"))) == len(BATCHES)
    reported = [pq.read_table(path) for path in sorted((tmp_path / "reported").glob("*.parquet"))]
    assert in_order(pa.concat_tables(reported), CHANGE) == all_changes()
    assert left_over(tmp_path / "checkpoint"), "no attempt was given up after it had written its state"


def left_over(checkpoint: Path) -> list[Path]:
    """State of attempts that no commit names: files are called BATCH_ID.changelog, and a commit lists its ids."""
    named: set[str] = set()
    for number in range(FILES):
        version, content = (checkpoint / "commits" / str(number)).read_text().splitlines()
        assert version == "v2"
        named |= {each for parts in json.loads(content)["stateUniqueIds"]["0"] for each in parts}
    files = (checkpoint / "state" / "0").glob("*/*_*.changelog")
    return [path for path in files if path.stem.partition("_")[2] not in named]
