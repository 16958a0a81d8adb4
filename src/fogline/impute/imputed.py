"""What was imputed for a row that is live, at first and now, and by whom?

Asked of the numbers that are kept of the row, as `fill` asks them; nothing else is remembered. Values that a row came
with as distributions, or that an imputer gave at once, are none of the chain's: there the chain would answer otherwise.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Flags, Floats
from fogline.impute.chain import Chain
from fogline.impute.imputer import Hindsight
from fogline.model import Cloud, ImputedCell

Pairs = tuple[tuple[float, float], ...]
CLOSE = 1e-9  # weights that differ by less are the same


def imputed_cells(chain: Chain, known: Floats, raw: Floats, cloud: Cloud) -> tuple[ImputedCell, ...]:
    """One per missing value of a row: known (width,), raw (d,) as it came, and its cloud now."""
    gaps, row = np.isnan(raw)[None], known[None]
    first, now = _answers(chain, _as_it_came(chain, row), gaps), _answers(chain, row, gaps)
    out = []
    for j, (pairs, by, opened) in now.items():
        name = chain.query.names[j]
        there = cloud.values[name]
        if _same(pairs if opened else _clipped(pairs, there[0][0], there[-1][0]), there) and j in first:
            out.append(ImputedCell(name, *first[j][:2], there, by, opened))
    return tuple(out)


def _as_it_came(chain: Chain, known: Floats) -> Floats:
    """What was kept of rows before any later reading was noted."""
    out = known.copy()
    for each in chain.lasting:
        if isinstance(each, Hindsight):
            out[:, chain.at[id(each)]] = each.first(known[:, chain.at[id(each)]])
    return out


def _answers(chain: Chain, known: Floats, gaps: Flags) -> dict[int, tuple[Pairs, str, bool]]:
    """Per attribute that one row lacks: the distribution, what gave it, and whether it may still change."""
    out = {}
    for j, rows, imputer, found in chain.search(known, gaps):
        part = slice(found.start[0], found.start[0] + found.size[0])
        weight = found.often[part] / found.often[part].sum()
        pairs = tuple(zip(found.value[part].tolist(), weight.tolist(), strict=True))
        opened = bool(chain.open(known[rows], j, imputer)[0])
        out[j] = pairs, imputer.sources(j)[int(found.source[0])], opened
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
