"""Which rows of this table are best? In one line, without an id, a time or a window.

    fl.skyline(hotels, {"price": "min", "rating": "max"})

The rows of the table that came in, in its kind and order, with their probabilities. Gaps are imputed from the table
itself, which is its own repository. No row is dropped on the way: what cannot be compared is an error that names the
row.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints
from fogline.errors import QueryError, did_you_mean
from fogline.kernels.fronts import CERTAIN
from fogline.model import Query
from fogline.question import CHANGE_COLUMNS, alpha_of
from fogline.repository.repository import Repository
from fogline.rows.frames import Frame, opened
from fogline.rows.keys import grouped
from fogline.rows.measures import Measure, measure
from fogline.rows.ways import ways_of
from fogline.skyline.fronts import FRONT, check_front, words_of
from fogline.skyline.representatives import check_top, representatives
from fogline.static import Judged, answered, beside, judge, labels_of

ALPHA = 0.5
_ROW = "row"
_GROUP = "fogline group"


def skyline(
    table: Any,
    query: Query | Mapping[Any, str],
    repository: Repository | None = None,
    *,
    alpha: float | None = None,
    by: Any = (),
    front: str = "likely",
    top: int | None = None,
) -> Any:
    """The rows of a table that no other row beats, with their probabilities; in one line.

    `query` maps columns to "min" or "max". The rows come back in the kind of table that they came in (pandas, Polars or
    Arrow; a list of dicts as one; a DuckDB relation, and whatever else Arrow can read, as an Arrow table), in its
    order, with two more columns: `probability`, that no other row beats it, and `front`: "certain", in
    the skyline under every value that was imputed; "likely", with a probability above `alpha` (0.5 unless stated); or
    "possible". A missing value (None, NaN, NA) is imputed from the table's own rows, or from a repository.

    `front` asks for the certain rows only, or for all possible ones. `by` names columns: each of their combinations has
    a skyline of its own. `top=12` gives so many representatives (of each group), with `stands_for`: for how many of the
    rows each stands. Equal rows are all in.

    >>> hotels = [{"price": 50, "rating": 3.9}, {"price": 80, "rating": 4.5}, {"price": 90, "rating": 4.1}]
    >>> skyline(hotels, {"price": "min", "rating": "max"})[1]
    {'price': 80, 'rating': 4.5, 'probability': 1.0, 'front': 'certain'}

    With a `Query` the answer is an Arrow table: by…, id, probability, exact, within, attributes, row (its label in the
    index of a pandas frame, its position in any other table); and `front` and `stands_for` where these are asked for.

    >>> rows = [{"s": "a", "x": 1.0, "y": 2.0}, {"s": "b", "x": 2.0, "y": 1.0}, {"s": "c", "x": 0.5, "y": 0.5}]
    >>> query = Query(attributes={"x": "max", "y": "max"}, id="s", time="t", lifetime=1)
    >>> skyline(rows, query)["id"].to_pylist()
    ['a', 'b']
    """
    check_front(front)
    if top is not None:
        check_top(top)
    level = None if alpha is None else alpha_of(alpha)
    if isinstance(query, Query):
        if by:
            raise QueryError("the query states by which columns rows are grouped; by= goes with a mapping of columns.")
        return _by_query(table, query, repository, level, _Wanted(front, top))
    wanted, level = _Wanted(front, top), ALPHA if level is None else level
    asked = _TableQuestion.of(table, query, by)
    return asked.answer(repository, level, wanted)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which of the rows that are in are asked for."""

    front: str
    top: int | None

    def alpha(self, alpha: float) -> float:
        """The threshold up to which rows must be looked at."""
        return 0.0 if self.front == "possible" else alpha

    def of(self, judged: Judged, alpha: float) -> tuple[Ints, dict[str, Any]]:
        """Places among the judged rows; and for each which front it is in, and for how many it stands."""
        fronts = words_of(judged.kind, judged.probability, alpha).astype(np.str_)
        which = np.arange(len(judged.rows))
        if self.front == "certain":
            which = which[judged.kind == CERTAIN]
        if self.top is None:
            return which, {FRONT: fronts[which]}
        parts, counts = [], []
        for key in np.unique(judged.group[which]).tolist():
            some = which[judged.group[which] == key]
            chosen, stands_for = representatives(judged.middle[some], judged.probability[some], self.top)
            parts.append(some[chosen])
            counts.append(stands_for)
        which = np.concatenate((which[:0], *parts))
        order = np.argsort(which, kind="stable")
        stands = np.concatenate((np.empty(0, np.int64), *counts))[order]
        return which[order], {FRONT: fronts[which[order]], "stands_for": stands}


def _by_query(
    table: Any, query: Query, repository: Repository | None, alpha: float | None, wanted: _Wanted
) -> pa.Table:
    alpha = query.alpha if alpha is None else alpha
    found, judged = answered(table, _at(query, wanted.alpha(alpha)), repository)
    which, more = wanted.of(judged, alpha)
    shown = {} if wanted == _Wanted("likely", None) else more
    found = found.take(pa.array(which))
    shown = {_ROW: labels_of(table, judged.rows[which])} | shown
    for name, values in shown.items():
        found = found.append_column(beside(name, found.schema.names), pa.array(values))
    return found


