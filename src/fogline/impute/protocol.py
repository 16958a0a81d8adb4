"""What an imputer is: it answers which values a missing cell may have, and how likely each is.

An imputer *looks* at rows once, as they come, and keeps a few numbers of each (`known`). From those numbers alone it is
asked later, if ever: for bounds, which often suffice, or for the distribution. So a row can wait in a group, in a
message or in a snapshot until its values matter. An imputer that cannot wait (`lasting` is False) is asked right after
it has looked, before it looks again; `Eager` is a base for such ones.

An imputer in full. Column `spare` is a second, coarser instrument: the missing value is what it shows or, half as
likely each, one more or one less.

>>> import numpy as np
>>> from fogline import Monitor, Query
>>> from fogline.impute.protocol import ends, listed, nothing
>>> class Spare:
...     name, width, lasting = "spare instrument", 1, True  # of each row, one number is kept
...
...     def look(self, rows):
...         return rows.column("spare").to_numpy(zero_copy_only=False).astype(float)[:, None]
...
...     def able(self, known, j):
...         return (j == 0) & ~np.isnan(known[:, 0])
...
...     def bounds(self, known, j, *, rough=False):
...         return ends(self.distributions(known, j))
...
...     def distributions(self, known, j):
...         return listed(known + [-1, 0, 0, 1]) if j == 0 else nothing(len(known))
...
...     def sources(self, j):
...         return (self.name,)
>>> query = Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime=10)
>>> monitor = Monitor(query, imputer=Spare())
>>> rows = [{"sensor": "a", "t": 1, "heat": 20.5}, {"sensor": "b", "t": 1, "heat": None, "spare": 20}]
>>> monitor.advance(1, rows).select(["sensor", "probability"]).to_pylist()
[{'sensor': 'a', 'probability': 0.75}]

A user passes an imputer as `imputer=…`. One that the package gives takes its place in the list in `chain.chain_of`.
`BaseImputer` has defaults; what else is asked of imputers stands there and nowhere else.

The contract, to which `tests/impute/test_contract.py` holds every imputer:

- `able`, `bounds` and `distributions` agree: where it has no answer it is not able, its bounds are NaN, and its
  distribution has size 0;
- bounds are the ends of the distribution; `rough` bounds may be wider, where that is quicker, never narrower;
- the values of a distribution are finite and strictly increasing; how often each occurs is positive;
- an answer depends on the row's own numbers: on no other row of the call, nor on the order of rows;
- what `look` keeps has one row of `width` numbers for each row, NaN where there is nothing, and none is +inf: that
  marks rows about which imputers are asked no more (`arrays.ASKED_NO_MORE`).

With `Hindsight` a later reading of the row's sensor may change an answer, once. The reading is *noted* among the row's
numbers. An answer is *open* as long as a reading may change it. Its *reach* is all it may ever be:

- reach holds the bounds, and rough reach holds reach; where an answer is not open, reach equals the bounds;
- where an imputer is not able but may become so, reach is what it may answer then; elsewhere it is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats, Ints, Revisions
from fogline.kernels.score import crps
from fogline.kernels.uncertain import reduced
from fogline.rows.cells import Reasons, is_text, mended
from fogline.rows.table import RowSource


class Imputer(Protocol):
    """See the module. `j` is the number of an attribute of the query; `known` (n, width) is what `look` returned."""

    name: str
    """What explanations and scores call it."""
    width: int  # numbers kept of a row
    lasting: bool  # whether it can be asked at any later time; else only right after `look`

    def look(self, rows: Evidence) -> Floats:
        """(n, width) what it will need of these rows; NaN where there is nothing, never +inf."""

    def able(self, known: Floats, j: int) -> Flags:
        """(n,) for which rows it can impute attribute j."""

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        """(n,) least and greatest possible value of attribute j; NaN where it is not able."""

    def distributions(self, known: Floats, j: int) -> Distributions:
        """A distribution of attribute j for each row; of size 0 where it is not able."""

    def sources(self, j: int) -> Sequence[str]:
        """Names for the numbers in `Distributions.source`: those of rules, or just the imputer's."""


