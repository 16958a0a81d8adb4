"""How many answers would the paper's system lose, were it not corrected?

"Likely dominated" is not transitive, and Algorithm 3 takes it to be: a newcomer inherits the children of the row that
it likely dominates, though it may never dominate them, and they are gone when they should rise
(`lab/paper/skyline_tree.py`). Random small streams go through the paper's system (`lab/paper/framework.py`): as
printed, once with probabilities over the whole window, which is generous, once over what the tree still holds, and once
without the lemmas before Algorithm 3; and as corrected; and through Fogline. All are held against the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import pandas as pd

from fogline.monitor import Monitor
from fogline.query import Query
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.paper.framework import CORRECTED, PRINTED, PRINTED_TREE, SkyIDS
from lab.paper.objects import Cell, Imputed, answers, possible_dominators, skyline_probability

ROWS, D, LEVELS, LIFE = 16, 2, 6, 10
PAPER: dict[str, Callable[[float], SkyIDS]] = {
    "printed, whole window": lambda alpha: SkyIDS(alpha, form=PRINTED),
    "printed, tree only": lambda alpha: SkyIDS(alpha, form=PRINTED_TREE),
    "printed, without lemmas": lambda alpha: SkyIDS(alpha, form=PRINTED, lemmas=()),
    "corrected": lambda alpha: SkyIDS(alpha, form=CORRECTED),
}
SYSTEMS = (*PAPER, "fogline")
Answers = dict[str, list[set[Hashable]]]


def trials(scope: Scope) -> list[Knobs]:
    return [{"alpha": alpha, "lifetimes": life} for alpha in (0.1, 0.5, 0.9) for life in ("random", "equal")]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    alpha, streams = float(knobs["alpha"] or 0), 30 if scope.quick else 300
    ticks = 0
    lost, extra, bad = (dict.fromkeys(SYSTEMS, 0) for _ in range(3))
    hit: dict[str, set[int]] = {name: set() for name in SYSTEMS}
    for seed in range(streams):
        truth, found = compare(stream(seed, knobs["lifetimes"] == "equal"), alpha)
        ticks += len(truth)
        for name, each in found.items():
            for right, given in zip(truth, each, strict=True):
                lost[name] += len(right - given)
                extra[name] += len(given - right)
                if right != given:
                    bad[name] += 1
                    hit[name].add(seed)
    return [
        {"system": name, "streams": streams, "ticks": ticks, "lost": lost[name], "extra": extra[name],
         "bad_ticks_percent": 100 * bad[name] / ticks, "bad_streams_percent": 100 * len(hit[name]) / streams}
        for name in SYSTEMS
    ]  # fmt: skip


def stream(seed: int, equal: bool) -> list[Imputed]:
    """Rows one after the other; half of them have one cell with two or three values."""
    rng = np.random.default_rng([seed, 50])
    rows = []
    for k in range(ROWS):
        cells = [Cell.of(x) for x in rng.integers(LEVELS, size=D)]
        several = rng.choice([1, 1, 2, 3])
        cells[rng.integers(D)] = Cell.of(rng.choice(LEVELS, several, replace=False), rng.dirichlet(np.ones(several)))
        life = LIFE // 2 if equal else int(rng.integers(1, LIFE + 1))
        rows.append(Imputed.of(k, k, k + life, cells))
    return rows


def compare(rows: list[Imputed], alpha: float) -> tuple[list[set[Hashable]], Answers]:
    """The true answer of each tick, and what each system answers."""
    systems, monitor = {name: make(alpha) for name, make in PAPER.items()}, Monitor(_query(rows, alpha))
    truth: list[set[Hashable]] = []
    found: Answers = {name: [] for name in SYSTEMS}
    for now in range(max(each.expires for each in rows)):
        window = [each for each in rows if each.arrives <= now < each.expires]
        came = [each for each in rows if each.arrives == now]
        truth.append({o.id for o in window if answers(skyline_probability(o, possible_dominators(o, window)), alpha)})
        monitor.advance(now, [_row(each) for each in came])
        for name, each in systems.items():
            found[name].append(set(each.advance(now, came)))
        found["fogline"].append(set(monitor.answer()["id"].to_pylist()))
    return truth, found


def _query(rows: list[Imputed], alpha: float) -> Query:
    names = dict.fromkeys((f"a{j}" for j in range(len(rows[0].cells))), "max")
    return Query(attributes=names, id="id", time="t", expires="e", alpha=alpha)


def _row(given: Imputed) -> dict[str, object]:
    row: dict[str, object] = {"id": given.id, "t": given.arrives, "e": given.expires}
    for j, cell in enumerate(given.cells):
        several = len(cell.values) > 1
        row[f"a{j}"] = (
            list(zip(cell.values.tolist(), cell.weights.tolist(), strict=True)) if several else cell.values[0]
        )
    return row


def read(frame: pd.DataFrame) -> Reading:
    parts = []
    for name, rows in frame.groupby("system", sort=False):
        share = 100 * (rows["bad_ticks_percent"] / 100 * rows["ticks"]).sum() / rows["ticks"].sum()
        parts.append(
            f"{name}: {rows['lost'].sum():,} answers lost (one per tick) and {rows['extra'].sum():,} too many, "
            f"{share:.2f} % of the ticks wrong (at worst {rows['bad_streams_percent'].max():.0f} % of the streams of "
            "one kind)"
        )
    return Reading("beyond the paper", f"{'; '.join(parts).capitalize()}.")


UNCORRECTED = Experiment(
    timed=False,
    name="uncorrected",
    title="Answers that the uncorrected tree would lose",
    figure="beyond the paper",
    question="How often do Algorithms 1 and 3 to 5, as printed, give a wrong answer?",
    claim="",
    trials=trials,
    measure=measure,
    plots=(
        Plot("Ticks with a wrong answer", "alpha", "bad_ticks_percent", "system", "lifetimes", kind="bar", y_label="%"),
        Plot("Answers lost", "alpha", "lost", "system", "lifetimes", kind="table"),
        Plot("Answers too many", "alpha", "extra", "system", "lifetimes", kind="table"),
    ),
    read=read,
)
