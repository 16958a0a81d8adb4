"""What do several gaps per row cost?

The paper's Figure 19. Each of its synthetic rules explains an attribute by one other. With two gaps in a row that one
may be missing as well, and then nothing is left but the distribution of the attribute over the whole of R: 120,000
values, which no box can bound. That is another task, and a far slower one, so it is shown apart:

- `all`: every attribute is explained by every other. Such rules hold on these rows just as the paper's do, since copies
  of a seed are close in all attributes, and any one known value is enough. At the defaults.
- `ring`: the paper's rules, in a window of 600 rows; one of 20,000 would take many minutes to fill,
  and so would three gaps per row.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pandas as pd

from lab.case import KINDS
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import case_of, listed, pace
from lab.race import FOGLINE, system

GAPS = (1, 2, 3)
RING = 600  # rows of the window with the paper's rules


def trials(scope: Scope) -> list[Knobs]:
    return [
        {"set": kind, "rules": rules, "m": m}
        for kind in KINDS
        for rules in ("all", "ring")
        for m in (GAPS if rules == "all" else GAPS[: 1 if scope.quick else 2])
    ]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    ring = knobs["rules"] == "ring"
    small = {"window": RING, "ticks": 10} if ring else {}
    case = case_of(str(knobs["set"]), scope, m=knobs["m"], **small)
    if not ring:
        pairs = permutations(case.query.names, 2)
        case = replace(case, rules=tuple(f"{given}(0.001) -> {then}(0.01)" for given, then in pairs))
    runner = system(FOGLINE, case)
    took = pace(case, runner)
    sizes = runner.sizes()
    return [took | {"window": case.settings.window, "live": sizes["live"], "imputed": sizes["imputed"]}]


def read(frame: pd.DataFrame) -> Reading:
    parts, held = [], []
    for rules, rows in frame.groupby("rules", sort=False):
        for part in ("maintenance", "query"):
            mean = rows.groupby(["set", "m"])[f"{part}_ms"].mean().unstack("m")
            first, last = mean.columns[0], mean.columns[-1]
            change = mean[last] / mean[first]
            if rules == "all":
                held += [bool(each > 1) for each in change]
            parts.append(
                f"rules {rules}, {part} from m = {first} to {last}: "
                f"{listed(f'{each:.3g}× ({name})' for name, each in change.items())}, at most {mean[last].max():.3g} ms"
            )
    text = f"{'; '.join(parts).capitalize()}."
    if frame[frame["rules"] == "ring"]["m"].max() > 1:
        text += (
            " With the paper's rules (ring) rows whose determinant is missing too get the values of all of R, and only "
            f"a window of {RING:,} rows was tried."
        )
    return Reading("confirmed" if all(held) else "differs", text)


M = Experiment(
    name="m",
    title="Efficiency over m",
    figure="Figure 19",
    question="What does a tick take as rows have more gaps?",
    claim="Both rise with m, to less than 118.7 ms and 9.21 ms.",
    trials=trials,
    measure=measure,
    plots=tuple(
        Plot(title, "m", f"{part}_ms", "set", "rules", log_y=True, y_label="ms")
        for title, part in (("Maintenance", "maintenance"), ("Query", "query"), ("Together", "total"))
    ),
    read=read,
)
