"""What may a missing value be, given the rest of its row?

A repository is a history, the rules found in it or given, and a lattice of their combinations for each attribute. It
answers with the values of `then` in the rows that match, and how often each occurs; or only with their bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fogline.arrays import Distributions, Floats, Ints
from fogline.errors import HistoryError, RuleError, did_you_mean
from fogline.kernels.sorted import distinct
from fogline.model import Query, Rule, duration
from fogline.repository import lattice, store
from fogline.repository.discover import Progress, Quality, discover, judge
from fogline.repository.history import History, as_table, in_order, read_history
from fogline.repository.lattice import Lattice
from fogline.repository.rules import as_rules
from fogline.repository.sensors.model import UNCHANGED, SensorModel, about_recent, gathered, learn

LEVEL_0 = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One combination of rules that is tried for an attribute."""

    then: str
    rules: tuple[Rule, ...]
    expected: float  # rows that match, on average
    way: str
    measured: Mapping[str, float]  # seconds per question of the ways that competed; empty where one was clearly best

    def __str__(self) -> str:
        timed = ", ".join(f"{name} {seconds * 1e6:.1f} µs" for name, seconds in self.measured.items())
        rules = " and ".join(str(rule) for rule in self.rules)
        return f"{rules}: about {self.expected:.3g} rows, {self.way}{f' ({timed})' if timed else ''}"


