"""Which rules does the history itself suggest?

For each attribute, candidate determinants (single columns, then pairs of the best) at several radii are scored by how
well they impute rows held out from the history (`held_out`). A candidate that matches a large share of the history
explains little and costs much: it is passed over. The best one becomes a rule; others join as long as the combined
rules score clearly better. All by sorting and windows, never by comparing all pairs.

`paper` instead does as the paper: the single determinant with the smallest interval at a radius of 0.001 on a range
scaled to [0, 10].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from fogline.kernels.crps import widest_stretch
from fogline.model import Query, Rule
from fogline.repository.held_out import WORTH, HeldOut, Quality
from fogline.repository.history import Column, History
from fogline.repository.methods import PLAIN, check_method

BEST = 3  # determinants that may pair up
PAPER = 0.0001  # 0.001 on a range of 10


def judge(history: History, then: str, rules: Sequence[Rule]) -> list[Quality]:
    """Each rule alone, on the newest tenth of the history."""
    held_out = HeldOut(history, then)
    return [held_out.judge(rule, history.rows) for rule in rules] if held_out.possible else []


def discover_one(history: History, query: Query, then: str, *, method: str) -> list[Rule]:
    """Rules for one attribute of the query."""
    check_method(method)
    if method in PLAIN:
        return []
    find = _paper if method == "paper" else _held_out
    return find(history, then, determinants(history, query, then))


def determinants(history: History, query: Query, then: str) -> list[str]:
    """Columns that vary and are neither the attribute itself nor the row's name, times or version."""
    aside = {then, query.id, query.time, query.expires, query.gone_column, query.version}
    return [name for name, column in history.columns.items() if name not in aside and _varies(column)]


def _varies(column: Column) -> bool:
    there = column.values[~np.isnan(column.values)]
    return len(there) > 1 and bool((there != there[0]).any())


def _held_out(history: History, then: str, names: Sequence[str]) -> list[Rule]:
    held_out = HeldOut(history, then)
    if not held_out.possible or not names:
        return []
    singles = {name: held_out.best([{name: radius} for radius in held_out.radii(name)]) for name in names}
    ranked = sorted(singles.values(), key=lambda each: each.score)
    pool = list(ranked)
    for one, two in combinations(ranked[:BEST], 2):
        pairs = [a | b for a, b in product(held_out.around(dict(one.given)), held_out.around(dict(two.given)))]
        both = held_out.best(pairs)
        if both.score < WORTH * one.score:  # the better of the two alone
            pool.append(both)
    pool.sort(key=lambda each: each.score)
    return held_out.choose(pool)


def _paper(history: History, then: str, names: Sequence[str]) -> list[Rule]:
    """The single numeric determinant whose close rows are closest in `then`, all ranges scaled alike."""
    best: tuple[float, Rule] | None = None
    for name in names:
        column = history.columns[name]
        there = ~np.isnan(column.values) & ~np.isnan(history.columns[then].values)
        if column.words is not None or not there.any():
            continue
        order = np.flatnonzero(there)[np.argsort(column.values[there], kind="stable")]
        key, values = column.values[order], history.columns[then].values[order]
        radius = PAPER * float(key[-1] - key[0])
        within = float(widest_stretch(key, values, radius))
        if best is None or within < best[0]:
            best = within, Rule({name: radius}, then, within)
    return [] if best is None else [best[1]]
