"""Are probabilities right, and how much could a better imputer still gain?

`calibration`: of the rows answered with probability p, how many really were in the skyline? All rows above 0.01 are
asked for, not only those above the usual threshold. Bins of a tenth; a bin's share should be its mean probability. Rows
without doubt, at 1, have a bin of their own: most of them are complete rows. Several windows of a set are put together,
and for Fogline several seeds: its distributions are narrow, so that few rows of a window are in doubt. A row that is in
doubt at several of the ticks is counted at each; `rows` counts it once.

For Fogline there are stages. `arrival`: rows with a gap whose sensor has not been read since, so that it is filled from
the past alone; few rows are of this kind at any one time, so they are looked at after every tick. `revised`: rows all
of whose gaps are filled from both sides. `all`: all rows, those without gaps among them.

`ceiling`: the same learner, with more than it can know.

- `no delay`: what a sensor reads next is known as soon as a row comes, so no gap waits to be revised.
- `others true`: every row with a gap is judged beside the true values of all other rows. What is lost is lost by its
  own distribution alone; complete rows are judged rightly.
- `both`: these two together.
- `own true`: a perfect imputer for the gaps of rows that are judged, while those of all others are imputed as they are.
  Complete rows lose what they lose by others' gaps, and only that.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.arrays import Flags, Floats, Ints, UncertainRows
from lab.case import KINDS, PROTOCOLS, Case, LabError
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import SHORT, case_at, listed, sets
from lab.experiments.fscore import AIMS, DEFAULT, EVERY, LARGE, ROOMS, TICKS, XI, answers, f_score, stops
from lab.maintainers import TickAnswer, threshold_of
from lab.race import Accuracy, accuracy_of, truth_answers
from lab.revising import REVISING, Replay

# ---------------------------------------------------------------------------------------------------------- calibration


ALPHA = 0.01
IMPUTERS = ("DD", "DD-context")
SURE = 1 - 1e-9
PLACES, SEEDS = 5, 3
ENOUGH = 200  # cases of a bin; fewer mean little
NEAR = 0.1  # so far may a bin's share be from its probability
HALF = 0.5  # above it, a row is in the answer by default
STAGES = ALL, ARRIVAL, REVISED = "all", "arrival", "revised"
Windows = list[tuple[int, int]]  # place and seed


def trials(scope: Scope) -> list[Knobs]:
    others: list[Knobs] = [
        {"set": name, "protocol": protocol, "imputer": each}
        for name in sets(scope, (KINDS[0], *LARGE))
        for protocol in PROTOCOLS
        for each in IMPUTERS
        if name not in KINDS or each == IMPUTERS[0]
    ]
    default: list[Knobs] = [
        {"set": name, "protocol": PROTOCOLS[0], "imputer": DEFAULT} for name in sets(scope, (*LARGE, *ROOMS))
    ]
    return others + default


def windows(name: str, imputing: str, scope: Scope) -> Windows:
    """Which windows are put together; seeds in turn, since what was learnt for a place serves them all."""
    places = range(1 if scope.quick or name in KINDS else PLACES)
    seeds = range(1, 1 + (SEEDS if imputing == DEFAULT and not scope.quick else 1))
    return [(place, seed) for place in places for seed in seeds]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name, imputing = str(knobs["set"]), str(knobs["imputer"])
    ticks = {} if name in SHORT else {"ticks": EVERY + 1 if scope.quick else 4 * EVERY + 1}
    parts: dict[str, list[Floats]] = {}
    for k, (place, seed) in enumerate(windows(name, imputing, scope)):
        case = case_at(name, scope, place, alpha=ALPHA, protocol=knobs["protocol"], seed=seed, **ticks)
        found = staged(case) if imputing == DEFAULT else {ALL: judged(case, imputing)}
        for stage, cases in found.items():
            parts.setdefault(stage, []).append(np.column_stack((cases, np.full(len(cases), float(k)))))
    return [{"stage": stage, **row} for stage, cases in parts.items() for row in binned(np.concatenate(cases))]


def judged(case: Case, imputing: str) -> Floats:
    """(n, 3) for every answered row of every tick: its probability, whether it was in the skyline, and which it is."""
    at = range(case.full, case.length, EVERY)
    found, truth = answers(imputing, case, at), truth_answers(case, at)
    return np.concatenate([pairs(case, found[k], truth[k]) for k in at])


def pairs(case: Case, answer: TickAnswer, true: Ints) -> Floats:
    """(n, 3) the same of one tick."""
    certain = case.certain[answer.id]
    which = answer.id[certain]
    return np.column_stack((answer.probability[certain], np.isin(which, true), which))


def staged(case: Case) -> dict[str, Floats]:
    """Fogline's answers, by stages."""
    replay, truth = Replay(case, REVISING[DEFAULT](case)), truth_answers(case, range(case.full, case.length))
    out: dict[str, list[Floats]] = {stage: [np.empty((0, 3))] for stage in STAGES}
    for k in (*range(EVERY - 1, case.full, EVERY), *range(case.full, case.length)):
        answer = replay.leap(k)
        if k < case.full:
            continue
        cases = pairs(case, answer, truth[k])
        which = cases[:, 2].astype(np.int64)
        opened = (case.gaps[which] & ~replay.revised[which]).any(axis=1)
        out[ARRIVAL].append(cases[opened])
        if (k - case.full) % EVERY == 0:
            out[ALL].append(cases)
            out[REVISED].append(cases[case.incomplete[which] & ~opened])
    return {stage: np.concatenate(parts) for stage, parts in out.items()}


