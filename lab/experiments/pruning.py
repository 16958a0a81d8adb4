"""How many rows does each lemma keep from being looked at, and how many are imputed at all?

`pruning` is the paper's section 6.3. Of all rows of a full window: those that spatial pruning (Lemma 1) removes, then
those of the rest that max-corner (Lemma 2) and min-corner pruning (Lemma 3) remove, each by the definition, with the
help of a row that expires no earlier. Only rows that Lemma 1 left need to be tried as helpers: whatever a removed row
does, the row that surely beats it does as well. Layer 1 is the rows without any guard. Every 20th window is counted.
What Fogline counts as it goes is less: it asks only when it must.

`imputed` counts the paper's main idea: of the incomplete rows, those that were imputed; bounds settled all others.
`instances` is Table 8 of the paper (section 6.1): how many values an incomplete object gets.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.arrays import Ints
from fogline.engine.live import LiveSet
from fogline.impute.protocol import Evidence
from fogline.kernels.dominance import dominates
from fogline.kernels.judge import guards_of, lemma_of
from fogline.kernels.states import IN, OUT
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope, by_claims, finding, worst
from lab.experiments.common import case_of, kind_of, sets
from lab.imputers.fittable import evidence_of
from lab.imputers.rules import DD
from lab.maintainers import LiveMaintainer
from lab.paper.rules import TABLE_7, printed_rules
from lab.race import FOGLINE, Pair, system

EVERY = 20
RULES = ("spatial", "max_corner", "min_corner")
LAYER = "layer_1"


def trials(scope: Scope) -> list[Knobs]:
    return [{"set": name} for name in sets(scope)]


def pruning_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = str(knobs["set"])
    case = case_of(name, scope, ticks=2 if scope.quick else EVERY + 1)
    runner = system("DD+live", case)
    assert isinstance(runner, Pair)
    assert isinstance(runner.maintainer, LiveMaintainer)
    shares = []
    for k, rows in case.ticks():
        runner.advance(k, rows)
        if k >= case.full and (k - case.full) % EVERY == 0:
            shares.append(pruned(runner.maintainer.group.live, case.settings.lifetime * case.settings.theta))
    mean = {rule: float(np.mean([each[rule] for each in shares])) for rule in (*RULES, LAYER)}
    mean["together"] = sum(mean[rule] for rule in RULES)
    kind = "real" if kind_of(name) != "synthetic" else "synthetic"
    window = case.settings.window
    return [{"rule": rule, "kind": kind, "window": window, "percent": 100 * share} for rule, share in mean.items()]


def pruned(live: LiveSet, window: int) -> dict[str, float]:
    """Shares of the window."""
    alive = live.slots.alive()
    found = [lasting_lemma(live, int(o), alive) for o in alive]
    return {
        "spatial": 1 - len(alive) / window,
        "max_corner": found.count(0) / window,
        "min_corner": found.count(1) / window,
        LAYER: layer_one(live) / window,
    }


def layer_one(live: LiveSet) -> int:
    """How many live rows have no guard at all? Only those can be answers. O(open²)."""
    state = live.slots.columns.state
    opened = np.flatnonzero(state[: live.slots.used] >= OUT)  # others have a guard: the one that surely dominates them
    rows = live.slots.live_arrays()
    return sum(1 for o in opened if state[o] == IN or not len(guards_of(rows, opened, int(o), live.least)))


def lasting_lemma(live: LiveSet, o: int, alive: Ints) -> int:
    """0 max-corner, 1 min-corner; more: neither."""
    s = live.slots
    near = alive[
        (s.columns.expires[alive] >= s.columns.expires[o]) & (s.uncertain.hi[alive] >= s.uncertain.lo[o]).all(axis=1)
    ]
    near = np.array([g for g in near if g != o and dominates(s.uncertain.hi, g, s.uncertain.lo, o)], np.int64)
    return int(lemma_of(s.uncertain, s.columns.expires, near, o, live.least)) if len(near) else 3


def pruning_read(frame: pd.DataFrame) -> Reading:
    """Sets that are too short for the paper's window are reported apart: in a small window little is beaten."""
    frame = frame.assign(kind=[kind_of(str(name)) for name in frame["set"]])
    table = frame.pivot_table(index=["kind", "set"], columns="rule", values="percent")
    window = frame.groupby("set")["window"].max()
    short = table.index.get_level_values("set").isin(window.index[window < window.max()])
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
            f" {str(name).capitalize()} is too short for the paper's window: of {window[str(name)]:,} rows "
            f"{row['together']:.1f} % are pruned, and layer 1 has {row[LAYER]:.1f} %."
        )
    least = full[["max_corner", "min_corner"]].min().min()
    lowest = full["together"].min()
    spatial = finding("most", most, f"it prunes from {full['spatial'].min():.1f} % on, or less than the other two")
    others = [
        finding("some per cent", bool(least >= 1), f"one of them prunes {least:.2f} % on some set"),
        finding("together", bool(lowest >= 88.24), f"together they prune {lowest:.1f} % on some set"),
        finding("layer 1", bool(full[LAYER].max() <= 11.76), f"layer 1 holds {full[LAYER].max():.1f} % on some set"),
    ]
    return by_claims(text, [worst([spatial], MOST), worst(others, FURTHER)])


