"""How much does it save to impute and to query at the same time?

The paper's Figure 12: every system on every set, imputation, upkeep and query of a tick, and their sum. The six rivals
share Fogline's compiled parts, so what is compared is the idea and not the handwriting: `skyline_tree` is Fogline's own
live set fed with rows that are imputed already, and `skyline_forgetting` is the candidate list with its rule for
forgetting. `mean+moocore` is what a user with a good Pareto library would write; its answers are not the same.

All systems are raced without what lies around them (see `race`). Beside them stands what a user gets: a whole tick of a
`Monitor`, with reading rows, refusing duplicates, scoring hidden values and writing changes.
"""

from __future__ import annotations

import pandas as pd

from fogline.monitor import Monitor
from lab.case import KINDS
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import STANDS, between, case_of, kind_of, listed, pace, sets, whole_ticks
from lab.race import FOGLINE, RIVALS, repository_of, system

SYSTEMS = (FOGLINE, *RIVALS, "DD+skyline_forgetting", "mean+moocore")
CLAIMED = 100.0  # two orders of magnitude


def trials(scope: Scope) -> list[Knobs]:
    """Three seeds where a set can be had anew, one of a real set."""
    return [{"set": name, "seed": seed} for name in sets(scope) for seed in _seeds(name, scope)]


def _seeds(name: str, scope: Scope) -> tuple[int, ...]:
    return (1, 2, 3) if name in KINDS and not scope.quick else (1,)


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = str(knobs["set"])
    case = case_of(name, scope, seed=knobs["seed"])
    rows: list[dict[str, Scalar]] = []
    for each in SYSTEMS:
        runner = system(each, case)
        row: dict[str, Scalar] = {"system": each, "kind": kind_of(name), "window": case.settings.window}
        row |= pace(case, runner)
        sizes = runner.sizes()
        row["kept"] = sizes["live"] if each == FOGLINE else sizes["kept"]
        rows.append(row)
    rows[0]["monitor_ms"] = whole_ticks(case, Monitor(case.query, repository_of(FOGLINE, case)))
    fogline = float(rows[0]["total_ms"] or 0)
    return [row | {"ratio": float(row["total_ms"] or 0) / fogline} for row in rows]


def read(frame: pd.DataFrame) -> Reading:
    ratio = frame.pivot_table(index="set", columns="system", values="ratio", sort=False)
    parts = [
        f"{name} {_times(line, 'DD+skyline')} and {_times(line, 'DD+skyline_tree')}" for name, line in ratio.iterrows()
    ]
    first = ratio["DD+skyline"] >= CLAIMED
    second = ratio["DD+skyline_tree"] >= CLAIMED
    held = [str(name) for name in ratio.index[first]]
    wide = [
        f"{between(ratio[name], '{:.3g}')} times Fogline's time with {name}"
        for name in ("DD+skyline", "DD+skyline_tree")
    ]
    text = (
        f"A tick takes {listed(wide)}. Set by set, both as a multiple of Fogline's: {'; '.join(parts)}. Two orders of "
        f"magnitude against DD+skyline hold on {listed(held) if held else 'no set'}; against DD+skyline_tree on "
        f"{listed(ratio.index[second]) if second.any() else 'no set'}.{_why(frame) if not second.all() else ''}"
    )
    others = [f"{name} {between(ratio[name], '{:.2g}')}×" for name in RIVALS if not name.startswith("DD")]
    text += f" The other rivals: {listed(others)}.{_whole(frame)}{STANDS}"
    both = bool(first.all() and second.all())
    return Reading("confirmed" if both else "differs" if first.any() else "not confirmed", text)


def _why(frame: pd.DataFrame) -> str:
    """What imputing late can save at most is what imputing everything costs."""
    eager = frame[frame["system"] == "DD+skyline_tree"]
    share = eager["imputation_ms"] / eager["total_ms"]
    return (
        " That rival keeps its rows in Fogline's own compiled tree and imputes all rows of a tick in one compiled "
        f"call; imputing is {100 * share.min():.0f}–{100 * share.max():.0f} % of its time, and no more can be saved by "
        "imputing less."
    )


def _whole(frame: pd.DataFrame) -> str:
    """What a user's tick takes; nothing where it was not measured."""
    rows = frame[frame["system"] == FOGLINE]
    if "monitor_ms" not in rows or rows["monitor_ms"].isna().all():
        return ""
    times = (rows["monitor_ms"] / rows["total_ms"]).dropna()
    return f" A monitor's whole tick, read and written, takes {between(times)} times as long as what is raced of it."


def _times(line: pd.Series, name: str) -> str:
    return f"{line[name]:,.3g}×" if name in line and pd.notna(line[name]) else "not measured"


SETS = Experiment(
    name="sets",
    title="Efficiency over data sets",
    figure="Figure 12",
    question="How long does a tick take, on each set, beside the six rivals?",
    claim="Two orders of magnitude faster than DD+skyline and DD+skyline_tree, faster than mul+skyline and "
    "mul+skyline_tree, slightly slower than con+skyline and con+skyline_tree.",
    trials=trials,
    measure=measure,
    plots=(
        Plot("Time per tick", "set", "total_ms", "system", kind="bar", log_y=True, y_label="ms"),
        Plot("As a multiple of Fogline's time", "set", "ratio", "system", kind="table", spread=True),
        Plot("Imputation", "set", "imputation_ms", "system", kind="table"),
        Plot("Upkeep", "set", "upkeep_ms", "system", kind="table"),
        Plot("Query", "set", "query_ms", "system", kind="table"),
        Plot("Rows kept", "set", "kept", "system", kind="table"),
    ),
    read=read,
)
