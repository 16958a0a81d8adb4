"""Does the cost model choose a good side for the cells of the index, and does β matter?

The paper's Figure 8 and its appendix E: 120,000 rows, two determinants from 0 to 10. Estimated is Eq. 14, cells and
false alarms. Actual is a whole query, with what no side can save: walking down the tree, copying and sorting what
matched. So curves are compared by shape and by where they are lowest.

β weighs cells against rows in Eq. 14. Fogline measures both in seconds, so its β is 0.5. A rule with a single
determinant, as all of the paper's synthetic rules are, needs no cells. So β is turned where it has an effect: in the
side that the model chooses, and in what queries of an index with such cells take. Ticks do not depend on it.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import pandas as pd

from fogline.arrays import Floats
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope, by_claims, finding
from lab.paper.cost import BETA, Load, best_side, cost, power_law, unit_costs
from lab.paper.index import Index

RANGE = 10.0
SIDES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
RADII = (0.072, 0.228)  # with 120,000 rows: about 25 and 250 matches
BETAS = (0.1, 0.2, 0.5, 0.8, 0.9)
GOOD = 1.25  # so much dearer than the best may a choice be
ALIKE = 0.8  # rank correlation of estimate and measurement
CHOSEN = "chosen"


def cost_trials(scope: Scope) -> list[Knobs]:
    return [{"set": "uniform", "radius": radius, "seed": seed} for radius in RADII for seed in _seeds(scope)]


def cost_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    points, load, radius = _asked(knobs, scope)
    chosen = best_side(load) * RANGE
    sides = (*SIDES, chosen)
    actual = _microseconds(points, sides, radius, scope)
    return [
        {"u": u, "which": CHOSEN if u == chosen else "tried", "actual_us": float(took),
         "estimated_us": cost(u / RANGE, load) / BETA * 1e6}
        for u, took in zip(sides, actual, strict=True)
    ]  # fmt: skip


def cost_read(frame: pd.DataFrame) -> Reading:
    parts, good, rank = [], True, 1.0
    for radius, rows in frame.groupby("radius", sort=False):
        mean = rows.groupby(["which", "u"])[["estimated_us", "actual_us"]].mean().reset_index()
        tried, chosen = mean[mean["which"] != CHOSEN], rows[rows["which"] == CHOSEN]
        best = tried.iloc[int(tried["actual_us"].argmin())]
        times = chosen["actual_us"].mean() / best["actual_us"]
        alike = tried["estimated_us"].corr(tried["actual_us"], method="spearman")
        good &= bool(times <= GOOD)
        rank = min(rank, alike)
        parts.append(
            f"radius {radius:g}: the model chooses u = {chosen['u'].mean():.2f}, the best that was tried is "
            f"{best['u']:g}; the choice costs {times:.2f} times as much; estimate and measurement agree in rank with "
            f"{alike:.2f}"
        )
    text = (
        f"{'; '.join(parts).capitalize()}. Where the best u lies depends on the radius, which the paper does not give, "
    )
    return by_claims(
        text + "and on what a cell and a row cost on the machine.",
        [
            finding(
                "The estimated cost follows the trend of the actual cost", rank >= ALIKE, f"ranks agree with {rank:.2f}"
            ),
            finding("The u that the model chooses is a good one", good, "another u was faster, see above"),
        ],
    )


def beta_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    points, load, radius = _asked(knobs, scope)
    sides = tuple(best_side(replace(load, beta=beta)) * RANGE for beta in BETAS)
    actual = _microseconds(points, sides, radius, scope)
    return [{"beta": beta, "u": u, "actual_us": us} for beta, u, us in zip(BETAS, sides, actual.tolist(), strict=True)]


def beta_read(frame: pd.DataFrame) -> Reading:
    mean = frame.groupby(["radius", "beta"])["actual_us"].mean().unstack("beta")
    best = mean.idxmin(axis=1)
    spread = mean.max(axis=1) / mean.min(axis=1)
    parts = [
        f"radius {radius:g}: lowest at β = {best[radius]:g}, dearest {spread[radius]:.2f}×" for radius in mean.index
    ]
    middle = bool((mean[0.5] <= mean.min(axis=1) * 1.1).all()) if 0.5 in mean else False
    text = (
        f"Queries of an index whose cells were chosen with each β: {'; '.join(parts)}. β = 0.5 is "
        f"{'within a tenth of the best' if middle else 'not the best'}. The query time of the skyline does not depend "
        "on β here: cells decide how long imputing takes, never which values are found."
    )
    never = "cells decide how long imputing takes, never which values are found"
    return by_claims(
        text,
        [
            finding("Maintenance takes least with β around 0.5", middle, "another β was faster, see above"),
            finding("Query time rises smoothly with β", False, never, by_design=True),
        ],
    )


def _seeds(scope: Scope) -> tuple[int, ...]:
    return (1,) if scope.quick else (1, 2, 3)


def _asked(knobs: Knobs, scope: Scope) -> tuple[Floats, Load, Floats]:
    """Rows, what is asked of their index, and the radius around each row."""
    n = 30_000 if scope.quick else 120_000
    points = np.random.default_rng([int(knobs["seed"] or 0), 30]).uniform(0, RANGE, (n, 2))
    radius = np.full(2, float(knobs["radius"] or 0))
    return points, Load(n, radius[None] / RANGE, power_law(points / RANGE), unit_costs()), radius


def _microseconds(points: Floats, sides: tuple[float, ...], radius: Floats, scope: Scope) -> Floats:
    """Per query of each index: the median of several rounds, the indexes one after the other in each."""
    rng = np.random.default_rng(31)
    centres = points[rng.choice(len(points), 500 if scope.quick else 2_000, replace=False)]
    indexes = [Index.build(points, points[:, 0], [u, u]) for u in sides]
    took = np.empty((6 if scope.quick else 12, len(indexes)))
    for turn in took:
        for i, index in enumerate(indexes):
            began = perf_counter()
            index.find(centres, radius)
            turn[i] = (perf_counter() - began) / len(centres)
    return np.asarray(np.median(took[1:], axis=0) * 1e6)  # the first round is for the caches


COST = Experiment(
    name="cost",
    title="Verification of the cost model",
    figure="Figure 8",
    question="Is the cell side that the model chooses a good one?",
    claim="The estimated cost follows the trend of the actual cost over u = 0.1 … 1 on Uniform; the best u is about "
    "0.4, as chosen by the model.",
    trials=cost_trials,
    measure=cost_measure,
    plots=(
        Plot("Estimated (cells and false alarms)", "u", "estimated_us", "which", "radius", log_x=True, y_label="µs"),
        Plot("Actual (whole queries)", "u", "actual_us", "which", "radius", log_x=True, spread=True, y_label="µs"),
    ),
    read=cost_read,
)

BETA_KNOB = Experiment(
    name="beta",
    title="Efficiency over the coefficient β of the cost model",
    figure="Figure 20",
    question="Does it matter how cells are weighed against rows?",
    claim="Maintenance takes least with β around 0.5; query time rises smoothly with β and stays between 7.63 and "
    "8.68 ms.",
    trials=cost_trials,
    measure=beta_measure,
    plots=(
        Plot("Imputation query", "beta", "actual_us", "radius", y_label="µs"),
        Plot("Chosen side", "beta", "u", "radius"),
    ),
    read=beta_read,
)
