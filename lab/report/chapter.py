"""What is reported of an experiment, and of all of them together?

Of an experiment: its rows, where they come from, its figures, and its reading. What cannot be read or drawn from the
rows is reported as trouble, and the rest is reported all the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import pandas as pd

from lab.bench import length
from lab.experiment import Experiment, Finding, Plot, Reading, Verdict
from lab.report.plot import NARROW, TextTable, draw, grids, select, width
from lab.results import Origin, Results

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
VERBS = {"holds": "hold", "fails here": "fail here", "flatter or faster": "come out flatter or faster"}


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot that was drawn, or tables."""

    plot: Plot
    svg: str
    """Empty where tables are asked for."""
    tables: Sequence[TextTable] = ()
    wide: bool = False
    """Does it need a row of its own?"""


@dataclass(frozen=True, slots=True)
class Chapter:
    """See the module."""

    experiment: Experiment
    rows: pd.DataFrame = field(repr=False)
    origins: Sequence[Origin]
    figures: Sequence[Figure]
    reading: Reading | None
    trouble: str
    """What could not be read or drawn, and why; usually empty."""

    @property
    def verdict(self) -> str:
        """Or that there is none."""
        return "not read" if self.reading is None else self.reading.verdict

    @property
    def text(self) -> str:
        """What the rows show."""
        return self.trouble if self.reading is None else self.reading.text

    @property
    def findings(self) -> Sequence[Finding]:
        """Claim by claim."""
        return () if self.reading is None else self.reading.findings

    @property
    def line(self) -> str:
        """The same in one sentence."""
        return re.split(r"(?<=[.!?;])\s+(?=[A-Z])", self.text.strip(), maxsplit=1)[0]

    @property
    def seconds(self) -> float:
        """What it took to measure."""
        return sum(each.seconds for each in self.origins)

    def pictures(self) -> Iterator[tuple[str, Figure]]:
        """The plots, with the name of a file for each."""
        drawn = [each for each in self.figures if each.svg]
        for k, each in enumerate(drawn, start=1):
            yield f"{self.experiment.name}{f'-{k}' if len(drawn) > 1 else ''}.svg", each


@dataclass(frozen=True, slots=True)
class Report:
    """All chapters, and what they have in common."""

    folder: Path
    quick: bool
    chapters: Sequence[Chapter]
    missing: Sequence[str]
    """Experiments of which nothing was measured."""
    hungry: Sequence[str] = ()
    """Those that have no trials without real sets."""

    @property
    def verdicts(self) -> dict[str, int]:
        """How many claims of each, and how many experiments beyond the paper; all four are there.

        An experiment without claims of its own, which looks at one again that is counted elsewhere, does not count.
        """
        found: Counter[str] = Counter(each.verdict for chapter in self.chapters for each in chapter.findings)
        found.update(each.verdict for each in self.chapters if each.verdict in ("beyond the paper", "not read"))
        return {name: found.pop(name, 0) for name in VERDICTS} | dict(found)

    @property
    def line(self) -> str:
        """The outcome in a line."""
        counts = self.verdicts
        claims = ", ".join(f"{counts[name]} {VERBS[name]}" for name in VERBS if counts[name])
        total = sum(counts[name] for name in VERBS)
        rest = ", ".join(f"{n} {name}" for name, n in counts.items() if n and name not in VERBS)
        parts = [f"of {total} claims of the paper {claims}"] * bool(total) + [f"{rest} (experiments)"] * bool(rest)
        return f"{len(self.chapters)} experiments{' (quick)' if self.quick else ''}: {'; '.join(parts)}"

    @property
    def troubles(self) -> dict[str, str]:
        """Experiments that could not be read or drawn, and why."""
        return {each.experiment.name: each.trouble for each in self.chapters if each.trouble}

    @property
    def facts(self) -> dict[str, str]:
        """Where it was measured, with what, when, and how to do it again."""
        origins = [origin for each in self.chapters for origin in each.origins]
        days = sorted(each.date[:10] for each in origins)
        trials, seconds = len(origins), sum(each.seconds for each in origins)
        return {
            "Machine": several(str(each.machine) for each in origins),
            "Versions": several(", ".join(f"{k} {v}" for k, v in each.versions.items()) for each in origins),
            "Source": several(each.source for each in origins),
            "Measured": f"{days[0]}" + (f" to {days[-1]}" if days[0] != days[-1] else ""),
            "Took": f"{trials} trials, {length(seconds)}",
            "Command": self.command,
        }

    @property
    def command(self) -> str:
        """What measures all this; the folder of the real sets is the reader's own."""
        names = [] if not self.missing else [each.experiment.name for each in self.chapters]
        real = any(origin.real for each in self.chapters for origin in each.origins)
        return " ".join(["python -m lab run", *names, *["--quick"] * self.quick, *["--data DIR"] * real])


def gather(experiment: Experiment, results: Results) -> Chapter:
    """Everything about an experiment of which there are results."""
    rows, origins = results.rows(experiment.name), results.origins(experiment.name)
    if rows.empty:
        return Chapter(experiment, rows, origins, [], None, "its trials gave no rows.")
    reading, figures, troubles = None, [], []
    try:
        reading = experiment.read(rows)
    except Exception as error:
        troubles.append(f"its rows could not be read: {type(error).__name__}: {error}")
    for plot in experiment.plots:
        try:
            figures += _figures(plot, rows)
        except Exception as error:
            troubles.append(f"{plot.title!r} could not be drawn: {type(error).__name__}: {error}")
    return Chapter(experiment, rows, origins, figures, reading, "; ".join(troubles))


def _figures(plot: Plot, rows: pd.DataFrame) -> list[Figure]:
    """One, or none where no row has what it shows."""
    chosen = select(plot, rows)
    if chosen.empty:
        return []
    if plot.kind == "table":
        tables = grids(plot, chosen)
        return [Figure(plot, "", tables, wide=max(len(grid.head) for grid in tables) > 4)]
    return [Figure(plot, draw(plot, chosen), wide=width(plot, chosen) > NARROW)]


def several(values: Iterator[str]) -> str:
    """The values, each once."""
    return "; ".join(dict.fromkeys(values))
