"""How right is an answer?

The true answer of a tick is the skyline of the window's complete rows. Rows of which the truth is unknown (real
nulls) take no part: neither in the truth nor in the answers that are held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fogline.arrays import Batch, Clouds, Ints
from lab.case import Case
from lab.maintainers.protocol import TickAnswer
from lab.maintainers.tree import Tree


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Precision and recall of one answer; of nothing against nothing, 1."""

    precision: float
    recall: float
    answered: int
    true: int
    lost_incomplete: int
    """How many true members are missing from the answer that had gaps themselves."""
    wrong_incomplete: int
    """How many of the answered rows are no true members, and had gaps themselves."""

    @property
    def f(self) -> float:
        """The paper's F-score: the harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def truth_answers(case: Case, at: Iterable[int]) -> dict[int, Ints]:
    """Tick -> the rows that are really in the skyline then."""
    wanted, answers = frozenset(at), {}
    tree, last = Tree(case.query), max(wanted, default=-1)
    for k in range(last + 1):
        answer = tree.advance(k, _complete(case, k))
        if k in wanted:
            answers[k] = answer.id
    return answers


def _complete(case: Case, k: int) -> Batch:
    """The rows of a tick as they really were."""
    theta = case.settings.theta
    rows = np.arange(k * theta, (k + 1) * theta)
    rows = rows[case.certain[rows]]
    n, d = len(rows), case.truth.shape[1]
    point = case.truth[rows] * np.array(case.query.signs) + 0.0
    none = np.empty(0)
    clouds = Clouds(point, point, np.full((n, d), -1, np.int64), np.ones((n, d), np.int64), none, none, none)
    arrived = np.full(n, float(k))
    return Batch(
        rows.astype(object), arrived, arrived + case.settings.lifetime, case.truth[rows], np.empty((n, 0)), clouds
    )


def accuracy_of(case: Case, answer: TickAnswer, true: Ints) -> Accuracy:
    """One answer against the truth."""
    answered = answer.id[case.certain[answer.id]]
    hits = np.intersect1d(answered, true, assume_unique=True)
    lost = np.setdiff1d(true, answered, assume_unique=True)
    precision = len(hits) / len(answered) if len(answered) else float(not len(true))
    recall = len(hits) / len(true) if len(true) else 1.0
    wrong = np.setdiff1d(answered, true, assume_unique=True)
    gaps = [int(np.count_nonzero(case.incomplete[rows])) for rows in (lost, wrong)]
    return Accuracy(precision, recall, len(answered), len(true), *gaps)


def accuracies(case: Case, answers: Mapping[int, TickAnswer], truth: Mapping[int, Ints]) -> dict[int, Accuracy]:
    """Tick -> accuracy, where both are there."""
    return {k: accuracy_of(case, answer, truth[k]) for k, answer in answers.items() if k in truth}
