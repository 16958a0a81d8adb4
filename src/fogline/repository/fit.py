"""How does a history become a repository?

One recipe, whichever engine carries it out: rules are given, or discovered for each attribute; a lattice of their
combinations is built for each attribute; where rules are discovered, it is also learnt how each attribute changes from
reading to reading, and what the other attributes of a row explain about it; the newest readings of all sensors are
gathered.

What is done for one attribute (`Work`) depends on the history and on earlier steps alone. So an engine may do it in a
process of its own, and carry the result back as it is written to disk (`repository/files`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from fogline.errors import HistoryError
from fogline.query import Query, Rule, duration
from fogline.repository import PLAIN, VALUES, check_method, lattice
from fogline.repository.held_out import discover
from fogline.repository.history import History, check_teaches
from fogline.repository.lattice import Lattice
from fogline.repository.others import ByOthers, learn_others
from fogline.repository.rules import as_rules, check_rules
from fogline.repository.sensors.model import SensorModel, about_recent, gathered
from fogline.repository.sensors.training import TrainingSet, learn_transition
from fogline.repository.sensors.transition import Transition

T = TypeVar("T")
Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, and of how much

RULES, LATTICES, TRANSITIONS = "discovering rules", "building indexes", "learning how sensors change"
OTHERS = "learning from other attributes"


@dataclass(frozen=True)
class Recipe:
    """What is to be fitted, checked."""

    query: Query
    rules: tuple[Rule, ...] | None  # None: they are to be discovered
    recent: tuple[Rule, ...]  # rules about what the same sensor has read lately
    method: str
    longest: float  # how old a sensor's readings may be
    hindsight: bool = True  # whether it is learnt what lies between two readings
    values: int | None = VALUES  # of a distribution that the repository gives; None: as many as there are

    @classmethod
    def of(
        cls,
        query: Query,
        rules: Iterable[Any] | None,
        method: str,
        longest: float,
        *,
        hindsight: bool = True,
        values: int | None = VALUES,
    ) -> Recipe:
        """Rules in any form that `as_rules` reads; those about the recent past are set apart."""
        check_method(method)
        if values is not None and (isinstance(values, bool) or not isinstance(values, int) or values < 4):
            raise HistoryError(
                f"values is {values!r}; it is a whole number from 4 on, or None for as many as there are."
            )
        given = None if rules is None else tuple(as_rules(rules))
        recent = about_recent(given or (), query)
        others = None if given is None else tuple(rule for rule in given if rule not in recent)
        return cls(query, others, recent, method, longest, hindsight, values)

    @property
    def name(self) -> str:
        """The repository's method: "given" where rules are."""
        return self.method if self.rules is None else "given"

    @property
    def learns(self) -> bool:
        """Whether it is learnt how sensors change."""
        return self.rules is None and self.method == "held-out" and self.longest > 0

    @property
    def looks_across(self) -> bool:
        """Whether it is learnt what the other attributes of a row explain."""
        return self.rules is None and self.method in ("held-out", "others")


class Fitted(NamedTuple):
    """The parts of a repository."""

    history: History
    rules: tuple[Rule, ...]
    lattices: dict[str, Lattice]
    sensors: SensorModel | None
    method: str
    values: int | None
    others: dict[str, ByOthers]


class Work(NamedTuple, Generic[T]):
    """What is done for one attribute: do(history, name)."""

    title: str
    do: Callable[[History, str], T]


class Runner(Protocol):
    """Where the work for each attribute is done."""

    def each(self, work: Work[T], names: tuple[str, ...]) -> list[T]:
        """work.do(history, name) for each of the attributes."""


class InProcess:
    """Does the work here and now, for one attribute after the other."""

    def __init__(self, history: History, progress: Progress | None = None) -> None:
        self.history, self.progress = history, progress

    def each(self, work: Work[T], names: tuple[str, ...]) -> list[T]:
        done = []
        for k, name in enumerate(names):
            self._report(work.title, k, len(names))
            done.append(work.do(self.history, name))
        self._report(work.title, len(names), len(names))
        return done

    def _report(self, what: str, done: int, of: int) -> None:
        if self.progress is not None:
            self.progress(what, done, of)


