"""The paper's system: imputation and query processing at the same time (Algorithm 1, section 2.4).

At each timestamp objects expire (lines 2-3), newcomers are imputed through the indexes, pruned by the lemmas or put
into the skyline tree (lines 4-7), and the candidates of layer 1 are refined (line 8). What imputes, prunes and answers
are the files beside this one; here is in which order, and which objects W_t still holds for Eq. 4.

| form | tree | W_t |
|---|---|---|
| `CORRECTED` | children go where they belong | all but those that Lemma 1 forgets: answers are those of Definition 6 |
| `PRINTED` | as printed | all that has not expired, pruned or not: the generous reading |
| `PRINTED_TREE` | as printed | what the tree holds: pruned objects are dropped, as sections 4 and 5.3.1 state |

A newcomer with gaps is first known as the index outlines it (section 5.2), depth by depth. If a lemma prunes the
outline, the object is not imputed: Lemma 1 forgets it; after Lemma 2 or Lemma 3 the corrected form keeps it in W_t, and
imputes it only if a candidate is met that it may dominate.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from fogline.arrays import Ints
from lab.kernels.paper import SPATIAL
from lab.paper.lattice import HISTOGRAMS, DataRepository, LatticeNode
from lab.paper.objects import Imputed, Incomplete, Store, dominates
from lab.paper.pruning import LEMMAS, Pruning
from lab.paper.refinement import Refinement
from lab.paper.skyline_tree import SkylineTree

CORRECTED, PRINTED, PRINTED_TREE = "corrected", "printed", "printed, tree only"
FORMS = (CORRECTED, PRINTED, PRINTED_TREE)


@dataclass(eq=False, slots=True)
class Entry:
    """An object of W_t. `waiting`: it is not imputed, and `object` is its outline."""

    object: Imputed
    slot: int
    in_tree: bool
    waiting: tuple[Incomplete, Mapping[int, LatticeNode | None]] | None = None


class SkyIDS:
    """The system over one stream. `lemmas`: those in use; without any, Algorithm 3 prunes by its own condition."""

    def __init__(
        self,
        alpha: float,
        repository: DataRepository | None = None,
        *,
        form: str = CORRECTED,
        lemmas: Collection[int] = tuple(LEMMAS),
        first: str = HISTOGRAMS,
    ) -> None:
        """`first`: what is asked of the index before a gap is imputed (`DataRepository.outlines`)."""
        self.form, self.repository, self.first = form, repository, first
        self.pruning = Pruning(alpha, lemmas)
        self.tree = SkylineTree(alpha, corrected=form == CORRECTED)
        self.refinement = Refinement(alpha)
        self.window: dict[int, Entry] = {}  # W_t, by id() of the object
        self.store = Store[Entry]()  # the same
        self.waiting = 0
        self.incomplete = self.imputed = 0
        self.seconds = dict.fromkeys(("imputation", "maintenance", "query"), 0.0)

    def advance(
        self, now: Any, arrivals: Sequence[Incomplete | Imputed], *, refine: bool = True
    ) -> dict[Hashable, float]:
        """One timestamp: the answer A_t, id -> probability (see `Refinement`); without `refine`, no answer is asked."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)
        began = perf_counter()
        expired = self._expire(now)
        for o in arrivals:
            if o.expires > now:
                self._arrive(o)
        between = perf_counter()
        if not refine:
            self.refinement.forget()
            return {}
        found = self.refinement.answer(
            [node.object for node in self.tree.top], self.store, self._dominators, added=bool(arrivals), expired=expired
        )
        early = self.seconds["imputation"]
        self.seconds["query"] += perf_counter() - between
        self.seconds["maintenance"] = between - began - early
        return dict(found)

    # -------------------------------------------------------------------------------------------------------- lines 2-3

    def _expire(self, now: Any) -> set[Hashable]:
        gone = self.store.expired(now)
        for entry in gone:
            self._drop(entry)
        self.tree.delete(now)
        return {entry.object.id for entry in gone}

    # -------------------------------------------------------------------------------------------------------- lines 4-7

    def _arrive(self, new: Incomplete | Imputed) -> None:
        if isinstance(new, Imputed):
            o = new
        elif (imputed := self._impute(new)) is None:
            return  # pruned through the index
        else:
            o = imputed
        lemma = self.pruning.any(self.tree.store, o)  # line 6
        entry = self._keep(o)
        if lemma is not None:
            self._pruned(entry, lemma)
            return
        entry.in_tree = True
        for pruned in self.tree.insert(o):  # line 7
            if (known := self.window.get(id(pruned.object))) is not None:
                self._pruned(known, self.pruning.reason(pruned.by, pruned.object))
        if self.form == CORRECTED and SPATIAL in self.pruning.lemmas:
            self._forget_below(o)

    def _impute(self, new: Incomplete) -> Imputed | None:
        """Line 5: through the index, as deep as it takes; None if a lemma prunes the object on the way."""
        began = perf_counter()
        assert self.repository is not None, "objects with gaps need a data repository"
        try:
            if not (chosen := self.repository.select(new)):
                return self.repository.impute(new, chosen)
            self.incomplete += 1
            for outline in self.repository.outlines(new, chosen, self.first):
                lemma = self.pruning.any(self.tree.store, outline)
                if lemma is not None:
                    self._pruned(self._keep(outline, (new, chosen)), lemma, early=True)
                    return None
            self.imputed += 1
            return self.repository.impute(new, chosen)
        finally:
            self.seconds["imputation"] += perf_counter() - began

    def _pruned(self, entry: Entry, lemma: int, *, early: bool = False) -> None:
        """An object is no candidate, now or later. Does it stay in W_t?"""
        self.pruning.count(lemma, early=early)
        entry.in_tree = False
        if self.form == PRINTED_TREE or (self.form == CORRECTED and lemma == SPATIAL):
            self._drop(entry)

    def _forget_below(self, o: Imputed) -> None:
        """Corrected: Lemma 1 holds for objects that Lemma 2, Lemma 3 or Algorithm 3 took out of the tree as well."""
        for entry in self.store.surely_below(o):
            if not entry.in_tree and o.expires >= entry.object.expires and dominates(o.min, entry.object.max):
                self._drop(entry)

    # -------------------------------------------------------------------------------------------------------------- W_t

    def _keep(self, o: Imputed, waiting: tuple[Incomplete, Mapping[int, LatticeNode | None]] | None = None) -> Entry:
        entry = self.window[id(o)] = Entry(o, -1, False, waiting)
        entry.slot = self.store.add(entry, o)
        self.waiting += waiting is not None
        return entry

    def _drop(self, entry: Entry) -> None:
        del self.window[id(entry.object)]
        self.store.drop(entry.slot)
        self.waiting -= entry.waiting is not None

    def _dominators(self, o: Imputed) -> Ints:
        """The slots of W_t that Eq. 4 needs for a candidate. Objects that wait are imputed now."""
        near = self.store.above(o)
        late = [entry for entry in self.store.at(near) if entry.waiting is not None] if self.waiting else []
        for entry in late:
            self._complete(entry)
        near = self.store.above(o) if late else near
        others: Ints = near[near != self.window[id(o)].slot]
        return others

    def _complete(self, entry: Entry) -> None:
        assert self.repository is not None
        assert entry.waiting is not None
        self._drop(entry)
        entry.object, entry.waiting = self.repository.impute(*entry.waiting), None
        self.window[id(entry.object)] = entry
        entry.slot = self.store.add(entry, entry.object)
        self.imputed += 1

    def sizes(self) -> dict[str, int]:
        """What it keeps, and what the lemmas have pruned so far."""
        layers = self.tree.layers()
        return {
            "kept": len(self.window),
            "tree": sum(map(len, layers)),
            "layers": len(layers),
            "layer_1": len(self.tree.top),
            "incomplete": self.incomplete,
            "imputed": self.imputed,
            **self.pruning.counts,
            **{f"{name}_through_index": count for name, count in self.pruning.through_index.items()},
        }
