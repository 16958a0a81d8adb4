"""Which cases are run, and in which order?

    python -m tests.chaos [--part kills --part io …] [--seeds 0:10] [--minutes N] [--ledger build/chaos.jsonl]
                          [--scenario NAME] [--only KEY] [--report FILE.md]

Seed by seed, and in each seed part by part: whenever it is stopped, every part has had its share. Cases that the ledger
has are passed over; one that is wrong is noted with the command that repeats it, and the rest go on.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from tests.chaos.case import Case, NotHere
from tests.chaos.ledger import LEFT_OUT, WRONG, Ledger, Line, line_of
from tests.chaos.report import write_report

PARTS = ("kills", "places", "sources", "damage", "drivers", "clocks", "io", "inside", "simulation", "fuzz")
SEEDS = "0:3"


def main(words: list[str] | None = None) -> int:
    asked = _parser().parse_args(words)
    ledger = Ledger(asked.ledger)
    parts = asked.part or list(PARTS)
    first, last = (int(each) for each in asked.seeds.split(":"))
    if asked.only:
        part, *_, seed = asked.only.split("/")
        parts, first, last = [part], int(seed), int(seed) + 1
    missing = [part for part in parts if importlib.util.find_spec(f"tests.chaos.{part}") is None]
    until = monotonic() + asked.minutes * 60
    for case in _cases([part for part in parts if part not in missing], range(first, last)):
        if monotonic() >= until:
            print("the time is over; the same command goes on")
            break
        if asked.scenario not in (None, case.scenario):
            continue
        if case.key == asked.only or not (asked.only or ledger.has(case.key)):
            _note(case, ledger, asked.ledger)
    if asked.report:
        write_report(ledger, asked.report, _command(asked))
    for part in missing:
        print(f"{part}: there is no module tests/chaos/{part}.py")
    return max(_summary(ledger), int(bool(missing)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Try to break Fogline, by seed.")
    parser.add_argument("--part", action="append", choices=PARTS, help="all parts, if none is named")
    parser.add_argument("--seeds", default=SEEDS, help="from:to, the last one not included")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no case is begun after so many")
    parser.add_argument("--ledger", type=Path, default=Path("build/chaos.jsonl"))
    parser.add_argument("--scenario", help="cases of this name alone")
    parser.add_argument(
        "--only", metavar="KEY", help="this case alone, part/scenario/mode/seed, even if the ledger has it"
    )
    parser.add_argument("--report", type=Path, metavar="FILE.md", help="write a page about all that the ledger has")
    return parser


def _cases(parts: list[str], seeds: range) -> Iterator[Case]:
    for seed in seeds:
        for part in parts:
            yield from importlib.import_module(f"tests.chaos.{part}").cases(seed)


def _note(case: Case, ledger: Ledger, path: Path) -> None:
    """Run a case, and write down how it ended."""
    began, who = monotonic(), (case.part, case.scenario, case.mode, case.seed)
    try:
        line = line_of(case, case.run(), round(monotonic() - began, 1))
    except NotHere as reason:
        line = Line(*who, LEFT_OUT, shown=str(reason))
    except Exception as error:
        traceback.print_exc()
        repeat = f"python -m tests.chaos --only '{case.key}' --ledger {path}"
        shown = f"{type(error).__name__}: {error}"[:4000]
        line = Line(*who, WRONG, shown=shown, repeat=repeat, seconds=round(monotonic() - began, 1))
    ledger.add(line)
    counts = [f"{n:,} {name}" for n, name in ((line.faults, "faults"), (line.schedules, "schedules")) if n]
    print(f"{case.key}: {line.end}", *counts, f"{line.seconds:.0f} s", line.repeat, sep="  ", flush=True)


def _summary(ledger: Ledger) -> int:
    lines, wrong = ledger.lines.values(), ledger.wrong()
    faults, schedules = sum(line.faults for line in lines), sum(line.schedules for line in lines)
    print(f"{len(lines):,} cases: {faults:,} faults, {schedules:,} schedules, {len(wrong)} wrong")
    for line in wrong:
        print(f"wrong: {line.key}: {' '.join(line.shown.split())[:300]}\n  {line.repeat}")
    return 1 if wrong else 0


def _command(asked: argparse.Namespace) -> str:
    parts = f' PARTS="{" ".join(asked.part)}"' if asked.part else ""
    return f"make chaos{parts} SEEDS={asked.seeds}"


if __name__ == "__main__":
    sys.exit(main())
