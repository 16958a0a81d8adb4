"""The skyline tree ST (sections 5.1 and 5.3.1): insertion (Algorithm 3) and deletion (Algorithm 4).

A child c of n: Pr{n ≺ c} >= 1 - α, and n.exp < c.exp. So c is no answer before n expires. Layer 1 has no parent and is
a superset of the answers (Property 1, Property 2, Property 3). Lines are numbered as the paper's text counts them.

Two forms from one source. *As printed*, Algorithm 3 takes "likely dominated" for transitive (Lemma 5, Lemma 6; the
appendix calls Lemma 6 Dominance Transitivity and proves another statement): when n is pruned by o, lines 8 and 36 hand
all children of n to o, which may dominate none of them. For α = 0.5 let n = (3 or 0, 3) be the parent of c = (2, 2).
Then o = (1, 3) replaces n and inherits c; at n.exp, c is missing from layer 1 and from the answer. *Corrected*, o
inherits a child of n only if Pr{o ≺ c} >= 1 - α, which is so whenever n is pruned by Lemma 1. If o dominates the child
until it expires, the child is pruned as well; other children look for a parent as newcomers do.

Where else the paper contradicts itself here:

- Section 5.1 asks that siblings of a layer dominate each other with less than 1 - α. Algorithm 4 moves descendants up
  without a look at their new siblings, and Algorithm 3 compares a newcomer with those above it in one direction only.
  So Property 4 (no object dominates a sibling, or one on a layer above, with 1 - α) does not hold either, and line 31
  misses objects above the layer of o. That costs work, never an answer.
- Lemma 4's use in Appendix C: a newcomer that dominates an object of layer 1 is not dominated by another one there. For
  α >= 0.5 two objects may dominate each other with 1 - α; o is on layer 1 (line 6) though another prunes it. Harmless.
- Section 5.3.1: all expired objects are on layer 1. With line 8 or 36 as printed, c may expire before its new parent.
  As printed, such an object is found when it reaches layer 1, and it is no longer in W_t.
- Lines 35 and 39 move every descendant to the layer below o; the text keeps their distances. Layers follow from edges
  here, so there is nothing to move.
- Line 37 asks when par(n) expires; objects of layer 1 have no parent. It is taken to have expired long ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lab.paper.objects import Imputed, Store, dominates, likely


class Pruned(NamedTuple):
    """An object that left the tree, or did not enter it, and by which one."""

    object: Imputed
    by: Imputed


class Node:
    """An object in the tree."""

    __slots__ = ("children", "object", "parent", "slot")

    def __init__(self, object: Imputed) -> None:
        self.object = object
        self.parent: Node | None = None
        self.children: dict[Node, None] = {}  # in the order in which they came
        self.slot = -1


class SkylineTree:
    """The tree. `corrected`: see the module text."""

    def __init__(self, alpha: float, *, corrected: bool = True) -> None:
        self.alpha, self.corrected = alpha, corrected
        self.top: dict[Node, None] = {}  # layer 1, the children of the virtual root
        self.store = Store[Node]()
        self.orphans: list[Node] = []  # corrected: children of a pruned node that no one has inherited yet

    # ------------------------------------------------------------------------------------------- Algorithm 3, insertion

    def insert(self, new: Imputed) -> list[Pruned]:
        """Algorithm 3. Returns what is pruned: the new object, or others because of it. O(nodes) dominance checks."""
        o, pruned = Node(new), list[Pruned]()
        below = self.store.likely_below(new, self.alpha)
        dominated = [n for n in below if n.parent is None]  # lines 4-5
        for n in dominated:
            if new.expires >= n.object.expires:  # lines 7-8: replace n with o
                self._remove(n, o, pruned)
            else:  # lines 9-12: o becomes the parent of n
                self._move(n, o)
        if dominated:  # lines 6, 10; several replaced objects leave one copy of o
            self._attach(o, None)
        else:
            parent, pruner = self._search(new)
            if pruner is not None:
                return [Pruned(new, pruner.object)]  # lines 18-20; Lemma 5: o is not used to prune others
            self._attach(o, parent)  # lines 25-29
        o.slot = self.store.add(o, new)
        self._take_over(o, below, pruned)
        self._settle(pruned)
        return pruned

    def _search(self, new: Imputed) -> tuple[Node | None, Node | None]:
        """Lines 14-24: the parent that expires last among those that dominate o, or an object that prunes it."""
        above = {*self.store.likely_above(new, self.alpha)}
        queue, parent = deque(n for n in self.top if n in above), None  # line 14
        while queue:  # line 15
            n = queue.popleft()
            if n.object.expires >= new.expires:
                return None, n
            if parent is None or n.object.expires > parent.object.expires:  # lines 22-23
                parent = n
            queue.extend(child for child in n.children if child in above)  # line 24, with the test of line 17
        return parent, None

    def _take_over(self, o: Node, below: list[Node], pruned: list[Pruned]) -> None:
        """Lines 30-40: prune with o, and find its children, from its own layer downwards."""
        own = self.layer(o)
        for n in sorted(below, key=self.layer):
            if n.slot < 0 or n in self.orphans or self.layer(n) < own:  # line 31
                continue
            if o.object.expires >= n.object.expires:  # lines 33-36
                self._remove(n, o, pruned)
            elif n.parent is None or o.object.expires > n.parent.object.expires:  # lines 37-40
                self._move(n, o)

    # -------------------------------------------------------------------------------------------- Algorithm 4, deletion

    def delete(self, now: Any) -> None:
        """Algorithm 4: expired objects of layer 1 leave, and their children rise to layer 1. O(layer 1)."""
        while expired := [n for n in self.top if n.object.expires <= now]:  # line 1
            for n in expired:
                del self.top[n]  # line 2
                self._forget(n)
                for child in n.children:  # line 3
                    child.parent = None
                self.top |= n.children

    # ------------------------------------------------------------------------------------------------------------ edges

    def _attach(self, node: Node, parent: Node | None) -> None:
        node.parent = parent
        (self.top if parent is None else parent.children)[node] = None

    def _detach(self, node: Node) -> None:
        del (self.top if node.parent is None else node.parent.children)[node]
        node.parent = None

    def _move(self, node: Node, parent: Node | None) -> None:
        self._detach(node)
        self._attach(node, parent)

    def _remove(self, n: Node, o: Node, pruned: list[Pruned]) -> None:
        """n is pruned by o. Its children go to o as printed (lines 8, 36), to where they belong if corrected."""
        self._detach(n)
        self._forget(n)
        pruned.append(Pruned(n.object, o.object))
        children, n.children = n.children, {}
        for child in children:
            child.parent = None
            if self.corrected and not self._dominates_child(o, n, child):
                self.orphans.append(child)
                continue
            self._attach(child, o)
            if self.corrected and o.object.expires >= child.object.expires:
                self._remove(child, o, pruned)

    def _dominates_child(self, o: Node, n: Node, child: Node) -> bool:
        """Does o, which prunes n, dominate a child of n? Sure dominance (Lemma 1) is transitive, likely is not."""
        return dominates(o.object.min, n.object.max) or likely(o.object, child.object, self.alpha)

    def _settle(self, pruned: list[Pruned]) -> None:
        """Corrected: orphans look for a parent as newcomers do (lines 14-29), with their own children below them."""
        while self.orphans:
            child = self.orphans.pop()
            parent, pruner = self._search(child.object)
            self._attach(child, parent)
            if pruner is not None:
                self._remove(child, pruner, pruned)

    def _forget(self, node: Node) -> None:
        self.store.drop(node.slot)
        node.slot = -1

    # ------------------------------------------------------------------------------------------------------------ looks

    def layer(self, node: Node) -> int:
        """From 1 on. O(layer)."""
        count = 1
        while node.parent is not None:
            node, count = node.parent, count + 1
        return count

    def layers(self) -> list[list[Node]]:
        """The tree, from layer 1 down."""
        out, layer = [], list(self.top)
        while layer:
            out.append(layer)
            layer = [child for n in layer for child in n.children]
        return out

    def objects(self) -> Iterator[Imputed]:
        """All objects of the tree."""
        return (node.object for layer in self.layers() for node in layer)

    def check(self, window: Iterable[Imputed] = ()) -> None:
        """Assert the corrected form's invariants: edges as in section 5.1, and Properties 1 to 3. O(window · nodes)."""
        nodes = [node for layer in self.layers() for node in layer]
        assert len({id(node) for node in nodes}) == len(nodes), "an object stands in the tree twice"
        assert not self.orphans, "a child has no place"
        for n in nodes:
            assert self.store.items[n.slot] is n, f"the box of {n.object.id} is lost"
            for child in n.children:
                assert child.parent is n, f"{child.object.id} has another parent"
                assert n.object.expires < child.object.expires, f"{n.object.id} expires after its child"
                assert likely(n.object, child.object, self.alpha), f"{n.object.id} does not dominate its child"
        inside = {id(node.object) for node in nodes}
        everything = list(window)
        for o in everything:  # Property 1: what is not in the tree never becomes an answer
            assert id(o) in inside or any(
                n is not o and n.expires >= o.expires and likely(n, o, self.alpha) for n in everything
            ), f"{o.id} may still be an answer, and is not in the tree"
