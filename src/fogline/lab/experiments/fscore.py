"""How much of the true skyline survives the gaps, with which imputer?

The paper's section 6.4: F-score, precision and recall against the skyline of the complete rows, at every 50th tick of
windows that begin at different rows of the set. Which maintainer works does not matter, they all answer the same; where
values are single, the tree is fed with points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fogline.lab.case import Case, Settings
from fogline.lab.race import race, system
from fogline.lab.real import real
from fogline.lab.score import scores, truth_answers

EVERY = 50  # ticks between two answers


@dataclass(frozen=True, slots=True)
class Row:
    """One answer of one imputer."""

    set: str
    protocol: str
    imputer: str
    window: int
    xi: float
    seed: int
    start: int | None
    tick: int
    f: float
    precision: float
    recall: float
    answered: int
    true: int
    lost_incomplete: int


def fscore(
    name: str, folder: str | Path, imputers: Iterable[str], settings: Settings, starts: Iterable[int | None] = (None,)
) -> Iterator[Row]:
    """The rows for one set and protocol; a start is the row with which a stream begins."""
    names = tuple(imputers)
    for start in starts:
        yield from judged(real(name, folder, replace(settings, start=start)), names)


def judged(case: Case, imputers: Iterable[str]) -> Iterator[Row]:
    """The rows for one case."""
    knobs = case.settings
    at = range(case.full, case.length, EVERY)
    truth = truth_answers(case, at)
    for one in imputers:
        answers = race(case, system(f"{one}+skyline_tree", case), at=at).answers
        for tick, score in scores(case, answers, truth).items():
            yield Row(
                case.name, knobs.protocol, one, knobs.window, knobs.xi, knobs.seed, knobs.start, tick,
                score.f, score.precision, score.recall, score.answered, score.true, score.lost_incomplete,
            )  # fmt: skip
