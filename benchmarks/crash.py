"""Is every change reported exactly once when the power fails?

    python -m benchmarks.crash --kills 10 [--living [--lateness 5]] [--latest] [--worker-kills 40] [--embedded]

One stream of files is run undisturbed. The same stream is run again, and its driver (Python and JVM) is killed with
SIGKILL at random moments, each time resumed by the same command; then once more while Python workers are killed with
SIGKILL, with task retries on. The changes, read through Spark, must be the same rows. `--living`: rows are readings of
sensors with gaps, which are revised when the sensor has spoken again; with `--lateness`, where their groups are.
`--latest`: only the newest row of each id counts; of the ids, over a thousand in each group, some are removed.
`--embedded`: the engine is one process, a fork of one that has its kernels at hand; its changes must also be those of
Spark.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import fogline as fl
from benchmarks.fit import below
from fogline.pipeline.names import LOCK
from fogline.synthetic import Stream, rows
from tests.chaos.zygote import Started, run_inside
from tests.chaos.zygote import start as fork

FILES, ROWS, SENSORS = 40, 500, 90
IDS = 4_500  # of which the newest row counts, in three groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--living", action="store_true", help="rows are readings of sensors, which are remembered")
    parser.add_argument("--lateness", type=int, default=0)
    parser.add_argument("--latest", action="store_true", help="the newest row of each id counts, and ids are removed")
    parser.add_argument("--worker-kills", type=int, default=0, help="at least so many, in as many runs as it takes")
    parser.add_argument("--embedded", action="store_true", help="the embedded engine is killed, not Spark")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root, asked.living, asked.latest)
        words = ["-q", "q.yaml", "-r", "repo", "--files-per-batch", "2", "--lateness", str(asked.lateness)]
        start = partial(forked if asked.embedded else started, root, words)
        run = partial(finished, start)
        compare = partial(same, root, "calm", read=by_arrow if asked.embedded else by_spark)
        if asked.embedded:
            run_inside(["run", "in", *words, "-o", "cold", "--engine", "embedded"], root)
        process = start("calm")
        began = at_work(root, process, "calm") if asked.embedded else monotonic()
        ended(process, "calm")
        if asked.living and not asked.latest:
            count_revised(root)
        whole = monotonic() - began
        kills = tries = 0
        while kills < asked.kills:
            process = start("crashed")
            began = at_work(root, process, "crashed") if asked.embedded else monotonic()
            moment = chance.uniform(0.0 if asked.embedded else 0.2, 1.0) * whole
            while process.poll() is None and monotonic() - began < moment:
                sleep(0.005)
            tries += 1
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
                print(f"killed after {monotonic() - began:.1f} s, {batches(root / 'crashed')} batches written")
            elif kills < asked.kills:  # it came to its end: begin again elsewhere, for more kills
                compare("crashed")
                shutil.rmtree(root / "crashed")
        run("crashed")
        compare("crashed")
        print(f"{kills} kills of the {'engine' if asked.embedded else 'driver'}: the changes are those of the calm run")
        if asked.embedded:
            finished(partial(started, root, words), "spark")
            return same(root, "spark", "calm")
        killed = workers(root, start, chance, "workers")
        while killed < asked.worker_kills:
            killed += workers(root, start, chance, f"workers-{killed}")
        print(f"{killed} kills of Python workers in all")


def prepare(root: Path, living: bool, latest: bool) -> None:
    """A stream of files with gaps, a history and a question."""
    made = Stream(d=3, missing=0.3, m=1, seed=3, rate=50, groups=3)
    (root / "in").mkdir()
    for k in range(FILES):
        batch = pa.Table.from_batches([rows(made, k * ROWS, (k + 1) * ROWS)])
        path = root / "in" / f"{k:03}.parquet"
        batch = wandering(batch) if living else batch
        pq.write_table(changing(batch, k) if latest else batch, path)
        os.utime(path, (1e9 + k, 1e9 + k))  # Spark takes files in the order of these times, and equal ones in any
    past = Stream(d=3, missing=0.0, seed=3, rate=50, groups=3)
    history = pa.Table.from_batches([rows(past, 10**6, 10**6 + 5000)])
    life = "latest: true\ngone: gone\nversion: v\nremember_removed: 30\n" if latest else "lifetime: 40\n"
    (root / "q.yaml").write_text(f"attributes: {{a0: max, a1: max, a2: max}}\nid: id\ntime: time\n{life}by: [site]\n")
    rules = ["a1(0.001) -> a0(0.001)", "a0(0.001) -> a1(0.001)", "a0(0.001) -> a2(0.001)"]
    query = fl.Query.load(root / "q.yaml")
    if not living:
        return fl.Repository.fit(history, query, rules=rules).save(root / "repo")
    repository = fl.Repository.fit(wandering(history), query)
    assert repository.sensors is not None, "nothing was learnt: there would be nothing to remember"
    assert latest or repository.sensors.hindsight, "nothing was learnt from both sides: nothing would be revised"
    repository.save(root / "repo")


def wandering(table: pa.Table) -> pa.Table:
    """The same rows as readings of sensors whose values move with the time."""
    sensor, time = table["id"].to_numpy() % SENSORS, table["time"].to_numpy()
    out = table.set_column(table.schema.get_field_index("id"), "id", pa.array(sensor))
    for j in range(3):
        wave = np.sin(time * (j + 1) / 40 + sensor * (j + 2)) + table[f"a{j}"].to_numpy() / 20
        moved = pa.array(wave, mask=np.isnan(wave))
        out = out.set_column(out.schema.get_field_index(f"a{j}"), f"a{j}", moved)
    return out


def changing(table: pa.Table, k: int) -> pa.Table:
    """The same rows as changes of ids: one in twenty removes its id, and a few come late."""
    number = np.arange(table.num_rows) + k * ROWS
    late = np.where(number % 31 == 0, 3, 0)
    columns = {
        "id": table["id"].to_numpy() % IDS,
        "time": table["time"].to_numpy() - late,
        "v": number,
        "gone": number * 7919 % 20 == 0,
    }
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        table = table.append_column(name, pa.array(column)) if at < 0 else table.set_column(at, name, pa.array(column))
    return table


def count_revised(root: Path) -> None:
    """How many rows were revised in the undisturbed run? Some, or there is nothing to see."""
    health = pq.read_table(root / "calm" / "health")
    revised, clipped = (pc.sum(health[name]).as_py() for name in ("revised", "clipped"))
    print(f"{revised:,} rows were revised, {clipped:.1f} of their probability was clipped")
    if not revised:
        sys.exit("no row was revised")


ERRORS = "stderr"  # what the last run wrote there
Process = subprocess.Popen[bytes] | Started
Start = Callable[..., Process]


def started(root: Path, words: list[str], output: str, master: str = "local[2]") -> Process:
    """`fogline run` on Spark, in a process group of its own."""
    python = [sys.executable, "-c", "from fogline.cli import app; app()"]
    more = ["-o", output, "--master", master, "--engine", "spark"]
    with (root / ERRORS).open("wb") as file:
        return subprocess.Popen([*python, "run", "in", *words, *more], cwd=root, start_new_session=True, stderr=file)


def forked(root: Path, words: list[str], output: str) -> Process:
    """The same with the embedded engine, in a process group of its own that need not import anything."""
    return fork(["run", "in", *words, "-o", output, "--engine", "embedded"], root)


def finished(start: Start, output: str) -> None:
    ended(start(output), output)


def ended(process: Process, output: str) -> None:
    if process.wait():
        sys.exit(f"the run into {output} failed")


def at_work(root: Path, process: Process, output: str) -> float:
    """When this process has begun with its output: half of its time goes by before that."""
    lock = root / output / LOCK
    while process.poll() is None and not (lock.exists() and str(process.pid) in lock.read_text()):
        sleep(0.005)
    return monotonic()


def workers(root: Path, start: Start, chance: random.Random, output: str) -> int:
    """Kill Python workers in the middle of batches; how many were there?"""
    process, killed = start(output, "local[2,8]"), 0
    while process.poll() is None:
        sleep(chance.uniform(0.5, 2.0))
        if batches(root / output) < 1:
            continue
        there = [pid for pid in below(process.pid) if is_worker(pid)]
        if there and process.poll() is None:
            os.kill(chance.choice(there), signal.SIGKILL)
            killed += 1
    if process.wait():
        last = (root / ERRORS).read_text(errors="replace").strip().splitlines()[-5:]
        sys.exit("\n".join([f"after {killed} kills of workers the run failed:", *last]))
    same(root, "calm", output)
    print(f"{killed} kills of Python workers: the changes are those of the undisturbed run")
    return killed


def is_worker(pid: int) -> bool:
    """Forked from Spark's daemon, which is itself a child of the JVM; helpers of the JVM look like it for a moment."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        words = [Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0") for each in (pid, parent)]
        return all(b"python" in each[0] and any(b"spark.daemon" in word for word in each) for each in words)
    except OSError:
        return False


def batches(output: Path) -> int:
    return len(list(output.glob("health/*.parquet")))


Read = Callable[[Path], list[tuple[Any, ...]]]


def by_spark(folder: Path) -> list[tuple[Any, ...]]:
    """The changes, as Spark reads them."""
    return list(map(tuple, fl.spark.session(master="local[2]").read.parquet(str(folder)).collect()))


def by_arrow(folder: Path) -> list[tuple[Any, ...]]:
    """The same as Arrow reads them, in a moment."""
    return [tuple(row.values()) for row in pq.read_table(folder).to_pylist()]


def same(root: Path, one: str, other: str, read: Read = by_spark) -> None:
    """The changes of both."""
    changes = [sorted(read(root / name / "changes"), key=repr) for name in (one, other)]
    if changes[0] != changes[1]:
        sys.exit(
            f"{other}: {len(changes[1])} changes, {len(set(changes[1]) ^ set(changes[0]))} of them differ from {one}"
        )
    print(f"  {len(changes[0]):,} changes, all the same")


if __name__ == "__main__":
    main()