def binned(cases: Floats) -> list[dict[str, Scalar]]:
    """A row per bin; cases (n, 4): probability, whether it was, which row, of which window."""
    which = np.where(cases[:, 0] >= SURE, 10, np.minimum((cases[:, 0] * 10).astype(int), 9))
    rows: list[dict[str, Scalar]] = []
    for bin in np.unique(which).tolist():
        inside = cases[which == bin]
        p, right = inside[:, 0], inside[:, 1]
        label = "1" if bin == 10 else f"{bin / 10:g}–{(bin + 1) / 10:g}"
        rows.append(
            {"bin": label, "probability": float(p.mean()), "share": float(right.mean()), "n": len(p),
             "rows": len(np.unique(inside[:, 2:], axis=0))}
        )  # fmt: skip
    return rows


def read(frame: pd.DataFrame) -> Reading:
    parts = []
    for (protocol, name, each), rows in frame[frame["stage"] == ALL].groupby(
        ["protocol", "set", "imputer"], sort=False
    ):
        unsure = rows[rows["bin"] != "1"]
        off = ((unsure["probability"] - unsure["share"]).abs() * unsure["n"]).sum() / max(unsure["n"].sum(), 1)
        sure = rows[rows["bin"] == "1"]
        parts.append(
            f"{protocol}, {name}, {each}: off by {off:.3f} ({unsure['n'].sum():,.0f} answers)"
            + (f", and of {sure['n'].sum():,.0f} at 1 {100 * sure['share'].mean():.1f} % were" if len(sure) else "")
        )
    return Reading(
        "beyond the paper",
        f"{_kept(frame)}Mean distance between probability and share among uncertain answers, and how many of the "
        f"certain ones really were in the skyline: {'; '.join(parts)}.",
    )


def _kept(frame: pd.DataFrame) -> str:
    """In how many of Fogline's bins is the share near the probability?"""
    bins = frame[(frame["imputer"] == DEFAULT) & (frame["bin"] != "1") & (frame["n"] >= ENOUGH)]
    if bins.empty:
        return ""
    stages = "; ".join(f"{stage}: {_near(rows)}" for stage, rows in bins.groupby("stage", sort=False))
    return (
        f"Fogline, uncertain answers in bins of a tenth with {ENOUGH} cases or more: the share is within {NEAR:g} of "
        f"the mean probability in so many bins of rows above {ALPHA:g}, and of those that are answered by default, "
        f"above {HALF:g}: {stages}. "
    )


