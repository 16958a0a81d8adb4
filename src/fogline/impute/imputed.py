"""What was imputed for rows that are live, at first and now, and by whom?

Asked of the numbers that are kept of a row, as `fill` asks them; nothing else is remembered. Values that a row came
with as distributions, or that an imputer gave at once, are none of the chain's: there the chain would answer otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fogline.arrays import SETTLED, Flags, Floats
from fogline.impute.chain import Chain
from fogline.impute.imputer import Hindsight
from fogline.impute.rules import Rules
from fogline.impute.whole import Whole
from fogline.model import Cloud, ImputedCell

Pairs = tuple[tuple[float, float], ...]
CLOSE = 1e-9  # weights that differ by less are the same


def imputed_cells(
    chain: Chain, known: Floats, values: Floats, clouds: Sequence[Cloud]
) -> list[tuple[ImputedCell, ...]]:
    """Of each row, one per missing value: known (n, width), values (n, d) that were taken, their n clouds now."""
    gaps = np.isnan(values) & ~(known == SETTLED).any(axis=1)[:, None]
    now = _answers(chain, known, gaps)
    before = _as_it_came(chain, known)
    first = now if before is known else _answers(chain, before, gaps)
    out: list[list[ImputedCell]] = [[] for _ in clouds]
    for (i, j), found in now.items():
        name = chain.query.names[j]
        there = clouds[i].values[name]
        pairs = found.pairs if found.open else _clipped(found.pairs, there[0][0], there[-1][0])
        if (i, j) in first and _same(pairs, there):
            was = first[i, j]
            out[i].append(ImputedCell(name, was.pairs, was.by, there, found.by, found.open, found.imputer, found.rows))
    return [tuple(each) for each in out]


def _as_it_came(chain: Chain, known: Floats) -> Floats:
    """What was kept of rows before any later reading was noted."""
    if not chain.hindsight:
        return known
    out = known.copy()
    for each in chain.lasting:
        if isinstance(each, Hindsight):
            out[:, chain.at[id(each)]] = each.first(known[:, chain.at[id(each)]])
    return out


class _Answer(NamedTuple):
    """What the chain gives for one missing value."""

    pairs: Pairs
    by: str  # the rule or the imputer
    open: bool  # whether it may still change
    imputer: str
    rows: int | None  # of history, that it rests on; None: that is not counted


def _answers(chain: Chain, known: Floats, gaps: Flags) -> dict[tuple[int, int], _Answer]:
    """By row and attribute what the chain gives, for all rows at once; by attribute first."""
    out = {}
    for j, rows, imputer, found in chain.search(known, gaps):
        sources, opened = imputer.sources(j), chain.open(known[rows], j, imputer).tolist()
        counted = isinstance(imputer, Rules | Whole)
        for k, i in enumerate(rows.tolist()):
            part = slice(found.start[k], found.start[k] + found.size[k])
            often = found.often[part]
            total = float(often.sum())
            pairs = tuple(zip(found.value[part].tolist(), (often / total).tolist(), strict=True))
            count = round(total) if counted else None
            out[i, j] = _Answer(pairs, sources[int(found.source[k])], opened[k], imputer.name, count)
    return out


def _clipped(pairs: Pairs, low: float, high: float) -> Pairs:
    """What lies outside goes to the nearest end."""
    out: dict[float, float] = {}
    for value, weight in pairs:
        inside = min(max(value, low), high)
        out[inside] = out.get(inside, 0.0) + weight
    return tuple(out.items())


def _same(a: Pairs, b: Pairs) -> bool:
    return len(a) == len(b) and all(x == y and abs(v - w) <= CLOSE for (x, v), (y, w) in zip(a, b, strict=True))
