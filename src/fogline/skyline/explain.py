"""Why is a row in the answer, or why not?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fogline.kernels.dominance import beats, chance_to_beat
from fogline.kernels.states import IN, OUT, SEALED
from fogline.model import TOLERANCE, Cloud, ImputedCell, Query
from fogline.skyline.live import Live


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
    rivals: tuple[tuple[Any, float], ...]
    imputed: tuple[ImputedCell, ...] = ()
    """What was imputed for each of its missing values."""

    def __str__(self) -> str:
        rivals = "".join(f"\n  beaten by {name!r} with probability {p:.3g}" for name, p in self.rivals)
        cells = "".join(f"\n  {each}" for each in self.imputed)
        within = f" ± {self.within:.2g}" if self.within else ""
        probability = f"(P = {self.probability:.6g}{within})"
        return f"{self.id!r} is {'in' if self.inside else 'out'}: {self.reason} {probability}{rivals}{cells}"


def explain(live: Live, slot: int, by: tuple[Any, ...], arrived: Any, query: Query) -> Explanation:
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
        arrived=arrived,
        inside=bool(c.state[slot] == IN),
        reason=_reason(live, slot, strongest, chances),
        probability=(low + high) / 2,
        within=(high - low) / 2 if (high - low) / 2 > TOLERANCE else 0.0,
        cloud=_cloud(live, slot, query),
        rivals=tuple((s.id[g], chances[g]) for g in strongest),
    )


def _reason(live: Live, slot: int, strongest: list[int], chances: dict[int, float]) -> str:
    s, c = live.slots, live.slots.columns
    if slot in live.undecided():
        return f"alpha = {live.alpha:g} lies within what is known of its probability, whose middle decides"
    if c.state[slot] == IN:
        return f"more likely than alpha = {live.alpha:g} that no row beats it"
    lasting = slot in live.shadows()
    if c.state[slot] == SEALED:
        stronger = next(g for g in s.alive() if beats(s.clouds.lo, g, s.clouds.hi, slot))
        return f"{s.id[stronger]!r} surely beats it"
    single = bool(strongest) and chances[strongest[0]] >= live.least
    guards = f"{s.id[strongest[0]]!r} guards it" if single else "several rows together guard it"
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
