"""Does a Python worker ever fail to start?

Workers are forked from a daemon that has imported Fogline. A fork while other threads run may copy a lock that one of
them holds, and the worker waits for it: rarely, and for ever. Here the daemon is started as Spark's JVM starts it, and
asked for thousands of workers, none of which is used twice. Each does what a worker does first (a product of matrices,
a sum by Arrow, a compiled kernel) and reports; one that has not after a minute hangs.

    python -m benchmarks.forks --starts 10000
    python -m benchmarks.forks --spark 300

The second asks Spark itself, for one task per worker.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.kernels.dominance import dominates

PATIENCE = 60.0  # seconds for one worker
DONE = 7


def first_steps(infile: Any, outfile: Any) -> None:
    """What stands in for a task."""
    outfile.write(struct.pack("!i", DONE if first_work() else 0))
    outfile.flush()


def first_work() -> bool:
    """Whether NumPy, Arrow and a kernel give what they should."""
    x = np.random.default_rng().random((300, 300))  # OpenBLAS would share this among its threads
    return bool(np.isfinite((x @ x).sum())) and pc.sum(pa.array(x[0])).as_py() > 0 and bool(dominates(x + 1, 0, x, 0))


def daemon() -> None:
    """Be the daemon, with those steps for a task."""
    import pyspark.worker

    from fogline.spark.daemon import serve

    pyspark.worker.main = first_steps
    serve()


class Daemon:
    """Fogline's daemon, started as the JVM does."""

    def __init__(self, process: subprocess.Popen[bytes], path: str) -> None:
        self.process, self.path = process, path

    def start_worker(self) -> bool:
        """Fork one, and wait until it has done its work; False if it hangs, and is killed."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(PATIENCE)
            try:
                sock.connect(self.path)
                pid = self._int(sock)
            except TimeoutError:
                return False
            try:
                return self._int(sock) == DONE
            except TimeoutError:
                assert self.process.stdin is not None
                self.process.stdin.write(struct.pack("!i", pid))
                self.process.stdin.flush()
                return False

    @staticmethod
    def _int(sock: socket.socket) -> int:
        found = b""
        while len(found) < 4:
            piece = sock.recv(4 - len(found))
            if not piece:
                raise EOFError("the worker ended before it had reported")
            found += piece
        return int(struct.unpack("!i", found)[0])

    def threads(self) -> list[str]:
        """The threads from which workers are forked."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sorted(each.joinpath("comm").read_text().strip() for each in tasks)


@contextmanager
def started(command: list[str], folder: Path, **env: str) -> Iterator[Daemon]:
    """A daemon that ends as Spark ends it: when its stdin is closed."""
    spark = {"PYTHON_UNIX_DOMAIN_ENABLED": "True", "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder)}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **spark, **env}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        length = struct.unpack("!i", process.stdout.read(4))[0]
        yield Daemon(process, process.stdout.read(length).decode())
    finally:
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()


def on_spark(tasks: int) -> None:
    """So many tasks, each in a worker of its own."""
    from fogline.spark.session import session

    spark = session(master="local[2]", settings={"spark.python.worker.reuse": False})

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from benchmarks.forks import first_work  # by name: a kernel that is sent with the code is compiled there

        for _ in batches:
            yield pa.record_batch([pa.array([os.getpid()]), pa.array([first_work()])], ["process", "good"])

    began = time.perf_counter()
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(task, "process long, good boolean").collect()
    processes, good = len({row.process for row in rows}), sum(row.good for row in rows)
    print(f"{tasks:,} tasks in {processes:,} processes, {good:,} good, {time.perf_counter() - began:.0f} s", flush=True)
    spark.stop()


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--starts", type=int, default=10_000)
    asked.add_argument("--at-once", type=int, default=4)
    asked.add_argument("--spark", type=int, default=0, help="so many tasks through Spark instead")
    asked.add_argument("--daemon", action="store_true", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.daemon:
        return daemon()
    if given.spark:
        return on_spark(given.spark)
    dominates(np.ones((1, 1)), 0, np.zeros((1, 1)), 0)  # compiled once, as `fogline warm` would
    command = [sys.executable, "-m", "benchmarks.forks", "--daemon"]
    with TemporaryDirectory() as folder, started(command, Path(folder)) as serving:
        print(f"forked from {len(serving.threads())} thread: {', '.join(serving.threads())}", flush=True)
        began, good = time.perf_counter(), 0
        with ThreadPoolExecutor(given.at_once) as pool:
            for k, fine in enumerate(pool.map(lambda _: serving.start_worker(), range(given.starts)), 1):
                good += fine
                if k % 1000 == 0 or k == given.starts:
                    seconds = time.perf_counter() - began
                    print(f"{k:,} starts, {k - good:,} hung, {seconds:.0f} s", flush=True)
    sys.exit(good != given.starts)


if __name__ == "__main__":
    main()
