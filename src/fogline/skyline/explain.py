"""Why is a row in the answer, or why not?

Rows are named by their id and their arrival: an id may have several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fogline.errors import RowsError
from fogline.kernels.dominance import beats, chance_to_beat
from fogline.kernels.states import IN, OUT, SEALED
from fogline.model import TOLERANCE, Cloud, ImputedCell, Query
from fogline.question import as_text
from fogline.skyline.live import Live

Key = tuple[Any, ...]


class Rival(NamedTuple):
    """A row that may beat another."""

    id: Any
    arrived: Any
    probability: float
    """How likely it beats it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A live row, its probability, and which rows beat it how likely (the strongest first, ten at most)."""

    by: tuple[Any, ...]
    id: Any
    arrived: Any
    inside: bool
    reason: str
    probability: float
    within: float  # how far the truth may lie from it; 0: it is exact
    cloud: Cloud
    rivals: tuple[Rival, ...]
    imputed: tuple[ImputedCell, ...] = ()
    """What was imputed for each of its missing values."""

    def __str__(self) -> str:
        rivals = "".join(
            f"\n  beaten by {each.id!r} (arrived {each.arrived}) with probability {each.probability:.3g}"
            for each in self.rivals
        )
        cells = "".join(f"\n  {each}" for each in self.imputed)
        within = f" ± {self.within:.2g}" if self.within else ""
        probability = f"(P = {self.probability:.6g}{within})"
        row = f"{self.id!r} (arrived {self.arrived}) is {'in' if self.inside else 'out'}"
        return f"{row}: {self.reason} {probability}{rivals}{cells}"


def named(id: Any, groups: Mapping[Key, Live]) -> list[tuple[Key, int]]:
    """The slots of the rows with this id, by their groups; if there are none, of those whose id is written the same."""
    there = [(key, int(slot), live.slots.id[slot]) for key, live in groups.items() for slot in live.slots.alive()]
    same = [(key, slot) for key, slot, name in there if name == id and isinstance(name, bool) == isinstance(id, bool)]
    if same:
        return same
    text = as_text(id)
    alike = [(key, slot, name) for key, slot, name in there if as_text(name) == text]
    if len({name for *_, name in alike}) > 1:
        written = ", ".join(sorted({repr(name) for *_, name in alike}))
        raise RowsError(f"no row has the id {id!r}, and several are written like it: {written}; name one of them.")
    return [(key, slot) for key, slot, _ in alike]


def explain(live: Live, slot: int, by: Key, show: Callable[[float], Any], query: Query) -> Explanation:
    """The explanation of one live cloud. O(live · values)."""
    s, c = live.slots, live.slots.columns
    others = s.alive()
    chances = {int(g): float(chance_to_beat(s.clouds, g, slot)) for g in others if g != slot}
    strongest = sorted((g for g, p in chances.items() if p > 0), key=lambda g: -chances[g])[:10]
    opened = others[c.state[others] >= OUT]
    low, high, _ = (0.0, 0.0, 0.0) if c.state[slot] == SEALED else live.bracket(slot, opened, until_out=False)
    return Explanation(
        by=by,
        id=s.id[slot],
        arrived=show(c.arrived[slot]),
        inside=bool(c.state[slot] == IN),
        reason=_reason(live, slot, strongest, chances, show),
        probability=(low + high) / 2,
        within=(high - low) / 2 if (high - low) / 2 > TOLERANCE else 0.0,
        cloud=_cloud(live, slot, query),
        rivals=tuple(Rival(s.id[g], show(c.arrived[g]), chances[g]) for g in strongest),
    )


def _reason(
    live: Live, slot: int, strongest: list[int], chances: dict[int, float], show: Callable[[float], Any]
) -> str:
    s, c = live.slots, live.slots.columns

    def name(g: int) -> str:
        return f"{s.id[g]!r} (arrived {show(c.arrived[g])})"

    if slot in live.undecided():
        return f"alpha = {live.alpha:g} lies within what is known of its probability, whose middle decides"
    if c.state[slot] == IN:
        return f"more likely than alpha = {live.alpha:g} that no row beats it"
    lasting = slot in live.shadows()
    if c.state[slot] == SEALED:
        stronger = next(g for g in s.alive() if beats(s.clouds.lo, g, s.clouds.hi, slot))
        return f"{name(stronger)} surely beats it"
    single = bool(strongest) and chances[strongest[0]] >= live.least
    guards = f"{name(strongest[0])} guards it" if single else "several rows together guard it"
    return guards + (", for the rest of its life" if lasting else "")


def _cloud(live: Live, slot: int, query: Query) -> Cloud:
    """The slot's cloud as the user sees it: not oriented."""
    clouds = live.slots.clouds
    values: dict[str, tuple[tuple[float, float], ...]] = {}
    for j, (name, sign) in enumerate(zip(query.names, query.signs, strict=True)):
        start, size = clouds.start[slot, j], clouds.size[slot, j]
        if start < 0:
            values[name] = ((float(clouds.lo[slot, j] * sign + 0.0), 1.0),)
        else:
            pairs = np.stack(
                (clouds.value[start : start + size] * sign + 0.0, clouds.weight[start : start + size]), axis=1
            )
            values[name] = tuple((float(v), float(w)) for v, w in pairs[np.argsort(pairs[:, 0])])
    return Cloud(values)
