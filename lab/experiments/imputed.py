"""How many rows needed their distribution at all, and how large is one?

The paper's main idea, counted: of the incomplete rows, those that were imputed; all others were settled by bounds. And
the table of the paper's section 6.1: how many instances an incomplete object has.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import case_of, kind_of, sets
from lab.imputers import imputer
from lab.imputers.fittable import evidence_of
from lab.race import FOGLINE, system

PAPER = {"intel": 14, "gas": 19, "pump": 11, "uniform": 27, "correlated": 25, "anti": 27}
WORTH = 0.5  # of the incomplete rows: more than that imputed, and imputing late saves little


def trials(scope: Scope) -> list[Knobs]:
    return [{"set": name} for name in sets(scope)]


def imputed_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    case = case_of(str(knobs["set"]), scope)
    runner = system(FOGLINE, case)
    for k, rows in case.ticks():
        runner.advance(k, rows)
    sizes = runner.sizes()
    return [
        {"kind": kind_of(case.name), "incomplete": sizes["incomplete"], "imputed": sizes["imputed"],
         "percent": 100 * sizes["imputed"] / max(sizes["incomplete"], 1)}
    ]  # fmt: skip


def imputed_read(frame: pd.DataFrame) -> Reading:
    share = frame.groupby("set", sort=False)["percent"].mean()
    parts = ", ".join(f"{name} {percent:.1f} %" for name, percent in share.items())
    few = share[share < 100 * WORTH]
    text = (
        f"Of the incomplete rows, so many needed their distribution: {parts}. On {len(few)} of {len(share)} sets it is "
    )
    return Reading("confirmed" if len(few) == len(share) else "differs", text + "less than half.")


def instances_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    case = case_of(str(knobs["set"]), scope, protocol="paper")
    dd, rows = imputer("DD", case), evidence_of(case.rows.slice(0, 20_000), case.query.names)
    known = dd.look(rows)
    size = np.concatenate([dd.distributions(known, j).size[rows.missing[:, j]] for j in range(rows.values.shape[1])])
    paper = PAPER.get(case.name)
    return [{"instances": float(size.mean()), "median": float(np.median(size)), "paper": paper}]


def instances_read(frame: pd.DataFrame) -> Reading:
    known = frame[frame["paper"].notna()]
    parts = ", ".join(f"{row['set']} {row['instances']:.0f} ({_paper(row['paper'])})" for _, row in frame.iterrows())
    close = bool(((known["instances"] / known["paper"]).between(0.5, 2)).all()) if len(known) else False
    text = f"Mean instances per incomplete object (R drawn as in the paper), and the paper's: {parts}."
    return Reading("confirmed" if close else "differs", text)


def _paper(number: float | None) -> str:
    return "not in the paper" if number is None or pd.isna(number) else f"{number:g}"


IMPUTED = Experiment(
    name="imputed",
    title="Rows that needed imputing",
    figure="section 6.5",
    question="Of the incomplete rows, how many had to be imputed?",
    claim="Imputing and querying at the same time prunes incomplete objects early, on the level of index nodes.",
    trials=trials,
    measure=imputed_measure,
    plots=(Plot("Imputed, in per cent of the incomplete rows", "set", "percent", kind="bar", y_label="%"),),
    read=imputed_read,
)

INSTANCES = Experiment(
    name="instances",
    title="Instances per incomplete object",
    figure="Table of section 6.1",
    question="How many values does imputing by rules give a gap?",
    claim="On average 14 (Intel), 19 (Gas), 23 (Bid), 11 (Pump), 27 (Uniform), 25 (Correlated), 27 (Anti-correlated).",
    trials=trials,
    measure=instances_measure,
    plots=(
        Plot("Instances, mean", "set", "instances", kind="bar"),
        Plot("In the paper", "set", "paper", kind="table"),
    ),
    read=instances_read,
)
