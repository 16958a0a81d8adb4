"""Is a row in under every value that was imputed, probably, or only under some?

- *certain*: in the skyline under every value that was imputed, or that came as a distribution; exactly, not as a number
  close to 1. A true value that was not among these may put it out;
- *likely*: its probability is above alpha, though some values would put it out;
- *possible*: in under some values, but not above alpha.

A row that another surely beats is in under none, and in no front. What was forgotten is surely beaten for life.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Clouds, Flags, Floats, Ints, Objects
from fogline.errors import FoglineError, did_you_mean
from fogline.kernels.clouds import ends
from fogline.kernels.fronts import CERTAIN, IMPOSSIBLE, chances_of, fronts_of
from fogline.kernels.states import IN, OUT
from fogline.model import TOLERANCE
from fogline.question import is_number
from fogline.skyline.live import Live

FRONTS = ("certain", "likely", "possible")
FRONT = "front"  # the column that holds it


class FrontRows(NamedTuple):
    """Rows of a live set with their places in the fronts, in the order of (arrival, id)."""

    slots: Ints  # (n,)
    probability: Floats  # (n,)
    within: Floats  # (n,) how far the truth may lie from it; 0: it is exact
    front: Objects  # (n,) of texts

    def part(self, which: Flags | Ints) -> FrontRows:
        """Some of them."""
        return FrontRows(self.slots[which], self.probability[which], self.within[which], self.front[which])


def standing(live: Live, front: str = "likely", alpha: float | None = None) -> FrontRows:
    """The rows of a front and of those above it: of `possible` all that are in under some values.

    O(open · log open) for members, see `kernels.above`; for others O(others · open · places): their probabilities are
    worked out now.
    """
    s, c, n = live.slots, live.slots.columns, live.slots.used
    opened = np.flatnonzero(c.state[:n] >= OUT)
    which = s.by_key(opened if front == "possible" else live.members())
    if front == "possible":
        opened = which  # products are rounded: their order is not that of slots
    seen = ends(s.clouds, np.arange(n))
    kind = np.asarray(fronts_of(*seen, which, opened))
    which, kind = which[kind != IMPOSSIBLE], kind[kind != IMPOSSIBLE]
    probability, within = _chances(live, seen, which, opened)
    names = words_of(kind, probability, live.alpha if alpha is None else alpha)
    names[(c.state[which] == OUT) & (names == "likely")] = "possible"  # bounds on both sides of alpha: their middle
    found = FrontRows(which, probability, within, names)
    return found.part(np.isin(names, FRONTS[: FRONTS.index(front) + 1]))


def fronts_in(clouds: Clouds, probability: Floats, alpha: float) -> Objects:
    """(n,) the front of each row of a table that does not move, one group of it; empty: it is in none.

    `probability` (n,), of rows that are in under some values; all rows of the group that none surely beats are there.
    """
    each = np.arange(len(clouds.lo))
    return words_of(np.asarray(fronts_of(*ends(clouds, each), each, each)), probability, alpha)


def words_of(kind: Ints, probability: Floats, alpha: float) -> Objects:
    """(n,) which front: kind as `kernels.fronts` has it."""
    names = np.where(probability > alpha + TOLERANCE if alpha > 0 else kind != IMPOSSIBLE, "likely", "possible")
    names = np.where(kind == CERTAIN, "certain", names)
    return np.where(kind == IMPOSSIBLE, "", names).astype(object)


def with_front(table: pa.Table, front: Objects) -> pa.Table:
    """A table of an answer with the fronts of its rows as its last column."""
    name = f"{FRONT}_" if FRONT in table.schema.names else FRONT
    return table.append_column(name, pa.array(front, pa.string()))


def check_front(front: str) -> None:
    """Is there such a front?"""
    if front not in FRONTS:
        raise FoglineError(f"front is {front!r}; it is one of {', '.join(FRONTS)}.{did_you_mean(str(front), FRONTS)}")


def check_alpha(alpha: float | None, least: float) -> None:
    """Can alpha be raised to that?"""
    if alpha is not None and not (is_number(alpha) and least <= alpha < 1):
        raise FoglineError(
            f"alpha is {alpha!r}; an answer to a query with alpha {least:g} can be cut at {least:g} or more, below 1: "
            "rows below that were not kept in it."
        )


def _chances(live: Live, seen: tuple[Floats, Floats], which: Ints, opened: Ints) -> tuple[Floats, Floats]:
    """(n,) probabilities, and how far these may be off: of members as they are known, of others worked out now."""
    c = live.slots.columns
    probability, within = c.probability[which], c.within[which]
    out = np.flatnonzero(c.state[which] != IN)
    if len(out):
        probability[out], within[out] = chances_of(live.slots.clouds, *seen, which[out], opened), 0.0
        for k in out[np.isnan(probability[out])].tolist():
            low, high, _ = live.bracket(int(which[k]), opened, until_out=False)
            probability[k] = (low + high) / 2
            within[k] = (high - low) / 2 if (high - low) / 2 > TOLERANCE else 0.0
    return probability, within
