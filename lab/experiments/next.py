"""How much is gained by measuring what `ask_next` names?

A window of a real set is masked as in `fscore`, with what Fogline imputes by its last tick. Then CELLS missing cells
get their true values, as if they had been measured, and F of the answer is worked out again. Three choices of cells are
compared: those that would change the answer most; as many drawn from the live set; and as many drawn from its open rows
(already a choice, since rows that are surely beaten change nothing). `one by one`: each cell is asked for when the one
before it is known. Gained is F less that of the same window with nothing revealed.

The whole window is judged anew each time: a true value may lie outside of what was thought possible, and then bring
back rows that were forgotten.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fogline.arrays import ONE, Batch, Flags, Floats, Ints, UncertainRows, objects
from fogline.engine.ask import ask
from fogline.engine.group import Incoming, WindowGroup
from fogline.engine.live import LiveSet
from fogline.kernels.states import OUT
from lab.case import Case
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import case_at, sets, settings
from lab.experiments.fscore import DEFAULT, LARGE, XI, stops
from lab.maintainers import members
from lab.race import accuracy_of, truth_answers
from lab.revising import REVISING, Replay

CELLS = 20  # that are revealed
DRAWS = 10  # of random cells, in each window
NOTHING, ASKED, ONE_BY_ONE, RANDOM, RANDOM_OPEN = "nothing", "asked", "one by one", "random", "random open"
LINES = (ASKED, ONE_BY_ONE, RANDOM_OPEN, RANDOM)
RATIO, LEAST = 3.0, 0.005  # so many times as much as random cells, and so much F, is aimed at
STARTS, SEEDS, BOOT = 5, 2, 10_000
Cells = tuple[Ints, Ints]  # rows of the case, attributes


def trials(scope: Scope) -> list[Knobs]:
    return [
        {"set": name, "xi": XI, "place": place, "seed": seed}
        for name in sets(scope, LARGE)
        for place in range(1 if scope.quick else STARTS)
        for seed in range(1, 2 if scope.quick else SEEDS + 1)
    ]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    place, seed = int(knobs["place"] or 0), int(knobs["seed"] or 0)
    name = str(knobs["set"])
    ticks = settings(name, scope).lifetime  # so there are two windows, one after the other
    case = case_at(name, scope, place, protocol="honest", xi=knobs["xi"], seed=seed, ticks=ticks)
    ends = [case.full, case.length - 1]
    truth, replay = truth_answers(case, ends), Replay(case, REVISING[DEFAULT](case))
    rows: list[dict[str, Scalar]] = []
    for k in stops(ends):
        replay.leap(k)
        if k in ends:
            window = Window(case, replay, k)
            for line, draw, f in scored(window, truth[k], np.random.default_rng([seed, place, k])):
                rows.append({"line": line, "window": ends.index(k), "draw": draw, "f": f})
    return rows


class Window:
    """The rows of a window, as they are imputed at its end."""

    def __init__(self, case: Case, replay: Replay, tick: int) -> None:
        theta, lifetime = case.settings.theta, case.settings.lifetime
        self.case, self.tick = case, tick
        self.rows = np.arange(max(0, tick + 1 - lifetime) * theta, (tick + 1) * theta)
        self.uncertain = replay.imputed(self.rows, tick)

    def judged(self, uncertain: UncertainRows) -> LiveSet:
        """The live set of the window."""
        n, query = len(self.rows), self.case.query
        arrived = np.asarray(self.rows // self.case.settings.theta, np.float64)
        names = objects(self.rows.tolist())
        expires = arrived + self.case.settings.lifetime
        batch = Batch(names, arrived, expires, self.case.truth[self.rows], np.empty((n, 0)), uncertain)
        group = WindowGroup(LiveSet(len(query.names), query.alpha))
        group.advance(-np.inf, float(self.tick), Incoming(batch), False)
        return group.live

    def revealed(self, cells: Cells, uncertain: UncertainRows) -> UncertainRows:
        """The clouds with the true values of these cells."""
        lo, hi, start, size = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy(), uncertain.size.copy()
        row, j = cells[0] - self.rows[0], cells[1]
        lo[row, j] = hi[row, j] = self.case.truth[cells] * np.array(self.case.query.signs)[j] + 0.0
        start[row, j], size[row, j] = ONE, 1
        return uncertain._replace(lo=lo, hi=hi, start=start, size=size)

    def f(self, live: LiveSet, true: Ints) -> float:
        """F of its answer."""
        return accuracy_of(self.case, members(live), true).f


def scored(window: Window, true: Ints, draw: np.random.Generator) -> list[tuple[str, int, float]]:
    """(line, draw, F): nothing revealed, what is asked for, and cells at random."""
    live = window.judged(window.uncertain)
    out = [(NOTHING, 0, window.f(live, true))]
    asked = cells_of(live, CELLS)
    out.append((ASKED, 0, window.f(window.judged(window.revealed(asked, window.uncertain)), true)))
    uncertain, after = window.uncertain, live
    for _ in range(CELLS):  # where none is left to ask for, nothing changes
        uncertain = window.revealed(cells_of(after, 1), uncertain)
        after = window.judged(uncertain)
    out.append((ONE_BY_ONE, 0, window.f(after, true)))
    state = live.slots.columns.state[: live.slots.used]
    for line, slots in ((RANDOM, live.slots.alive()), (RANDOM_OPEN, np.flatnonzero(state >= OUT))):
        row, j = gaps_of(live, slots)
        for k in range(DRAWS):
            which = draw.choice(len(row), min(CELLS, len(row)), replace=False)
            uncertain = window.revealed((row[which], j[which]), window.uncertain)
            out.append((line, k, window.f(window.judged(uncertain), true)))
    return out


def cells_of(live: LiveSet, k: int) -> Cells:
    """What is asked for."""
    asked = ask(live, k)
    return live.slots.id[asked.slot].astype(np.int64), asked.attribute


def gaps_of(live: LiveSet, slots: Ints) -> Cells:
    """The missing cells of some live rows."""
    c = live.slots.uncertain
    missing: Flags = (c.start[slots] >= 0) & (c.size[slots] > 1)
    row, j = np.nonzero(missing)
    return live.slots.id[slots[row]].astype(np.int64), j


def gains(frame: pd.DataFrame) -> pd.DataFrame:
    """(set, line) and each window: how much F is gained, over all draws."""
    keys = ["set", "place", "window", "seed"]
    mean = frame.groupby([*keys, "line"], sort=False)["f"].mean().unstack("line")
    return mean[[line for line in LINES if line in mean]].sub(mean[NOTHING], axis=0)


def interval(values: Floats, stretch: Ints) -> tuple[float, float]:
    """The middle 95 % of means over stretches drawn with replacement: windows of one stretch stay together."""
    codes, at = np.unique(stretch, return_inverse=True)
    total, count = (np.bincount(at, weights) for weights in (values, None))
    drawn = np.random.default_rng(1).integers(0, len(codes), (BOOT, len(codes)))
    low, high = np.quantile(total[drawn].sum(axis=1) / count[drawn].sum(axis=1), (0.025, 0.975))
    return float(low), float(high)


def read(frame: pd.DataFrame) -> Reading:
    """What is gained on each set, with intervals, and whether the aim is reached."""
    parts, good = [], []
    gained = gains(frame)
    for name, rows in gained.groupby(level="set", sort=False):
        stretch = np.asarray(rows.reset_index().groupby(["place", "window"]).ngroup(), np.int64)
        shown = [_shown(line, rows[line].to_numpy(), stretch) for line in LINES if line in rows]
        mean = rows.mean()
        ratio, least = mean[ASKED] / max(mean[RANDOM], 1e-9), mean[ASKED]
        more = int((rows[ASKED] > rows[RANDOM]).sum())
        low, high = interval(rows[ASKED].to_numpy() - RATIO * rows[RANDOM].to_numpy(), stretch)
        good.append(bool(ratio >= RATIO and least >= LEAST))
        before = frame[(frame["set"] == name) & (frame["line"] == NOTHING)]["f"].mean()
        parts.append(
            f"{name}, {len(rows)} windows, F {before:.3f} before: {', '.join(shown)}; asked is {ratio:.1f} times "
            f"random, more in {more} windows, and less {RATIO:g} times random it is {low:+.4f} to {high:+.4f}"
        )
    aim = f"At least {RATIO:g} times random and {LEAST:g} on {sum(good)} of {len(good)} sets."
    return Reading(
        "beyond the paper", f"F gained by {CELLS} revealed cells, mean and 95 % interval. {'. '.join(parts)}. {aim}"
    )


def _shown(line: str, values: Floats, stretch: Ints) -> str:
    low, high = interval(values, stretch)
    return f"{line} {values.mean():+.4f} ({low:+.4f} to {high:+.4f})"


NEXT = Experiment(
    name="next",
    title="What measuring the cells gains that are asked for",
    figure="beyond the paper",
    question=f"How much does F rise if {CELLS} missing cells are measured, those that ask_next names or others?",
    claim="",
    trials=trials,
    measure=measure,
    plots=(Plot("F", "line", "f", "set", kind="table", spread=True, per=("place", "window", "seed")),),
    read=read,
)
