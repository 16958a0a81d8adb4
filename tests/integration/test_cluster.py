"""On a cluster of two workers: does the preflight name what one of them lacks, and do kills change nothing?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import fogline
from tests.integration.components.cluster import (
    ROOTS,
    Cluster,
    Machine,
    cluster,
    other_python,
    places_of_package,
    python_at,
)
from tests.integration.scenario import CHANGE, FILES, QUERY, all_changes, in_order, prepare

COMMAND = [sys.executable, "-c", "from fogline.cli import app; app()"]
SETTINGS = {"spark.executor.memory": "700m", "spark.executor.cores": "1", "spark.cores.max": "2"}
LIMIT = 600.0  # seconds for a run


@pytest.fixture(scope="module")
def there() -> Iterator[Cluster]:
    """A cluster with one worker that sees all; each test adds another, and takes it away."""
    with cluster() as found:
        found.add()
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream, a repository, a query, and a Python under a path of its own."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    prepare(folder)
    (folder / "q.yaml").write_text(yaml.safe_dump(QUERY.to_dict(), allow_unicode=True))
    python_at(folder / "python")
    return folder


def started(there: Cluster, place: Path, out: str, *more: str, repository: str = "repository") -> subprocess.Popen[str]:
    conf = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
    words = ["run", "in", "-q", "q.yaml", "-r", repository, "-o", out, "--files-per-batch", "1", "--master", there.url]
    paths = {"PYTHONPATH": os.pathsep.join(map(str, ROOTS)), "PYSPARK_PYTHON": str(place / "python")}
    environment = {**os.environ, **paths, "SPARK_LOCAL_IP": "127.0.0.1", "FOGLINE_REPOSITORIES": str(place / "cache")}
    command, merged = [*COMMAND, *words, *conf, *more], subprocess.STDOUT
    return subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=merged, text=True)


def refused(there: Cluster, place: Path, out: str, machine: Machine) -> str:
    """What a run prints that does not begin; the worker goes."""
    try:
        run = started(there, place, out)
        printed, _ = run.communicate(timeout=LIMIT)
    finally:
        machine.kill()
        there.machines.remove(machine)
    assert run.returncode == 2, printed
    assert not list((place / out).glob("changes/*"))
    return str(printed)


def changes_of(folder: Path) -> list[tuple[object, ...]]:
    files = sorted((folder / "changes").glob("*.parquet"))
    return in_order(pa.concat_tables([pq.read_table(path) for path in files]), CHANGE)


def test_an_output_that_is_not_shared_is_named_before_the_first_batch(there, place):
    (place / "unshared").mkdir()
    printed = refused(there, place, "unshared", there.add(hidden=[place / "unshared"]))
    assert "FoglineError: 127.0.0.1 (executor " in printed
    assert f"does not see the output '{place}/unshared' that this driver writes: it must lie in a folder" in printed
    assert printed.count("does not see") == 1  # the other worker does


@pytest.mark.whole
def test_a_worker_without_the_package_is_named(there, place):
    printed = refused(there, place, "no-package", there.add(hidden=places_of_package()))
    assert "FoglineError: 127.0.0.1 (executor " in printed
    assert "has no package 'fogline'" in printed
    assert f"Install fogline[spark] {fogline.__version__} there, or set PYSPARK_PYTHON" in printed


@pytest.mark.whole
def test_a_worker_with_another_python_is_named(there, place):
    other = python_at(place / "other", other_python())
    printed = refused(there, place, "other-python", there.add(replaced={place / "python": other}))
    assert "FoglineError: 127.0.0.1 (executor " in printed
    assert f"and this driver 3.{sys.version_info.minor}: set PYSPARK_PYTHON" in printed


@pytest.mark.whole
def test_a_worker_without_the_repository_is_named(there, place):
    printed = refused(there, place, "no-repository", there.add(hidden=[place / "repository"]))
    assert "FoglineError: 127.0.0.1 (executor " in printed
    assert f"in '{place}/repository', which this run is given: copy the folder to the same path there" in printed


@pytest.mark.whole
def test_killed_executors_and_workers_change_nothing(there, place):
    second = there.add()
    run, kills = started(there, place, "killed"), 0
    for k in range(6):
        wait_for_batches(run, place / "killed", 1 + k)
        sleep(0.4 * (k % 3))  # early and late in a batch
        if k == 3:
            second.kill()
            there.machines.remove(second)
            second = there.add()
            kills += 1
        else:
            kills += (second if k % 2 else there.machines[0]).kill_executors() > 0
    printed, _ = run.communicate(timeout=LIMIT)
    assert run.returncode == 0, printed
    assert kills >= 5
    assert changes_of(place / "killed") == all_changes()
    second.kill()
    there.machines.remove(second)


@pytest.mark.whole
def test_a_repository_in_another_file_system_reaches_workers_that_do_not_see_it(there, place):
    """`viewfs` stands for hdfs: a name that only Hadoop understands, here for a folder of this machine."""
    machine = there.add(hidden=[place / "repository"])
    try:
        mount = f"spark.hadoop.fs.viewfs.mounttable.plant.link./data=file://{place}"
        more = ["--conf", mount]
        run = started(there, place, "fetched", *more, repository="viewfs://plant/data/repository")
        printed, _ = run.communicate(timeout=LIMIT)
    finally:
        machine.kill()
        there.machines.remove(machine)
    assert run.returncode == 0, printed
    assert changes_of(place / "fetched") == all_changes()


def wait_for_batches(run: subprocess.Popen[str], out: Path, count: int) -> None:
    """Until so many batches are committed, and one is under way."""
    limit = monotonic() + LIMIT
    while len(list((out / "checkpoint" / "commits").glob("[0-9]*"))) < min(count, FILES - 1):
        assert run.poll() is None, run.communicate()[0]
        assert monotonic() < limit
        sleep(0.05)
