"""What do the other attributes of a row explain about the one it lacks?

Extremely randomised trees over the other attributes (`kernels/forest`): a leaf is a box of determinants, so this is a
differential dependency with intervals of its own for each region. Where straight lines explain a part, the trees
explain the rest. Some cells are hidden while trees grow, so rows with several gaps are imputed, too.

None of this needs sensors or times. An attribute gets it if, on held-out rows, it does clearly better than rules and
the whole history.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Distributions, Floats, Ints
from fogline.errors import HistoryWarning
from fogline.kernels import forest
from fogline.kernels.forest import Forest, ValueGrid, expected
from fogline.kernels.score import crps
from fogline.query import Query, Rule
from fogline.repository.access import readonly
from fogline.repository.held_out import WORTH, HeldOut, determinants, gain
from fogline.repository.history import Column, History
from fogline.repository.sensors.transition import grid_of

TREES, ROWS = 6, 20_000
EACH = 2_500  # up to so many rows every tree gets all, else half of them, drawn anew for each
ALONE = 5_000  # rows from which it pays to grow several trees at once
TRIAL_TREES, TRIAL_ROWS, HELD = 4, 1_000, 200
LEAF, LEAVES = 20, 50  # rows of a leaf, fewer where that makes fewer leaves than this; never fewer than …
SMALLEST = 5  # …, which is also used where lines explain nothing: there boxes must be small
FEWEST = 50  # rows that have the attribute; from fewer nothing is learnt
MOST = 16  # determinants
WORDS = 32  # a column with more different words is a name, not a kind
GAPPED, HIDDEN = 0.25, 0.3  # the share of rows from which cells are hidden, and of their cells that are
CUT = 0.0  # these rows do not err together, so small chances count in full (compare `forest.CUT`)
WHOLE, SEED = 256, 17


class Linear(NamedTuple):
    """Means, scales and correlations of the determinants and, last, of the attribute."""

    mean: Floats  # (f + 1,)
    scale: Floats  # (f + 1,)
    correlation: Floats  # (f + 1, f + 1)


@dataclass(frozen=True)
class ByOthers:
    """Of one attribute: what its row's other attributes explain, and how well that did on held-out rows."""

    given: tuple[str, ...]  # the determinants
    lines: Linear | None  # None: the trees explain it all
    trees: Forest
    grid: Floats  # values of the attribute that occurred, sorted
    step: float  # how near to one of them is the same
    error: float  # mean CRPS on held-out rows …
    without: float  # … of what rules or the whole history would give instead …
    nothing: float  # … and of the attribute's distribution over the whole history

    @property
    def gain(self) -> float:
        """How much of the error of knowing nothing it takes away: 0: none. 1: all of it."""
        return gain(self.error, self.nothing)

    def distributions(self, known: Floats, gaps: Ints, low: float, high: float) -> Distributions:
        """Distributions for rows with these determinants (n, f) and numbers of gaps. O(trees · depth) each."""
        base, features = explained(self.lines, known)
        kept = forest.ask(self.trees, features)
        start, size, value, often = forest.spread(kept, base, gaps, self._values(low, high), CUT)
        return Distributions(start, size, value, often, np.zeros(len(known), np.int64))

    def bounds(self, known: Floats, gaps: Ints, low: float, high: float) -> tuple[Floats, Floats]:
        """(n,) the least and greatest value that `distributions` gives."""
        base, features = explained(self.lines, known)
        least, most = forest.ends(forest.ask(self.trees, features), base, gaps, self._values(low, high), CUT)
        return np.asarray(least), np.asarray(most)

    def rough_bounds(self, low: float, high: float) -> tuple[float, float]:
        """Between which values `distributions` stays for any row."""
        values = self._values(low, high)
        return values.low, values.high

    def _values(self, low: float, high: float) -> ValueGrid:
        """The values that may be given. Lines may lead beyond what occurred; answers do not."""
        least, most = float(np.clip(self.grid[0], low, high)), float(np.clip(self.grid[-1], low, high))
        return ValueGrid(self.grid, float(self.step), least, most)


def explained(lines: Linear | None, known: Floats) -> tuple[Floats, Floats]:
    """(n,) what straight lines give for determinants (n, f); and what trees are asked with: these, and that."""
    known = np.ascontiguousarray(known)
    if lines is None:
        return np.zeros(len(known)), known
    base = np.asarray(expected(lines, known))
    return base, np.concatenate((known, base[:, None]), axis=1)


def learn_others(
    history: History, query: Query, then: str, rules: tuple[Rule, ...], *, doubt: bool = False
) -> ByOthers | None:
    """What other attributes explain about one; None where rules or the whole history do as well on held-out rows.

    `doubt`: warn where even the best of these does no better there than the attribute's mean.
    """
    rows = np.flatnonzero(~np.isnan(history.columns[then].values))
    given = _given(history, query, then, _some(rows, ROWS)) if len(rows) >= FEWEST else ()
    if not given:
        return None
    table = _Table(given, tuple(history.columns[name] for name in given), history.columns[then].values)
    tried, held, without, nothing = _held_out(history, then, rows, tuple(rule for rule in rules if rule.then == then))
    few, lines = _some(tried, TRIAL_ROWS), table.lines(_some(tried, ROWS))
    error, straight = table.trial(few, held, None), False
    if lines is not None and (by_lines := table.trial(few, held, lines)) < error:
        error, straight = by_lines, True
    if doubt:
        _doubt(then, min(error, without), np.abs(table.truth[held] - table.truth[tried].mean()))
    if not error < WORTH * without:
        return None
    rows = _some(rows, ROWS)
    return table.learn(rows, TREES, table.lines(rows) if straight else None, (error, without, nothing))


