"""Who keeps the skyline of clouds, and how?

Every maintainer takes the rows of each tick as clouds and gives the answer of the tick.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fogline.errors import did_you_mean
from fogline.model import Query
from lab.case import LabError
from lab.maintainers.candidates import Candidates
from lab.maintainers.protocol import Maintainer
from lab.maintainers.recompute import Recompute
from lab.maintainers.tree import Tree

MAINTAINERS: dict[str, Callable[[Query], Maintainer]] = {
    "skyline": Candidates,
    "skyline_forgetting": partial(Candidates, forget=True),
    "skyline_tree": Tree,
    "moocore": Recompute,
}


def maintainer(name: str, query: Query) -> Maintainer:
    """A maintainer by its name, with nothing in its window."""
    if name not in MAINTAINERS:
        known = ", ".join(MAINTAINERS)
        raise LabError(f"there is no maintainer {name!r}; there are {known}.{did_you_mean(name, MAINTAINERS)}")
    return MAINTAINERS[name](query)
