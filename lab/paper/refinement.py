"""Which candidates of layer 1 are answers? (Algorithm 5, section 5.3.2; Lemma 7, Lemma 8.)

A newcomer may lower any probability, so all of layer 1 is looked at (Lemma 7). Where objects only expired, none has
fallen: A_{t-1} without the expired ones stays, and the rest of layer 1 is looked at (Lemma 8). The min corner gives a
lower bound first.

Eq. 4 runs over the whole of W_t. The paper never states what W_t still holds: the text drops what the lemmas or
Algorithm 3 prune. Summed over the tree alone, probabilities are too high. Who calls states which objects there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from fogline.arrays import Ints
from lab.paper.objects import Imputed, Store, answers


class Refinement:
    """Remembers A_{t-1}. Probabilities are lower bounds where that was enough, or older ones where Lemma 8 applies."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.last: dict[Hashable, float] = {}
        self.fresh = False  # is `last` of the timestamp before?
        self.exact = 0  # how often Eq. 4 was worked out

    def forget(self) -> None:
        """The timestamp passes without an answer: the next one looks at all of layer 1."""
        self.fresh = False

    def answer(
        self,
        layer_1: Iterable[Imputed],
        window: Store[Any],
        dominators: Callable[[Imputed], Ints],
        *,
        added: bool,
        expired: set[Hashable],
    ) -> dict[Hashable, float]:
        """Algorithm 5: the objects of A_t, with their probabilities. `dominators`: slots of W_t."""
        added, self.fresh = added or not self.fresh, True
        if not added and not expired:  # lines 1-2
            return self.last
        found = {} if added else {id: p for id, p in self.last.items() if id not in expired}  # lines 3-5
        for o in layer_1:  # lines 6-9
            if o.id in found:
                continue
            others = dominators(o)
            p = window.lower_bound(o, others)  # line 10
            if not answers(p, self.alpha):  # lines 13-14
                p = window.skyline_probability(o, others)
                self.exact += 1
            if answers(p, self.alpha):  # lines 11-12, 15-16
                found[o.id] = p
        self.last = found
        return found