def _range(percent: pd.Series) -> str:
    return f"{percent.min():.1f}–{percent.max():.1f}"


MOST = "Spatial pruning prunes most objects"
FURTHER = (
    "Max-corner and min-corner pruning prune some per cent more each; at least 88.24 % together, so that layer 1 holds "
    "at most 11.76 %"
)

PRUNING = Experiment(
    timed=False,
    name="pruning",
    title="Pruning power of each lemma",
    figure="Figure 9",
    question="What share of the window does each lemma prune, and how large is layer 1?",
    claim="Spatial pruning 85.43–91.17 % (real) and 80.35–84.31 % (synthetic), max-corner 2.64–3.54 % and 2.16–3.25 %, "
    "min-corner 2.96–4.95 % and 3.62–5.15 %, together 92.92–97.2 % and 88.24–90.09 %; layer 1 holds 2.8–11.76 % of the "
    "window.",
    trials=trials,
    measure=pruning_measure,
    plots=(
        Plot("Pruned, in per cent of the window", "set", "percent", "rule", kind="table"),
        Plot("Real sets", "set", "percent", "rule", where={"kind": "real"}, kind="bar", y_label="%"),
        Plot("Synthetic sets", "set", "percent", "rule", where={"kind": "synthetic"}, kind="bar", y_label="%"),
    ),
    read=pruning_read,
    claims=(MOST, FURTHER),
)


# ------------------------------------------------------------------------------------------------ rows that are imputed


PAPER = {"intel": 14, "gas": 19, "bid": 23, "pump": 11, "uniform": 27, "correlated": 25, "anti": 27}
WORTH = 0.5  # of the incomplete rows: more than that imputed, and imputing late saves little


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
    return Reading("holds" if len(few) == len(share) else "fails here", text + "less than half.")


def instances_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    case = case_of(str(knobs["set"]), scope, protocol="paper")
    dd = DD(case.rules, values=None)
    dd.fit(case.history, case.query)
    rows = evidence_of(case.rows.slice(0, 20_000), case.query.names)
    paper, found = PAPER.get(case.name), {"discovered": dd}
    if case.name in TABLE_7:
        found["printed"] = DD(printed_rules(case.name), values=None)
        found["printed"].fit(case.history, case.query)
    return [
        {"rules": name, "instances": float(size.mean()), "median": float(np.median(size)), "paper": paper}
        for name, each in found.items()
        if len(size := _sizes(each, rows))
    ]


def _sizes(dd: DD, rows: Evidence) -> Ints:
    """How many values each gap gets, every sample's counted."""
    known = dd.look(rows)
    return np.concatenate([dd.distributions(known, j).size[rows.missing[:, j]] for j in range(rows.values.shape[1])])


def instances_read(frame: pd.DataFrame) -> Reading:
    known = frame[frame["paper"].notna()]
    parts = ", ".join(
        f"{row['set']} {row['instances']:,.0f}, median {row['median']:,.0f}, by {row['rules']} rules "
        f"({_paper(row['paper'])})"
        for _, row in frame.iterrows()
    )
    close = bool(((known["instances"] / known["paper"]).between(0.5, 2)).all()) if len(known) else False
    text = f"Mean instances per incomplete object (R as in the paper, all values kept), and the paper's: {parts}."
    return Reading("holds" if close else "fails here", text)


def _paper(number: float | None) -> str:
    return "not in the paper" if number is None or pd.isna(number) else f"{number:g}"


IMPUTED = Experiment(
    timed=False,
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
    timed=False,
    name="instances",
    title="Instances per incomplete object",
    figure="Table 8",
    question="How many values does imputing by rules give a gap?",
    claim="On average 14 (Intel), 19 (Gas), 23 (Bid), 11 (Pump), 27 (Uniform), 25 (Correlated), 27 (Anti-correlated).",
    trials=trials,
    measure=instances_measure,
    plots=(
        Plot("Instances, mean", "set", "instances", "rules", kind="table"),
        Plot("Instances, median", "set", "median", "rules", kind="table"),
        Plot("In the paper", "set", "paper", kind="table"),
    ),
    read=instances_read,
)
