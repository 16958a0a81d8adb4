"""How good are the values that a repository gives, and the rules it is given?

`imputation`: by what each attribute is imputed, and how far off that is on the newest tenth of the history, beside the
sensor's last value, the attribute's mean, and knowing nothing (mean CRPS, in the attribute's own unit).

`doubt`: a warning where rows without before and after would better be left out, or filled with means. Judged by what is
used for such rows: other attributes, rules, the whole history. Nothing is fitted for it.

`verify`: which rules the history itself breaks. A rule with radii states that close rows are close in another
attribute, so every row is held against the least and greatest value of the rows that are close to it; only the rows
that break a rule are looked at one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fogline.arrays import Ints
from fogline.errors import HistoryWarning
from fogline.query import Query, Rule
from fogline.repository import PLAIN
from fogline.repository.access import Accesses
from fogline.repository.held_out import HeldOut
from fogline.repository.history import History, read_history
from fogline.repository.lattice import holders
from fogline.repository.others import FEWEST
from fogline.repository.rules import as_rules, check_rules
from fogline.repository.sensors.transition import Transition

if TYPE_CHECKING:
    from fogline.repository.repository import Repository


PAST, HINDSIGHT, RULES, WHOLE = "sensor's own past", "sensor's past, then hindsight", "rules", "whole history"
LITTLE = 0.9  # of the error of knowing nothing: if more is left, little is learnt


@dataclass(frozen=True, slots=True)
class Imputation:
    """How one attribute is imputed."""

    attribute: str
    """The attribute that rows may lack."""
    imputer: str
    """What is asked first for it."""
    error: float
    """Mean CRPS on held-out rows: of the past alone, where there is hindsight too."""
    hindsight: float | None
    """The same once the sensor has spoken again."""
    last: float | None
    """Of the sensor's last value again; None where sensors have none."""
    mean: float
    """Of the attribute's mean."""
    otherwise: float
    """Of what would be given without sensors: by rules, or the whole history."""
    nothing: float
    """Of the attribute's distribution over the whole history."""
    note: str
    """What to think of it; empty where there is nothing to say."""


def imputation(
    history: History, name: str, rules: Sequence[Rule], transition: Transition | None, *, again: bool
) -> Imputation | None:
    """How one attribute is imputed; None where too few rows have it. `again`: whether sensors are read again."""
    held_out = HeldOut(history, name)
    if not held_out.possible:
        return None
    otherwise, nothing = float(held_out.scores(rules).mean()), float(held_out.level_0.mean())
    mean = float(np.abs(held_out.truth - held_out.donors.columns[name].values.mean()).mean())
    if transition is None:
        imputer = RULES if any(rule.then == name for rule in rules) else WHOLE
        error, hindsight, last = otherwise, None, None
    else:
        imputer = PAST if transition.between is None else HINDSIGHT
        error, last = transition.error, transition.error_last
        hindsight = None if transition.between is None else transition.error_between
    note = _note(error, last, mean, nothing, again=again)
    return Imputation(name, imputer, error, hindsight, last, mean, otherwise, nothing, note)


def _note(error: float, last: float | None, mean: float, nothing: float, *, again: bool) -> str:
    """What to think of such errors, for people."""
    notes = []
    if error > mean:
        notes.append("the attribute's mean does better")
    if last is not None and error > last:
        notes.append("the last value does better")
    if error > LITTLE * nothing:
        notes.append("little is learnt: rows with gaps here are better left out than trusted")
    if not again and notes:
        notes.append(
            "nothing is learnt from sensors' own readings: does the query's id name them, are they read again?"
        )
    return "; ".join(notes)


class Errors(NamedTuple):
    """How far off an attribute is on held-out rows."""

    given: float  # by what the repository gives for a row alone
    mean: float  # by the attribute's mean
    nothing: float  # by its distribution over the history


def doubt(repository: Repository, names: Sequence[str], kept: dict[str, Errors | None]) -> None:
    """Warn of each of these attributes, which have gaps, for which something plain would do better.

    `kept`: what was found before; what is found now is added.
    """
    for name in names if repository.method not in PLAIN else ():
        if name not in kept:
            kept[name] = _errors(repository, name)
        if (found := kept[name]) is None:
            continue
        better = []
        if found.given > found.mean:
            better.append(f"filling it with its mean does better ({found.mean:.3g})")
        if found.given > LITTLE * found.nothing:
            better.append(f"knowing nothing is off by {found.nothing:.3g}, so rows that lack it may better be left out")
        if better:
            warnings.warn(
                f"on held-out rows, what the repository gives for {name!r} is off by {found.given:.3g}: "
                f"{', and '.join(better)}.",
                HistoryWarning,
                stacklevel=4,
            )


def _errors(repository: Repository, name: str) -> Errors | None:
    """None: too few rows have the attribute to judge by, or the user gave rules and none for it."""
    if repository.method == "given" and not any(rule.then == name for rule in repository.rules):
        return None
    there = int(np.count_nonzero(~np.isnan(repository.history.columns[name].values)))
    if there // 10 < FEWEST:
        return None
    found = imputation(repository.history, name, repository.rules, None, again=True)
    if found is None:
        return None
    others = repository.others.get(name)
    given = found.otherwise if others is None else min(others.error, found.otherwise)
    return Errors(given, found.mean, found.nothing)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold: how many rows break it, and some pairs of rows (by position) that do."""

    rule: Rule
    """The rule."""
    rows: int
    """How many rows break it, with at least one other."""
    pairs: tuple[tuple[int, int], ...]
    """Some pairs of rows that break it, by their positions."""

    def __str__(self) -> str:
        pairs = ", ".join(f"{a} and {b}" for a, b in self.pairs)
        return f"{self.rule}: broken by {self.rows} rows, for instance {pairs}"


def verify(rules: Iterable[Any], history: Any, query: Query, *, most: int = 10) -> list[Violation]:
    """The rules that the history breaks, with up to `most` pairs of rows each."""
    past = read_history(history, query)
    wanted = as_rules(rules)
    check_rules(wanted, past)
    found = []
    for rule in wanted:
        rows = _breakers(rule, past)
        if len(rows):
            pairs = tuple(pair for row in rows[:most] if (pair := _partner(rule, past, int(row))) is not None)
            found.append(Violation(rule, len(rows), tuple(dict.fromkeys(pairs))))
    return found


def _breakers(rule: Rule, history: History) -> Ints:
    """The rows that differ too much from some row they are close to."""
    rows = holders(history, (*rule.given, rule.then))
    access = Accesses(history, rule.then, [rule]).of(rule.given)
    low, high = access.bounds(rule.given, {name: history.columns[name].values[rows] for name in rule.given})
    own = history.columns[rule.then].values[rows]
    return rows[(own - low > rule.within) | (high - own > rule.within)]


def _partner(rule: Rule, history: History, row: int) -> tuple[int, int] | None:
    """The row and the first one with which it breaks the rule, the earlier first."""
    close = np.abs(history.columns[rule.then].values - history.columns[rule.then].values[row]) > rule.within
    for name, radius in rule.given.items():
        values = history.columns[name].values
        close &= np.abs(values - values[row]) <= radius
    others = np.flatnonzero(close)
    return (min(row, int(others[0])), max(row, int(others[0]))) if len(others) else None