def _near(bins: pd.DataFrame) -> str:
    near = (bins["probability"] - bins["share"]).abs() <= NEAR
    answered = bins["probability"] > HALF
    sets = [f"{name} {kept.sum()} of {len(kept)}" for name, kept in near.groupby(bins["set"], sort=False)]
    far = [f"{row.set} at {row.bin} {row.share:.2f}" for row in bins[~near].itertuples()]
    return f"{near.sum()} of {len(near)}, and {near[answered].sum()} of {answered.sum()} ({', '.join(sets)})" + (
        f", farther off: {', '.join(far)}" if far else ""
    )


CALIBRATION = Experiment(
    timed=False,
    name="calibration",
    title="Calibration",
    figure="beyond the paper",
    question="How often was an object answered with probability p really in the skyline?",
    claim="",
    trials=trials,
    measure=measure,
    plots=tuple(
        Plot(f"Share that was right, {protocol} protocol", "probability", "share", "imputer", "set",
             {"protocol": protocol, "stage": ALL}, diagonal=True)
        for protocol in PROTOCOLS
    )
    + tuple(
        Plot(f"Share that was right, {stage}, honest protocol", "probability", "share", "imputer", "set",
             {"protocol": "honest", "stage": stage}, diagonal=True)
        for stage in (ARRIVAL, REVISED)
    ),
    read=read,
)  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- ceiling


NO_DELAY, OTHERS, BOTH, OWN = "no delay", "others true", "both", "own true"
LINES = (DEFAULT, NO_DELAY, OTHERS, BOTH, OWN)


def ceiling_trials(scope: Scope) -> list[Knobs]:
    return [
        {"set": name, "xi": XI, "place": place, "seed": seed}
        for name in sets(scope, (*LARGE, *ROOMS))
        for place in range(1 if scope.quick else PLACES)
        for seed in range(1, 2 if scope.quick else SEEDS + 1)
    ]


def ceiling_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
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


def probabilities(
    uncertain: UncertainRows, which: Ints, truth: Floats, gaps: Flags, window: Ints, skyline: Ints
) -> Floats:
    """(n,) that none of the true rows of the window beats the rows `which`; one gap each, larger is better."""
    if np.any(gaps[which].sum(axis=1) > 1):
        raise LabError("rows with several gaps have no single distribution to be judged by.")
    gap, out = gaps[which].argmax(axis=1), np.zeros(len(which))
    for j in range(truth.shape[1]):
        rest = [k for k in range(truth.shape[1]) if k != j]
        here = np.flatnonzero(gap == j)
        best = uncertain.hi[here, j]
        beaten = np.zeros(len(here), np.bool_)
        for some in np.array_split(np.arange(len(here)), max(1, len(here) * len(skyline) // 4_000_000)):
            over, level = _reached(truth, which[here[some]], skyline, rest, j)
            beaten[some] = (best[some] <= over) | (best[some] < level)
        for k in here[~beaten].tolist():  # few
            over, level = _reached(truth, which[[k]], window, rest, j)
            value, weight = _list(uncertain, k, j)
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


def _list(uncertain: UncertainRows, k: int, j: int) -> tuple[Floats, Floats]:
    """The values of one cell and their weights."""
    start = uncertain.start[k, j]
    if start < 0:
        return uncertain.lo[k, [j]], np.ones(1)
    span = slice(start, start + uncertain.size[k, j])
    return uncertain.value[span], uncertain.weight[span]


def ceiling_read(frame: pd.DataFrame) -> Reading:
    mean = frame.groupby(["set", "line"], sort=False)["f"].mean().unstack("line")
    parts = [
        f"{name} (aim {AIMS[str(name)]:g}): {', '.join(f'{line} {f[line]:.3f}' for line in LINES if line in f)}"
        for name, f in mean.iterrows()
    ]
    return Reading(
        "beyond the paper", f"F at ξ = {listed(f'{xi:g}' for xi in frame['xi'].unique())}. {'; '.join(parts)}."
    )


CEILING = Experiment(
    timed=False,
    name="ceiling",
    title="What a better imputer could still gain",
    figure="beyond the paper",
    question="How near would F be to 1 if the same learner knew more?",
    claim="",
    trials=ceiling_trials,
    measure=ceiling_measure,
    plots=(Plot("F", "line", "f", "set", kind="table", spread=True, per=("place", "seed")),),
    read=ceiling_read,
)
