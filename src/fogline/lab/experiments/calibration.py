"""Of the rows answered with probability p, how many really were in the skyline?

All rows above 0.01 are asked for, not only those above the usual threshold. Bins of a tenth; a bin's share should be
its mean probability. Rows without doubt, at 1, have a bin of their own: most of them are complete rows.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.lab.case import PROTOCOLS
from fogline.lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from fogline.lab.experiments.common import SHORT, case_of, sets
from fogline.lab.experiments.fscore import EVERY, LARGE, leaps
from fogline.lab.imputers import imputer
from fogline.lab.score import calibration, truth_answers
from fogline.lab.synthetic import KINDS

ALPHA = 0.01
IMPUTERS = ("DD", "DD-context")
SURE = 1 - 1e-9


def trials(scope: Scope) -> list[Knobs]:
    return [
        {"set": name, "protocol": protocol, "imputer": each}
        for name in sets(scope, (KINDS[0], *LARGE))
        for protocol in PROTOCOLS
        for each in IMPUTERS
        if name not in KINDS or each == IMPUTERS[0]
    ]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = str(knobs["set"])
    ticks = {} if name in SHORT else {"ticks": EVERY + 1 if scope.quick else 4 * EVERY + 1}
    case = case_of(name, scope, alpha=ALPHA, protocol=knobs["protocol"], **ticks)
    at = range(case.full, case.length, EVERY)
    pairs = calibration(case, leaps(case, imputer(str(knobs["imputer"]), case), at), truth_answers(case, at))
    which = np.where(pairs[:, 0] >= SURE, 10, np.minimum((pairs[:, 0] * 10).astype(int), 9))
    rows: list[dict[str, Scalar]] = []
    for bin in np.unique(which).tolist():
        p, right = pairs[which == bin].T
        label = "1" if bin == 10 else f"{bin / 10:g}–{(bin + 1) / 10:g}"
        rows.append({"bin": label, "probability": float(p.mean()), "share": float(right.mean()), "n": len(p)})
    return rows


def read(frame: pd.DataFrame) -> Reading:
    parts = []
    for (protocol, name, each), rows in frame.groupby(["protocol", "set", "imputer"], sort=False):
        unsure = rows[rows["bin"] != "1"]
        off = ((unsure["probability"] - unsure["share"]).abs() * unsure["n"]).sum() / max(unsure["n"].sum(), 1)
        sure = rows[rows["bin"] == "1"]
        parts.append(
            f"{protocol}, {name}, {each}: off by {off:.3f} ({unsure['n'].sum():,.0f} answers), and of "
            f"{sure['n'].sum():,.0f} at 1 {100 * sure['share'].mean():.1f} % were"
        )
    return Reading(
        "beyond the paper",
        f"Mean distance between probability and share among uncertain answers, and how many of the certain ones really "
        f"were in the skyline: {'; '.join(parts)}.",
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
