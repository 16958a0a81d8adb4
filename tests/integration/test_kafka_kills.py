"""From topic to topic: is what comes out what a Monitor reports, exactly once, whatever is killed meanwhile?

200,000 rows with gaps go in, in two partitions; `fogline run` reads them and writes changes into a folder and into a
topic. What readers of committed messages see must be the changes that a Monitor reports of the same rows.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from benchmarks.crash import is_worker
from benchmarks.fit import below
from fogline.synthetic import Stream, rows
from tests.integration.components.kafka import Broker

PARTITIONS = 2
MADE = Stream(d=3, missing=0.3, m=1, seed=3, rate=50, groups=3)
QUERY = "attributes: {a0: max, a1: max, a2: max}\nid: id\ntime: time\nlifetime: 40\nby: [site]\n"
COLUMNS = ("time", "site", "id", "arrived", "change", "probability", "probability_error", "a0", "a1", "a2")


class Case:
    """A topic full of rows, a question, a repository, and what a Monitor reports."""

    def __init__(self, broker: Broker, root: Path, name: str, count: int, per_batch: int) -> None:
        self.broker, self.root, self.name, self.per_batch = broker, root, name, per_batch
        self.table = pa.Table.from_batches([rows(MADE, 0, count)])
        (root / "q.yaml").write_text(QUERY)
        self.query = fl.Query.load(root / "q.yaml")
        past = Stream(d=3, missing=0.0, seed=3, rate=50, groups=3)
        rules = ["a1(0.001) -> a0(0.001)", "a0(0.001) -> a1(0.001)", "a0(0.001) -> a2(0.001)"]
        history = pa.Table.from_batches([rows(past, 10**6, 10**6 + 5000)])
        fl.Repository.fit(history, self.query, rules=rules).save(root / "repo")
        broker.create(f"{name}-in", partitions=PARTITIONS)
        values = (json.dumps(row).encode() for row in self.table.to_pylist())
        broker.send(f"{name}-in", values, partition=lambda i: i % PARTITIONS)

    def command(self, output: str, *more: str) -> list[str]:
        stream, out = self.broker.url(f"{self.name}-in"), self.broker.url(output)
        words = ["run", stream, "-q", "q.yaml", "-r", "repo", "-o", output, "--to", out, "--lateness", "2"]
        words += ["--max-rows-per-batch", str(self.per_batch), "--master", "local[2,8]", *more]
        return [sys.executable, "-c", "from fogline.cli import app; app()", *words]

    def start(self, output: str, *more: str) -> subprocess.Popen[bytes]:
        with (self.root / f"{output}.log").open("ab") as log:
            words = self.command(output, *more)
            return subprocess.Popen(words, cwd=self.root, start_new_session=True, stdout=log, stderr=log)

    def finish(self, output: str, *more: str) -> str:
        ended = self.start(output, *more).wait(600)
        text = (self.root / f"{output}.log").read_text()
        assert ended == 0, text[-3000:]
        return text

    def reported(self, output: str) -> list[tuple[Any, ...]]:
        """The changes in the topic, in the order of their batches and positions; each must be there once."""
        found = [json.loads(message.value()) for message in self.broker.read(output)]
        names = [(row["batch"], row["position"]) for row in found]
        assert len(set(names)) == len(names), "a change is there twice"
        return [tuple(row[name] for name in COLUMNS) for _, row in sorted(zip(names, found, strict=True), key=_first)]

    def folder(self, output: str) -> list[tuple[Any, ...]]:
        """The changes in the output folder."""
        table = pq.read_table(self.root / output / "changes").select(COLUMNS)
        return [tuple(row.values()) for row in table.to_pylist()]

    def expected(self, output: str) -> list[tuple[Any, ...]]:
        """What a Monitor reports that gets the rows as batches had them, clock by clock."""
        text = self.table.set_column(0, "id", self.table["id"].cast(pa.string()))  # as names and times of messages are
        text = text.set_column(1, "time", text["time"].cast(pa.float64()))
        repository = fl.Repository.load(self.root / "repo")
        found = []
        for site in sorted(set(text["site"].to_pylist())):
            monitor = fl.Monitor(self.query, repository)
            of_site = text.filter(pc.equal(text["site"], site))
            last = pc.max(of_site["time"]).as_py() - 2  # lateness
            due = of_site.filter(pc.less_equal(of_site["time"], last))
            table = monitor.advance(last, due)
            found += [tuple(row.values()) for row in table.select(COLUMNS).to_pylist()]
        return found

    def check(self, output: str) -> None:
        """Topic, folder and Monitor agree, change by change."""
        in_topic = sorted(self.reported(output), key=repr)
        assert in_topic == sorted(self.folder(output), key=repr)
        assert in_topic == sorted(self.expected(output), key=repr)


def _first(pair: Any) -> Any:
    return pair[0]


def small(broker: Broker, root: Path, name: str, count: int = 6_000, per_batch: int = 1_000) -> Case:
    return Case(broker, root, name, count, per_batch)


def test_changes_in_the_topic_are_the_monitors_also_after_a_worker_and_a_driver_were_killed(
    broker: Broker, tmp_path: Path
) -> None:
    case, written = small(broker, tmp_path, "short"), tmp_path / "short-out" / "changes"
    broker.create("short-out", partitions=2)
    process = case.start("short-out")
    wait_for(process, lambda: len(list(written.glob("*.parquet"))) >= 1)
    os.kill(next(pid for pid in below(process.pid) if is_worker(pid)), signal.SIGKILL)
    wait_for(process, lambda: len(list(written.glob("*.parquet"))) >= 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    case.finish("short-out")
    case.check("short-out")


def wait_for(process: subprocess.Popen[bytes], what: Callable[[], bool]) -> None:
    limit = monotonic() + 300
    while not what():
        assert process.poll() is None, "it ended before it could be killed"
        assert monotonic() < limit
        sleep(0.02)


DYING = """
import os, signal, sys
from fogline.cli import app
from fogline.sinks.kafka import KafkaSink
when, batch = sys.argv.pop(1), int(sys.argv.pop(1))
calm = KafkaSink._send if when == "middle" else KafkaSink.put
def die(sink, *words):
    calm(sink, *words)
    if when == "middle":
        sink._producer.flush(30)
    if (sink.done or 0) >= batch:
        os.kill(os.getpid(), signal.SIGKILL)
