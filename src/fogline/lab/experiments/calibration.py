"""Of the rows answered with probability p, how many really were in the skyline?

All rows above 0.01 are asked for, not only those above the usual threshold. Bins of a tenth; a bin's share should be
its mean probability. Rows without doubt, at 1, have a bin of their own: most of them are complete rows.

Several windows of a set are put together, and for Fogline several seeds: its distributions are narrow, so that few rows
of a window are in doubt. A row that is in doubt at several of the ticks is counted at each; `rows` counts it once.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.arrays import Floats
from fogline.lab.accuracy import calibration, truth_answers
from fogline.lab.case import PROTOCOLS, Case
from fogline.lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from fogline.lab.experiments.ahead import DEFAULT
from fogline.lab.experiments.common import SHORT, case_at, sets
from fogline.lab.experiments.fscore import EVERY, LARGE, ROOMS, leaps
from fogline.lab.imputers import imputer
from fogline.lab.synthetic import KINDS

ALPHA = 0.01
IMPUTERS = ("DD", "DD-context")
SURE = 1 - 1e-9
PLACES, SEEDS = 5, 3
ENOUGH = 200  # cases of a bin; fewer mean little
NEAR = 0.1  # so far may a bin's share be from its probability
HALF = 0.5  # above it, a row is in the answer by default
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
    parts = []
    for k, (place, seed) in enumerate(windows(name, imputing, scope)):
        case = case_at(name, scope, place, alpha=ALPHA, protocol=knobs["protocol"], seed=seed, **ticks)
        judgements = judged(case, imputing)
        parts.append(np.column_stack((judgements, np.full(len(judgements), float(k)))))
    return binned(np.concatenate(parts))


def judged(case: Case, imputing: str) -> Floats:
    """(n, 3) for every answered row of every tick: its probability, whether it was in the skyline, and which it is."""
    at = range(case.full, case.length, EVERY)
    answers = leaps(case, imputer(imputing, case), at)
    which = np.concatenate([answers[k].id[case.certain[answers[k].id]] for k in at])
    return np.column_stack((calibration(case, answers, truth_answers(case, at)), which))


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
    for (protocol, name, each), rows in frame.groupby(["protocol", "set", "imputer"], sort=False):
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
    near = (bins["probability"] - bins["share"]).abs() <= NEAR
    answered = bins["probability"] > HALF
    sets = [f"{name} {kept.sum()} of {len(kept)}" for name, kept in near.groupby(bins["set"], sort=False)]
    far = [f"{row.set} at {row.bin} {row.share:.2f}" for row in bins[~near].itertuples()]
    return (
        f"Fogline, uncertain answers in bins of a tenth with {ENOUGH} cases or more: the share is within {NEAR:g} of "
        f"the mean probability in {near.sum()} of {len(near)} bins of all rows above {ALPHA:g}, and in "
        f"{near[answered].sum()} of {answered.sum()} bins of those that are answered by default, above {HALF:g} "
        f"({', '.join(sets)}). " + (f"Shares that are farther off: {', '.join(far)}. " if far else "")
    )


CALIBRATION = Experiment(
    name="calibration",
    title="Calibration",
    figure="beyond the paper",
    question="How often was an object answered with probability p really in the skyline?",
    claim="",
    trials=trials,
    measure=measure,
    plots=tuple(
        Plot(f"Share that was right, {protocol} protocol", "probability", "share", "imputer", "set",
             {"protocol": protocol}, diagonal=True)
        for protocol in PROTOCOLS
    ),
    read=read,
)  # fmt: skip
