"""What was tried, and how did it end? A page in Markdown, from a ledger."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.chaos.case import REFUSED, SAME
from tests.chaos.ledger import LEFT_OUT, WRONG, Ledger, Line

HEAD = """# Faults: what was tried, and how it ended

`make chaos` breaks things around Fogline and inside it, by seed, and judges every run that follows: its changes must be
those of an undisturbed run ("same"), or it stops with an error that names the damage, and after repair and resume its
changes are the same ("refused"). Anything else is wrong.

This page is made by

    {command}

and a single case is repeated by its key, `python -m tests.chaos --only part/scenario/mode/seed`.
"""


def write_report(ledger: Ledger, path: Path, command: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(list(ledger.lines.values()), command), encoding="utf-8")


def page(lines: list[Line], command: str) -> str:
    parts = sorted({line.part for line in lines})
    out = [HEAD.format(command=command), "## In all\n", _totals(lines, parts)]
    for part in parts:
        out += [f"\n## {part}\n", _table([line for line in lines if line.part == part])]
    out += _remarks(lines, WRONG, "Wrong") + _remarks(lines, LEFT_OUT, "Left out on this machine")
    return "\n".join(out) + "\n"


def _totals(lines: list[Line], parts: list[str]) -> str:
    rows = [(part, [line for line in lines if line.part == part]) for part in parts]
    head = ["part", "cases", "faults", "schedules", SAME, REFUSED, WRONG, LEFT_OUT]
    return _markdown(head, [[name, *_counts(of)] for name, of in [*rows, ("**all**", lines)]])


def _counts(lines: list[Line]) -> list[str]:
    ends = [sum(line.end == end for line in lines) for end in (SAME, REFUSED, WRONG, LEFT_OUT)]
    sums = [len(lines), sum(line.faults for line in lines), sum(line.schedules for line in lines)]
    return [f"{each:,}" for each in sums + ends]


def _table(lines: list[Line]) -> str:
    """Scenarios and modes of a part, each with its seeds and ends; one of the errors that were shown."""
    kinds = sorted({(line.scenario, line.mode) for line in lines})
    rows = []
    for scenario, mode in kinds:
        those = [line for line in lines if (line.scenario, line.mode) == (scenario, mode)]
        rows.append([scenario, mode, *_counts(those), _shown(those)])
    head = ["scenario", "mode", "seeds", "faults", "schedules", SAME, REFUSED, WRONG, LEFT_OUT, "a user was shown"]
    return _markdown(head, rows)


def _shown(lines: list[Line], most: int = 160) -> str:
    shown = min((line.shown for line in lines if line.end == REFUSED and line.shown), default="")
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _remarks(lines: list[Line], end: str, title: str) -> list[str]:
    those = [line for line in lines if line.end == end]
    if not those:
        return []
    return [f"\n## {title}\n", *(f"- `{line.key}`: {_one_line(line.shown)}" for line in those)]


def _markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_one_line(cell) for cell in row) + " |" for row in lines)


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
