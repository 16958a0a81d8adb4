"""How old is the last known value, in a few steps that make sense on any clock?

Where the clock shows timestamps an age is up to 5 or 30 minutes, 1, 2 or 6 hours, a day, and then 4, 16, 64 days and so
on; where it shows numbers, up to a power of four of its unit. A step is named by its upper end as a query names a
lifetime: a duration in words, or a number.
"""

from __future__ import annotations

import math
from itertools import pairwise

from fogline.question import duration

Age = str | float

UNKNOWN = "unknown"  # no value is known
_FIRST = ("5 min", "30 min", "1 h", "2 h", "6 h", "1 day")


def step_of(age: float, *, stamps: bool) -> Age:
    """The step in which an age lies, NaN: no value is known; in microseconds where the clock shows `stamps`.

    >>> step_of(3e8, stamps=True), step_of(3e8 + 1, stamps=True), step_of(2e12, stamps=True)
    ('5 min', '30 min', '64 days')
    >>> step_of(1, stamps=False), step_of(1.5, stamps=False), step_of(0.25, stamps=False)
    (1.0, 4.0, 0.25)
    """
    if math.isnan(age):
        return UNKNOWN
    if not stamps:
        return _power(age)
    for each in _FIRST:
        if age <= duration(each):
            return each
    return f"{_power(age / duration(_FIRST[-1])):g} days"


def _power(age: float) -> float:
    """The least power of four that is no less."""
    power = 4.0 ** math.ceil(math.log(age, 4))
    return power * 4 if power < age else power / 4 if power / 4 >= age else power


def order(age: Age) -> float:
    """Greater for greater ages; an unknown one is the greatest."""
    return math.inf if age == UNKNOWN else float(duration(age)) if isinstance(age, str) else age


def in_words(age: Age) -> str:
    """The step, from its lower end to its upper.

    >>> in_words("5 min"), in_words("2 h"), in_words("4 days"), in_words("16 days"), in_words(1.0), in_words("unknown")
    ('up to 5 min', '1 h to 2 h', '1 day to 4 days', '4 to 16 days', '0.25 to 1', 'unknown')
    """
    if age in (UNKNOWN, _FIRST[0]):
        return UNKNOWN if age == UNKNOWN else f"up to {age}"
    for lower, upper in pairwise((*_FIRST, "4 days")):
        if upper == age:
            return f"{lower} to {upper}"
    if isinstance(age, str):
        return f"{float(age.split()[0]) / 4:g} to {age}"
    return f"{age / 4:g} to {age:g}"
