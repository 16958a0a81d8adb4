"""How many answers would the paper's tree lose, were it not corrected?

"Likely beaten" is not transitive, and Algorithm 3 takes it to be: a newcomer inherits the children of the row it likely
beats, though it may never beat them, and they are gone when they should rise. Random small streams go through the
printed algorithms, once with probabilities over the whole window, which is generous, and once over what the tree still
holds; and through Fogline. All are held against the definition.

`PrintedTree` is Algorithms 3 (insertion), 4 (deletion) and 5 (refinement) to the letter, for a handful of rows; nothing
is fast. Two things the paper leaves open are settled here: a row of layer 1 has a parent that expired long ago, and an
expired row below layer 1 is found when it reaches layer 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fogline.arrays import Floats
from fogline.monitor import Monitor
from fogline.query import TOLERANCE, Query
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope


@dataclass(eq=False)
class UncertainRow:
    """An object with its places, and its place in the tree."""

    id: int
    arrives: int
    expires: int
    places: Floats = field(repr=False)  # (k, d) larger is better
    weights: Floats = field(repr=False)  # (k,) adding up to 1
    parent: UncertainRow | None = field(default=None, repr=False)
    children: list[UncertainRow] = field(default_factory=list, repr=False)


def beaten(a: UncertainRow, places: Floats) -> Floats:
    """(n,) Pr{a beats each of these places (n, d)}."""
    at_least = (a.places[:, None] >= places).all(axis=2)
    better = (a.places[:, None] > places).any(axis=2)
    return np.asarray(a.weights @ (at_least & better))


def chance(a: UncertainRow, b: UncertainRow) -> float:
    """Pr{a beats b}."""
    return float(beaten(a, b.places) @ b.weights)


def probability(o: UncertainRow, among: list[UncertainRow]) -> float:
    """That none of these beats o."""
    left = o.weights.copy()
    for other in among:
        if other is not o:
            left = left * (1 - beaten(other, o.places))
    return float(left.sum())


class PrintedTree:
    """The skyline tree as printed."""

    def __init__(self, alpha: float) -> None:
        self.alpha, self.least = alpha, 1 - alpha - TOLERANCE
        self.top: list[UncertainRow] = []

    def insert(self, o: UncertainRow) -> None:
        """Algorithm 3."""
        beats = [n for n in self.top if chance(o, n) >= self.least]
        for n in beats:
            self.top.remove(n)
            if o.expires >= n.expires:
                self._adopt(o, n.children)
            else:
                self._adopt(o, [n])
        if beats:
            self.top.append(o)
        elif not self._place(o):
            return
        self._take_over(o)

    def _place(self, o: UncertainRow) -> bool:
        """Lines 14 to 29: under the parent that expires last, unless another prunes it."""
        queue, parent = list(self.top), None
        while queue:
            n = queue.pop(0)
            if chance(n, o) >= self.least:
                if n.expires >= o.expires:
                    return False
                if parent is None or n.expires > parent.expires:
                    parent = n
                queue += n.children
        if parent is None:
            self.top.append(o)
        else:
            self._adopt(parent, [o])
        return True

    def _take_over(self, o: UncertainRow) -> None:
        """Lines 30 to 40: prune with o, and find its children, from its own layer downwards."""
        layers = self.layers()
        own = next(k for k, layer in enumerate(layers) if o in layer)
        for n in [n for layer in layers[own:] for n in layer]:
            if n is o or chance(o, n) < self.least:
                continue
            if o.expires >= n.expires:
                self._leave(n)
                self._adopt(o, n.children)
            elif n.parent is None or o.expires > n.parent.expires:
                self._leave(n)
                self._adopt(o, [n])

    def delete(self, now: int) -> None:
        """Algorithm 4."""
        while expired := [n for n in self.top if n.expires <= now]:
            for n in expired:
                self.top.remove(n)
                for child in n.children:
                    child.parent = None
                self.top += n.children

    def answer(self, window: list[UncertainRow] | None = None) -> set[int]:
        """Algorithm 5: those of layer 1 above alpha, over the whole window or over what the tree still holds."""
        among = [n for layer in self.layers() for n in layer] if window is None else window
        return {o.id for o in self.top if probability(o, among) > self.alpha + TOLERANCE}

    def layers(self) -> list[list[UncertainRow]]:
        """The tree, from the top."""
        out, layer = [], list(self.top)
        while layer:
            out.append(layer)
            layer = [child for n in layer for child in n.children]
        return out

    def _adopt(self, o: UncertainRow, children: list[UncertainRow]) -> None:
        for child in children:
            child.parent = o
            o.children.append(child)

    def _leave(self, n: UncertainRow) -> None:
        (self.top if n.parent is None else n.parent.children).remove(n)
        n.parent = None


# ------------------------------------------------------------------------------------------------------- the experiment


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
