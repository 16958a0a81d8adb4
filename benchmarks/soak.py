"""Do memory and batch time stay flat for an hour, and is the answer right at its end?

    python -m benchmarks.soak [--minutes 60] [--engine embedded] [--core 0] [--share 0.7] [--plots docs/results/soak]

First the most that `fogline run` takes is measured, over files that are all there. Then a process writes a file every
second, at a share of that, and removes files that are older than three lifetimes; `fogline run --follow` reads
them. Every ten seconds: memory of the driver, the JVM and the Python workers (proportional set size), bytes and files
of the output with its checkpoint; from health: rows, seconds and live rows of each batch. Every `--checks` minutes and
at the end the answer is compared with that of a fresh monitor over the rows of the window alone. In the middle there
is a burst: for `--burst` seconds ten times the rows. With `--core` the run is held to that core of the machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import fogline as fl
from benchmarks.fit import below
from fogline.output.answers import OutputReader, read_answer
from fogline.output.files import counted
from fogline.output.folder import LocalFolder
from fogline.synthetic import Stream, rows

D, LIFETIME, GROUPS, HISTORY, KEEP = 4, 30, 8, 50_000, 300
BACKLOG, FILE = 30, 100_000  # files and their rows, over which the most is measured
EVERY, SPIKE = 10.0, 10  # seconds between looks; how many times the rows a burst has
ROLES = ("driver", "jvm", "workers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--engine", choices=["spark", "embedded"], default="spark")
    parser.add_argument("--share", type=float, default=0.7, help="of the most that was measured")
    parser.add_argument("--rate", type=int, help="rows a second, instead of measuring the most")
    parser.add_argument("--core", help="hold the run to these cores, such as 0 or 0,1")
    parser.add_argument("--checks", type=float, default=10, help="minutes between comparisons with a fresh monitor")
    parser.add_argument("--burst", type=int, default=10, help="seconds of ten times the rows, in the middle; 0: none")
    parser.add_argument("--plots", type=Path, help="write figures and plots into this folder")
    asked = parser.parse_args()
    with suppress(OSError):
        os.setsid()
    prefer()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root)
        most = None if asked.rate else measured(root, asked)
        rate = asked.rate or int(asked.share * (most or 0))
        figures = soaked(root, asked, rate)
        figures |= {"engine": asked.engine, "most": most, "rate": rate, "minutes": asked.minutes}
    summary(figures)
    if asked.plots:
        asked.plots.mkdir(parents=True, exist_ok=True)
        draw(figures, asked.plots)


def prepare(root: Path) -> None:
    """A question, and a repository."""
    names = ", ".join(f"a{j}: max" for j in range(D))
    (root / "q.yaml").write_text(f"attributes: {{{names}}}\nid: id\ntime: time\nlifetime: {LIFETIME}\nby: [site]\n")
    history = pa.Table.from_batches([rows(stream(1_000, missing=0.0), 10**10, 10**10 + HISTORY)])
    rules = [f"a{(j + 1) % D}(0.001) -> a{j}(0.001)" for j in range(D)]
    fl.Repository.fit(history, question(root), rules=rules).save(root / "repo")


def question(root: Path) -> fl.Query:
    return fl.Query.load(root / "q.yaml")


def stream(rate: int, missing: float = 0.3) -> Stream:
    return Stream(d=D, missing=missing, m=1, seed=7, rate=rate, groups=GROUPS)


def command(root: Path, asked: argparse.Namespace, name: str, *more: str) -> list[str]:
    run = [sys.executable, "-c", "from fogline.cli import app; app()", "run", str(root / name / "in")]
    held = ["taskset", "-c", asked.core] if asked.core else []
    spark = ["--memory", "2g", "--master", f"local[{len(asked.core.split(',')) if asked.core else '*'}]"]
    where = ["--query", str(root / "q.yaml"), "--repository", str(root / "repo"), "--output", str(root / name / "out")]
    return [*held, *run, *where, "--engine", asked.engine, *(spark if asked.engine == "spark" else []), *more]


def started(root: Path, line: list[str], name: str) -> subprocess.Popen[bytes]:
    log = (root / f"{name}.log").open("wb")
    return subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=prefer)


def prefer() -> None:
    """Other work on this machine waits for this process and what it starts, where that is allowed."""
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("-15")


def write(rate: int, first: int, last: int, folder: Path, name: str) -> None:
    """Rows by their ids, as a file that is there whole or not at all."""
    fresh = folder / f".{name}.new"
    pq.write_table(pa.Table.from_batches([rows(stream(rate), first, last)]), fresh)
    fresh.rename(folder / name)


def measured(root: Path, asked: argparse.Namespace) -> float:
    """Rows a second, over files that are all there."""
    (root / "most" / "in").mkdir(parents=True)
    for k in range(BACKLOG):
        write(FILE // 2, k * FILE, (k + 1) * FILE, root / "most" / "in", f"{k:06}.parquet")
    process = started(root, command(root, asked, "most", "--files-per-batch", "2"), "most")
    if process.wait():
        sys.exit((root / "most.log").read_text())
    ends = sorted(path.stat().st_mtime for path in (root / "most" / "out" / "health").glob("*.parquet"))
    warm = ends[len(ends) // 3 :]
    most = 2 * FILE * (len(warm) - 1) / (warm[-1] - warm[0])
    print(f"the most: {most:,.0f} rows a second ({len(ends)} batches, the last {len(warm)} count)", flush=True)
    shutil.rmtree(root / "most")
    return most


def soaked(root: Path, asked: argparse.Namespace, rate: int) -> dict[str, Any]:
    """The long run; what was seen of it."""
    place = root / "soak"
    (place / "in").mkdir(parents=True)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(place / "in"), str(rate), *plan(asked)])
    while not any((place / "in").glob("*.parquet")):
        sleep(0.1)
    process = started(root, command(root, asked, "soak", "--follow", "--keep-batches", str(KEEP)), "soak")
    began, marks = time(), [asked.checks * 60 * k for k in range(1, int(asked.minutes / asked.checks) + 1)]
    looks, checks = [], []
    batches: dict[int, dict[str, float]] = {}
    try:
        while time() - began < asked.minutes * 60:
            sleep(EVERY)
            if process.poll() is not None or writer.poll() is not None:
                sys.exit(f"the run or its source ended:\n{(root / 'soak.log').read_text()[-3000:]}")
            looks.append(look(place / "out", process.pid, time() - began))
            batches = dict(of_batches(place / "out", began)) | batches  # joined files are newer than their batches
            if marks and time() - began > marks[0]:
                marks.pop(0)
                checks.append(compared(root, place / "out", rate))
                print(f"{(time() - began) / 60:4.0f} min: {checks[-1]}, {looks[-1]}", flush=True)
    finally:
        writer.kill()
        process.send_signal(signal.SIGINT)
        code = process.wait(120)
    batches = dict(of_batches(place / "out", began)) | batches  # joined files are newer than their batches
    checks.append(compared(root, place / "out", rate))
    log = (root / "soak.log").read_text()[-1500:]
    print(log)
    return {"looks": looks, "batches": list(batches.values()), "checks": checks, "code": code}


def plan(asked: argparse.Namespace) -> list[str]:
    """When the burst begins, and how many seconds it lasts."""
    return [str(int(asked.minutes * 30)), str(asked.burst)]


WRITER = """
import sys, time
from pathlib import Path
from benchmarks.soak import LIFETIME, SPIKE, write
folder, rate, begin, burst = Path(sys.argv[1]), *map(int, sys.argv[2:])
began, k, late = time.time(), 0, 0
while True:
    write(rate, k * rate, (k + 1) * rate, folder, f"{k:06}.parquet")
    gone = folder / f"{k - 3 * SPIKE * LIFETIME:06}.parquet"
    gone.unlink(missing_ok=True)
    k += 1
    elapsed = time.time() - began
    due = k - min(max(elapsed - begin, 0), burst) * (SPIKE - 1)
    if due > elapsed:
        time.sleep(due - elapsed)
