"""Which current rows guard which, and is everything as it should be?

Here guards are remembered, so the tree shows those: of a sealed row its guard, of a row that is out the likeliest of
its guards (none, where they are many). Members are layer 1, rows that are out layer 2, and a sealed row lies one layer
below its guard: to beat surely is a strict order, so that ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fogline.arrays import VAGUE, Ints
from fogline.kernels.clouds import ends
from fogline.kernels.dominance import beats
from fogline.kernels.guards import MANY
from fogline.kernels.states import IN, OUT, SEALED
from fogline.model import TOLERANCE, Node
from fogline.skyline.current import Current


def guards_of(live: Current, c: int) -> Ints:
    """The slots that are remembered to keep slot c out; none, where they are many."""
    guards, state = live.slots.guards, live.slots.columns.state[c]
    if state == SEALED:
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
        while way[-1] not in layers and s.columns.state[way[-1]] == SEALED:
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
    assert not np.any(s.clouds.start[opened] == VAGUE), "an open cloud has only bounds"
    least, most = ends(s.clouds, alive)
    lo, hi = s.clouds.lo, s.clouds.hi
    assert np.all((lo[alive] <= least) & (least <= most) & (most <= hi[alive])), "a distribution leaves its box"
    for o in alive.tolist():
        above = (lo[alive] >= hi[o]).all(axis=1) & (lo[alive] > hi[o]).any(axis=1)
        assert (c.state[o] == SEALED) == bool(above.any()), (
            f"{s.id[o]} is sealed if and only if another surely beats it"
        )
        if c.state[o] == SEALED:
            g = int(s.guards.sure[o])
            assert g >= 0, f"{s.id[o]} is sealed and has no guard"
            assert c.state[g] >= SEALED, f"the guard of {s.id[o]} is gone"
            assert beats(lo, g, hi, o), f"{s.id[g]} does not guard {s.id[o]}"
            assert not np.any(s.clouds.start[g] == VAGUE), f"{s.id[g]} guards others, and only its bounds are known"
        else:
            _audit_open(live, o, opened)


def _audit_open(live: Current, o: int, opened: Ints) -> None:
    """The probability worked out anew agrees; if the row is out, its guards alone keep it out."""
    s, c, threshold = live.slots, live.slots.columns, live.limits.threshold
    low, high, _ = live.bracket(o, opened)
    if live.alpha == 0:
        least, most = ends(s.clouds, opened)
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
    assert np.all(c.state[guards] >= SEALED), f"a guard of {s.id[o]} is gone"
    if live.alpha == 0:
        least, most = ends(s.clouds, np.array([guards[0], o]))
        assert beats(least, 0, most, 1), f"{s.id[guards[0]]} does not guard {s.id[o]}"
    else:
        low, _, _ = live.bracket(o, guards)
        assert low <= threshold + TOLERANCE, f"the guards of {s.id[o]} do not keep it out: P {low}"
