"""How many answers would the paper's tree lose, were it not corrected?

"Likely beaten" is not transitive, and Algorithm 3 takes it to be: a newcomer inherits the children of the row it likely
beats, though it may never beat them, and they are gone when they should rise. Random small streams: the printed
algorithms (`literal.py`), once with probabilities over the whole window, which is generous, and once over what the tree
still holds; and Fogline. All are held against the definition.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.model import TOLERANCE, Query
from fogline.monitor import Monitor
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.literal import PrintedTree, UncertainRow, probability

ROWS, D, LEVELS, LIFE = 16, 2, 6, 10
SYSTEMS = ("printed, whole window", "printed, tree only", "fogline")
Answers = dict[str, list[set[int]]]


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
        for name, answers in found.items():
            for right, given in zip(truth, answers, strict=True):
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


def stream(seed: int, equal: bool) -> list[UncertainRow]:
    """Rows one after the other; half of them have one cell with two or three values."""
    rng = np.random.default_rng([seed, 50])
    rows = []
    for k in range(ROWS):
        places = np.repeat(rng.integers(LEVELS, size=(1, D)), rng.choice([1, 1, 2, 3]), axis=0).astype(float)
        places[:, rng.integers(D)] = rng.choice(LEVELS, len(places), replace=False)
        life = LIFE // 2 if equal else int(rng.integers(1, LIFE + 1))
        rows.append(UncertainRow(k, k, k + life, places, rng.dirichlet(np.ones(len(places)))))
    return rows


def compare(rows: list[UncertainRow], alpha: float) -> tuple[list[set[int]], Answers]:
    """The true answer of each tick, and what each system answers."""
    tree, monitor = PrintedTree(alpha), Monitor(_query(rows, alpha))
    truth: list[set[int]] = []
    found: Answers = {name: [] for name in SYSTEMS}
    for now in range(max(each.expires for each in rows)):
        window = [each for each in rows if each.arrives <= now < each.expires]
        came = [each for each in rows if each.arrives == now]
        truth.append({o.id for o in window if probability(o, window) > alpha + TOLERANCE})
        tree.delete(now)
        for each in came:
            tree.insert(each)
        monitor.advance(now, [_row(each) for each in came])
        given = (tree.answer(window), tree.answer(), set(monitor.answer()["id"].to_pylist()))
        for name, answer in zip(SYSTEMS, given, strict=True):
            found[name].append(answer)
    return truth, found


def _query(rows: list[UncertainRow], alpha: float) -> Query:
    names = dict.fromkeys((f"a{j}" for j in range(rows[0].places.shape[1])), "max")
    return Query(attributes=names, id="id", time="t", expires="e", alpha=alpha)


def _row(given: UncertainRow) -> dict[str, object]:
    """Cells are independent: at most one has several values."""
    row: dict[str, object] = {"id": given.id, "t": given.arrives, "e": given.expires}
    for j, column in enumerate(given.places.T):
        several = len(np.unique(column)) > 1
        row[f"a{j}"] = list(zip(column.tolist(), given.weights.tolist(), strict=True)) if several else float(column[0])
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
    name="uncorrected",
    title="Answers that the uncorrected tree would lose",
    figure="beyond the paper",
    question="How often do Algorithms 3 to 5, as printed, give a wrong answer?",
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
