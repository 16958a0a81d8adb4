"""What makes it fast, step by step?

Every step takes the same streams and gives the same answers; each changes one thing beside the one before it:

1. `scan of R`: every gap looks at all of R; then the paper's tree, corrected.
2. `sorted column`: samples are found by bisection.
3. `R*-tree`: samples are found through the paper's index I_j.
4. `histograms`: the index's histograms come first, so that lemmas prune before anything is imputed (section 5.2).
5. `bounds`: the least and greatest sample come first instead, from the sorted column.
6. `live set`: everything is imputed as it comes, but no tree is kept: members are updated, by sums, by what came and
   went.
7. `lazy`: Fogline. Bounds come first, and a row is imputed when its probability is asked for, or never.

Beside them, each lemma off and on in the paper's system (4), and who keeps the skyline of rows that are imputed already
by the same rules: the paper's tree as printed and as corrected, the candidate lists of Ding et al., the live set.
The window is of 5,000 rows; a tree of the paper's 20,000 takes minutes to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pandas as pd

from lab.case import KINDS, Case
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import case_of, listed, pace, sets
from lab.paper.access import COLUMN, INDEX, SCAN
from lab.paper.lattice import BOUNDS, HISTOGRAMS, NOTHING
from lab.paper.rules import printed_rules
from lab.race import FOGLINE, PaperSystem, System, system

STEPS: Mapping[str, Callable[[Case], System]] = {
    "1 scan of R": partial(PaperSystem, access=SCAN, first=NOTHING),
    "2 sorted column": partial(PaperSystem, access=COLUMN, first=NOTHING),
    "3 R*-tree": partial(PaperSystem, access=INDEX, first=NOTHING),
    "4 histograms": partial(PaperSystem, access=INDEX, first=HISTOGRAMS),
    "5 bounds": partial(PaperSystem, access=COLUMN, first=BOUNDS),
    "6 live set": partial(system, "DD-literal+live"),
    "7 lazy": partial(system, FOGLINE),
}
LEMMAS: Mapping[str, Callable[[Case], System]] = {
    "none": partial(PaperSystem, lemmas=()),
    **{"+".join(map(str, some)): partial(PaperSystem, lemmas=some)
       for some in ((1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3))},
}  # fmt: skip
KEEPERS: Mapping[str, Callable[[Case], System]] = {
    name: partial(system, f"DD+{keeper}")
    for name, keeper in (
        ("tree, as printed", "skyline_tree:printed"), ("tree, corrected", "skyline_tree"),
        ("candidate lists", "skyline"), ("lists that forget", "skyline_forgetting"), ("live set, sums", "live"),
    )
}  # fmt: skip
PARTS = {"steps": STEPS, "lemmas": LEMMAS, "keepers": KEEPERS}
WINDOW, SEEDS = 5_000, (1, 2, 3, 4, 5)
SENSORS = "intel"


def trials(scope: Scope) -> list[Knobs]:
    return [
        {"set": name, "part": part, "seed": seed}
        for name in sets(scope, (*KINDS, SENSORS))
        for part in PARTS
        for seed in SEEDS[: 1 if scope.quick or name == SENSORS else 5 if part == "steps" else 2]
    ]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = str(knobs["set"])
    small = {} if scope.quick else {"window": WINDOW, "ticks": 40}
    case = case_of(name, scope, seed=knobs["seed"], **small)
    if name == SENSORS:  # rules with one determinant, as a sorted column needs
        case = replace(case, rules=printed_rules(name))
    rows: list[dict[str, Scalar]] = []
    for step, make in PARTS[str(knobs["part"])].items():
        runner = make(case)
        took = pace(case, runner, seconds=1.5)
        sizes = runner.sizes()
        pruned: dict[str, Scalar] = {each: sizes.get(each) for each in ("spatial", "max_corner", "min_corner")}
        rows.append({"step": step, "window": case.settings.window, **took, "imputed": sizes.get("imputed"), **pruned})
    return rows


def read(frame: pd.DataFrame) -> Reading:
    texts = []
    for part, rows in frame.groupby("part", sort=False):
        ms = rows.groupby(["step", "set"], sort=False)["total_ms"].mean().unstack("set")
        first, last = ms.iloc[0], ms.iloc[-1]
        if part == "steps":
            times = listed(f"{each:.3g} ({name})" for name, each in (first / last).items())
            texts.append(f"From step 1 to step 7 a tick takes less by a factor of {times}")
            gains = (ms.shift() / ms).iloc[1:]
            texts += [f"{step} gains {row.min():.2g} to {row.max():.2g}" for step, row in gains.iterrows()]
        elif part == "lemmas":
            shown = listed(f"{each:.2g} ({name})" for name, each in (first / last).items())
            texts.append(f"Without any lemma the paper's system takes this many times as long: {shown}")
        else:
            shown = listed(f"{each:.3g} ({name})" for name, each in (first / last).items())
            texts.append(f"The printed tree takes this many times as long as the live set: {shown}")
    return Reading("beyond the paper", "; ".join(texts) + ".")


LADDER = Experiment(
    name="ladder",
    title="What makes it fast, step by step",
    figure="beyond the paper",
    question="What does each idea gain, on the same streams with the same answers?",
    claim="",
    trials=trials,
    measure=measure,
    plots=(
        Plot("Time per tick, step by step", "step", "total_ms", "set", where={"part": "steps"}, kind="bar", log_y=True,
             spread=True, y_label="ms"),
        Plot("Steps", "step", "total_ms", "set", where={"part": "steps"}, kind="table", spread=True, per=("seed",),
             y_label="ms"),
        Plot("Imputing, of that", "step", "imputation_ms", "set", where={"part": "steps"}, kind="table", y_label="ms"),
        Plot("The paper's system with these lemmas", "step", "total_ms", "set", where={"part": "lemmas"}, kind="table",
             spread=True, per=("seed",), y_label="ms"),
        Plot("Who keeps the skyline", "step", "total_ms", "set", where={"part": "keepers"}, kind="table", spread=True,
             per=("seed",), y_label="ms"),
    ),
    read=read,
)  # fmt: skip