@runtime_checkable
class Hindsight(Protocol):
    """What an imputer has besides, if a later reading may change its answers; see the module."""

    def note(self, known: Floats, revisions: Revisions) -> Floats:
        """(n, width) the rows' numbers with one reading noted in each; what was noted before stays."""

    def first(self, known: Floats) -> Floats:
        """(n, width) the rows' numbers without any later reading."""

    def open(self, known: Floats, j: int) -> Flags:
        """(n,) for which rows a later reading may still change the answer about attribute j, or give one."""

    def reach(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        """(n,) the least and the greatest value that attribute j may ever be given."""


class BaseImputer:
    """A base for imputers, with defaults. A subclass defines `look`, `able` and `distributions`.

    An imputer need not derive from it. What the protocol does not name is then as here (`with_defaults`).
    """

    name: str
    width: int
    lasting = True
    constant = False  # whether it answers the same for every row, and keeps nothing of a row
    repeats_last = False  # whether it fills every gap of a sensor that has read the attribute before
    counts_rows = False  # whether `Distributions.often` counts rows of history

    def look(self, rows: Evidence) -> Floats:
        raise NotImplementedError

    def able(self, known: Floats, j: int) -> Flags:
        raise NotImplementedError

    def distributions(self, known: Floats, j: int) -> Distributions:
        raise NotImplementedError

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return ends(self.distributions(known, j))

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def way(self, j: int) -> str:
        """In words, how it fills gaps of attribute j; empty: it never does."""
        return self.name

    def errors(self, j: int, found: Distributions, truth: Floats) -> Floats:
        """(q,) the CRPS of each distribution that it gave for attribute j, where these are the true values (q,)."""
        return np.asarray(crps(found.start, found.size, found.value, found.often, truth))


def with_defaults(imputer: Imputer) -> BaseImputer:
    """The imputer, if it derives from `BaseImputer`; else the defaults, with its name."""
    if isinstance(imputer, BaseImputer):
        return imputer
    defaults = BaseImputer()
    defaults.name = imputer.name
    return defaults


@dataclass(frozen=True, slots=True)
class Evidence:
    """What imputers look at: rows as they came, with their attributes decoded."""

    values: Floats  # (n, d) attributes as the user sees them; NaN where missing, implausible or a distribution
    missing: Flags  # (n, d) the cells to impute
    source: RowSource  # every column, as it came
    which: Ints | None = None  # (n,) which rows of the source these are; None: all
    context: Floats | None = None  # (n, w) what each row's sensor has read before; None: sensors are not remembered
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


class Eager(BaseImputer):
    """A base for imputers that answer as they look: a subclass defines `impute`.

    Of a row only its number is kept, among the rows that were looked at last.
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

    def distributions(self, known: Floats, j: int) -> Distributions:
        found, which = self.answers.get(j), known[:, 0].astype(np.int64)
        return nothing(len(which)) if found is None else part(found, which)


def nothing(n: int) -> Distributions:
    """No distribution for any of n rows."""
    none = np.zeros(n, np.int64)
    return Distributions(none, none, np.empty(0), np.empty(0), none)


def part(found: Distributions, which: Any) -> Distributions:
    """Some of the distributions; the values are shared."""
    return found._replace(start=found.start[which], size=found.size[which], source=found.source[which])


def spread(found: Distributions, able: Flags) -> Distributions:
    """Distributions for all rows, of size 0 where not able (n,). `found` has one per row, or one per able row."""
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
    """Single values (n,) as distributions; NaN: no distribution."""
    there = ~np.isnan(value)
    size = there.astype(np.int64)
    zeros = np.zeros(len(value), np.int64)
    return Distributions(np.cumsum(size) - size, size, value[there], np.ones(int(size.sum())), zeros)


def listed(value: Floats, often: Floats | None = None) -> Distributions:
    """Values (n, k) of n rows, in any order, as distributions; NaN is no value, and equal values are merged.

    `often` (n, k): how often each value occurs; None: once.
    """
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


def fewer(found: Distributions, most: int | None) -> Distributions:
    """The distributions with at most so many values each; None: as they are.

    The distribution function is rounded (`kernels.uncertain.reduced`). The least and the greatest value keep their
    weights, so bounds stay. So the cost of a cell, in time and in state, does not grow with the history.
    """
    if most is None or not len(found.size) or int(found.size.max()) <= most:
        return found
    start, size, value, often = reduced(found, most)
    return found._replace(start=start, size=size, value=value, often=often)