@dataclass(frozen=True)
class Repository:
    """Complete history, with the rules that say what it means for a row with gaps."""

    history: History
    rules: tuple[Rule, ...]
    lattices: Mapping[str, Lattice]
    folder: Path | None = None
    """Where it was loaded from."""
    sensors: SensorModel | None = None
    """How sensors change from reading to reading; None: rows are told from the history alone."""
    method: str = "held-out"
    """How it was fitted; "given": with rules of the user's own."""

    @classmethod
    def fit(
        cls,
        history: Any,
        query: Query,
        *,
        rules: Iterable[Any] | None = None,
        method: str = "held-out",
        retention: Any = None,
        progress: Progress | None = None,
    ) -> Repository:
        """A repository from a pandas frame, an Arrow table or a list of dicts, with rules given or discovered.

        `method`: how rules are discovered ("held-out", or "paper"); or do without: "last" repeats what the sensor said
        last, "mean" tells the attribute's mean.
        Where rules are discovered and the history names sensors (the query's id) and times, it is also learnt how a
        sensor's values change from one reading to the next. `retention`: how old a sensor's own readings may be to
        count, a number or a duration as the times are; None: as long as newer ones leave them a place; 0: not at all.
        """
        return cls._fitted(history, query, rules, method, longest_of(retention, query), progress)

    @classmethod
    def _fitted(
        cls,
        history: Any,
        query: Query,
        rules: Iterable[Any] | None,
        method: str,
        longest: float,
        progress: Progress | None,
    ) -> Repository:
        past = history if isinstance(history, History) else read_history(in_order(as_table(history), query), query)
        told = tuple(discover(past, query, method=method, progress=progress) if rules is None else as_rules(rules))
        recent = about_recent(told, query)
        wanted = tuple(rule for rule in told if rule not in recent)
        check_rules(wanted, past)
        if rules is None and method == "held-out":
            sensors = learn(past, query, wanted, longest)
        else:
            same = dict.fromkeys(query.names, UNCHANGED) if method == "last" else {}
            sensors = gathered(past, query, longest, same, recent)
        lattices = {name: lattice.build(past, name, wanted, mean=method == "mean") for name in query.names}
        return cls(past, wanted, lattices, sensors=sensors, method=method if rules is None else "given")

    def again(self, history: Any, query: Query) -> Repository:
        """A repository fitted as this one was, to another history."""
        longest = np.inf if self.sensors is None else self.sensors.longest
        recent = () if self.sensors is None else self.sensors.recent
        given = (*self.rules, *recent) if self.method == "given" else None
        method = "held-out" if self.method == "given" else self.method
        return Repository._fitted(history, query, given, method, longest, None)

    def append(self, rows: Any, query: Query) -> Repository:
        """A repository with more rows. Rules, and the order in which combinations are tried, stay as fitted."""
        more = read_history(rows, query).like(self.history)
        joined, sensors = self.history.joined(more), self.sensors
        if self.method == "mean":
            lattices = {name: lattice.build(joined, name, (), mean=True) for name in self.lattices}
        else:
            lattices = {name: each.grown(more) for name, each in self.lattices.items()}
        if sensors is not None:
            if sensors.names != query.names:
                raise HistoryError(f"this repository was fitted for {', '.join(sensors.names)}, in this order.")
            sensors.check_keys(query)
            sensors = gathered(joined, query, sensors.longest, sensors.transitions, sensors.recent)
        return Repository(joined, self.rules, lattices, sensors=sensors, method=self.method)

    def save(self, folder: str | Path) -> None:
        """Write the repository into a folder."""
        kept = dict(self.lattices), self.sensors, self.method, self.fingerprint
        store.save(folder, store.Stored(self.history, self.rules, *kept))

    @classmethod
    def load(cls, folder: str | Path) -> Repository:
        """The repository of a folder, mapped into memory: nothing is copied."""
        stored = store.load(folder)
        place = Path(folder).absolute()
        repository = cls(stored.history, stored.rules, stored.lattices, place, stored.sensors, stored.method)
        vars(repository)["fingerprint"] = stored.fingerprint  # not worth reading all of the history for
        return repository

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same history and rules, wherever they were fitted."""
        return fingerprint(self.history, self.rules, self.sensors, self.method)

    def explain(self) -> list[Step]:
        """What is tried for which attribute, in which order, and by which way its rows are found."""
        return [
            Step(
                name,
                tuple(each.rules[k] for k in choice.rules),
                choice.expected,
                choice.path.describe(),
                dict(choice.measured),
            )
            for name, each in self.lattices.items()
            for choice in each.choices
        ]

    def quality(self) -> list[Quality]:
        """How well each rule alone imputes the newest tenth of the history from the rest of it."""
        return [judged for name in self.lattices for judged in judge(self.history, name, self._lattice(name).rules)]

    @property
    def determinants(self) -> tuple[str, ...]:
        """Every attribute that any rule asks for."""
        return tuple(dict.fromkeys(name for each in self.lattices.values() for name in each.determinants))

    def search(self, then: str, centres: Mapping[str, Floats], size: int) -> Distributions:
        """The distribution of `then` for each of `size` rows, from their other attributes (NaN = missing).

        Paper, Algorithm 2. O(choices) questions to the paths, each for all rows at once.
        """
        mine = self._lattice(then)
        choice = np.full(size, LEVEL_0, np.int64)
        start, length = np.zeros(size, np.int64), np.zeros(size, np.int64)
        values: list[Floats] = []
        counts: list[Floats] = []
        filled = 0
        for k, rows in self._tries(mine, centres, choice):
            given = mine.choices[k].given
            offsets, found = mine.choices[k].path.find(given, {name: centres[name][rows] for name in given})
            first, many, value, count = distinct(offsets, found)
            hit = many > 0
            choice[rows[hit]] = k
            start[rows[hit]], length[rows[hit]] = first[hit] + filled, many[hit]
            values.append(value)
            counts.append(count)
            filled += len(value)
        left = choice == LEVEL_0
        if left.any() or not values:  # only then: it is as long as the history
            start[left], length[left] = filled, len(mine.values)
            values.append(mine.values)
            counts.append(mine.counts)
        return Distributions(start, length, np.concatenate(values), np.concatenate(counts), choice)

    def bounds(self, then: str, centres: Mapping[str, Floats], size: int) -> tuple[Floats, Floats]:
        """The least and greatest value that `search` would give each row, without collecting the values."""
        mine = self._lattice(then)
        ends = mine.values if len(mine.values) else np.full(1, np.nan)
        if len(mine.choices) == 1:  # the usual case, many times a tick: a missing centre finds nothing by itself
            low, high = mine.choices[0].path.bounds(mine.choices[0].given, centres)
            none = np.isnan(low)
            low[none], high[none] = ends[0], ends[-1]
            return low, high
        choice = np.full(size, LEVEL_0, np.int64)
        low, high = np.full(size, ends[0]), np.full(size, ends[-1])
        for k, rows in self._tries(mine, centres, choice):
            given = mine.choices[k].given
            least, most = mine.choices[k].path.bounds(given, {name: centres[name][rows] for name in given})
            hit = ~np.isnan(least)
            choice[rows[hit]] = k
            low[rows[hit]], high[rows[hit]] = least[hit], most[hit]
        return low, high

    def _tries(self, mine: Lattice, centres: Mapping[str, Floats], choice: Ints) -> Any:
        """For each combination in order: the rows that may use it and have found nothing so far."""
        there = {name: ~np.isnan(values) for name, values in centres.items()}
        for k, each in enumerate(mine.choices):
            able = choice == LEVEL_0
            for name in each.given:
                able &= there[name]
            rows = np.flatnonzero(able)
            if len(rows):
                yield k, rows

    def _lattice(self, then: str) -> Lattice:
        if then not in self.lattices:
            known = sorted(self.lattices)
            raise HistoryError(f"the repository imputes {', '.join(known)}, not {then!r}.{did_you_mean(then, known)}")
        return self.lattices[then]


def fingerprint(history: History, rules: Iterable[Rule], sensors: SensorModel | None = None, method: str = "") -> str:
    """The same for the same history, rules and sensors."""
    digest = hashlib.sha256("\n".join(map(str, rules)).encode())
    digest.update(b"mean" if method == "mean" else b"")
    if sensors is not None:
        digest.update(
            f"{sensors.names} {sensors.keys} {sensors.time} {sensors.longest} {sorted(sensors.transitions)}".encode()
        )
        digest.update(str([each.error for each in sensors.transitions.values()]).encode())
        digest.update("\n".join(map(str, sensors.recent)).encode())
    for name in sorted(history.columns):
        column = history.columns[name]
        digest.update(f"{name} {column.words}".encode())
        digest.update(np.ascontiguousarray(column.values).data)
    return digest.hexdigest()


def longest_of(retention: Any, query: Query) -> float:
    """How old a reading may be, in units of the clock."""
    if retention is None:
        return np.inf
    number = isinstance(retention, int | float)
    if retention != 0 and query.lifetime is not None and number is (query.lifetime_us is not None):
        raise HistoryError(
            f"retention is {retention!r} and the lifetime {query.lifetime!r}: both are numbers, or both are durations."
        )
    told = float(retention) if number else float(duration(retention))
    if not told >= 0:
        raise HistoryError(f"retention is {retention!r}; it is an age, from 0 on.")
    return told


def check_rules(rules: Iterable[Rule], history: History) -> None:
    """Every rule speaks of columns that are there, and of words only as equal."""
    for rule in rules:
        for name in (*rule.given, rule.then):
            if name not in history.columns:
                known = sorted(history.columns)
                raise RuleError(
                    f"the rule '{rule}' speaks of {name!r}; the history has {', '.join(known)}."
                    f"{did_you_mean(name, known)}"
                )
        for name, radius in rule.given.items():
            if radius and history.columns[name].words is not None:
                raise RuleError(
                    f"the rule '{rule}' gives {name!r} a distance, but it holds words: they are equal or not."
                )
        if history.columns[rule.then].words is not None:
            raise RuleError(f"the rule '{rule}' explains {rule.then!r}, which holds words; only numbers are imputed.")
