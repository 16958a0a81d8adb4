"""Which rows guard which, and is everything as it should be?

The skyline tree of the paper (section 5.1), by its corrected definition and on demand: the live set works without it,
since each cloud only needs to know until when it is kept out. g guards c when Pr{g beats c} >= 1 - alpha. c's parent is
the latest to expire of its guards that expire strictly earlier (ties by arrival, then id), so there are no cycles even
where two clouds guard each other; a guard that expires no earlier makes c a shadow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fogline.arrays import VAGUE, Ints
from fogline.kernels.clouds import ends
from fogline.kernels.dominance import beats, chance_to_beat
from fogline.kernels.judge import guards_of
from fogline.kernels.states import IN, OUT, SEALED
from fogline.model import TOLERANCE, Node
from fogline.skyline.current import Current
from fogline.skyline.current_tree import audit_current, remembered_tree
from fogline.skyline.group import Group
from fogline.skyline.latest import LatestGroup
from fogline.skyline.live import Live


def guards(live: Live, o: int, among: Ints) -> Ints:
    """The slots that guard o."""
    found: Ints = guards_of(live.slots.live_set(), among, o, live.least)
    return found


def layer_one(live: Live) -> int:
    """How many live clouds have no guard at all? Only those can be answers. O(open²)."""
    s = live.slots
    opened = np.flatnonzero(
        s.columns.state[: s.used] >= OUT
    )  # a sealed cloud has a guard: the one that surely beats it
    return sum(1 for o in opened if s.columns.state[o] == IN or not len(guards(live, int(o), opened)))


def measure(group: Group | LatestGroup) -> dict[str, int]:
    """Counters of a group since the start, and its sizes now. O(live), column by column."""
    live, counts = group.live, group.live.counts
    latest = {}
    if isinstance(group, LatestGroup):
        latest = {"stale": group.stale, "removed": group.removed, "markers": group.markers}
    return {
        "late": group.late,
        "expired_on_arrival": group.expired_on_arrival,
        "live": live.alive,
        "answer": len(live.members()),
        "shadows": len(live.shadows()),
        "inexact": len(live.inexact()),
        "undecided": len(live.undecided()),
        "forgotten": counts.forgotten,
        **{f"pruned_{name}": number for name, number in counts.pruned().items()},
        "evaluations": counts.evaluations,
        "imputed": counts.imputed,
        "revised": counts.revised,
        **latest,
    }


def tree(live: Live, by: tuple[Any, ...], show: Callable[[float], Any]) -> list[Node]:
    """Every live cloud with its layer and parent, in order of expiry. O(live²); of current rows O(live)."""
    if isinstance(live, Current):
        return remembered_tree(live, by, show)
    s, alive = live.slots, live.slots.alive()

    def key(c: int) -> tuple[float, float, Any]:
        return s.columns.expires[c], s.columns.arrived[c], s.id[c]

    layers: dict[int, int | None] = {}
    nodes = []
    for c in sorted(map(int, alive), key=key):
        found = guards(live, c, alive)
        shadow = bool(np.any(s.columns.expires[found] >= s.columns.expires[c]))
        earlier = [int(g) for g in found if s.columns.expires[g] < s.columns.expires[c]]
        parent = max(earlier, key=key) if earlier else None
        above = None if parent is None else layers[parent]
        layers[c] = None if shadow else 1 if parent is None else 1 + (above or 1)
        named = None if parent is None else (s.id[parent], show(s.columns.arrived[parent]))
        nodes.append(Node(by, s.id[c], show(s.columns.arrived[c]), layers[c], named, shadow))
    return nodes


def audit(live: Live) -> None:
    """Assert what the module texts of `live` and `slots` promise, Properties 1-3 of the paper among it."""
    if isinstance(live, Current):
        audit_current(live)
        return
    s, alive = live.slots, live.slots.alive()
    opened = alive[s.columns.state[alive] >= OUT]
    lo, hi = s.clouds.lo, s.clouds.hi
    assert np.all(s.columns.expires[alive] > live.now), "an expired cloud is still live"
    assert np.all(s.columns.state[alive] <= IN), "a verdict was left in a state"
    assert not np.any(s.clouds.start[opened] == VAGUE), "an open cloud has only bounds"
    least, most = ends(s.clouds, alive)
    assert np.all((lo[alive] <= least) & (least <= most) & (most <= hi[alive])), "a distribution leaves its box"
    for c in alive:
        sure = [g for g in alive if beats(lo, g, hi, c)]
        assert all(s.columns.expires[g] < s.columns.expires[c] for g in sure), (
            f"{s.id[c]} should have been forgotten (Property 1)"
        )
        assert (s.columns.state[c] == SEALED) == bool(sure), (
            f"{s.id[c]} is sealed if and only if another surely beats it"
        )
        if s.columns.state[c] == SEALED:
            last = max(s.columns.expires[g] for g in sure)
            assert live.now < s.columns.until[c] == last, (
                f"{s.id[c]} waits until {s.columns.until[c]}, surely beaten until {last}"
            )
        else:
            _audit_open(live, int(c), opened, alive)


def _audit_open(live: Live, c: int, opened: Ints, alive: Ints) -> None:
    """The probability worked out anew over all places agrees, and so does the promise to be out for a while."""
    s = live.slots
    low, high = _probability(live, c, opened)
    if live.alpha == 0:
        _audit_possible(live, c, opened)
    if s.columns.state[c] == IN:
        assert low - TOLERANCE <= s.columns.probability[c] <= high + TOLERANCE, (
            f"P({s.id[c]}) drifted from {low}…{high}"
        )
        assert high > live.limits.threshold, f"{s.id[c]} is in with P {high}"
        if live.alpha > 0:
            found = guards(live, c, alive)
            assert all(chance_to_beat(s.clouds, g, c) <= 1 - live.alpha for g in found), "in, but guarded (Property 3)"
        return
    assert live.now < s.columns.until[c], f"{s.id[c]} is out and waits for nothing"
    if live.alpha == 0:
        return
    assert low <= live.limits.threshold + TOLERANCE, f"{s.id[c]} is out with P {low} (Property 2)"
    lasting = alive[s.columns.expires[alive] >= s.columns.until[c]]
    low, _ = _probability(live, c, lasting)
    assert low <= live.limits.threshold + TOLERANCE, f"{s.id[c]} is not kept out until {s.columns.until[c]}"


def _audit_possible(live: Live, c: int, opened: Ints) -> None:
    """At alpha 0 a cloud is out if and only if the worst that another may be beats the best that it may be."""
    s = live.slots
    least, most = ends(s.clouds, opened)
    best = most[opened == c]
    sure = opened[(least >= best).all(axis=1) & (least > best).any(axis=1)]
    assert (s.columns.state[c] == OUT) == bool(len(sure)), f"{s.id[c]} is out if and only if its probability is 0"
    if len(sure):
        alive = s.alive()  # one that is sealed now may be the last
        least, _ = ends(s.clouds, alive)
        last = s.columns.expires[alive[(least >= best).all(axis=1) & (least > best).any(axis=1)]].max()
        assert s.columns.until[c] <= last, f"{s.id[c]} is not kept out until {s.columns.until[c]}"


def _probability(live: Live, c: int, among: Ints) -> tuple[float, float]:
    return live.bracket(c, among)[:2]
