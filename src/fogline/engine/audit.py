"""The skyline tree, counters, and `check()`: which rows guard which, how much is kept, and is all as promised?

Tree (the paper, section 5.1, by its corrected definition, on demand): the live set works without it, since a row only
needs to know until when it is kept out. g guards c when Pr{g dominates c} >= 1 - alpha. c's parent is the latest to
expire of its guards that expire strictly earlier (ties by arrival, then id), so there are no cycles even where two rows
guard each other; a guard that expires no earlier makes c a shadow.

Where each id has one current row, guards are remembered, and the tree shows those: of a surely dominated row the guard
that does it, of a row that is out the likeliest of its guards (none, where they are many). Members are layer 1, rows
that are out layer 2, and a surely dominated row lies one layer below its guard: a strict order, so that ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fogline.arrays import BOUNDS_ONLY, ONE, Flags, Floats, Ints
from fogline.engine.group import Group
from fogline.engine.latest import LatestLiveSet
from fogline.engine.live import LiveSet
from fogline.engine.skyband import SkybandLiveSet
from fogline.kernels.dominance import chance_to_dominate, dominates
from fogline.kernels.judge import TOO_MANY
from fogline.kernels.judge import guards_of as guards_among
from fogline.kernels.states import DOMINATED, IN, OUT
from fogline.kernels.uncertain import ends
from fogline.query import TOLERANCE
from fogline.results import Node

Show = Callable[[float], Any]


def measure(group: Group) -> dict[str, int]:
    """Counters of a group since the start, and its sizes now. O(live), column by column."""
    live, counts = group.live, group.live.counts
    return {
        "late": group.late,
        "expired_on_arrival": group.expired_on_arrival,
        **group.sizes(),
        "shadows": len(live.shadows()),
        "forgotten": counts.forgotten,
        **{f"pruned_{name}": number for name, number in counts.pruned().items()},
        "evaluations": counts.evaluations,
        "imputed": counts.imputed,
        "revised": counts.revised,
        **group.counters(),
    }


# --- The tree ---------------------------------------------------------------------------------------------------------


def tree(live: LiveSet, by: tuple[Any, ...], show: Show) -> list[Node]:
    """Every live row with its layer and parent, in order of expiry. O(live²); of current rows O(live)."""
    if isinstance(live, LatestLiveSet):
        return _remembered_tree(live, by, show)
    s, alive = live.slots, live.slots.alive()

    def key(c: int) -> tuple[float, float, Any]:
        return s.columns.expires[c], s.columns.arrived[c], s.id[c]

    layers: dict[int, int | None] = {}
    nodes = []
    for c in sorted(map(int, alive), key=key):
        found = _guards(live, c, alive)
        shadow = bool(np.any(s.columns.expires[found] >= s.columns.expires[c]))
        earlier = [int(g) for g in found if s.columns.expires[g] < s.columns.expires[c]]
        parent = max(earlier, key=key) if earlier else None
        above = None if parent is None else layers[parent]
        layers[c] = None if shadow else 1 if parent is None else 1 + (above or 1)
        named = None if parent is None else (s.id[parent], show(s.columns.arrived[parent]))
        nodes.append(Node(by, s.id[c], show(s.columns.arrived[c]), layers[c], named, shadow))
    return nodes


def _guards(live: LiveSet, o: int, among: Ints) -> Ints:
    """The slots that guard o."""
    found: Ints = guards_among(live.slots.live_arrays(), among, o, live.least)
    return found


def _remembered_tree(live: LatestLiveSet, by: tuple[Any, ...], show: Show) -> list[Node]:
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
        found = _remembered_guards(live, c)
        parent = (s.id[found[0]], show(s.columns.arrived[found[0]])) if len(found) else None
        nodes.append(Node(by, s.id[c], show(s.columns.arrived[c]), layers[c], parent, False))
    return nodes


def _remembered_guards(live: LatestLiveSet, c: int) -> Ints:
    """The slots that are remembered to keep slot c out; none, where they are many."""
    guards, state = live.slots.guards, live.slots.columns.state[c]
    if state == DOMINATED:
        return guards.sure[c : c + 1].astype(np.int64)
    joint = guards.joint[c] if state == OUT else guards.joint[c, :0]
    many = np.flatnonzero(joint < 0)
    return joint[: many[0] if len(many) else len(joint)].astype(np.int64)


# --- The audit --------------------------------------------------------------------------------------------------------


def audit(live: LiveSet) -> None:
    """Assert what the engine's modules promise of a live set, Properties 1 to 3 of the paper among it."""
    if isinstance(live, SkybandLiveSet):
        live.check()
        return
    s, c, alive = live.slots, live.slots.columns, live.slots.alive()
    opened = alive[c.state[alive] >= OUT]
    assert np.all(c.expires[alive] > live.now), "an expired row is still there"
    assert np.all(c.state[alive] <= IN), "a verdict was left in a state"
    assert not np.any(s.uncertain.start[opened] == BOUNDS_ONLY), "an open row has only bounds"
    known = isinstance(live, LatestLiveSet) or s.distributed or (s.uncertain.start[alive] == ONE).all()
    assert known, "a distribution is there, and ticks leave out what distributions need"
    least, most = ends(s.uncertain, alive)
    lo, hi = s.uncertain.lo, s.uncertain.hi
    assert np.all((lo[alive] <= least) & (least <= most) & (most <= hi[alive])), "a distribution leaves its box"
    if isinstance(live, LatestLiveSet):
        assert len(alive) == live.alive, "rows are counted wrongly"
        assert live.next_expiry <= c.expires[alive].min(initial=np.inf), "a row expires before it is looked for"
        assert np.array_equal(np.sort(live.opened), opened), "the list of open slots is wrong"
    for o in alive.tolist():
        sure = alive[which_dominate(lo[alive], hi[o])]
        assert (c.state[o] == DOMINATED) == bool(len(sure)), (
            f"{s.id[o]} is dominated until later if and only if another surely dominates it"
        )
        if isinstance(live, LatestLiveSet):
            _audit_guarded(live, o, opened)
            continue
        assert np.all(c.expires[sure] < c.expires[o]), f"{s.id[o]} should have been forgotten (Property 1)"
        if c.state[o] == DOMINATED:
            last = c.expires[sure].max()
            assert live.now < c.until[o] == last, f"{s.id[o]} waits until {c.until[o]}, surely dominated until {last}"
        else:
            _audit_open(live, o, opened, alive)


