"""How much could still be gained by a better imputer?

The same learner, with more than it can know. `no delay`: what a sensor reads next is known as soon as a row comes, so
no gap waits to be revised. `others true`: every row with a gap is judged beside the true values of all other rows, so
what is lost is lost by its own distribution alone; complete rows are then judged rightly. `both`. And `own true`: a
perfect imputer for the gaps of rows that are judged, while those of all others are imputed as they are: complete rows
lose what they lose by others' gaps, and only that.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.arrays import Clouds, Flags, Floats, Ints
from lab.case import Case, LabError
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.ahead import AIMS, DEFAULT, XI, f_score
from lab.experiments.common import case_at, listed, sets
from lab.experiments.fscore import EVERY, LARGE, ROOMS, TICKS, stops
from lab.maintainers import TickAnswer, threshold_of
from lab.race import Accuracy, accuracy_of, truth_answers
from lab.revising import REVISING, Replay

NO_DELAY, OTHERS, BOTH, OWN = "no delay", "others true", "both", "own true"
LINES = (DEFAULT, NO_DELAY, OTHERS, BOTH, OWN)
PLACES, SEEDS = 5, 3


def trials(scope: Scope) -> list[Knobs]:
    return [
        {"set": name, "xi": XI, "place": place, "seed": seed}
        for name in sets(scope, (*LARGE, *ROOMS))
        for place in range(1 if scope.quick else PLACES)
        for seed in range(1, 2 if scope.quick else SEEDS + 1)
    ]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    turned = {"xi": knobs["xi"], "seed": knobs["seed"], "ticks": EVERY + 1 if scope.quick else TICKS}
    case = case_at(str(knobs["set"]), scope, int(knobs["place"] or 0), protocol="honest", **turned)
    at = range(case.full, case.length, EVERY)
    truth = truth_answers(case, at)
    rows: list[dict[str, Scalar]] = []
    for k, found in answered(case, truth).items():
        rows += [{"line": line, "tick": k, "f": f} for line, f in found.items()]
    return rows


def answered(case: Case, truth: dict[int, Ints]) -> dict[int, dict[str, float]]:
    """Tick -> F of each line."""
    replays = {
        DEFAULT: Replay(case, REVISING[DEFAULT](case)),
        NO_DELAY: Replay(case, REVISING[DEFAULT](case), early=True),
    }
    out: dict[int, dict[str, float]] = {}
    for k in stops(truth):
        answers = {line: replay.leap(k) for line, replay in replays.items()}
        if k not in truth:
            continue
        found = {line: accuracy_of(case, answer, truth[k]) for line, answer in answers.items()}
        own = found[DEFAULT]
        out[k] = {line: each.f for line, each in found.items()}
        for line, tick in ((OTHERS, k), (BOTH, None)):
            out[k][line] = accuracy_of(case, beside_truth(case, replays[DEFAULT], k, tick, truth[k]), truth[k]).f
        out[k][OWN] = _own_true(own)
    return out


def _own_true(own: Accuracy) -> float:
    """F if rows with gaps were judged rightly."""
    lost, wrong = own.true * (1 - own.recall), own.answered * (1 - own.precision)
    left = (
        pd.Series([each], dtype=float) for each in (own.true, lost - own.lost_incomplete, wrong - own.wrong_incomplete)
    )
    return float(f_score(*left).iloc[0])


def beside_truth(case: Case, replay: Replay, tick: int, known: int | None, true: Ints) -> TickAnswer:
    """The answer if all other rows were known, with what is imputed by the tick `known` (None: ever)."""
    theta, sign = case.settings.theta, np.array(case.query.signs)
    first = max(0, tick + 1 - case.settings.lifetime) * theta
    window = np.arange(first, (tick + 1) * theta)
    which = window[case.incomplete[window]]
    chance = probabilities(replay.imputed(which, known), which, case.truth * sign, case.gaps, window, true)
    complete = true[~case.incomplete[true]]
    members = which[chance > threshold_of(case.query)]
    ids = np.concatenate((complete, members))
    order = np.argsort(ids)
    p = np.concatenate((np.ones(len(complete)), chance[chance > threshold_of(case.query)]))
    return TickAnswer(ids[order], p[order])


def probabilities(clouds: Clouds, which: Ints, truth: Floats, gaps: Flags, window: Ints, skyline: Ints) -> Floats:
    """(n,) that none of the true rows of the window beats the rows `which`; one gap each, larger is better."""
    if np.any(gaps[which].sum(axis=1) > 1):
        raise LabError("rows with several gaps have no single distribution to be judged by.")
    gap, out = gaps[which].argmax(axis=1), np.zeros(len(which))
    for j in range(truth.shape[1]):
        rest = [k for k in range(truth.shape[1]) if k != j]
        here = np.flatnonzero(gap == j)
        best = clouds.hi[here, j]
        beaten = np.zeros(len(here), np.bool_)
        for some in np.array_split(np.arange(len(here)), max(1, len(here) * len(skyline) // 4_000_000)):
            over, level = _reached(truth, which[here[some]], skyline, rest, j)
            beaten[some] = (best[some] <= over) | (best[some] < level)
        for k in here[~beaten].tolist():  # few
            over, level = _reached(truth, which[[k]], window, rest, j)
            value, weight = _list(clouds, k, j)
            out[k] = weight[(value > over) & (value >= level)].sum()
    return out


def _reached(truth: Floats, rows: Ints, others: Ints, rest: list[int], j: int) -> tuple[Floats, Floats]:
    """(n,) the greatest value in j of others that are better in the rest, and of those that are as good there."""
    given, by = truth[rows][:, None, rest], truth[others][None][:, :, rest]
    least = (by >= given).all(axis=2) & (rows[:, None] != others[None])
    better = least & (by > given).any(axis=2)
    value = np.broadcast_to(truth[others, j], least.shape)
    over, level = (np.where(each, value, -np.inf).max(axis=1, initial=-np.inf) for each in (better, least & ~better))
    return over, level


def _list(clouds: Clouds, k: int, j: int) -> tuple[Floats, Floats]:
    """The values of one cell and their weights."""
    start = clouds.start[k, j]
    if start < 0:
        return clouds.lo[k, [j]], np.ones(1)
    span = slice(start, start + clouds.size[k, j])
    return clouds.value[span], clouds.weight[span]


def read(frame: pd.DataFrame) -> Reading:
    mean = frame.groupby(["set", "line"], sort=False)["f"].mean().unstack("line")
    parts = [
        f"{name} (aim {AIMS[str(name)]:g}): {', '.join(f'{line} {f[line]:.3f}' for line in LINES if line in f)}"
        for name, f in mean.iterrows()
    ]
    return Reading(
        "beyond the paper", f"F at ξ = {listed(f'{xi:g}' for xi in frame['xi'].unique())}. {'; '.join(parts)}."
    )


CEILING = Experiment(
    name="ceiling",
    title="What a better imputer could still gain",
    figure="beyond the paper",
    question="How near would F be to 1 if the same learner knew more?",
    claim="",
    trials=trials,
    measure=measure,
    plots=(Plot("F", "line", "f", "set", kind="table", spread=True, per=("place", "seed")),),
    read=read,
)
