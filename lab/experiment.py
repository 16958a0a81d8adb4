"""What is an experiment?

A list of trials, each a few knobs; a function that measures one trial and gives plain rows; how the rows are drawn; and
what is read from them. Readings are worked out from the rows, so a new run gets its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

Scalar = str | int | float | bool | None
Knobs = Mapping[str, Scalar]
Verdict = Literal["holds", "fails here", "flatter or faster", "beyond the paper"]
WORST: tuple[Verdict, ...] = ("fails here", "flatter or faster", "holds")


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is measured, and where the real sets lie."""

    data: Path | None = None
    """The folder with the Parquet files; None: synthetic streams only."""
    quick: bool = False
    """Fewer points, smaller windows, shorter streams: everything in a few minutes, and nothing to quote."""


@dataclass(frozen=True, slots=True)
class Plot:
    """How some of the rows are drawn: the mean of `y` over `x`, one line (or group of bars) per `series`."""

    title: str
    x: str
    y: str
    series: str | None = None
    facet: str | None = None
    """One panel per value, side by side."""
    where: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    """Only rows that have these values; of several, one of them."""
    kind: Literal["line", "bar", "table"] = "line"
    log_x: bool = False
    log_y: bool = False
    spread: bool = False
    """Also show the standard deviation."""
    per: Sequence[str] = ()
    """In tables: columns that distinguish repetitions. Numbers are averaged within each first, and the spread
    is that between them."""
    x_label: str = ""
    y_label: str = ""
    diagonal: bool = False
    """A thin line y = x, as in a calibration plot."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the rows show about one claim of the paper's text."""

    claim: str
    verdict: Verdict
    """`flatter or faster`: something else comes out, for a reason of ours."""
    reason: str = ""
    """Why it fails here, or what we do otherwise; the numbers are in the reading."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the rows show, in a sentence or two, and claim by claim."""

    verdict: Verdict
    text: str
    findings: Sequence[Finding] = ()
    """One for each claim that the paper's text makes here. Each claim is counted once, in one experiment."""


def by_claims(text: str, findings: Sequence[Finding]) -> Reading:
    """A reading whose verdict is the least of its findings."""
    found = [each.verdict for each in findings]
    verdict: Verdict = next((each for each in WORST if each in found), "beyond the paper")
    return Reading(verdict, text, findings)


def worst(findings: Sequence[Finding], claim: str) -> Finding:
    """One claim of several parts: the least of their verdicts, with the reasons of those that do not hold."""
    verdict: Verdict = next(each for each in WORST if each in {part.verdict for part in findings})
    return Finding(claim, verdict, "; ".join(dict.fromkeys(each.reason for each in findings if each.reason)))


def finding(claim: str, holds: bool, reason: str, *, by_design: bool = False) -> Finding:
    """It holds; or it does not, for this reason. `by_design`: a reason of ours."""
    if holds:
        return Finding(claim, "holds")
    return Finding(claim, "flatter or faster" if by_design else "fails here", reason)


@dataclass(frozen=True, slots=True)
class Experiment:
    """See the module."""

    name: str
    """As typed after `python -m lab run`."""
    title: str
    figure: str
    """The figure or table of the paper, such as "Figure 9(b)"; "beyond the paper"."""
    question: str
    claim: str
    """What the paper reports, with its figures where its text gives them; empty beyond the paper."""
    trials: Callable[[Scope], Sequence[Knobs]]
    """Cheap: no data is read. The knobs of a trial distinguish it from all others, and name its results."""
    measure: Callable[[Knobs, Scope], list[dict[str, Scalar]]]
    """The rows of one trial, without the knobs: those are added to each."""
    plots: Sequence[Plot]
    read: Callable[[pd.DataFrame], Reading]
    """Of the rows with their knobs. Not empty; some trials may be missing."""
    claims: Sequence[str] = ()
    """What the paper's text states about this figure, each once in all experiments. Findings are about these."""
    timed: bool = True
    """Does it measure seconds? Then its trials run one after the other, with nothing beside them."""
