"""How much better is an imputer than knowing nothing?

Whatever imputes, its error is held against that of the attribute's own distribution over the whole history, for the
same held-out rows. So the gains of rules, of other attributes and of a sensor's own past can be compared.
"""

from __future__ import annotations


def gain(error: float, nothing: float) -> float:
    """The share of the error of knowing nothing that it takes away. 0: no better than that. 1: always right.

    >>> gain(0.5, 2.0)
    0.75
    """
    return 1 - error / nothing if nothing else 0.0
