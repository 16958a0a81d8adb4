"""What do scores add up to, over all ages and by age?

Of values that were hidden for a moment (`scoring`) only sums are kept, per attribute, rule, and age of the last value
that could be seen; they travel in parcels, lie in health files and in snapshots, and become scores when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fogline.errors import FoglineError
from fogline.impute.ages import Age, in_words, order

if TYPE_CHECKING:  # sums are read without either
    from fogline.repository.repository import Repository

ENOUGH, DRIFT = 100, 1.5  # cells before anything is reported; how many times the error of the fit is drift
FEW = 0.6  # a smaller share of truths in the central 80 % is wrongly sure


class Sum(NamedTuple):
    """What some cells add up to."""

    cells: int
    error: float
    otherwise: float
    inside: int
    central: int
    singles: int  # cells that were hidden alone, …
    singles_error: float  # … and their part of the error

    def plus(self, more: Sum) -> Sum:
        """With more cells."""
        a, b = self, more
        return Sum(
            a.cells + b.cells, a.error + b.error, a.otherwise + b.otherwise, a.inside + b.inside, a.central + b.central,
            a.singles + b.singles, a.singles_error + b.singles_error,
        )  # fmt: skip


Key = tuple[str, str, Age]  # attribute, rule, age of the last value that could be seen
Sums = dict[Key, Sum]


@dataclass(frozen=True, slots=True)
class Score:
    """How one rule, or one imputer, does for one attribute."""

    attribute: str
    rule: str
    cells: int
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
    """Count more cells as well."""
    for key, one in more.items():
        sums[key] = sums[key].plus(one) if key in sums else one


def listed(sums: Sums, repository: Repository | None) -> list[Score]:
    """How rules do, over all ages."""
    fitted: dict[tuple[str, str], float | None] = {}
    if repository is not None and repository.sensors is not None:
        from fogline.impute.past import OWN  # with the compiler, which sums alone do not need

        fitted = {(name, OWN): each.error or None for name, each in repository.sensors.transitions.items()}
    totals: dict[tuple[str, str], Sum] = {}
    for (attribute, rule, _), one in sorted(sums.items(), key=_place):
        before = totals.get((attribute, rule))
        totals[attribute, rule] = one if before is None else before.plus(one)
    return [_score(*key, one, fitted.get(key), None) for key, one in totals.items()]


def by_age(sums: Sums) -> list[Score]:
    """How rules do, by the age of the last value that could be seen; without what was known when they were fitted."""
    return [_score(name, rule, one, None, age) for (name, rule, age), one in sorted(sums.items(), key=_place)]


def _place(item: tuple[Key, Sum]) -> tuple[str, str, float]:
    attribute, rule, age = item[0]
    return attribute, rule, order(age)


def _score(attribute: str, rule: str, one: Sum, fitted: float | None, age: Age | None) -> Score:
    means = one.error / one.cells, one.otherwise / one.cells, one.inside / one.cells
    alone = one.singles_error / one.singles if one.singles else None
    return Score(attribute, rule, one.cells, *means, fitted, one.central / one.cells, age, one.singles, alone)


def wrongly_sure(scores: Iterable[Score]) -> list[str]:
    """Where an imputer is wrongly sure, one line per attribute and rule; scores: by age."""
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
            raise FoglineError("these scores were written by another version of Fogline, which kept none by age.")
        attribute, rule, age, n, error, otherwise, *rest = line
        inside, middle, singles, alone = rest
        counted = int(inside), int(middle), int(singles), float(alone)
        out[str(attribute), str(rule), age] = Sum(int(n), float(error), float(otherwise), *counted)
    return out
