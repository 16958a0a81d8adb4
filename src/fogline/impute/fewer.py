"""How does a distribution of very many values become one of few?

By rounding its distribution function: see `kernels.distributions.reduced`. The least and the greatest value stay, with
their own weight, so bounds are what they were. What a cell costs, in time and in state, does not grow with the history.
"""

from __future__ import annotations

from fogline.arrays import Distributions
from fogline.kernels.distributions import reduced


def fewer(found: Distributions, most: int | None) -> Distributions:
    """The distributions, each of at most so many values; None: as they are."""
    if most is None or not len(found.size) or int(found.size.max()) <= most:
        return found
    start, size, value, often = reduced(found, most)
    return found._replace(start=start, size=size, value=value, often=often)
