"""What may a missing value be, given the rest of its row?

A repository is a history, the rules found in it or given, a lattice of their combinations for each attribute, what the
other attributes of a row explain, and what is known of the sensors. It never changes: `append` and `refit` make another
one. `fit` makes its parts, `lattice` finds values by rules, `store` keeps it on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fogline.arrays import Distributions, Floats
from fogline.errors import HistoryError, did_you_mean
from fogline.query import Query, Rule, must_be_query
from fogline.repository import VALUES, fit, store
from fogline.repository.fit import Fitted, InProcess, Progress, Recipe
from fogline.repository.held_out import Quality, judge
from fogline.repository.history import History, in_order, read_history
from fogline.repository.lattice import Lattice
from fogline.repository.others import ByOthers
from fogline.repository.quality import Errors, Imputation, doubt, imputation
from fogline.repository.sensors.model import SensorModel, gathered
from fogline.rows.table import arrow_table
from fogline.show import count_of, indented

LEVEL_0 = -1
WHOLE = "the whole history's distribution"
SHOWN = 10  # lines about attributes in `repr`


def must_be_repository(given: object) -> None:
    """A repository, or none; of anything else an error with the way out."""
    if given is not None and not isinstance(given, Repository):
        way = "Repository.fit(history, query)"
        if isinstance(given, str | PathLike):
            way = f"Repository.load({str(given)!r})"
        raise HistoryError(f"a Repository is needed here, not {type(given).__name__}; give {way}.")


@dataclass(frozen=True, slots=True)
class Step:
    """One combination of rules that is tried for an attribute."""

    then: str
    """The attribute."""
    rules: tuple[Rule, ...]
    """The rules that are asked together."""
    expected: float  # rows that match, on average
    way: str
    """How such rows are found."""

    def __str__(self) -> str:
        return f"{' and '.join(map(str, self.rules))}: about {self.expected:.3g} rows, {self.way}"


@dataclass(frozen=True, eq=False)
class Repository:
    """Complete history, with the rules by which a row with gaps is compared with it.

    It never changes, so several monitors and threads may use one. Several may also save into one folder: each makes a
    version of its own, and the last one is the newest.
    """

    history: History
    """The complete history, as columns of numbers."""
    rules: tuple[Rule, ...]
    """The rules that were found in it, or given."""
    lattices: Mapping[str, Lattice]
    """By attribute: the combinations of rules that are tried for it, in order."""
    folder: Path | None = None
    """Where it was loaded from."""
    sensors: SensorModel | None = None
    """How sensors change from reading to reading; None: rows are imputed from the history alone."""
    method: str = "held-out"
    """How it was fitted; "given": with rules of the user's own."""
    values: int | None = VALUES
    """How many values a distribution that it gives has at most; None: as many as there are."""
    others: Mapping[str, ByOthers] = field(default_factory=dict)
    """What the other attributes of a row explain, for the attributes of which they explain more than rules do."""

    @classmethod
    def fit(
        cls,
        history: Any,
        query: Query,
        *,
        rules: Iterable[Any] | None = None,
        method: str = "held-out",
        retention: Any = None,
        hindsight: bool = True,
        values: int | None = VALUES,
        progress: Progress | None = None,
    ) -> Repository:
        """A repository from history, a table of any kind (see `Monitor.advance`), with rules given or discovered.

        `method`: how rules are discovered ("held-out" or "paper"), or another way without rules: "last" repeats the
        sensor's last value, "mean" takes the attribute's mean, "others" asks the other attributes of the row alone.
        With "held-out", if the history names sensors (the query's id) and times, it is also learnt how a sensor's
        values change from one reading to the next.
        `retention`: how old a sensor's own readings may be to count, a number or a duration as the times are; None: as
        long as they are among the newest that are kept; 0: not at all.
        `hindsight`: whether it is also learnt what lies between two readings of a sensor, so that a gap is known better
        once its sensor has been read again.
        `values`: a distribution of more values is reduced to so many (4 or more; None: never). No probability of being
        at least some number moves by more than 1 / values; the least and the greatest value keep their weight.
        `progress` is called with what is being done, how much of it is done, and of how much.

        >>> query = Query(attributes={"a": "max", "b": "max"}, id="id", time="t", last=10)
        >>> Repository.fit([{"a": 1.0, "b": 2.0}], query, rules=["a(0.5) -> b(1)"]).explain()[0].way
        'sorted by a'
        """
        must_be_query(query, "what a repository is fitted for")
        longest = fit.longest_of(retention, query)
        return cls._fitted(
            history, Recipe.of(query, rules, method, longest, hindsight=hindsight, values=values), progress
        )

    @classmethod
    def _fitted(cls, history: Any, recipe: Recipe, progress: Progress | None = None) -> Repository:
        query = recipe.query
        past = history if isinstance(history, History) else read_history(in_order(arrow_table(history), query), query)
        return cls._of(fit.fit(recipe, past, InProcess(past, progress)))

    @classmethod
    def _of(cls, fitted: Fitted, folder: Path | None = None) -> Repository:
        learnt = fitted.sensors, fitted.method, fitted.values, fitted.others
        return cls(fitted.history, fitted.rules, fitted.lattices, folder, *learnt)

    def refit(self, history: Any, query: Query, *, progress: Progress | None = None) -> Repository:
        """A repository fitted as this one was, to another history."""
        longest = np.inf if self.sensors is None else self.sensors.longest
        recent = () if self.sensors is None else self.sensors.recent
        given = (*self.rules, *recent) if self.method == "given" else None
        method = "held-out" if self.method == "given" else self.method
        hindsight = self.sensors is None or not self.sensors.transitions or self.sensors.hindsight
        recipe = Recipe.of(query, given, method, longest, hindsight=hindsight, values=self.values)
        return Repository._fitted(history, recipe, progress)

    def append(self, rows: Any, query: Query) -> Repository:
        """A repository with more rows, loaded anew. Rules, and the order of their combinations, stay as fitted.

        O(n log n) in all rows: 120,000 take some tenths of a second, so rows are best added many at a time.
        """
        more = read_history(rows, query).like(self.history)
        joined, sensors = self.history.joined(more), self.sensors
        lattices = {name: each.over(joined) for name, each in self.lattices.items()}
        if sensors is not None:
            if sensors.names != query.names:
                raise HistoryError(f"this repository was fitted for {', '.join(sensors.names)}, in this order.")
            sensors.check_keys(query)
            known = sensors.transitions, sensors.recent
            sensors = gathered(joined, query, sensors.longest, *known, keep_state=True)
        return Repository(
            joined, self.rules, lattices, sensors=sensors, method=self.method, values=self.values, others=self.others
        )

    def save(self, folder: str | Path) -> None:
        """Write the repository into a folder, as its newest version; earlier ones stay (see `fogline prune`)."""
        store.save(folder, self._parts, self.fingerprint)

    @classmethod
    def load(cls, folder: str | Path, fingerprint: str | None = None) -> Repository:
        """The repository of a folder, mapped into memory: nothing is copied.

        The newest one, or, of those that were saved there since and before, the one with this fingerprint.
        """
        fitted, mark = store.load(folder, fingerprint)
        repository = cls._of(fitted, store.root_of(folder).absolute())
        vars(repository)["fingerprint"] = mark  # so that the history need not be read
        return repository

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same history, rules and options, wherever they were fitted."""
        return fit.fingerprint(self._parts)

    @property
    def _parts(self) -> Fitted:
        return Fitted(
            self.history, self.rules, dict(self.lattices), self.sensors, self.method, self.values, dict(self.others)
        )

    def explain(self) -> list[Step]:
        """Which combinations of rules are tried for which attribute, in which order, and how their rows are found."""
        return [
            Step(name, tuple(each.rules[k] for k in choice.rules), choice.expected, choice.access.describe())
            for name, each in self.lattices.items()
            for choice in each.choices
        ]

    def quality(self) -> list[Quality]:
        """How well each rule alone imputes the newest tenth of the history from the rest of it."""
        return [judged for name in self.lattices for judged in judge(self.history, name, self._lattice(name).rules)]

    def imputations(self) -> list[Imputation]:
        """By what each attribute is imputed, and how far off that is on the newest tenth of the history.

        With a `note` where the attribute's mean or last value does better, or little is learnt.
        """
        known = {} if self.sensors is None else self.sensors.transitions
        each = (imputation(self.history, n, self.rules, known.get(n), again=bool(known)) for n in self.lattices)
        return [one for one in each if one is not None]

    def doubt(self, names: Iterable[str]) -> None:
        """Warn of each of these attributes for which, on held-out rows, something plain does better than what is given
        for rows without before and after. Nothing is fitted for it.
        """
        doubt(self, tuple(names), self._judged)

    @cached_property
    def _judged(self) -> dict[str, Errors | None]:
        """What `doubt` has found: how far off attributes are on held-out rows."""
        return {}

    @property
    def determinants(self) -> tuple[str, ...]:
        """Every column that rules or other attributes' trees ask for."""
        across = (name for each in self.others.values() for name in each.given)
        return tuple(dict.fromkeys((*self.asked_by_rules, *across)))

    @property
    def asked_by_rules(self) -> tuple[str, ...]:
        """Every attribute that any rule asks for."""
        return tuple(dict.fromkeys(name for each in self.lattices.values() for name in each.determinants))

    def __eq__(self, other: object) -> bool:
        """Whether both have the same history, rules and options (`fingerprint`)."""
        return self.fingerprint == other.fingerprint if isinstance(other, Repository) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        """What it is, and by what each attribute is imputed."""
        where = "" if self.folder is None else f"{str(self.folder)!r}: "
        lines = [indented(f"{name}: {self._ways(name)}") for name in self.lattices]
        if len(lines) > SHOWN:
            lines[SHOWN - 1 :] = [indented(f"… and {len(lines) - SHOWN + 1} attributes more")]
        head = f"Repository({where}{count_of(self.history.rows, 'row')}, fitted by {self.method!r})"
        return "\n".join([head, *lines])

    def _ways(self, name: str) -> str:
        """By what an attribute is imputed, in the words of `impute.chain.fillers`, and in that order (`chain_of`)."""
        ways = []
        if (sensors := self.sensors) is not None:
            later = ", revised by its next reading" if sensors.gains(name) else ""
            ways += [str(rule) for rule in sensors.recent if rule.then == name]
            ways += ["the sensor's last value"] if self.method == "last" else []
            ways += [f"the sensor's own past{later}"] if name in sensors.transitions else []
        ways += [f"other attributes ({', '.join(self.others[name].given)})"] if name in self.others else []
        ways += [", ".join(map(str, rules))] if (rules := self.lattices[name].rules) else []
        return "; ".join([*ways, "its mean in the history" if self.method == "mean" else WHOLE])

    def search(self, then: str, centres: Mapping[str, Floats], size: int) -> Distributions:
        """The distribution of `then` for each of `size` rows, from their other attributes (NaN = missing).

        As `Lattice.search`, and level 0 (source LEVEL_0) where no combination of rules matches.
        """
        lattice = self._lattice(then)
        start, length, value, often, source = lattice.search(centres, size)
        left = length == 0
        if left.any():  # only then: level 0 is as long as the history
            start[left], length[left], source[left] = len(value), len(lattice.values), LEVEL_0
            value, often = np.concatenate((value, lattice.values)), np.concatenate((often, lattice.counts))
        return Distributions(start, length, value, often, source)

    def bounds(self, then: str, centres: Mapping[str, Floats], size: int) -> tuple[Floats, Floats]:
        """(size,) the least and greatest value that `search` would give, without collecting the values."""
        lattice = self._lattice(then)
        low, high = lattice.bounds(centres, size)
        left = np.isnan(low)
        if len(lattice.values):
            low[left], high[left] = lattice.values[0], lattice.values[-1]
        return low, high

    def _lattice(self, then: str) -> Lattice:
        if then not in self.lattices:
            known = sorted(self.lattices)
            raise HistoryError(f"the repository imputes {', '.join(known)}, not {then!r}.{did_you_mean(then, known)}")
        return self.lattices[then]
