"""Which current rows guard which, and is everything as it should be?

Here guards are remembered, so the tree shows those: of a sealed row its guard, of a row that is out the likeliest of
its guards (none, where they are many). Members are layer 1, rows that are out layer 2, and a sealed row lies one layer
below its guard: to beat surely is a strict order, so that ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fogline.arrays import BOUNDS_ONLY, Ints
from fogline.engine.current import Current, LatestGroup
from fogline.engine.group import Group
from fogline.engine.live import Live
from fogline.kernels.dominance import beats, chance_to_beat
from fogline.kernels.judge import guards_of as guards_among
from fogline.kernels.latest import MANY
from fogline.kernels.states import DOMINATED, IN, OUT
from fogline.kernels.uncertain import ends
from fogline.query import TOLERANCE
from fogline.results import Node


def guards_of(live: Current, c: int) -> Ints:
    """The slots that are remembered to keep slot c out; none, where they are many."""
    guards, state = live.slots.guards, live.slots.columns.state[c]
    if state == DOMINATED:
        return guards.sure[c : c + 1].astype(np.int64)
    joint = guards.joint[c] if state == OUT else guards.joint[c, :0]
    many = np.flatnonzero(joint < 0)
    return joint[: many[0] if len(many) else len(joint)].astype(np.int64)


def remembered_tree(live: Current, by: tuple[Any, ...], show: Callable[[float], Any]) -> list[Node]:
    """Every current row with its layer and parent, by layer."""
    s = live.slots
    layers: dict[int, int] = {}

    def layer(c: int) -> int:
        way = [c]
        while way[-1] not in layers and s.columns.state[way[-1]] == DOMINATED:
            way.append(int(s.guards.sure[way[-1]]))
        top = layers.get(way[-1], 1 if s.columns.state[way[-1]] == IN else 2)
        for k, each in enumerate(reversed(way)):
            layers[each] = top + k
        return layers[c]

    nodes = []
    for c in sorted(map(int, s.alive()), key=lambda c: (layer(c), s.columns.arrived[c], s.id[c])):
        found = guards_of(live, c)
        parent = (s.id[found[0]], show(s.columns.arrived[found[0]])) if len(found) else None
        nodes.append(Node(by, s.id[c], show(s.columns.arrived[c]), layers[c], parent, False))
    return nodes


def audit_current(live: Current) -> None:
    """Assert what the module texts of `current` and `kernels.guards` promise."""
    s, c, alive = live.slots, live.slots.columns, live.slots.alive()
    assert len(alive) == live.alive, "rows are counted wrongly"
    assert np.all(c.expires[alive] > live.now), "an expired row is still there"
    assert live.next_expiry <= c.expires[alive].min(initial=np.inf), "a row expires before it is looked for"
    assert np.all(c.state[alive] <= IN), "a verdict was left in a state"
    opened = alive[c.state[alive] >= OUT]
    assert np.array_equal(np.sort(live.opened), opened), "the list of open slots is wrong"
    assert not np.any(s.uncertain.start[opened] == BOUNDS_ONLY), "an open cloud has only bounds"
    least, most = ends(s.uncertain, alive)
    lo, hi = s.uncertain.lo, s.uncertain.hi
    assert np.all((lo[alive] <= least) & (least <= most) & (most <= hi[alive])), "a distribution leaves its box"
    for o in alive.tolist():
        above = (lo[alive] >= hi[o]).all(axis=1) & (lo[alive] > hi[o]).any(axis=1)
        assert (c.state[o] == DOMINATED) == bool(above.any()), (
            f"{s.id[o]} is sealed if and only if another surely beats it"
        )
        if c.state[o] == DOMINATED:
            g = int(s.guards.sure[o])
            assert g >= 0, f"{s.id[o]} is sealed and has no guard"
            assert c.state[g] >= DOMINATED, f"the guard of {s.id[o]} is gone"
            assert beats(lo, g, hi, o), f"{s.id[g]} does not guard {s.id[o]}"
            assert not np.any(s.uncertain.start[g] == BOUNDS_ONLY), (
                f"{s.id[g]} guards others, and only its bounds are known"
            )
        else:
            _audit_open(live, o, opened)


def _audit_open(live: Current, o: int, opened: Ints) -> None:
    """The probability worked out anew agrees; if the row is out, its guards alone keep it out."""
    s, c, threshold = live.slots, live.slots.columns, live.limits.threshold
    low, high, _ = live.bracket(o, opened)
    if live.alpha == 0:
        least, most = ends(s.uncertain, opened)
        best = most[opened == o]
        sure = (least >= best).all(axis=1) & (least > best).any(axis=1)
        assert (c.state[o] == OUT) == bool(sure.any()), f"{s.id[o]} is out if and only if its probability is 0"
    if c.state[o] == IN:
        assert low - TOLERANCE <= c.probability[o] <= high + TOLERANCE, f"P({s.id[o]}) drifted from {low}…{high}"
        assert high > threshold, f"{s.id[o]} is in with P {high}"
        return
    assert c.until[o] == np.inf, f"{s.id[o]} is still to be judged"
    assert live.alpha == 0 or low <= threshold + TOLERANCE, f"{s.id[o]} is out with P {low}"
    if s.guards.joint[o, 0] == MANY:
        return
    guards = guards_of(live, o)
    assert len(guards), f"{s.id[o]} is out, and no row keeps it so"
    assert np.all(c.state[guards] >= DOMINATED), f"a guard of {s.id[o]} is gone"
    if live.alpha == 0:
        least, most = ends(s.uncertain, np.array([guards[0], o]))
        assert beats(least, 0, most, 1), f"{s.id[guards[0]]} does not guard {s.id[o]}"
    else:
        low, _, _ = live.bracket(o, guards)
        assert low <= threshold + TOLERANCE, f"the guards of {s.id[o]} do not keep it out: P {low}"


# --- tree ---
# Which rows guard which, and is everything as it should be?
#
# The skyline tree of the paper (section 5.1), by its corrected definition and on demand: the live set works without
# it,
# since each cloud only needs to know until when it is kept out. g guards c when Pr{g beats c} >= 1 - alpha. c's
# parent is
# the latest to expire of its guards that expire strictly earlier (ties by arrival, then id), so there are no cycles
# even
# where two clouds guard each other; a guard that expires no earlier makes c a shadow.


def guards(live: Live, o: int, among: Ints) -> Ints:
    """The slots that guard o."""
    found: Ints = guards_among(live.slots.live_set(), among, o, live.least)
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
    lo, hi = s.uncertain.lo, s.uncertain.hi
    assert np.all(s.columns.expires[alive] > live.now), "an expired cloud is still live"
    assert np.all(s.columns.state[alive] <= IN), "a verdict was left in a state"
    assert not np.any(s.uncertain.start[opened] == BOUNDS_ONLY), "an open cloud has only bounds"
    least, most = ends(s.uncertain, alive)
    assert np.all((lo[alive] <= least) & (least <= most) & (most <= hi[alive])), "a distribution leaves its box"
    for c in alive:
        sure = [g for g in alive if beats(lo, g, hi, c)]
        assert all(s.columns.expires[g] < s.columns.expires[c] for g in sure), (
            f"{s.id[c]} should have been forgotten (Property 1)"
        )
        assert (s.columns.state[c] == DOMINATED) == bool(sure), (
            f"{s.id[c]} is sealed if and only if another surely beats it"
        )
        if s.columns.state[c] == DOMINATED:
            last = max(s.columns.expires[g] for g in sure)
            assert live.now < s.columns.until[c] == last, (
                f"{s.id[c]} waits until {s.columns.until[c]}, surely beaten until {last}"
            )
        else:
            _audit_open_tree(live, int(c), opened, alive)


def _audit_open_tree(live: Live, c: int, opened: Ints, alive: Ints) -> None:
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
            assert all(chance_to_beat(s.uncertain, g, c) <= 1 - live.alpha for g in found), (
                "in, but guarded (Property 3)"
            )
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
    least, most = ends(s.uncertain, opened)
    best = most[opened == c]
    sure = opened[(least >= best).all(axis=1) & (least > best).any(axis=1)]
    assert (s.columns.state[c] == OUT) == bool(len(sure)), f"{s.id[c]} is out if and only if its probability is 0"
    if len(sure):
        alive = s.alive()  # one that is sealed now may be the last
        least, _ = ends(s.uncertain, alive)
        last = s.columns.expires[alive[(least >= best).all(axis=1) & (least > best).any(axis=1)]].max()
        assert s.columns.until[c] <= last, f"{s.id[c]} is not kept out until {s.columns.until[c]}"


def _probability(live: Live, c: int, among: Ints) -> tuple[float, float]:
    return live.bracket(c, among)[:2]
