"""How are the rows near a centre asked for?

One protocol, two implementations with the same answers: a table sorted by one determinant (`SortedAccess`), or the grid
and R*-tree (`IndexAccess`). A row matches a centre if abs(row - centre) <= radius in everything given; a centre that
lacks any of it (NaN) matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Flags, Floats, Ints
from fogline.repository.history import History

Given = Mapping[str, float]  # attribute -> how close
Centres = Mapping[str, Floats]  # attribute -> (q,) values to be close to
Number = TypeVar("Number", bound=np.generic)


class Access(Protocol):
    """A way to the rows that are close to centres in all that is given."""

    def describe(self) -> str:
        """Its name, for people."""

    def count(self, given: Given, centres: Centres) -> Ints:
        """(q,) how many rows match each centre."""

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        """(q,) least and greatest value of the dependent attribute in the rows that match; NaN where none does."""

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        """The values of the dependent attribute in the rows that match: (q + 1,) offsets, ascending per centre."""

    def grown(self, then: str, more: History) -> Access:
        """The same with more rows."""


def complete(given: Given, centres: Centres) -> Flags:
    """(q,) which centres have all that is given."""
    return np.asarray(~np.any([np.isnan(centres[name]) for name in given], axis=0))


def readonly(array: NDArray[Number]) -> NDArray[Number]:
    """A read-only view: memory-mapped arrays are read-only, and one kind of array means one compiled kernel."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