def which_dominate(worst: Floats, best: Floats) -> Flags:
    """(n,) which of the corners (n, d) dominate the corner (d,)."""
    return np.asarray((worst >= best).all(axis=1) & (worst > best).any(axis=1))


def _audit_probability(live: LiveSet, o: int, opened: Ints) -> None:
    """The probability of an open row, worked out anew over all instances, agrees with its state.

    At alpha 0 it is out if and only if the worst that another may be dominates the best that it may be.
    """
    s, c, threshold = live.slots, live.slots.columns, live.limits.threshold
    low, high, _ = live.bracket(o, opened)
    if live.alpha == 0:
        least, most = ends(s.uncertain, opened)
        sure = which_dominate(least, most[opened == o][0])
        assert (c.state[o] == OUT) == bool(sure.any()), f"{s.id[o]} is out if and only if its probability is 0"
    if c.state[o] == IN:
        assert low - TOLERANCE <= c.probability[o] <= high + TOLERANCE, f"P({s.id[o]}) drifted from {low}…{high}"
        assert high > threshold, f"{s.id[o]} is in with P {high}"
    else:
        assert live.alpha == 0 or low <= threshold + TOLERANCE, f"{s.id[o]} is out with P {low} (Property 2)"


def _audit_open(live: LiveSet, o: int, opened: Ints, alive: Ints) -> None:
    """An open row: its probability is right, a member has no guard, and what is out is kept out as long as promised."""
    s, c = live.slots, live.slots.columns
    _audit_probability(live, o, opened)
    if c.state[o] == IN:
        if live.alpha > 0:
            found = _guards(live, o, alive)
            assert all(chance_to_dominate(s.uncertain, g, o) <= 1 - live.alpha for g in found), (
                "in, but guarded (Property 3)"
            )
        return
    assert live.now < c.until[o], f"{s.id[o]} is out and waits for nothing"
    if live.alpha == 0:  # a row that is dominated until later now may be the last to dominate it
        least, most = ends(s.uncertain, np.append(alive, o))
        last = c.expires[alive[which_dominate(least[:-1], most[-1])]].max()
        assert c.until[o] <= last, f"{s.id[o]} is not kept out until {c.until[o]}"
        return
    low, _, _ = live.bracket(o, alive[c.expires[alive] >= c.until[o]])
    assert low <= live.limits.threshold + TOLERANCE, f"{s.id[o]} is not kept out until {c.until[o]}"


def _audit_guarded(live: LatestLiveSet, o: int, opened: Ints) -> None:
    """A current row: what is remembered to keep it out is there, and alone keeps it out."""
    s, c = live.slots, live.slots.columns
    if c.state[o] == DOMINATED:
        g = int(s.guards.sure[o])
        assert g >= 0, f"{s.id[o]} is surely dominated and has no guard"
        assert c.state[g] >= DOMINATED, f"the guard of {s.id[o]} is gone"
        assert dominates(s.uncertain.lo, g, s.uncertain.hi, o), f"{s.id[g]} does not guard {s.id[o]}"
        assert not np.any(s.uncertain.start[g] == BOUNDS_ONLY), f"{s.id[g]} guards others, and has only bounds"
        return
    _audit_probability(live, o, opened)
    if c.state[o] == IN:
        return
    assert c.until[o] == np.inf, f"{s.id[o]} is still to be judged"
    if s.guards.joint[o, 0] == TOO_MANY:
        return
    guards = _remembered_guards(live, o)
    assert len(guards), f"{s.id[o]} is out, and no row keeps it so"
    assert np.all(c.state[guards] >= DOMINATED), f"a guard of {s.id[o]} is gone"
    if live.alpha == 0:
        least, most = ends(s.uncertain, np.array([guards[0], o]))
        assert dominates(least, 0, most, 1), f"{s.id[guards[0]]} does not guard {s.id[o]}"
    else:
        low, _, _ = live.bracket(o, guards)
        assert low <= live.limits.threshold + TOLERANCE, f"the guards of {s.id[o]} do not keep it out: P {low}"
