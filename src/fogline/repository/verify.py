"""Does the history keep its own rules?

A rule promises that rows close in all that is given are close in `then`. Each row is held against the bounds of what
matches it; only for rows that break the promise is a partner looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fogline.arrays import Ints
from fogline.model import Query, Rule
from fogline.repository.access.planner import Planner
from fogline.repository.history import History, read_history
from fogline.repository.lattice import holders
from fogline.repository.rules import as_rules, check_rules


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold: how many rows break it, and some pairs of rows (by position) that do."""

    rule: Rule
    rows: int
    pairs: tuple[tuple[int, int], ...]

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
    access, _ = Planner(history, rule.then, [rule]).access(rule.given)
    low, high = access.bounds(rule.given, {name: history.columns[name].values[rows] for name in rule.given})
    own = history.columns[rule.then].values[rows]
    return rows[(own - low > rule.within) | (high - own > rule.within)]


def _partner(rule: Rule, history: History, row: int) -> tuple[int, int] | None:
    close = np.abs(history.columns[rule.then].values - history.columns[rule.then].values[row]) > rule.within
    for name, radius in rule.given.items():
        values = history.columns[name].values
        close &= np.abs(values - values[row]) <= radius
    others = np.flatnonzero(close)
    return (min(row, int(others[0])), max(row, int(others[0]))) if len(others) else None
