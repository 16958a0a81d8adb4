"""What do scores of imputed values add up to, over all ages and by age?

Only sums are kept, per attribute, rule, and age of the last value that an imputer could see (`scoring.Scorer` makes
them). They travel with messages, lie in health files and snapshots, and become scores when they are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from fogline.errors import FoglineError
from fogline.query import duration

if TYPE_CHECKING:
    from fogline.repository.repository import Repository

ENOUGH, DRIFT = 100, 1.5  # cells before anything is reported; so many times the error of the fit is drift
FEW = 0.6  # a smaller share of truths in the central 80 % is wrongly sure

OWN = "sensor's own past"  # what that imputer is called

Age = str | float  # see `step_of`


class Sum(NamedTuple):
    """What some cells add up to."""

    cells: int
    error: float
    otherwise: float
    inside: int
    central: int
    singles: int  # cells that were hidden alone …
    singles_error: float  # … and their part of the error

    def plus(self, more: Sum) -> Sum:
        """With more cells."""
        return Sum._make(a + b for a, b in zip(self, more, strict=True))


ScoreKey = tuple[str, str, Age]  # attribute, rule, age of the last value that could be seen
Sums = dict[ScoreKey, Sum]


@dataclass(frozen=True, slots=True)
class Score:
    """How well one rule, or one imputer, imputes one attribute."""

    attribute: str
    """The attribute."""
    rule: str
    """The rule or imputer."""
    cells: int
    """How many values were hidden, imputed and compared."""
    error: float
    """Mean CRPS, in the attribute's own unit …"""
    otherwise: float
    """… and that of the imputers that would be asked without it."""
    inside: float
    """The share of truths between the ends of the distribution."""
    fitted: float | None = None
    """The mean CRPS on held-out rows when it was learnt, where that is known."""
    central: float | None = None
    """The share of truths between the 10 % and the 90 % point of the distribution: 0.8 or more, if it is right."""
    age: Age | None = None
    """How old the attribute's last known value was at most, and older than by the score before; None: of any age."""
    singles: int = 0
    """Cells that were hidden alone, not after a silence: as most of the rows on which it was fitted …"""
    error_of_singles: float | None = None
    """… and their mean CRPS."""

    @property
    def ages(self) -> str:
        """In words, how old the attribute's last known value was."""
        return "any" if self.age is None else in_words(self.age)

    @property
    def worse(self) -> bool:
        """Whether it would be better to do without."""
        return self.cells >= ENOUGH and self.error > self.otherwise

    @property
    def drifts(self) -> bool:
        """Whether it does clearly worse than when it was learnt, on cells that were hidden alone."""
        if self.fitted is None or self.error_of_singles is None:
            return False
        return self.singles >= ENOUGH and self.error_of_singles > DRIFT * self.fitted

    @property
    def wrongly_sure(self) -> bool:
        """Whether far fewer truths lie in the central 80 % of its distributions than should."""
        return self.cells >= ENOUGH and self.central is not None and self.central < FEW


def add(sums: Sums, more: Sums) -> None:
    """Add more cells to the sums."""
    for key, one in more.items():
        sums[key] = sums[key].plus(one) if key in sums else one


def listed(sums: Sums, repository: Repository | None) -> list[Score]:
    """A score per attribute and rule, over all ages."""
    fitted: dict[tuple[str, str], float | None] = {}
    if repository is not None and repository.sensors is not None:
        fitted = {(name, OWN): each.error or None for name, each in repository.sensors.transitions.items()}
    totals: dict[tuple[str, str], Sum] = {}
    for (attribute, rule, _), one in _in_order(sums):
        before = totals.get((attribute, rule))
        totals[attribute, rule] = one if before is None else before.plus(one)
    return [_score(*key, one, fitted.get(key), None) for key, one in totals.items()]


def by_age(sums: Sums) -> list[Score]:
    """A score per attribute, rule and age; `fitted` is not known by age."""
    return [_score(attribute, rule, one, None, age) for (attribute, rule, age), one in _in_order(sums)]


def _in_order(sums: Sums) -> list[tuple[ScoreKey, Sum]]:
    return sorted(sums.items(), key=lambda item: (*item[0][:2], _rank(item[0][2])))


def _score(attribute: str, rule: str, one: Sum, fitted: float | None, age: Age | None) -> Score:
    means = one.error / one.cells, one.otherwise / one.cells, one.inside / one.cells
    alone = one.singles_error / one.singles if one.singles else None
    return Score(attribute, rule, one.cells, *means, fitted, one.central / one.cells, age, one.singles, alone)


def wrongly_sure(scores: Iterable[Score]) -> list[str]:
    """A line per attribute and rule that is wrongly sure; scores: by age."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in scores:
        if each.wrongly_sure and each.central is not None:
            found.setdefault((each.attribute, each.rule), []).append(f"{each.central:.0%} ({each.ages})")
    return [
        f"{attribute}: '{rule}' is wrongly sure; of the truths {', '.join(shares)} lie in its central 80 %, by the age "
        "of the last value."
        for (attribute, rule), shares in found.items()
    ]


def to_plain(sums: Sums) -> list[list[Any]]:
    """As values that JSON can hold."""
    return [[*key, *rest] for key, rest in sums.items()]


def from_plain(saved: Iterable[list[Any]]) -> Sums:
    """The inverse of `to_plain`."""
    out: Sums = {}
    for line in saved:
        if len(line) != 3 + len(Sum._fields):
            raise FoglineError(
                "these scores were written by another version of Fogline, which kept none by age of the last "
                "value; read them with that version."
            )
        attribute, rule, age, n, error, otherwise, *rest = line
        inside, middle, singles, alone = rest
        counted = int(inside), int(middle), int(singles), float(alone)
        out[str(attribute), str(rule), age] = Sum(int(n), float(error), float(otherwise), *counted)
    return out


# Ages come in steps. Where the clock shows timestamps: up to 5 or 30 minutes, 1, 2 or 6 hours, 1, 4, 16, 64 … days;
# where it shows numbers: up to a power of four of its unit. A step is named by its upper end, as a query names a
# lifetime: a duration in words, or a number.

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


def _rank(age: Age) -> float:
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
