"""Does a stream with hostile lines end well, with every one of them accounted for?

    python -m benchmarks.garbage --rows 1000000 [--without far]

Sensors of three sites send lines of csv, of which one in a hundred is hostile: times far in the future, infinite or no
times, values that are infinite, texts, outside their limits or bytes that are no text, torn lines, lines without an id,
copies of rows, equal and conflicting. They are run by `fogline run`, with a repository that imputes gaps. It must end
with status 0; the answer must be that of a monitor that has seen the good rows alone; every hostile line must be among
the rejects with its reason; and the rows that health counts must be the lines that were sent.

(Ids in csv are texts, so there are no infinite ones here; odd texts such as [/x] are good ids.)
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl

HOSTILE = 0.01
SENSORS, BEGIN, PAST = 90, 200, 60
SITES = ("north", "south", "pit [3]")
ODD = {7: "pump[north]", 8: "[/x]", 9: "naïve ☃", 10: "'s'"}  # good ids, though they look odd
QUERY = """attributes: {heat: max, gas: max}
id: sensor
time: t
lifetime: 40
by: [site]
limits: {heat: [-50, 100]}
outside: reject
"""
COPY = r"a row with this id and time is there already"

Row = dict[str, object]  # sensor, site, t, heat, gas
Line = bytes
Answer = dict[tuple[str, str, float], float]  # site, sensor, arrival -> probability


@dataclass
class Sent:
    """What was sent: lines in files, the good rows among them, and how many lines are to be rejected for a reason."""

    lines: int = 0
    good: list[Row] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # pattern of the reason -> lines
    kinds: dict[str, str] = field(default_factory=dict)  # pattern -> what was sent


def line(row: Row) -> Line:
    """A row as it is written."""
    return ",".join("" if value is None else str(value) for value in row.values()).encode()


def _with(name: str, value: object) -> Callable[[Row], list[Line]]:
    return lambda row: [line({**row, name: value})]


def _far(row: Row) -> list[Line]:
    """Some ids, each by another time beyond."""
    ahead = int(str(row["t"])) * 7 % 97
    return [line({**row, "sensor": f"far-{row['sensor']}", "t": int(str(row["t"])) + 10**9 + 10**7 * ahead})]


def _bytes(row: Row) -> list[Line]:
    return [line({**row, "heat": "BYTES"}).replace(b"BYTES", b"1\xff\xfe5")]


# what is sent, why it is rejected, and the lines; a copy of a row that matters to no other stands beside its original
KINDS: dict[str, tuple[str, Callable[[Row], list[Line]]]] = {
    "far": (r"held.*|.*beyond the machine's clock.*", _far),
    "out of range": (r"'t' is beyond 2\^53.*", _with("t", "1e300")),
    "infinite time": (r"the time 't' is missing or not finite", _with("t", "inf")),
    "no time": (r"the time 't' is missing or not finite", _with("t", None)),
    "words as time": (r"'t' is 'yesterday', which is not a number", _with("t", "yesterday")),
    "infinite value": (r"'heat' holds a value that is missing or not finite", _with("heat", "-Infinity")),
    "too large": (r"'gas' holds a value that is missing or not finite", _with("gas", "1e999")),
    "words as value": (r"'heat' is 'broken', which is not a number", _with("heat", "broken")),
    "bytes as value": (r"'heat' holds bytes that are not UTF-8 text", _bytes),
    "outside": (r"'heat' is outside its limits .*", _with("heat", 999)),
    "torn": (r"the line cannot be read: it has \d+ cells.*", lambda row: [line(row)[:12].split(b",")[0] + b",nor"]),
    "no id": (r"the id 'sensor' is missing", _with("sensor", None)),
    "equal copy": (COPY, lambda row: [line(row)]),
    "conflicting copy": (COPY, lambda row: []),  # see `_weak`
}


def readings(rng: random.Random, tick: int) -> Iterator[Row]:
    """One reading of every sensor, a fifth of them without gas."""
    for k in range(SENSORS):
        heat = round(15 + 10 * math.sin(tick / 50 + k) + rng.gauss(0, 1), 3)
        gas = round(heat / 10 + rng.gauss(0, 0.1), 4)
        row: Row = {"sensor": ODD.get(k, f"s{k}"), "site": SITES[k % 3], "t": tick, "heat": heat, "gas": gas}
        yield row | ({"gas": None} if tick >= BEGIN and rng.random() < 0.2 else {})


def _weak(row: Row, number: int) -> tuple[Row, Line]:
    """A row that all others beat, and a copy of it with other values: whichever is taken, it changes no answer."""
    weak = {**row, "sensor": f"weak-{number}", "heat": -40.0, "gas": -10.0}
    return weak, line({**weak, "heat": -41.0, "gas": -11.0})


def send(folder: Path, rows: int, *, without: Sequence[str] = (), files: int = 20, seed: int = 1) -> Sent:
    """Write about so many lines, in several files with an order."""
    rng, sent = random.Random(seed), Sent()
    kinds = [name for name in KINDS if name not in without]
    ticks = max(files, rows // SENSORS)
    lines: list[Line] = []
    for tick in range(BEGIN, BEGIN + ticks):
        for row in readings(rng, tick):
            sent.good.append(row)
            lines.append(line(row))
            if rng.random() < HOSTILE / (1 - HOSTILE):
                _add(rng.choice(kinds), row, lines, sent)
        done = tick - BEGIN + 1
        if done * files // ticks > (done - 1) * files // ticks:
            _write(folder / f"{done * files // ticks:04}.csv", lines, sent)
            lines = []
    return sent


def _add(kind: str, row: Row, lines: list[Line], sent: Sent) -> None:
    pattern, make = KINDS[kind]
    if kind == "conflicting copy":
        weak, copy = _weak(row, len(sent.good))
        sent.good.append(weak)
        lines += [line(weak), copy]
    else:
        lines += make(row)
    sent.reasons[pattern] += 1
    if kind not in sent.kinds.setdefault(pattern, kind):
        sent.kinds[pattern] += f", {kind}"


def _write(path: Path, lines: list[Line], sent: Sent) -> None:
    path.write_bytes(b"\n".join([b"sensor,site,t,heat,gas", *lines, b""]))
    number = int(path.stem)
    os.utime(path, (1e9 + number, 1e9 + number))  # files are taken in the order of these times
    sent.lines += len(lines)


def prepare(
    root: Path, rows: int, without: Sequence[str] = (), files: int = 20
) -> tuple[Sent, fl.Query, fl.Repository]:
    """A question, a repository and a stream."""
    (root / "in").mkdir()
    (root / "q.yaml").write_text(QUERY, encoding="utf-8")
    query, rng = fl.Query.load(root / "q.yaml"), random.Random(0)
    history = [{**row, "t": float(str(row["t"]))} for tick in range(PAST) for row in readings(rng, tick)]
    fl.Repository.fit(history, query).save(root / "repo")
    return send(root / "in", rows, without=without, files=files), query, fl.Repository.load(root / "repo")


def expected(sent: Sent, query: fl.Query, repository: fl.Repository) -> Answer:
    """The answer of a monitor that has seen the good rows alone."""
    monitor = fl.Monitor(query, repository)
    for _, some in groupby(sent.good, lambda row: int(str(row["t"])) // 50):
        rows = [{**row, "t": float(str(row["t"]))} for row in some]
        monitor.advance(rows[-1]["t"], pa.Table.from_pylist(rows), every="batch")
    return {(row["site"], row["sensor"], row["t"]): row["probability"] for row in monitor.answer().to_pylist()}


def judged(output: Path, sent: Sent, answer: Answer, found: list[Row]) -> Iterator[tuple[bool, str]]:
    """What holds, and what does not, in words."""
    rejects = pq.read_table(output / "rejects").to_pylist()
    left = Counter(str(row["reason"]) for row in rejects)
    for pattern, count in sorted(sent.reasons.items(), key=lambda pair: sent.kinds[pair[0]]):
        reasons = [reason for reason in left if re.fullmatch(pattern, reason, re.DOTALL)]
        number = sum(left.pop(reason) for reason in reasons)
        yield number == count, f"{sent.kinds[pattern]}: {number:,} of {count:,} lines are rejected with their reason"
    other = left.most_common(3)
    yield not left, f"{left.total():,} rejects for other reasons {'; '.join(each for each, _ in other)}"
    counted = int(pq.read_table(output / "health")["rows"].to_numpy().sum())
    yield counted == sent.lines, f"health counts {counted:,} rows, {sent.lines:,} lines were sent"
    given = {(row["site"], row["sensor"], row["t"]): float(str(row["probability"])) for row in found}
    same = given.keys() == answer.keys() and all(abs(given[key] - answer[key]) < 1e-6 for key in answer)
    yield same, f"the answer, {len(given):,} rows, is that of a monitor with the good rows alone, {len(answer):,} rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--without", nargs="*", default=[], choices=list(KINDS), help="kinds of lines to leave out")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        sent, query, repository = prepare(root, asked.rows, asked.without)
        print(f"{sent.lines:,} lines, {sent.reasons.total():,} of them hostile")
        command = [sys.executable, "-c", "from fogline.cli import app; app()"]
        began = perf_counter()
        words = ["run", "in", "-q", "q.yaml", "-r", "repo", "-o", "out", "--engine", "spark", "--files-per-batch", "4"]
        done = subprocess.run([*command, *words], cwd=root, capture_output=True, text=True, check=False)
        print(f"ended with status {done.returncode} after {perf_counter() - began:.0f} s")
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        asking = [*command, "answer", "out", "--json"]
        shown = subprocess.run(asking, cwd=root, capture_output=True, text=True, check=True).stdout
        found = [json.loads(each) for each in shown.splitlines()]
        parts = list(judged(root / "out", sent, expected(sent, query, repository), found))
        for holds, text in parts:
            print(f"{'holds' if holds else 'FAILS'}  {text}")
    sys.exit(0 if all(holds for holds, _ in parts) else 1)


if __name__ == "__main__":
    main()
