"""What does the paper's skyline tree do, to the letter?

Algorithms 3 (insertion), 4 (deletion) and 5 (refinement), as printed, for a handful of rows; nothing is fast. Two
things are not settled by the paper and are settled here: a row of layer 1 has a parent that expired long ago, and an
expired row below layer 1 is found when it reaches layer 1.

Useful for: counting what the printed algorithms lose. Not useful for: anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fogline.arrays import Floats
from fogline.model import TOLERANCE


@dataclass(eq=False)
class UncertainRow:
    """An object with its places, and its place in the tree."""

    id: int
    arrives: int
    expires: int
    places: Floats = field(repr=False)  # (k, d) larger is better
    weights: Floats = field(repr=False)  # (k,) adding up to 1
    parent: UncertainRow | None = field(default=None, repr=False)
    children: list[UncertainRow] = field(default_factory=list, repr=False)


def beaten(a: UncertainRow, places: Floats) -> Floats:
    """(n,) Pr{a beats each of these places (n, d)}."""
    at_least = (a.places[:, None] >= places).all(axis=2)
    better = (a.places[:, None] > places).any(axis=2)
    return np.asarray(a.weights @ (at_least & better))


def chance(a: UncertainRow, b: UncertainRow) -> float:
    """Pr{a beats b}."""
    return float(beaten(a, b.places) @ b.weights)


def probability(o: UncertainRow, among: list[UncertainRow]) -> float:
    """That none of these beats o."""
    left = o.weights.copy()
    for other in among:
        if other is not o:
            left = left * (1 - beaten(other, o.places))
    return float(left.sum())


class PrintedTree:
    """The skyline tree as printed."""

    def __init__(self, alpha: float) -> None:
        self.alpha, self.least = alpha, 1 - alpha - TOLERANCE
        self.top: list[UncertainRow] = []

    def insert(self, o: UncertainRow) -> None:
        """Algorithm 3."""
        beats = [n for n in self.top if chance(o, n) >= self.least]
        for n in beats:
            self.top.remove(n)
            if o.expires >= n.expires:
                self._adopt(o, n.children)
            else:
                self._adopt(o, [n])
        if beats:
            self.top.append(o)
        elif not self._place(o):
            return
        self._take_over(o)

    def _place(self, o: UncertainRow) -> bool:
        """Lines 14 to 29: under the parent that expires last, unless another prunes it."""
        queue, parent = list(self.top), None
        while queue:
            n = queue.pop(0)
            if chance(n, o) >= self.least:
                if n.expires >= o.expires:
                    return False
                if parent is None or n.expires > parent.expires:
                    parent = n
                queue += n.children
        if parent is None:
            self.top.append(o)
        else:
            self._adopt(parent, [o])
        return True

    def _take_over(self, o: UncertainRow) -> None:
        """Lines 30 to 40: prune with o, and find its children, from its own layer downwards."""
        layers = self.layers()
        own = next(k for k, layer in enumerate(layers) if o in layer)
        for n in [n for layer in layers[own:] for n in layer]:
            if n is o or chance(o, n) < self.least:
                continue
            if o.expires >= n.expires:
                self._leave(n)
                self._adopt(o, n.children)
            elif n.parent is None or o.expires > n.parent.expires:
                self._leave(n)
                self._adopt(o, [n])

    def delete(self, now: int) -> None:
        """Algorithm 4."""
        while expired := [n for n in self.top if n.expires <= now]:
            for n in expired:
                self.top.remove(n)
                for child in n.children:
                    child.parent = None
                self.top += n.children

    def answer(self, window: list[UncertainRow] | None = None) -> set[int]:
        """Algorithm 5: those of layer 1 above alpha, over the whole window or over what the tree still holds."""
        among = [n for layer in self.layers() for n in layer] if window is None else window
        return {o.id for o in self.top if probability(o, among) > self.alpha + TOLERANCE}

    def layers(self) -> list[list[UncertainRow]]:
        """The tree, from the top."""
        out, layer = [], list(self.top)
        while layer:
            out.append(layer)
            layer = [child for n in layer for child in n.children]
        return out

    def _adopt(self, o: UncertainRow, children: list[UncertainRow]) -> None:
        for child in children:
            child.parent = o
            o.children.append(child)

    def _leave(self, n: UncertainRow) -> None:
        (self.top if n.parent is None else n.parent.children).remove(n)
        n.parent = None
