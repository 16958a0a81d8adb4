"""`python -m tests.fuzz`: random streams through Fogline and through the reference, until they differ.

A ledger (`--record`) holds up to which seed streams have been run, and which differed: the same command goes on there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.fuzz import crowds, runners, tables
from tests.fuzz.judging import Difference
from tests.fuzz.shrinking import shown, shrunk
from tests.fuzz.streams import Stream
from tests.fuzz.streams import drawn as stream_of

BLOCK = 50  # seeds of one task
SHOWN = 2  # differences of one kind that are made smaller
Found = tuple[int, str, str, str]  # seed, runner, kind, what differs


DRAWN: dict[str, tuple[Callable[[Any], None], Callable[[int], Any]]] = {
    "run_table": (tables.run_table, tables.drawn),
    "run_crowd": (crowds.run_crowd, crowds.drawn),
}


def runners_of(seed: int) -> list[str]:
    """A monitor always, the embedded engine and Spark's stages in turn; now and then what is rarer, or takes longer."""
    found = ["run_monitor", "run_embedded" if seed % 2 else "run_stages"]
    found += ["run_table"] * (seed % 2 == 1) + ["run_disturbed"] * (seed % 5 == 0)
    return found + ["run_files"] * (seed % 40 == 20) + ["run_crowd"] * (seed % 200 == 100)


def case_of(seed: int, runner: str) -> tuple[Callable[[Any], None], Any]:
    """A runner, and what it runs: a stream, if nothing else."""
    run, drawn = DRAWN.get(runner) or (getattr(runners, runner), stream_of)
    return run, drawn(seed)


def differences(seed: int) -> Iterator[Found]:
    """What differs in the stream of a seed."""
    for runner in runners_of(seed):
        run, case = case_of(seed, runner)
        try:
            run(case)
        except Difference as found:
            yield seed, runner, found.kind, str(found)
        except Exception as error:
            yield seed, runner, f"{runner} {type(error).__name__}", f"{type(error).__name__}: {error}"


def block(first: int, end: int) -> list[Found]:
    return [found for seed in range(first, end) for found in differences(seed)]


def least(seed: int, runner: str, kind: str) -> str:
    """The difference as a test, as small as it gets; what is no stream is shown as it is."""
    run, case = case_of(seed, runner)
    if not isinstance(case, Stream):
        return repr(case)
    stream = shrunk(case, run, kind)
    try:
        run(stream)
    except Exception as error:
        return shown(stream, runner, str(error).split("\n", maxsplit=1)[0])
    return shown(stream, runner, "it differs in its whole length only")


def main(words: list[str] | None = None) -> int:
    asked = _arguments(words)
    record = Path(asked.record) if asked.record else None
    known = (
        json.loads(record.read_text())
        if record and record.exists()
        else {"from": asked.begin, "upto": asked.begin, "found": []}
    )
    first, end = known["upto"], asked.begin + asked.streams
    until = time.monotonic() + 60 * asked.minutes if asked.minutes else float("inf")
    kinds, ran = Counter[str](), 0
    for upto, found in _blocks(first, end, asked.jobs, until):
        ran += upto - known["upto"]
        known["upto"] = upto
        for seed, runner, kind, text in found:
            kinds[kind] += 1
            known["found"].append([seed, runner, kind])
            print(f"seed {seed}, {text}", flush=True)
            if kinds[kind] <= asked.shown:
                print(least(seed, runner, kind), flush=True)
        if record:
            draft = record.with_suffix(".draft")
            draft.write_text(json.dumps(known))
            draft.replace(record)
        if found and asked.first:
            break
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}")
    print(f"{ran} streams, {sum(kinds.values())} differences")
    return 1 if kinds else 0


def _blocks(first: int, end: int, jobs: int, until: float) -> Iterator[tuple[int, list[Found]]]:
    """What differs, block by block, in the order of seeds."""
    borders = [*range(first, end, BLOCK), end]
    spans: Iterable[tuple[int, int]] = pairwise(borders)
    if jobs <= 1:
        for a, b in spans:
            if time.monotonic() >= until:
                return
            yield b, block(a, b)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        under_way, left = list[tuple[int, Any]](), iter(spans)
        while True:
            while len(under_way) < 2 * jobs and time.monotonic() < until and (span := next(left, None)):
                under_way.append((span[1], pool.submit(block, *span)))
            if not under_way:
                return
            upto, task = under_way.pop(0)
            yield upto, task.result()


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random streams against the reference.")
    parser.add_argument("--streams", type=int, default=20_000)
    parser.add_argument("--from", dest="begin", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=None, help="stop after that long")
    parser.add_argument("--record", default=None, help="a ledger: the same command goes on where it was left")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", action="store_true", help="stop when something differs")
    parser.add_argument("--shown", type=int, default=SHOWN, help="differences of a kind that are made smaller")
    return parser.parse_args(words)