def fit(recipe: Recipe, history: History, runner: Runner) -> Fitted:
    """The recipe. `history` holds the same rows that the runner's work gets."""
    query, names = recipe.query, recipe.query.names
    recent = names if recipe.method == "last" else [rule.then for rule in recipe.recent]
    check_teaches(history, query, {*recent, *query.carry})
    rules = recipe.rules
    if rules is None:
        rules = tuple(rule for found in runner.each(_discovering(recipe), names) for rule in found)
    check_rules(rules, history)
    lattices = dict(zip(names, runner.each(_building(rules), names), strict=True))
    transitions = _found(names, runner.each(_learning(recipe, rules), names)) if recipe.learns else {}
    looking = _looking_across(recipe, rules, tuple(transitions))
    others = _found(names, runner.each(looking, names)) if recipe.looks_across else {}
    keep = recipe.method == "last"  # which needs nothing but what the sensors have read last
    sensors = gathered(history, query, recipe.longest, transitions, recipe.recent, keep_state=keep)
    return Fitted(history, rules, lattices, sensors, recipe.name, recipe.values, others)


def _found(names: tuple[str, ...], results: list[T | None]) -> dict[str, T]:
    return {name: each for name, each in zip(names, results, strict=True) if each is not None}


def _discovering(recipe: Recipe) -> Work[list[Rule]]:
    query, method = recipe.query, recipe.method
    return Work(RULES, lambda history, name: discover(history, query, name, method=method))


def _building(rules: tuple[Rule, ...]) -> Work[Lattice]:
    return Work(LATTICES, lambda history, name: lattice.build(history, name, rules))


def _learning(recipe: Recipe, rules: tuple[Rule, ...]) -> Work[Transition | None]:
    """None where a transition does not pay. The training set is made once in each process."""
    made: list[TrainingSet | None] = []

    def learn(history: History, name: str) -> Transition | None:
        if not made:
            made.append(TrainingSet.of(history, recipe.query, recipe.longest))
        if made[0] is None:
            return None
        return learn_transition(history, made[0], name, rules, hindsight=recipe.hindsight)

    return Work(TRANSITIONS, learn)


def _looking_across(recipe: Recipe, rules: tuple[Rule, ...], known: Collection[str]) -> Work[ByOthers | None]:
    """None where rules explain as much. `known`: attributes of which the sensors' own past is known: on them less
    depends, so no doubt about them is spoken of."""
    query = recipe.query
    return Work(OTHERS, lambda history, name: learn_others(history, query, name, rules, doubt=name not in known))


def fingerprint(fitted: Fitted) -> str:
    """The same for the same history, rules, sensors and number of values; methods without rules have fingerprints of
    their own."""
    history, sensors = fitted.history, fitted.sensors
    digest = hashlib.sha256("\n".join(map(str, fitted.rules)).encode())
    digest.update(fitted.method.encode() if fitted.method in PLAIN else b"")
    digest.update(f"values {fitted.values}".encode())
    if sensors is not None:
        digest.update(
            f"{sensors.names} {sensors.keys} {sensors.time} {sensors.longest} {sorted(sensors.transitions)}".encode()
        )
        for each in sensors.transitions.values():
            digest.update(f"{each.error} {each.error_between} {each.pad} {each.oldest} {each.between is None}".encode())
            for array in (each.widths, each.before.kept, *(() if each.between is None else (each.between.kept,))):
                digest.update(np.ascontiguousarray(array).data)
        digest.update("\n".join(map(str, sensors.recent)).encode())
    digest.update(str([(name, each.given, each.error) for name, each in fitted.others.items()]).encode())
    for name in sorted(history.columns):
        column = history.columns[name]
        words = None if column.words is None else column.words.arrays()
        digest.update(f"{name} {'numbers' if words is None else 'words'}".encode())
        for array in (column.values, *(words or ())):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def longest_of(retention: Any, query: Query) -> float:
    """How old a reading may be, in units of the clock.

    >>> query = Query(attributes={"a": "max"}, id="id", time="t", lifetime="1 hour")
    >>> longest_of("2 seconds", query), longest_of(None, query)
    (2000000.0, inf)
    """
    if retention is None:
        return np.inf
    number = isinstance(retention, int | float)
    if retention != 0 and query.clock_meaning == ("timestamp" if number else "number"):
        raise HistoryError(
            f"retention is {retention!r}, and a row's life is {'a duration' if number else 'a number'}: both are "
            "numbers, or both are durations."
        )
    age = float(retention) if number else float(duration(retention))
    if not age >= 0:
        raise HistoryError(f"retention is {retention!r}; it is an age, from 0 on.")
    return age
