"""How many rows does each lemma keep from being looked at?

The paper's section 6.3: of all rows of a full window, those that spatial pruning (Lemma 1) removes, then those of the
rest that max-corner (Lemma 2) and min-corner pruning (Lemma 3) remove, each by the definition: with the help of a row
that expires no earlier. Only rows that Lemma 1 left need to be tried as helpers, for whatever a removed row does, the
row that surely beats it does as well. Layer 1 is the rows without any guard.

Counted are windows, every 20th tick. What Fogline counts as it goes is less: it asks only when it must.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.arrays import Ints
from fogline.kernels.dominance import beats
from fogline.kernels.judge import lemma_of
from fogline.skyline.live import Live
from fogline.skyline.tree import layer_one
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import SHORT, case_of, kind_of, sets
from lab.maintainers import Tree
from lab.race import Pair, system

EVERY = 20
RULES = ("spatial", "max_corner", "min_corner")
LAYER = "layer_1"


def trials(scope: Scope) -> list[Knobs]:
    return [{"set": name} for name in sets(scope)]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = str(knobs["set"])
    case = case_of(name, scope, ticks=2 if scope.quick else EVERY + 1)
    runner = system("DD+skyline_tree", case)
    assert isinstance(runner, Pair)
    assert isinstance(runner.maintainer, Tree)
    shares = []
    for k, rows in case.ticks():
        runner.advance(k, rows)
        if k >= case.full and (k - case.full) % EVERY == 0:
            shares.append(pruned(runner.maintainer.group.live, case.settings.lifetime * case.settings.theta))
    mean = {rule: float(np.mean([each[rule] for each in shares])) for rule in (*RULES, LAYER)}
    mean["together"] = sum(mean[rule] for rule in RULES)
    kind = "real" if kind_of(name) != "synthetic" else "synthetic"
    return [{"rule": rule, "kind": kind, "percent": 100 * share} for rule, share in mean.items()]


def pruned(live: Live, window: int) -> dict[str, float]:
    """Shares of the window."""
    alive = live.slots.alive()
    found = [lasting_lemma(live, int(o), alive) for o in alive]
    return {
        "spatial": 1 - len(alive) / window,
        "max_corner": found.count(0) / window,
        "min_corner": found.count(1) / window,
        LAYER: layer_one(live) / window,
    }


def lasting_lemma(live: Live, o: int, alive: Ints) -> int:
    """0 max-corner, 1 min-corner; more: neither."""
    s = live.slots
    near = alive[
        (s.columns.expires[alive] >= s.columns.expires[o]) & (s.clouds.hi[alive] >= s.clouds.lo[o]).all(axis=1)
    ]
    near = np.array([g for g in near if g != o and beats(s.clouds.hi, g, s.clouds.lo, o)], np.int64)
    return int(lemma_of(s.clouds, s.columns.expires, near, o, live.least)) if len(near) else 3


def read(frame: pd.DataFrame) -> Reading:
    """Sets that are too short for the paper's window are reported apart: in a small window little is beaten."""
    frame = frame.assign(kind=[kind_of(str(name)) for name in frame["set"]])
    table = frame.pivot_table(index=["kind", "set"], columns="rule", values="percent")
    short = table.index.get_level_values("set").isin([name for name, most in SHORT.items() if "window" in most])
    parts = []
    for kind, rows in table[~short].groupby(level="kind"):
        parts.append(
            f"{kind}: spatial {_range(rows['spatial'])}, max-corner {_range(rows['max_corner'])}, min-corner "
            f"{_range(rows['min_corner'])}, together {_range(rows['together'])}, layer 1 {_range(rows[LAYER])}"
        )
    full = table[~short] if not short.all() else table
    most = bool((full["spatial"] > 50).all() and (full["spatial"] > full["max_corner"] + full["min_corner"]).all())
    close = bool(full["together"].min() >= 88.24 and full[LAYER].max() <= 11.76)
    text = (
        f"In per cent of the window, {'; '.join(parts)}. Spatial pruning {'does' if most else 'does not do'} most of "
        f"the work on every set; together the three {'reach' if close else 'do not always reach'} the paper's shares."
    )
    for name, row in table[short].droplevel("kind").iterrows():
        text += (
            f" {str(name).capitalize()} is too short for the paper's window: of {SHORT[str(name)]['window']:,} rows "
            f"{row['together']:.1f} % are pruned, and layer 1 has {row[LAYER]:.1f} %."
        )
    return Reading("confirmed" if most and close else "differs" if most else "not confirmed", text)


def _range(percent: pd.Series) -> str:
    return f"{percent.min():.1f}–{percent.max():.1f}"


PRUNING = Experiment(
    name="pruning",
    title="Pruning power of each lemma",
    figure="Figure 9",
    question="What share of the window does each lemma prune, and how large is layer 1?",
    claim="Spatial pruning 85.43–91.17 % (real) and 80.35–84.31 % (synthetic), max-corner 2.64–3.54 % and 2.16–3.25 %, "
    "min-corner 2.96–4.95 % and 3.62–5.15 %, together 92.92–97.2 % and 88.24–90.09 %; layer 1 holds 2.8–11.76 % of the "
    "window.",
    trials=trials,
    measure=measure,
    plots=(
        Plot("Pruned, in per cent of the window", "set", "percent", "rule", kind="table"),
        Plot("Real sets", "set", "percent", "rule", where={"kind": "real"}, kind="bar", y_label="%"),
        Plot("Synthetic sets", "set", "percent", "rule", where={"kind": "synthetic"}, kind="bar", y_label="%"),
    ),
    read=read,
)
