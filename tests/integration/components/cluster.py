"""A standalone cluster of Spark on this machine: a master and workers of one core, each with what it cannot see.

A worker may lie in a mount namespace of its own, in which folders are hidden behind empty ones and files replaced by
others: so it is another machine as far as files go.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import pyspark
import pytest

import fogline
from fogline.errors import FoglineError
from fogline.spark.java import find_java
from tests.integration.components.postgres import free_port

SPARK = Path(pyspark.__file__).parent
ROOTS = (Path(__file__).parents[3], Path(fogline.__file__).parents[1])  # where `tests` and `fogline` are imported from
MEMORY = "1g"
PATIENCE = 60.0


@dataclass
class Machine:
    """A worker: its process, which starts executors, and what it sees instead of what is there."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self.folder / "log").read_text(errors="replace")

    def executors(self) -> list[int]:
        """The executors that run there now."""
        return [pid for pid in _below(self.process.pid) if b"CoarseGrainedExecutorBackend" in _command(pid)]

    def kill_executors(self) -> int:
        """SIGKILL to what runs there; the worker starts others. How many there were."""
        pids = self.executors()
        for pid in pids:
            _kill(pid)
        return len(pids)

    def kill(self) -> None:
        """SIGKILL to the worker and all that it has started: the machine is gone."""
        for pid in [self.process.pid, *_below(self.process.pid)]:
            _kill(pid)
        self.process.wait()


@dataclass
class Cluster:
    """A master, and workers that come and go."""

    folder: Path
    port: int
    environment: dict[str, str]
    master: subprocess.Popen[bytes]
    machines: list[Machine] = field(default_factory=list)

    @property
    def url(self) -> str:
        """What --master is given."""
        return f"spark://127.0.0.1:{self.port}"

    def add(
        self, hidden: Iterable[Path] = (), replaced: Mapping[Path, Path] | None = None, host: str = "127.0.0.1"
    ) -> Machine:
        """One more worker; some folders are empty there, and some files are others. It is known to the master."""
        folder = Path(tempfile.mkdtemp(prefix="worker-", dir=self.folder))
        port = free_port()
        words = ["--host", host, "--port", str(port), "--webui-port", "0", "--cores", "1", "--memory", MEMORY]
        words = ["org.apache.spark.deploy.worker.Worker", *words, "--work-dir", str(folder / "work"), self.url]
        mounts = [*((_empty(folder, each), each) for each in hidden)]
        mounts += [(there, each) for each, there in (replaced or {}).items()]
        if mounts and os.getuid() != 0:
            pytest.skip("a worker that does not see some folders needs a mount namespace: run as root.")
        environment = self.environment | {"SPARK_LOCAL_IP": host}
        process = _started(_within(mounts, [str(SPARK / "bin/spark-class"), *words]), folder, environment)
        machine = Machine(folder, port, process)
        self.machines.append(machine)
        _wait(lambda: "Successfully registered with master" in machine.log, machine)
        return machine

    def stop(self) -> None:
        """All of it ends."""
        for machine in self.machines:
            machine.kill()
        for pid in [self.master.pid, *_below(self.master.pid)]:
            _kill(pid)
        self.master.wait()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A master without workers; skipped, with the way out, where there is no Java."""
    try:
        java = find_java()
    except FoglineError as error:
        pytest.skip(str(error))
    folder, port = Path(tempfile.mkdtemp(prefix="fogline-cluster-")), free_port()
    environment = {
        **os.environ,
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(map(str, ROOTS))),
    }
    (folder / "master").mkdir()
    words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    master = _started([str(SPARK / "bin/spark-class"), *words], folder / "master", environment)
    there = Cluster(folder, port, environment, master)
    try:
        log = folder / "master" / "log"
        _wait(lambda: "New state: ALIVE" in log.read_text(errors="replace"), Machine(folder / "master", port, master))
        yield there
    finally:
        there.stop()
        shutil.rmtree(folder, ignore_errors=True)


def python_at(path: Path, python: str = sys.executable) -> Path:
    """A Python under a path of our own, so that a worker may have another one there."""
    path.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    path.chmod(0o755)
    return path


def other_python() -> str:
    """A Python of another version than this; skipped where there is none."""
    here = sys.version_info.minor
    names = [f"python3.{minor}" for minor in (here + 1, here + 2, here - 1)]
    beside = [str(path) for name in names for path in Path(sys.base_prefix).parent.glob(f"*/bin/{name}")]
    for found in [*filter(None, map(shutil.which, names)), *beside]:
        if subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip(f"there is no other Python than 3.{here}: apt-get install python3.{here + 1}")


def places_of_package() -> list[Path]:
    """What hides Fogline from a Python that is started as this one is."""
    found = [Path(each) for each in dict.fromkeys(sys.path) if (Path(each) / "fogline/__init__.py").exists()]
    return [each / "fogline" if each.name == "site-packages" else each for each in found]


def _within(mounts: list[tuple[Path, Path]], command: list[str]) -> list[str]:
    if not mounts:
        return command
    lines = [f"mount --bind '{there}' '{path}'" for there, path in mounts]
    script = " && ".join([*lines, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command]


def _empty(folder: Path, hidden: Path) -> Path:
    empty = folder / f"empty{abs(hash(str(hidden)))}"
    empty.mkdir()
    return empty


def _started(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    more = {"SPARK_LOCAL_DIRS": str(folder / "local"), "TMPDIR": str(folder)}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment | more)


def _wait(done: Callable[[], bool], machine: Machine) -> None:
    limit = monotonic() + PATIENCE
    while not done():
        if machine.process.poll() is not None or monotonic() > limit:
            raise RuntimeError(f"a process of the cluster did not start:\n{machine.log[-3000:]}")
        sleep(0.05)


def _below(pid: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(each.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(each.parent.name))
    found, queue = [], [pid]
    while queue:
        queue += children.get(queue[0], [])
        found += children.get(queue.pop(0), [])
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
