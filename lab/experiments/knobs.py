"""What does each knob cost?

The paper's Figures 13 to 18: one knob is turned, the rest stays at its default, on the three synthetic sets. As in the
paper, maintenance is with imputation, and query is working out the answer; here also their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pandas as pd

from lab.case import KINDS
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import between, case_of, listed, pace
from lab.race import FOGLINE, system

FLAT = 1.25  # less of a change than this may be noise: the same point, measured again, varies as much
PARTS = ("maintenance", "query")


@dataclass(frozen=True)
class KnobSweep:
    """A knob, its values in the paper, and what happens in the paper as it goes up: 1 rises, -1 falls."""

    knob: str
    sign: str
    values: tuple[float, ...]
    figure: str
    claim: str
    maintenance: int = 1
    query: int = 1
    most: tuple[float, float] = (0.0, 0.0)
    """The paper's bounds of maintenance and query, in ms."""


SWEEPS = (
    KnobSweep("alpha", "α", (0.1, 0.2, 0.5, 0.8, 0.9), "Figure 13",
         "Maintenance rises linearly with α, to less than 222 ms; query falls and stays between 25.1 and 27.5 ms.",
         query=-1, most=(222, 27.5)),
    KnobSweep("d", "d", (2, 3, 4, 5, 6, 10), "Figure 14",
         "Both rise with d; maintenance stays below 137 ms, query below 13 ms.", most=(137, 13)),
    KnobSweep("xi", "ξ", (0.1, 0.2, 0.3, 0.4, 0.5), "Figure 15",
         "Both rise with ξ, maintenance linearly; below 100 ms and 9.5 ms. Query is least on Correlated and greatest "
         "on Anti-correlated.", most=(100, 9.5)),
    KnobSweep("theta", "θ", (10, 20, 30, 40, 50, 100), "Figure 16",
         "Both rise smoothly with θ; maintenance 201–221 ms, query 25.1–27.5 ms.", most=(221, 27.5)),
    KnobSweep("window", "|W|", (5_000, 10_000, 20_000, 40_000, 50_000, 80_000), "Figure 17",
         "Both rise with |W|, to less than 206.7 ms and 19.32 ms at 80K.", most=(206.7, 19.32)),
    KnobSweep("history", "|R|", (40_000, 80_000, 120_000, 160_000, 200_000), "Figure 18",
         "Both rise smoothly with |R|, to around 70.4 ms and 9.31 ms at 200K.", most=(70.4, 9.31)),
)  # fmt: skip


def trials(sweep: KnobSweep, scope: Scope) -> list[Knobs]:
    scale = 10 if scope.quick and sweep.knob == "window" else 1
    values = (sweep.values[0], sweep.values[-1]) if scope.quick else sweep.values
    seeds = (1,) if scope.quick else (1, 2)
    return [
        {"set": kind, sweep.knob: value if isinstance(value, float) else value // scale, "seed": seed}
        for kind in KINDS
        for value in values
        for seed in seeds
    ]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    turned = {name: value for name, value in knobs.items() if name != "set"}
    case = case_of(str(knobs["set"]), scope, **turned)
    runner = system(FOGLINE, case)
    took = pace(case, runner)
    sizes = runner.sizes()
    return [took | {"system": FOGLINE, "live": sizes["live"], "answer": sizes["answer"]}]


def read(sweep: KnobSweep, frame: pd.DataFrame) -> Reading:
    ends = frame[sweep.knob].min(), frame[sweep.knob].max()
    found, parts = [], []
    for part in PARTS:
        each_seed = frame.groupby(["set", "seed", sweep.knob])[f"{part}_ms"].mean().unstack(sweep.knob)
        change = (each_seed[ends[1]] / each_seed[ends[0]]).dropna().groupby("set", sort=False)
        found += [_direction(each) * getattr(sweep, part) for _, each in change]
        shown = listed(f"{between(each, '{:.2f}')}× ({name})" for name, each in change)
        parts.append(f"{part} changes by {shown}")
    slowest = [float(frame[f"{part}_ms"].max()) for part in PARTS]
    below = [f"{ms:.2g} ms (the paper's bound is {most:g})" for ms, most in zip(slowest, sweep.most, strict=True)]
    text = (
        f"Of {len(found)} cases {found.count(1)} go the paper's way, {found.count(0)} are flat as far as the noise "
        f"lets us see (less than {FLAT:g}×, or the seeds disagree), {found.count(-1)} go the other way; at the "
        f"slowest, maintenance takes {below[0]} and query {below[1]}. From {sweep.sign} = {ends[0]:g} to {ends[1]:g}, "
        f"over the seeds, {parts[0]}, and {parts[1]}."
    )
    ways = set(found)
    return Reading("confirmed" if ways == {1} else "differs" if 1 in ways else "not confirmed", text)


def _direction(changes: pd.Series) -> int:
    """1 or -1 only if all seeds agree."""
    return 1 if (changes > FLAT).all() else -1 if (changes < 1 / FLAT).all() else 0


def swept(sweep: KnobSweep) -> Experiment:
    """The experiment that turns this knob."""
    log = sweep.values[-1] > 1_000
    return Experiment(
        name=sweep.knob,
        title=f"Efficiency over {sweep.sign}",
        figure=sweep.figure,
        question=f"What does a tick take as {sweep.sign} grows?",
        claim=sweep.claim,
        trials=partial(trials, sweep),
        measure=measure,
        plots=tuple(
            Plot(title, sweep.knob, f"{part}_ms", "set", log_x=log, spread=True, x_label=sweep.sign, y_label="ms")
            for title, part in (("Maintenance", "maintenance"), ("Query", "query"), ("Together", "total"))
        ),
        read=partial(read, sweep),
    )


KNOBS = tuple(swept(sweep) for sweep in SWEEPS)