"""


def look(out: Path, pid: int, at: float) -> dict[str, float]:
    """Memory of the processes by their roles, and what lies in the output."""
    seen: dict[str, float] = dict.fromkeys(ROLES, 0.0) | {"at": at, "files": 0, "bytes": 0}
    for each in below(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            name = Path(f"/proc/{each}/comm").read_text().strip()
        except OSError:
            continue
        role = "jvm" if name == "java" else "driver" if each == pid else "workers"
        seen[role] += sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
    for folder, _, names in os.walk(out):
        for name in names:
            try:
                seen["bytes"] += os.stat(os.path.join(folder, name)).st_size
                seen["files"] += 1
            except OSError:
                continue
    return {name: round(value, 1) for name, value in seen.items()}


def of_batches(out: Path, began: float) -> Iterator[tuple[int, dict[str, float]]]:
    """Of each batch that health has: rows, seconds, live rows, when it was written."""
    place = LocalFolder(out)
    for held in counted(place.listing("health"))[-60:]:
        for name in held.names:
            try:
                table = pq.read_table(out / name, columns=["batch", "seconds", "rows", "live"])
                when = (out / name).stat().st_mtime - began
            except OSError:
                continue
            totals = table.group_by("batch").aggregate([("seconds", "max"), ("rows", "sum"), ("live", "sum")])
            for row in totals.to_pylist():
                found = {"seconds": row["seconds_max"], "rows": row["rows_sum"], "live": row["live_sum"], "at": when}
                yield row["batch"], found | {"batch": row["batch"]}


def compared(root: Path, out: Path, rate: int) -> dict[str, Any]:
    """Is the answer that of a fresh monitor over the rows of the window alone?"""
    place = LocalFolder(out)
    reached = next(iter(OutputReader(place, str(out)).shown().values())).reached
    instant = int(reached) - 1  # each group has surely come to it
    found = read_answer(place, str(out), at=str(instant))
    monitor = fl.Monitor(question(root), fl.Repository.load(root / "repo"))
    first, last = max(0, instant - LIFETIME + 1) * rate, (instant + 1) * rate
    window = pa.Table.from_batches([rows(stream(rate), first, last)])
    monitor.advance(instant, window, every="batch")
    wanted = monitor.answer()
    return {"instant": instant, "rows": last - first, "answer": wanted.num_rows, "same": same(found, wanted)}


def same(found: pa.Table, wanted: pa.Table) -> bool:
    """The same rows with the same probabilities."""
    keys = [("site", "ascending"), ("id", "ascending")]
    found, wanted = found.sort_by(keys), wanted.sort_by(keys)
    if found["id"].to_pylist() != wanted["id"].to_pylist() or found["site"].to_pylist() != wanted["site"].to_pylist():
        return False
    apart = pc.max(pc.abs(pc.subtract(found["probability"], wanted["probability"]))).as_py()
    return apart is None or apart < 1e-9


def summary(figures: dict[str, Any]) -> None:
    """Half an hour beside the next, in words."""
    looks, batches = figures["looks"], figures["batches"]
    end = looks[-1]["at"]
    print(f"{figures['engine']}: {figures['rate']:,} rows a second, {sum(b['rows'] for b in batches):,} rows in all")
    for name, begin, stop in (("minutes 5 to 25", 300, 1500), ("the last 20 minutes", end - 1200, end)):
        seen = [each for each in looks if begin <= each["at"] <= stop]
        took = [each["seconds"] for each in batches if begin <= each["at"] <= stop]
        if seen and took:
            memory = ", ".join(f"{role} {np.median([s[role] for s in seen]):.0f}" for role in ROLES)
            percents = np.percentile(took, [50, 95, 100])
            took_text = "batch " + " / ".join(f"{p:.2f}" for p in percents) + " s (median, 95 %, most)"
            disk = f"output {np.median([s['bytes'] for s in seen]) / 1e6:.0f} MB, {seen[-1]['files']:.0f} files"
            print(f"  {name}: memory in MB: {memory}; {took_text}; {disk}")
    right = sum(each["same"] for each in figures["checks"])
    print(f"  {right} of {len(figures['checks'])} comparisons with a fresh monitor were the same")


def draw(figures: dict[str, Any], folder: Path) -> None:
    """Memory, and what batches took, as pictures."""
    import altair as alt

    memory = [
        {"minute": seen["at"] / 60, "MB": seen[role], "of": role}
        for seen in figures["looks"]
        for role in ROLES
        if any(each[role] for each in figures["looks"])
    ]
    took = [{"batch": each["batch"], "seconds": each["seconds"], "rows": each["rows"]} for each in figures["batches"]]
    x = alt.X("minute:Q", title="minutes")
    size = {"width": 640, "height": 240}
    title = f"{figures['engine']}, {figures['rate']:,} rows a second"
    lines = alt.Chart(alt.Data(values=memory), title=f"Memory: {title}", **size).mark_line()
    lines.encode(x=x, y=alt.Y("MB:Q"), color=alt.Color("of:N", title=None)).save(
        folder / "memory.png", scale_factor=1.5
    )
    points = alt.Chart(alt.Data(values=took), title=f"Seconds of each batch: {title}", **size).mark_circle(size=12)
    points.encode(x=alt.X("batch:Q"), y=alt.Y("seconds:Q")).save(folder / "batches.png", scale_factor=1.5)


if __name__ == "__main__":
    main()
