"""What may a missing cell be? The one protocol for everything that answers.

An imputer *looks* at rows once, as they come, and keeps a few numbers of each. From those numbers alone it is asked
later, if it comes to that: for bounds, which are often enough, or for the distribution itself. So a row can wait in the
live set, in a parcel or in a snapshot, and be imputed when it matters. An imputer that cannot wait (`lasting` False: a
function of the user's, a model that walks along the stream) is asked right after it has looked, before it looks again.

The contract, which `tests/impute/test_contract.py` holds every imputer to:

- `able`, `bounds` and `distributions` agree: where an imputer has no answer, it is not able, its bounds are NaN and its
  distribution has size 0;
- bounds are the ends of the distribution; `rough` ones may lie beyond, where that is quicker, never within;
- values of a distribution are finite and strictly increasing, how often each occurs is positive;
- an answer depends on the row's own numbers: on no other row of the call, nor on the order of the rows.

An imputer that gains by hindsight has a few methods more (`Hindsight`): a later reading of the row's sensor is *noted*
among the row's numbers, an answer is *open* as long as such a reading may change it, and its *reach* is what it may
ever come to, now or then. An answer that a reading has changed is final.

- reach holds the bounds, and `rough` reach holds it; where an answer is not open, reach is the bounds;
- where an imputer is not able but may become so, its reach is what it may answer then, and elsewhere it is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats, Ints, Revisions
from fogline.rows.clock import Reasons
from fogline.rows.source import RowSource
from fogline.rows.text import is_text, mended


@dataclass(frozen=True, slots=True)
class Evidence:
    """What imputers may look at: rows as they came, their attributes decoded."""

    values: Floats  # (n, d) attributes as the user sees them; NaN where missing, implausible or a distribution
    missing: Flags  # (n, d) the cells to be imputed
    source: RowSource  # every column, as it came
    which: Ints | None = None  # (n,) which rows of the source these are; None: all of them
    context: Floats | None = None  # (n, w) what the row's sensor has read before, where sensors are remembered
    refused: Reasons = field(default_factory=dict)  # rows whose imputed cells make no sense; an imputer may add to it

    def column(self, name: str) -> pa.Array | None:
        """A column of these rows, if there is one."""
        column = self.source.optional(name)
        if column is not None and is_text(column.type):
            column, _ = mended(column)
        return column if column is None or self.which is None else column.take(pa.array(self.which))

    def part(self, which: Ints) -> Evidence:
        """Some of these rows."""
        rows = which if self.which is None else self.which[which]
        context = None if self.context is None else self.context[which]
        return Evidence(self.values[which], self.missing[which], self.source, rows, context)

    def hiding(self, attribute: Ints) -> Evidence:
        """The same rows, each without one attribute (n,) more."""
        values, missing, each = self.values.copy(), self.missing.copy(), np.arange(len(attribute))
        values[each, attribute], missing[each, attribute] = np.nan, True
        return Evidence(values, missing, self.source, self.which, self.context)


class Imputer(Protocol):
    """See the module. `j` is the number of an attribute of the query; `known` (n, width) is what `look` gave."""

    name: str
    width: int  # numbers kept of a row
    lasting: bool  # whether it can be asked at any time later; else right after `look` only

    def look(self, rows: Evidence) -> Floats:
        """(n, width) what it will need of these rows."""

    def able(self, known: Floats, j: int) -> Flags:
        """(n,) for which rows it can impute attribute j."""

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        """(n,) least and greatest possible value of attribute j; NaN where it is not able."""

    def distributions(self, known: Floats, j: int) -> Distributions:
        """A distribution of attribute j for each row; of size 0 where it is not able."""

    def sources(self, j: int) -> Sequence[str]:
        """What the numbers in `Distributions.source` stand for: rules, or just the imputer's name."""


@runtime_checkable
class Hindsight(Protocol):
    """What an imputer has beside the rest if a later reading may change its answers; see the module."""

    def note(self, known: Floats, revisions: Revisions) -> Floats:
        """(n, width) the numbers of rows after the reading of each was noted; what is noted already stays."""

    def first(self, known: Floats) -> Floats:
        """(n, width) the numbers of rows as if no later reading were known."""

    def open(self, known: Floats, j: int) -> Flags:
        """(n,) for which rows a later reading may still change the answer about attribute j, or give one."""

    def reach(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        """(n,) least and greatest value that attribute j may ever be given."""


class Eager:
    """A base for imputers that answer as they look: `impute` gives, per attribute, distributions for all rows.

    `known` is the number of the row among those last looked at.
    """

    width, lasting = 1, False

    def __init__(self, name: str) -> None:
        self.name = name
        self.answers: dict[int, Distributions] = {}

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        """Per attribute, a distribution for each row: of size 0 where nothing is missing, or nothing is known."""
        raise NotImplementedError

    def look(self, rows: Evidence) -> Floats:
        self.answers = self.impute(rows)
        return np.arange(len(rows.values), dtype=np.float64)[:, None]

    def able(self, known: Floats, j: int) -> Flags:
        return np.asarray(self.distributions(known, j).size > 0)

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return ends(self.distributions(known, j))

    def distributions(self, known: Floats, j: int) -> Distributions:
        found, which = self.answers.get(j), known[:, 0].astype(np.int64)
        return nothing(len(which)) if found is None else part(found, which)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)


def nothing(n: int) -> Distributions:
    """No answer for any of n rows."""
    none = np.zeros(n, np.int64)
    return Distributions(none, none, np.empty(0), np.empty(0), none)


def part(found: Distributions, which: Any) -> Distributions:
    """Some of the distributions; the values are shared."""
    return found._replace(start=found.start[which], size=found.size[which], source=found.source[which])


def spread(found: Distributions, able: Flags) -> Distributions:
    """Distributions of the rows that are able (one each, or one for every row), for all rows: of size 0 for the
    others."""
    if able.all():
        return found
    if len(found.size) != len(able):
        found = part(found, np.maximum(np.cumsum(able) - 1, 0))
    return found._replace(size=np.where(able, found.size, 0))


def ends(found: Distributions) -> tuple[Floats, Floats]:
    """(n,) the least and the greatest value of each distribution; NaN where there is none."""
    low, high = np.full(len(found.size), np.nan), np.full(len(found.size), np.nan)
    there = found.size > 0
    low[there] = found.value[found.start[there]]
    high[there] = found.value[found.start[there] + found.size[there] - 1]
    return low, high


def points(value: Floats) -> Distributions:
    """Single values (n,) as distributions; NaN: none."""
    there = ~np.isnan(value)
    size = there.astype(np.int64)
    zeros = np.zeros(len(value), np.int64)
    return Distributions(np.cumsum(size) - size, size, value[there], np.ones(int(size.sum())), zeros)


def listed(value: Floats, often: Floats | None = None) -> Distributions:
    """Lists of values (n, k), in any order and NaN for none, as distributions; equal values are merged."""
    weight = np.ones(value.shape) if often is None else often
    order = np.argsort(value, axis=1, kind="stable")
    value, weight = np.take_along_axis(value, order, 1), np.take_along_axis(weight, order, 1)
    there = ~np.isnan(value)
    first = there.copy()
    first[:, 1:] &= value[:, 1:] != value[:, :-1]
    size = first.sum(axis=1)
    start = np.cumsum(size) - size
    group = np.cumsum(first.ravel())[there.ravel()] - 1
    total = np.asarray(np.bincount(group, weight[there], int(size.sum())), np.float64)
    return Distributions(start, size, value[first], total, np.zeros(len(size), np.int64))