def _doubt(then: str, error: float, by_mean: Floats) -> None:
    """Warn if the best there is errs no less than the mean. (The CRPS of a single value is how far it is off.)"""
    if len(by_mean) >= FEWEST and error >= by_mean.mean():
        warnings.warn(
            f"on held-out rows, what the history offers for {then!r} is off by {error:.3g}, and its mean by "
            f"{by_mean.mean():.3g}: the newest rows are unlike the others. Rows that lack it may be missing from the "
            'answer; fit newer rows, name sensors by the id, or use method="mean".',
            HistoryWarning,
            stacklevel=2,
        )


class _Table(NamedTuple):
    """Determinants and the attribute, over all rows of the history."""

    given: tuple[str, ...]
    columns: tuple[Column, ...]
    truth: Floats  # (n,)

    def known(self, rows: Ints) -> Floats:
        """(rows, f) the determinants."""
        return np.stack([column.values[rows] for column in self.columns], axis=1)

    def learn(
        self, rows: Ints, trees: int, lines: Linear | None, judged: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> ByOthers:
        """Trees from these rows, some of their cells hidden."""
        dice = np.random.default_rng(SEED)
        hidden = (dice.random((len(rows), 1)) < GAPPED) & (dice.random((len(rows), len(self.given))) < HIDDEN)
        base, features = explained(lines, np.where(hidden, np.nan, self.known(rows)))
        left, size = self.truth[rows] - base, max(EACH, len(rows) // 2)
        leaf = SMALLEST if lines is None else max(SMALLEST, min(LEAF, min(size, len(rows)) // LEAVES))

        def one(k: int) -> Any:
            some = slice(None) if len(rows) <= EACH else np.sort(np.random.default_rng(k).permutation(len(rows))[:size])
            return forest.grow(np.ascontiguousarray(features[some].T), left[some], leaf, SEED + k)

        with ThreadPoolExecutor(max(1, min(trees, os.cpu_count() or 1))) as pool:
            grown = list((pool.map if len(rows) > ALONE else map)(one, range(trees)))
        ends = np.cumsum([[0, 0], *([len(each[0]), len(each[3])] for each in grown)], axis=0)
        feature, cut, child, kept = (readonly(np.concatenate(each)) for each in zip(*grown, strict=True))
        learnt = Forest(feature, cut, child, kept, readonly(ends[:-1]))
        grid, step = grid_of(self.truth)
        return ByOthers(self.given, lines, learnt, readonly(grid), step, *judged)

    def lines(self, rows: Ints) -> Linear | None:
        """Straight lines through the complete ones of these rows; words have none. None: there are too few."""
        values = np.column_stack((self.known(rows), self.truth[rows]))
        values = values[~np.isnan(values).any(axis=1)]
        if len(values) < 10 * values.shape[1]:
            return None
        mean, scale = values.mean(axis=0), values.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        numbers = np.array([*(column.words is None for column in self.columns), True])
        apart = (values - mean) / scale * numbers
        return Linear(*map(readonly, (mean, scale, apart.T @ apart / len(apart))))

    def trial(self, rows: Ints, held: Ints, lines: Linear | None) -> float:
        """The mean CRPS on held-out rows of a few trees from these rows."""
        tried = self.learn(rows, TRIAL_TREES, lines)
        found = tried.distributions(self.known(held), np.ones(len(held), np.int64), -np.inf, np.inf)
        return float(np.mean(crps(*found[:4], self.truth[held])))


def _given(history: History, query: Query, then: str, rows: Ints) -> tuple[str, ...]:
    """The determinants: attributes of the query first, then other columns, the most correlated first."""
    names = [name for name in determinants(history, query, then) if _explains(history.columns[name])]
    truth = history.columns[then].values[rows]
    along = {name: _along(history.columns[name].values[rows], truth) for name in names if name not in query.attributes}
    others = sorted(along, key=lambda name: -along[name])
    return (*(name for name in names if name in query.attributes), *others)[:MOST]


def _explains(column: Column) -> bool:
    """Whether it holds numbers, or few words: with many it is a name."""
    return column.words is None or len(column.words.texts) <= WORDS


def _along(one: Floats, two: Floats) -> float:
    """The absolute correlation of two columns, from 0 to 1."""
    there = ~np.isnan(one) & ~np.isnan(two)
    if there.sum() < FEWEST or np.ptp(one[there]) == 0 or np.ptp(two[there]) == 0:
        return 0.0
    return float(abs(np.corrcoef(one[there], two[there])[0, 1]))


def _held_out(history: History, then: str, rows: Ints, rules: tuple[Rule, ...]) -> tuple[Ints, Ints, float, float]:
    """The rows to learn from in the trial; the newest, which are held out; the mean score there of what rules find, and
    of the attribute's distribution.

    Without rules both scores are the latter, from evenly spaced values of it.
    """
    if rules:
        held_out = HeldOut(history, then)
        some = _some(np.arange(len(held_out.rows)), HELD)
        scores = float(held_out.scores(rules)[some].mean()), float(held_out.level_0[some].mean())
        return rows[rows < held_out.cut], held_out.rows[some], *scores
    cut = len(rows) - len(rows) // 10
    tried, held = rows[:cut], _some(rows[cut:], HELD)
    whole = np.sort(history.columns[then].values[tried])
    whole = whole[(np.arange(WHOLE) * 2 + 1) * len(whole) // (2 * WHOLE)]
    start, size = np.zeros(len(held), np.int64), np.full(len(held), len(whole))
    nothing = float(np.mean(crps(start, size, whole, np.ones(len(whole)), history.columns[then].values[held])))
    return tried, held, nothing, nothing


def _some(rows: Ints, most: int) -> Ints:
    """At most so many of the rows, evenly spaced."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