def _at(query: Query, alpha: float) -> Query:
    return query if alpha == query.alpha else Query.from_dict(query.to_dict() | {"alpha": alpha})


@dataclass(frozen=True, slots=True)
class _TableQuestion:
    """A table, the columns that count, and those that make groups."""

    frame: Frame
    ways: dict[Hashable, str]
    by: tuple[Hashable, ...]

    @classmethod
    def of(cls, table: Any, given: Any, by: Any) -> _TableQuestion:
        """What is asked, or an error in one sentence."""
        if isinstance(table, Mapping) and not isinstance(given, Mapping):
            raise QueryError('the table comes first, then what counts: fl.skyline(table, {"price": "min"}).')
        frame = opened(table)
        ways, groups = ways_of(given, frame.names), tuple([by] if isinstance(by, str) else by)
        for role, names in ("table has no column", ways), ("table to group has no column", groups):
            for name in names:
                _must_have(frame, name, role)
        twice = [name for name in groups if name in ways]
        if twice:
            raise QueryError(f"column {twice[0]!r} is to be compared and to make groups; it can do one of them.")
        return cls(frame, ways, groups)

    def answer(self, repository: Repository | None, alpha: float, wanted: _Wanted) -> Any:
        """The rows that are in, in the kind of the table."""
        cells = {name: measure(self.frame.column(name), name, self.frame.label) for name in self.ways}
        if repository is None:
            self._must_teach(cells)
        else:
            _must_hold(cells)
        called = _called(self.ways)
        others = self._others(called)
        plain = pa.table({called[name]: each.cells for name, each in cells.items()} | others)
        known = pa.table(
            {called[name]: each.cells if each.known is None else each.known for name, each in cells.items()} | others
        )
        by = (_GROUP,) if self.by else ()
        ways = {called[name]: way for name, way in self.ways.items()}
        query = Query(
            ways,
            beside("id", plain.schema.names),
            beside("time", plain.schema.names),
            last=1,
            alpha=wanted.alpha(alpha),
            by=by,
        )
        judged, read = judge(plain, query, repository, known)
        for i, reason in read.rows.refused.items():
            raise QueryError(f"{self.frame.label(i)} cannot be compared: {reason}.")
        which, more = wanted.of(judged, alpha)
        added = {"probability": judged.probability[which]} | more
        taken = [str(name) for name in self.frame.names]
        return self.frame.part(judged.rows[which], {beside(name, taken): values for name, values in added.items()})

    def _must_teach(self, cells: Mapping[Hashable, Measure]) -> None:
        """Whatever has gaps must have some values too."""
        gaps = [name for name, each in cells.items() if each.gaps]
        for name, each in cells.items():
            if gaps and each.nothing:
                raise QueryError(
                    f"all {self.frame.length:,} values of {name!r} are missing, so nothing is known of it; leave it "
                    "out, or give a repository that knows it."
                )
            if gaps and each.known is None:
                raise QueryError(
                    f"{name!r} holds distributions, and {gaps[0]!r} has gaps, which cannot be learnt from them; give a "
                    "repository."
                )

    def _others(self, called: Mapping[Hashable, str]) -> dict[str, Any]:
        """The columns beside those that count: groups, and what may explain a gap."""
        found: dict[str, Any] = {_GROUP: self._groups()} if self.by else {}
        taken = {*called.values(), _GROUP}
        for name in self.frame.once():
            if name not in self.ways and str(name) not in taken and str(name):
                column = self.frame.column(name)
                if isinstance(column, pa.Array) and not pa.types.is_nested(column.type):
                    found[str(name)] = column
        return found

    def _groups(self) -> Ints:
        """(n,) a number for each combination of values; a missing one is a value too."""
        code = np.zeros(self.frame.length, np.int64)
        for name in self.by:
            column = self.frame.column(name)
            try:
                number = grouped(column)
            except (pa.ArrowException, TypeError):
                what = column.type if isinstance(column, pa.Array) else "values"
                raise QueryError(f"column {name!r} holds {what}, which can make no groups.") from None
            code = np.unique(code * (int(number.max(initial=0)) + 1) + number, return_inverse=True)[1]
        return np.asarray(code, np.int64)


def _must_hold(cells: Mapping[Hashable, Measure]) -> None:
    """What a repository gives is compared with values as they are, not as they are counted within this table."""
    for name, each in cells.items():
        if each.unheld:
            raise QueryError(
                f"{name!r} is {each.unheld}, which no value of a repository can be compared with exactly; subtract an "
                "offset from it, in the table and before the repository is fitted."
            )


def _must_have(frame: Frame, name: Hashable, role: str) -> None:
    if name in frame.names:
        if frame.names.count(name) > 1:
            raise QueryError(f"the table has several columns {name!r}; rename all but one.")
        return
    known = [str(each) for each in frame.names]
    there = f"it has {', '.join(known)}" if known else "it has none"
    raise QueryError(f"the {role} {name!r}; {there}.{did_you_mean(str(name), known)}")


def _called(names: Iterable[Hashable]) -> dict[Hashable, str]:
    """Each column's name within: a text, and none that a table of changes uses."""
    called: dict[Hashable, str] = {}
    for name in names:
        called[name] = beside(str(name), {*CHANGE_COLUMNS, *called.values()})
    return called
