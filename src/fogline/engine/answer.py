"""How is an answer shown: how certain its rows, cut where, all rows or few that stand for them?

Certainty:
- *certain*: in the skyline under every value that was imputed, or that came as a distribution; exactly, not as a number
  close to 1. A true value that was not among these may put it out;
- *likely*: its probability is above alpha, though some values would put it out;
- *possible*: in under some values, but not above alpha.
A row that another surely dominates is in under none, and has no certainty. What was forgotten is so for life.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Delta, Flags, Floats, Ints, Objects
from fogline.engine.live import LiveSet
from fogline.engine.representatives import check_top, representatives, with_stands_for
from fogline.engine.skyband import SkybandLiveSet
from fogline.engine.slots import row_means
from fogline.errors import FoglineError, did_you_mean
from fogline.kernels.states import IN, OUT
from fogline.kernels.static import CERTAIN, IMPOSSIBLE, chances_of, fronts_of
from fogline.kernels.uncertain import ends
from fogline.query import OF_CHANGES, TOLERANCE, Query, is_number
from fogline.rows.changes import GroupKey, Tables
from fogline.rows.names import Kinds

CERTAINTIES = ("certain", "likely", "possible")
CERTAINTY = "certainty"  # the column that holds it


class Answers:
    """Builds tables of the answer to one query; remembers which representatives of each group it gave last."""

    def __init__(self, query: Query) -> None:
        self.query, self.tables = query, Tables(query)
        self.given: dict[GroupKey, frozenset[tuple[Any, ...]]] = {}

    def table(
        self, groups: Mapping[GroupKey, LiveSet], kinds: Kinds, certainty: str, alpha: float | None, top: int | None
    ) -> pa.Table:
        """See `Monitor.answer`."""
        check_certainty(certainty)
        check_alpha(alpha, self.query.alpha)
        parts: list[tuple[GroupKey, Delta]] = []
        certain: list[Objects] = [np.empty(0, object)]
        counts: list[Ints] = [np.empty(0, np.int64)]
        if top is not None:
            check_top(top)
            self.given = {key: self.given.get(key, frozenset()) for key in groups}
        for key, live in groups.items():
            found = standing(live, certainty, alpha)
            if top is not None:
                chosen = few(live, found.slots, found.probability, top, self.given[key])
                found, self.given[key] = found.part(chosen.which), chosen.names
                counts.append(chosen.stands_for)
            same = np.zeros(len(found.slots), np.int64)
            parts.append((key, live.slots.delta(found.slots, live.now, (same, same, found.probability, found.within))))
            certain.append(found.certainty)
        table = self.tables.build(parts, kinds).drop_columns(["time", *OF_CHANGES])
        table = table.append_column(CERTAINTY, pa.array(np.concatenate(certain), pa.string()))
        return table if top is None else with_stands_for(table, np.concatenate(counts))


class Few(NamedTuple):
    """The rows of a live set that stand for some of them."""

    which: Ints  # (m,) positions among those
    stands_for: Ints  # (m,)
    names: frozenset[tuple[Any, ...]]  # what they are called: to be given as `before` next time


def few(live: LiveSet, slots: Ints, probability: Floats, k: int, before: Container[tuple[Any, ...]]) -> Few:
    """k rows that stand for the rows in these slots; a missing value counts by the mean of its distribution.

    `before`: the names of those that stood for them last time. A row is named by id and arrival; where each id has one
    current row, by its id alone.
    """
    s = live.slots
    ids = s.id[slots].tolist()
    arrived = [None] * len(slots) if live.by_id else s.columns.arrived[slots].tolist()
    names = list(zip(ids, arrived, strict=True))
    values = row_means(s.uncertain, slots)
    which, stands_for = representatives(values, probability, k, [i for i, name in enumerate(names) if name in before])
    return Few(which, stands_for, frozenset(names[i] for i in which.tolist()))


# --- Certainty --------------------------------------------------------------------------------------------------------


class ShownRows(NamedTuple):
    """Rows of a live set and how certain each is, in the order of (arrival, id)."""

    slots: Ints  # (n,)
    probability: Floats  # (n,)
    within: Floats  # (n,) how far the truth may lie from it; 0: it is exact
    certainty: Objects  # (n,) of texts

    def part(self, which: Flags | Ints) -> ShownRows:
        """Some of them."""
        return ShownRows(self.slots[which], self.probability[which], self.within[which], self.certainty[which])


def standing(live: LiveSet, certainty: str = "likely", alpha: float | None = None) -> ShownRows:
    """The rows that are at least so certain: of `possible` all that are in under some values.

    O(open · log open) for members (see `fronts_of`); for others O(others · open · instances): their probabilities are
    worked out now.
    """
    s, c, n = live.slots, live.slots.columns, live.slots.used
    opened = np.flatnonzero(c.state[:n] >= OUT)
    which = s.by_key(opened if certainty == "possible" else live.members())
    if certainty == "possible":
        opened = which  # products are rounded: their order is not that of slots
    seen = ends(s.uncertain, np.arange(n))
    kind = live.fronts(which) if isinstance(live, SkybandLiveSet) else np.asarray(fronts_of(*seen, which, opened))
    which, kind = which[kind != IMPOSSIBLE], kind[kind != IMPOSSIBLE]
    probability, within = _chances(live, seen, which, opened)
    names = words_of(kind, probability, live.alpha if alpha is None else alpha)
    names[(c.state[which] == OUT) & (names == "likely")] = "possible"  # bounds on both sides of alpha: their middle
    found = ShownRows(which, probability, within, names)
    return found.part(np.isin(names, CERTAINTIES[: CERTAINTIES.index(certainty) + 1]))


def words_of(kind: Ints, probability: Floats, alpha: float) -> Objects:
    """(n,) how certain, from IMPOSSIBLE, OPEN or CERTAIN and a probability; empty: it cannot be in."""
    names = np.where(probability > alpha + TOLERANCE if alpha > 0 else kind != IMPOSSIBLE, "likely", "possible")
    names = np.where(kind == CERTAIN, "certain", names)
    return np.where(kind == IMPOSSIBLE, "", names).astype(object)


def check_certainty(certainty: str) -> None:
    """Is there such a word?"""
    if certainty not in CERTAINTIES:
        raise FoglineError(
            f"certainty is {certainty!r}; it is one of {', '.join(CERTAINTIES)}."
            f"{did_you_mean(str(certainty), CERTAINTIES)}"
        )


def check_alpha(alpha: float | None, least: float) -> None:
    """May the answer be cut at this alpha?"""
    if alpha is not None and not (is_number(alpha) and least <= alpha < 1):
        raise FoglineError(
            f"alpha is {alpha!r}; an answer to a query with alpha {least:g} can be cut at {least:g} or more, below 1: "
            "rows below that were not kept in it."
        )


def _chances(live: LiveSet, seen: tuple[Floats, Floats], which: Ints, opened: Ints) -> tuple[Floats, Floats]:
    """(n,) probabilities and how far these may be off: kept of members, of others worked out now."""
    c = live.slots.columns
    probability, within = c.probability[which], c.within[which]
    out = np.flatnonzero(c.state[which] != IN)
    if isinstance(live, SkybandLiveSet):
        least, most = live.chances(which[out])
        half = (most - least) / 2
        probability[out], within[out] = (least + most) / 2, np.where(half > TOLERANCE, half, 0.0)
    elif len(out):
        probability[out], within[out] = chances_of(live.slots.uncertain, *seen, which[out], opened), 0.0
        for k in out[np.isnan(probability[out])].tolist():
            low, high, _ = live.bracket(int(which[k]), opened, until_out=False)
            probability[k] = (low + high) / 2
            within[k] = (high - low) / 2 if (high - low) / 2 > TOLERANCE else 0.0
    return probability, within
