"""Which objects can never be an answer? (Section 4: Lemma 1, Lemma 2, Lemma 3.)

All three need n.exp >= o.exp, and are tried in this order: spatial pruning first, max-corner and min-corner pruning
only if it fails. Each bounds Eq. 4 from above by the one factor of n (Eq. 6), so P(o) <= α as long as o lives.

What "safely pruned" means is where the paper goes wrong:

- Pruned by Lemma 1, o may be *forgotten*: what o dominates, n dominates surely, so no other probability changes.
- Pruned by Lemma 2 or Lemma 3, o is no answer, but it still lowers the probabilities of others by its factor in Eq. 4.
  Corrected, it leaves the skyline tree and stays in W_t.

Lemma 2 and Lemma 3 both imply Pr{n ≺ o} >= 1 - α, which Algorithm 3 tests anyway (`GENERAL`). They need no distribution
of o, or none of n; so they can be tried through the index, before anything is imputed (section 5.2).

Where all objects live equally long, as in the paper's experiments, a newcomer expires last: o'.exp >= o.exp then holds
for others of its own timestamp alone. So line 6 of Algorithm 1 prunes next to none, and it is newcomers that prune
what is there (lines 7 and 33 of Algorithm 3).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from lab.kernels.paper import MAX_CORNER, MIN_CORNER, SPATIAL
from lab.paper.objects import Imputed, Store, likely

GENERAL = 0  # by the condition of Algorithm 3 alone
LEMMAS = {  # compiled: `prunes` in lab/kernels/paper.py
    SPATIAL: "n.min ≺ o.max",  # Lemma 1
    MAX_CORNER: "Pr{n ≺ o.max} >= 1 - α",  # Lemma 2
    MIN_CORNER: "Pr{n.min ≺ o} >= 1 - α",  # Lemma 3
}
NAMES = {SPATIAL: "spatial", MAX_CORNER: "max_corner", MIN_CORNER: "min_corner", GENERAL: "general"}


class Pruning:
    """The lemmas in use, and how many objects each of them has pruned."""

    def __init__(self, alpha: float, lemmas: Collection[int] = tuple(LEMMAS)) -> None:
        self.alpha, self.lemmas = alpha, [each for each in LEMMAS if each in lemmas]
        self.order = np.array(self.lemmas, np.int64)
        self.counts = dict.fromkeys(NAMES.values(), 0)
        self.through_index = dict.fromkeys(NAMES.values(), 0)  # of these: before imputing

    def by(self, n: Imputed, o: Imputed) -> int | None:
        """The first lemma by which n prunes o."""
        store = Store[Imputed]()
        store.add(n, n)
        return None if n is o else self.any(store, o)

    def any(self, among: Store[Any], o: Imputed) -> int | None:
        """The first lemma by which some object prunes o. Lemma 1 is tried with all of them first: it forgets o."""
        return among.pruned_by(o, self.alpha, self.order) or None

    def reason(self, n: Imputed, o: Imputed) -> int:
        """Why Algorithm 3 may drop o because of n: a lemma, or its own condition."""
        found = self.by(n, o)
        assert found is not None or likely(n, o, self.alpha), f"{n.id} does not prune {o.id}"
        return GENERAL if found is None else found

    def count(self, lemma: int, *, early: bool = False) -> None:
        """One object more."""
        self.counts[NAMES[lemma]] += 1
        if early:
            self.through_index[NAMES[lemma]] += 1