setattr(KafkaSink, "_send" if when == "middle" else "put", die)
app()
"""


def dies(case: Case, output: str, when: str, batch: int) -> None:
    """The driver is killed while a transaction is open, or after it was committed and before Spark knows."""
    command = case.command(output)
    words = [command[0], "-c", DYING, when, str(batch), *command[3:]]
    with (case.root / f"{output}.log").open("ab") as log:
        process = subprocess.Popen(words, cwd=case.root, start_new_session=True, stdout=log, stderr=log)
        assert process.wait(600) == -signal.SIGKILL, (case.root / f"{output}.log").read_text()[-3000:]
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the JVM, which is left behind


@pytest.mark.whole
def test_nothing_is_lost_or_doubled_in_200_000_rows(broker: Broker, tmp_path: Path) -> None:
    case = Case(broker, tmp_path, "calm", 200_000, 25_000)
    broker.create("calm-out", partitions=3)
    case.finish("calm-out")
    case.check("calm-out")


@pytest.mark.whole
def test_drivers_killed_while_and_after_they_write(broker: Broker, tmp_path: Path) -> None:
    case = Case(broker, tmp_path, "drivers", 200_000, 20_000)
    broker.create("drivers-out", partitions=3)
    for k in range(5):
        dies(case, "drivers-out", "middle", k)
        dies(case, "drivers-out", "after", k)
    case.finish("drivers-out")
    case.check("drivers-out")


@pytest.mark.whole
def test_drivers_killed_at_any_moment(broker: Broker, tmp_path: Path) -> None:
    case, chance = Case(broker, tmp_path, "moments", 200_000, 10_000), random.Random(5)
    broker.create("moments-out", partitions=3)
    kills = 0
    while kills < 5:
        process = case.start("moments-out")
        there = len(list((tmp_path / "moments-out" / "health").glob("*.parquet")))
        while process.poll() is None and len(list((tmp_path / "moments-out" / "health").glob("*.parquet"))) <= there:
            sleep(0.02)
        sleep(chance.uniform(0.0, 1.5))
        assert process.poll() is None, "it came to its end before it could be killed often enough"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    case.finish("moments-out")
    case.check("moments-out")


@pytest.mark.whole
def test_python_workers_killed_in_the_middle(broker: Broker, tmp_path: Path) -> None:
    case, chance = Case(broker, tmp_path, "workers", 200_000, 10_000), random.Random(6)
    broker.create("workers-out", partitions=3)
    process, killed, runs = case.start("workers-out"), 0, 0
    while process.poll() is None or process.returncode:
        if process.poll() is not None:  # Spark gives up where one task fails again and again: the same command goes on
            runs += 1
            assert runs < 5, (tmp_path / "workers-out.log").read_text()[-3000:]
            process = case.start("workers-out")
        sleep(chance.uniform(0.3, 1.0))
        there = [pid for pid in below(process.pid) if is_worker(pid)]
        if there and killed < 12 and (tmp_path / "workers-out" / "health").exists():
            os.kill(chance.choice(there), signal.SIGKILL)
            killed += 1
    assert killed >= 5
    case.check("workers-out")


@pytest.mark.whole
def test_brokers_killed_in_the_middle(broker: Broker, tmp_path: Path) -> None:
    case, chance = Case(broker, tmp_path, "brokers", 200_000, 10_000), random.Random(7)
    broker.create("brokers-out", partitions=3)
    kills = runs = 0
    process = case.start("brokers-out")
    while process.poll() is None or kills < 5:
        if process.poll() is not None:  # Spark's source gives up where ours waits: the same command goes on
            runs += 1
            assert runs < 20, (tmp_path / "brokers-out.log").read_text()[-3000:]
            process = case.start("brokers-out")
        there = len(list((tmp_path / "brokers-out" / "health").glob("*.parquet")))
        limit = monotonic() + 90
        while process.poll() is None and monotonic() < limit:
            if len(list((tmp_path / "brokers-out" / "health").glob("*.parquet"))) > there:
                break
            sleep(0.02)
        if process.poll() is None and kills < 5:
            sleep(chance.uniform(0.0, 0.7))
            broker.kill()
            broker.start()
            kills += 1
        elif kills >= 5:
            process.wait(600)
    case.finish("brokers-out")
    case.check("brokers-out")
