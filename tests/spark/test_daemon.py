"""Can workers be forked at any time, and can no one else talk to them?"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.forks import started
from fogline.spark import daemon
from fogline.spark.workers import QUIET, threads
from tests.spark.conftest import ROOTS

COMMAND = [sys.executable, "-m", "benchmarks.forks", "--daemon"]
on_linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed in /proc only")


@pytest.fixture
def folder():
    """A folder whose path is short: those of sockets may not be long."""
    with TemporaryDirectory(prefix="d") as path:
        yield Path(path)


def environment(**more: str) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(map(str, ROOTS)), **more}


@on_linux
@pytest.mark.parametrize(
    "given", [QUIET, {"OPENBLAS_NUM_THREADS": "4", "JE_ARROW_MALLOC_CONF": ""}], ids=["our session", "another session"]
)
def test_workers_are_forked_by_a_daemon_with_one_thread(folder, given):
    with started(COMMAND, folder, **environment(**given)) as serving:
        assert len(serving.threads()) == 1
        assert all(serving.start_worker() for _ in range(3))


def test_sockets_of_workers_lie_where_only_their_user_can_go(folder):
    folder.chmod(0o755)
    with started(COMMAND, folder, **environment(**QUIET)) as serving:
        lie = Path(serving.path).parent
        assert stat.S_IMODE(lie.stat().st_mode) == 0o700
        assert serving.start_worker()
    assert not lie.exists()


def test_a_daemon_with_threads_gives_way_to_pysparks_own_and_reports_it(monkeypatch, capsys):
    became = []
    monkeypatch.setattr(daemon, "threads", lambda: ["python", "busy"])
    monkeypatch.setattr(os, "execv", lambda *command: became.append(command))
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    daemon._start_with_fewer_threads()
    assert became[0][1][1:3] == ["-m", "pyspark.daemon"]
    assert "has 2 threads (python, busy) and cannot be forked safely" in capsys.readouterr().err


@on_linux
def test_threads_of_which_python_does_not_know_are_counted():
    assert len(threads()) == len(list(Path("/proc/self/task").iterdir()))


def draws(batches):
    for batch in batches:
        numbers = np.random.mtrand._rand.randint(0, 2**60, batch.num_rows)  # the state that all of NumPy shares
        yield batch.set_column(0, "id", pa.array(numbers))


def test_workers_do_not_draw_the_same_random_numbers(spark):
    rows = spark.range(0, 2, 1, 2).mapInArrow(draws, "id long").collect()
    assert len({row.id for row in rows}) == 2
