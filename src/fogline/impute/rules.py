"""What may a missing cell be, by rules and the other cells of its row?

Rows of the history that are close in what a combination of rules asks for are donors; the values they hold, with how
often each occurs, are the distribution (paper, Algorithm 2). Which combination is tried when is the lattice's matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from fogline.arrays import Distributions, Flags, Floats
from fogline.errors import HistoryError
from fogline.impute.determinants import Determinants
from fogline.impute.imputer import Evidence
from fogline.model import Query
from fogline.repository.lattice import Lattice
from fogline.repository.repository import Repository


class Rules:
    """The lattices of a repository. Keeps what its rules ask for: the determinants of a row, in history's terms."""

    name, lasting = "rules", True

    def __init__(self, repository: Repository, query: Query) -> None:
        lacking = [name for name in query.names if name not in repository.lattices]
        if lacking:
            raise HistoryError(
                f"the repository was fitted for another query: it imputes {', '.join(sorted(repository.lattices))}, "
                f"not {', '.join(lacking)}."
            )
        self.lattices = [repository.lattices[name] for name in query.names]
        self.row = Determinants(repository.asked_by_rules, repository.history.columns, query)
        self.width, at = self.row.width, self.row.at
        self.asked = [[(name, at[name]) for name in each.determinants] for each in self.lattices]

    def look(self, rows: Evidence) -> Floats:
        return self.row.look(rows)

    def able(self, known: Floats, j: int) -> Flags:
        return self.lattices[j].able(self._centres(known, j), len(known))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return self.lattices[j].bounds(self._centres(known, j), len(known))

    def distributions(self, known: Floats, j: int) -> Distributions:
        return self.lattices[j].search(self._centres(known, j), len(known))

    def sources(self, j: int) -> Sequence[str]:
        """One text per combination of rules."""
        return combinations(self.lattices[j])

    def _centres(self, known: Floats, j: int) -> dict[str, Floats]:
        return {name: known[:, k] for name, k in self.asked[j]}


def combinations(lattice: Lattice) -> list[str]:
    """What each combination of rules is called."""
    return [" and ".join(str(lattice.rules[k]) for k in choice.rules) for choice in lattice.choices]
