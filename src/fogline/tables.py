"""The skyline of a table that does not move.

Every row is in the window; times and expiries do not matter. A missing value is imputed from a repository, or, without
one, from the table's own rows: by the other attributes of its row where that does better than the attribute's own
distribution. No row is dropped: what cannot be compared is an error that names its row.

Complete rows that no complete row dominates are found first: no probability is needed for that. A row with gaps that
one of them surely dominates is out, and changes no other row's probability, so only the others get distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import ONE, Flags, Floats, Ints, UncertainRows
from fogline.engine.answer import CERTAINTY, check_certainty, words_of
from fogline.engine.explain import outside_of
from fogline.engine.representatives import check_top, representatives
from fogline.engine.slots import row_means
from fogline.engine.table import in_skyband, may_be_in_skyband, once
from fogline.errors import QueryError, did_you_mean
from fogline.impute.chain import Chain, chain_of
from fogline.impute.fill import bounded, look, put
from fogline.kernels.static import CERTAIN, Front, front, fronts_of, strongest, surely_dominated
from fogline.kernels.uncertain import ends
from fogline.query import ADDED, UNHELD, WINDOWS, Query, alpha_of, count_in, ways_of
from fogline.repository.history import History, read_history
from fogline.repository.repository import Repository, must_be_repository
from fogline.results import Dominator, Explanation, ImputedCell, UncertainRow
from fogline.rows.cells import Measure, Reasons, measure, read_cells
from fogline.rows.kept import singles
from fogline.rows.names import Kinds, grouped
from fogline.rows.reader import Decoded, Reader
from fogline.rows.table import Frame, RowSource, opened, table_of, usual_table

ALPHA = 0.5
ROW, WHY = "row", "why"
_ROW, _TIME, _GROUP = "fogline row", "fogline time", "fogline group"
_SEED = 3


def skyline(
    table: Any,
    query: Query | Mapping[Any, str],
    repository: Repository | None = None,
    *,
    alpha: float | None = None,
    by: Any = (),
    skyband: int | None = None,
    certainty: str = "likely",
    top: int | None = None,
    explain: bool = False,
) -> Any:
    """The rows of a table that no other row beats, with their probabilities; in one line.

    `query` maps columns to "min" or "max". The rows come back in the kind of table that they came in (pandas, Polars,
    Arrow, a list of dicts, a dict of columns; a DuckDB relation, and whatever else Arrow can read, as an Arrow table),
    in its order, with two more columns: `probability`, that no other row beats it, and `certainty`:
    "certain", in the skyline under every value that was imputed; "likely", with a probability above `alpha` (0.5 unless
    stated); or "possible". A missing value (None, NaN, NA) is imputed from the table's own rows, or from a repository.

    `certainty` asks for the certain rows only, or for all possible ones. `by` names columns: each of their combinations
    has a skyline of its own. `top=12` gives so many representatives (of each group), with `stands_for`: for how many
    of the rows each stands. Equal rows are all in.

    `skyband=3` gives the rows that fewer than 3 others beat; `probability` and `certainty` are those of that.

    `explain=True` adds the column `why`, a sentence: between which values the row's imputed cells lie, and which two
    rows most likely beat it.

    >>> hotels = [{"price": 50, "rating": 3.9}, {"price": 80, "rating": 4.5}, {"price": 90, "rating": 4.1}]
    >>> skyline(hotels, {"price": "min", "rating": "max"})[1]
    {'price': 80, 'rating': 4.5, 'probability': 1.0, 'certainty': 'certain'}
    >>> foggy = [{"price": 50, "rating": [(3.9, 1), (4.3, 3)]}, {"price": 40, "rating": 4.1}]
    >>> print(skyline(foggy, {"price": "min", "rating": "max"}, explain=True)[0]["why"].replace(": ", "\\n"))
    'row 0' is in the answer with probability 0.75
    its missing rating is likely 3.9 to 4.3; 'row 1' beats it with probability 0.25.

    With a `Query` the answer is an Arrow table: by…, the id, probability, probability_error, attributes, row (its
    label in the index of a pandas frame, its position in any other table); and `certainty` and `stands_for` where these
    are asked for.

    >>> rows = [{"s": "a", "x": 1.0, "y": 2.0}, {"s": "b", "x": 2.0, "y": 1.0}, {"s": "c", "x": 0.5, "y": 0.5}]
    >>> query = Query(attributes={"x": "max", "y": "max"}, id="s", time="t", lifetime=1)
    >>> skyline(rows, query)["s"].to_pylist()
    ['a', 'b']
    """
    check_certainty(certainty)
    if top is not None:
        check_top(top)
    must_be_repository(repository)
    k = 1 if skyband is None else count_in(skyband, "skyband")
    level, wanted = None if alpha is None else alpha_of(alpha), _Wanted(certainty, top, explain)
    if isinstance(query, Query):
        if by:
            raise QueryError("the query states by which columns rows are grouped; by= goes with a mapping of columns.")
        if skyband is not None:
            raise QueryError("the query states its skyband; skyband= goes with a mapping of columns.")
        return _by_query(opened(table), query, repository, level, wanted)
    if isinstance(table, Mapping) and not isinstance(query, Mapping):
        raise QueryError('the table comes first, then what counts: fl.skyline(table, {"price": "min"}).')
    return _TableQuestion.of(opened(table), query, by, k).answer(repository, ALPHA if level is None else level, wanted)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which of the rows that are in are asked for: those that are so certain, or so many that stand for all. And is it
    to be stated why?"""

    certainty: str
    top: int | None
    explain: bool

    def alpha(self, alpha: float) -> float:
        """The threshold up to which rows must be looked at."""
        return 0.0 if self.certainty == "possible" else alpha

    def of(self, judged: Judged, alpha: float) -> tuple[Ints, dict[str, Any]]:
        """Positions among the judged rows; and of each how certain it is, and for how many rows it stands."""
        certain = words_of(judged.kind, judged.probability, alpha).astype(np.str_)
        which = np.arange(len(judged.rows))
        if self.certainty == "certain":
            which = which[judged.kind == CERTAIN]
        if self.top is None:
            return which, {CERTAINTY: certain[which]}
        parts, counts = [], []
        for key in np.unique(judged.group[which]).tolist():
            some = which[judged.group[which] == key]
            chosen, stands_for = representatives(judged.middle[some], judged.probability[some], self.top)
            parts.append(some[chosen])
            counts.append(stands_for)
        which = np.concatenate((which[:0], *parts))
        order = np.argsort(which, kind="stable")
        stands = np.concatenate((np.empty(0, np.int64), *counts))[order]
        return which[order], {CERTAINTY: certain[which[order]], "stands_for": stands}


# --- With a query -----------------------------------------------------------------------------------------------------


def _by_query(
    frame: Frame, query: Query, repository: Repository | None, alpha: float | None, wanted: _Wanted
) -> pa.Table:
    """The answer to a query as an Arrow table; with `row`, and where asked for `certainty` and `stands_for`."""
    alpha = query.alpha if alpha is None else alpha
    level = wanted.alpha(alpha)
    asked = query if level == query.alpha else Query.from_dict(query.to_dict() | {"alpha": level})
    found, judged, read, plain = _answered(frame, asked, repository, explain=wanted.explain)
    which, more = wanted.of(judged, alpha)
    shown = {} if wanted.certainty == "likely" and wanted.top is None else dict(more)
    if wanted.explain:
        ids = plain.column(query.id) if query.id in plain.schema.names else pa.array(np.arange(plain.num_rows))
        why = sentences(judged.part(which), more[CERTAINTY], read, query, alpha, lambda position: ids[position].as_py())
        shown[WHY] = pa.array(why, pa.string())
    return _with(found.take(pa.array(which)), {ROW: frame.labels(judged.rows[which])} | shown)


def _with(table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """The table with further columns."""
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table


def answered(table: Any, query: Query, repository: Repository | None = None) -> tuple[pa.Table, Judged]:
    """The answer over a table, in its order, and what is known of the rows in it.

    Columns: by…, the id, probability, probability_error, attributes.
    """
    return _answered(opened(table), query, repository)[:2]


def _answered(
    frame: Frame, query: Query, repository: Repository | None, *, explain: bool = False
) -> tuple[pa.Table, Judged, Decoded, pa.Table]:
    """The same, with all rows as they were read, and the table as Arrow has it."""
    if query.latest:
        raise QueryError(
            "skyline looks at all rows of a table, and latest asks for the newest of each id; give the table to "
            "Monitor(query).advance(now, table), or keep the newest rows yourself and leave latest out."
        )
    arrow = frame.arrow
    plain = _as_it_came(frame, query) if arrow is None else usual_table(table_of(arrow))
    judged, read = judge(plain, query, repository, explain=explain)
    for i, reason in read.refused.items():
        if UNHELD in reason:  # others are left out, as of a stream; of this one a float would be shown that is not it
            raise QueryError(f"row {frame.labels(np.array([i]))[0]} cannot be compared: {reason}.")
    return _shown(plain, query, read, judged), judged, read, plain


def _as_it_came(frame: Frame, query: Query) -> pa.Table:
    """A table of another kind as an Arrow table, each value as it came; an error where a column holds several kinds."""
    columns: dict[str, Any] = {}
    for name in frame.once():
        column, bad = frame.column(name), Reasons()
        if isinstance(column, list) and name in query.names:
            column = read_cells(column, str(name), bad)
        elif isinstance(column, list) and name in query.by:
            raise QueryError(f"column {name!r} holds values of several kinds; a group has one. Make texts of them.")
        for i, reason in bad.items():
            raise QueryError(f"{frame.label(i)} cannot be compared: {reason}.")
        if not isinstance(column, list):
            columns[str(name)] = column
    return pa.table(columns)


# --- With a mapping of columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TableQuestion:
    """A table, the columns that count, and those that make groups."""

    frame: Frame
    ways: dict[Hashable, str]
    by: tuple[Hashable, ...]
    skyband: int

    @classmethod
    def of(cls, frame: Frame, given: Any, by: Any, skyband: int) -> _TableQuestion:
        """What is asked, or an error in one sentence."""
        ways, groups = ways_of(given, frame.names), tuple([by] if isinstance(by, str) else by)
        for role, names in ("table has no column", ways), ("table to group has no column", groups):
            for name in names:
                _must_have(frame, name, role)
        twice = [name for name in groups if name in ways]
        if twice:
            raise QueryError(f"column {twice[0]!r} is to be compared and to make groups; it can do one of them.")
        return cls(frame, ways, groups, skyband)

    def answer(self, repository: Repository | None, alpha: float, wanted: _Wanted) -> Any:
        """The rows that are in, in the kind of the table."""
        cells = {name: measure(self.frame.column(name), name, self.frame.label) for name in self.ways}
        if repository is None:
            self._must_teach(cells)
        else:
            _must_hold(cells)
        if wanted.explain:
            self._must_be_numbers(cells)
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
            skyband=self.skyband,
        )
        judged, read = judge(plain, query, repository, known, explain=wanted.explain)
        for i, reason in read.refused.items():
            raise QueryError(f"{self.frame.label(i)} cannot be compared: {reason}.")
        which, more = wanted.of(judged, alpha)
        if wanted.explain:
            why = sentences(judged.part(which), more[CERTAINTY], read, query, alpha, self._called)
            more[WHY] = np.array(why, object)
        added = {"probability": judged.probability[which]} | more
        taken = [str(name) for name in self.frame.names]
        return self.frame.part(judged.rows[which], {beside(name, taken): values for name, values in added.items()})

    def _called(self, position: int) -> str:
        """A row by its label, where that is a text, as of a pandas frame; else by its number."""
        label = self.frame.labels(np.array([position]))[0].as_py()
        return label if isinstance(label, str) else f"row {label}"

    def _must_be_numbers(self, cells: Mapping[Hashable, Measure]) -> None:
        """What is imputed is shown as numbers, so a column with gaps holds them as they are counted."""
        for name, each in cells.items():
            if each.gaps and (each.unheld or _is_time(self.frame.column(name))):
                held = "times" if not each.unheld else f"{each.unheld}, which no float holds exactly"
                raise QueryError(
                    f"explain=True shows imputed values as numbers, and {name!r} holds {held}; make numbers of them, "
                    "such as days since the first, or leave explain out."
                )

    def _must_teach(self, cells: Mapping[Hashable, Measure]) -> None:
        """Gaps are learnt from the table itself, so every column must have values to learn from."""
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
        """The columns beside those that count: the group, and what may explain a gap."""
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


def _is_time(column: pa.Array | list[Any]) -> bool:
    if isinstance(column, list):
        return any(isinstance(each, date | timedelta | time) for each in column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_temporal(kind))


def _must_have(frame: Frame, name: Hashable, role: str) -> None:
    if name in frame.names:
        if frame.names.count(name) > 1:
            raise QueryError(f"the table has several columns {name!r}; rename all but one.")
        return
    known = [str(each) for each in frame.names]
    there = f"it has {', '.join(known)}" if known else "it has none"
    raise QueryError(f"the {role} {name!r}; {there}.{did_you_mean(str(name), known)}")


def _called(names: Iterable[Hashable]) -> dict[Hashable, str]:
    """The name of each column in here: a text, and none that outputs add."""
    called: dict[Hashable, str] = {}
    for name in names:
        called[name] = beside(str(name), {*ADDED, *called.values()})
    return called


def beside(name: str, taken: Container[str]) -> str:
    """A name for a column that no other has."""
    while name in taken:
        name = f"{name}_"
    return name


# --- Which rows are in ------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """The rows of a table that are in, by their positions in it, ascending."""

    rows: Ints  # (m,)
    probability: Floats  # (m,)
    within: Floats  # (m,) how far the truth may lie from it
    kind: Ints  # (m,) CERTAIN: in under every value that was imputed; OPEN
    middle: Floats  # (m, d) the mean of each cell, larger is better
    group: Ints  # (m,) the number of its group
    low: Floats  # (m, d) the least that each cell may be, larger is better
    high: Floats  # (m, d) the greatest
    strong: Ints  # (m, 2) the rows that most likely beat it, if that was asked for; -1: there is none
    chance: Floats  # (m, 2) how likely they do

    def part(self, which: Ints) -> Judged:
        """Some of them."""
        return Judged._make(each[which] for each in self)


def judge(
    plain: pa.Table,
    query: Query,
    repository: Repository | None = None,
    known: pa.Table | None = None,
    *,
    explain: bool = False,
) -> tuple[Judged, Decoded]:
    """The rows that are in, and all rows as they were read.

    `known`: what gaps are learnt from without a repository, if that is not the table itself. `explain`: whether it is
    asked for what most likely beats them.
    """
    read = _read(plain, query, repository)
    rows, taken = read, read.left()
    taken = np.arange(plain.num_rows) if taken is None else taken
    gaps: Flags = np.asarray(np.isnan(rows.uncertain.lo[taken]).any(axis=1))
    chain = None
    if gaps.any():
        if repository is None:
            history = _shuffled(plain if known is None else known, query)
            repository = Repository.fit(history, query, method="others", retention=0)
        else:
            lacking = np.flatnonzero(np.isnan(rows.uncertain.lo[taken]).any(axis=0))
            repository.doubt([query.names[j] for j in lacking.tolist()])
        chain = chain_of(repository, query, remember=False)  # rows have no before and after
    return _Still(rows, *_groups(read), query, explain).answer(taken, gaps, chain), read


class _Still:
    """The rows of a table in numbers, and the number of each row's group."""

    def __init__(self, rows: Decoded, group: Ints, groups: int, query: Query, explain: bool) -> None:
        self.rows, self.group, self.groups, self.explain = rows, group, groups, explain
        self.alpha, self.k = query.alpha, query.skyband

    def answer(self, taken: Ints, gaps: Flags, chain: Chain | None) -> Judged:
        """What is in."""
        uncertain = self.rows.uncertain
        if self.k > 1:
            return self._judged(taken[:0], *self._filled(taken, chain, self._few_beat))
        sure = ~gaps & (uncertain.start[taken] == ONE).all(axis=1)
        known = taken[sure]
        top, best = front(self.group[known], np.ascontiguousarray(uncertain.lo[known]), self.groups)
        top = known[top]
        which, found = self._filled(taken[~sure], chain, lambda which, rows: self._undominated(which, rows, best))
        return self._judged(top, which, found) if len(which) else self._sure(top)

    def _sure(self, top: Ints) -> Judged:
        """Points that none dominates: they are in for certain."""
        n, value = len(top), self.rows.uncertain.lo[top]
        none = np.full((n, 2), -1), np.zeros((n, 2))
        return Judged(top, np.ones(n), np.zeros(n), np.full(n, CERTAIN), value, self.group[top], value, value, *none)

    def _filled(
        self, which: Ints, chain: Chain | None, stay_in: Callable[[Ints, UncertainRows], Ints]
    ) -> tuple[Ints, UncertainRows]:
        """Of some rows those that may be in, with their distributions. `stay_in`: gives the positions of these."""
        uncertain = self.rows.uncertain.part(which)
        if chain is not None and len(which):
            looked = look(chain, self.rows, which)
            stay = stay_in(which, bounded(chain, looked, rough=True).uncertain)
            which, looked = which[stay], looked.part(stay)
            few = looked.uncertain.part(looked.lacking)
            uncertain = put(looked.uncertain, looked.lacking, chain.fill(few, looked.known, np.isnan(few.lo)))
        stay = stay_in(which, uncertain)
        return which[stay], uncertain.part(stay)

    def _few_beat(self, which: Ints, uncertain: UncertainRows) -> Ints:
        """The positions of the rows that fewer than k of their group surely dominate, ascending."""
        there = np.flatnonzero(~np.isnan(uncertain.lo).any(axis=1))
        parts = [there[self.group[which[there]] == key] for key in np.unique(self.group[which[there]]).tolist()]
        return np.sort(np.concatenate([there[:0], *(p[may_be_in_skyband(uncertain.part(p), self.k)] for p in parts)]))

    def _undominated(self, which: Ints, uncertain: UncertainRows, best: Front) -> Ints:
        """The positions of the rows that no point surely dominates. A row that no imputer can complete is left out."""
        there = np.flatnonzero(~np.isnan(uncertain.lo).any(axis=1))
        return there[~surely_dominated(best, self.group[which[there]], np.ascontiguousarray(uncertain.hi[there]))]

    def _judged(self, top: Ints, which: Ints, found: UncertainRows) -> Judged:
        """The answer of points and the rows that are left of the others, group by group.

        Points of a group without such rows are all in.
        """
        touched = np.unique(self.group[which])
        parts = [self._sure(top[~np.isin(self.group[top], touched)])]
        for key in touched.tolist():
            points, others = top[self.group[top] == key], np.flatnonzero(self.group[which] == key)
            rows = np.concatenate((points, which[others]))
            uncertain = _points_and_others(self.rows.uncertain.part(points), found.part(others))
            every = np.arange(len(rows))
            low, high = ends(uncertain, every)
            if self.k > 1:
                stay, chance, within, kind = in_skyband(uncertain, self.alpha, self.k)
            else:
                stay, chance, within = once(uncertain, self.alpha)
                kind = np.asarray(fronts_of(low, high, stay, every))
            more = kind, row_means(uncertain, stay), np.full(len(stay), key), low[stay], high[stay]
            who, how = strongest(uncertain, low, high, stay if self.explain else stay[:0], every)
            if self.explain:
                strong = np.where(who < 0, -1, rows[who]), how
            else:
                strong = np.full((len(stay), 2), -1), np.zeros((len(stay), 2))
            parts.append(Judged(rows[stay], chance, within, *more, *strong))
        whole = Judged._make(np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(whole.rows)
        return Judged._make(each[order] for each in whole)


def _read(plain: pa.Table, query: Query, repository: Repository | None) -> Decoded:
    """The rows in numbers; their ids are their positions."""
    count = pa.array(np.arange(plain.num_rows))
    numbered = plain.append_column(_ROW, count).append_column(_TIME, pa.array(np.zeros(plain.num_rows, np.int64)))
    fields = {name: value for name, value in query.to_dict().items() if name not in (*WINDOWS, "keep")}
    fields |= {"id": _ROW, "time": _TIME, "last": max(1, plain.num_rows)}
    also = None if repository is None else repository.determinants
    return Reader(Query.from_dict(fields), also=also).read(numbered, Kinds())


def _shuffled(plain: pa.Table, query: Query) -> History:
    """The table as a history in no order: any of its rows may be held out."""
    history = read_history(plain, query)
    return history.part(np.random.default_rng(_SEED).permutation(history.rows))


def _groups(read: Decoded) -> tuple[Ints, int]:
    """(n,) the number of each row's group, and how many there are."""
    if not read.by:
        return np.zeros(len(read.id), np.int64), 1
    number: dict[tuple[Any, ...], int] = {}
    numbers = [number.setdefault(key, len(number)) for key in zip(*read.by, strict=True)]
    return np.array(numbers, np.int64), max(1, len(number))


def _points_and_others(points: UncertainRows, others: UncertainRows) -> UncertainRows:
    """Points, which have no values in the pools, and then rows that have some."""
    cells = ("lo", "hi", "start", "size")
    return others._replace(**{name: np.concatenate((getattr(points, name), getattr(others, name))) for name in cells})


# --- Why they are in --------------------------------------------------------------------------------------------------


def sentences(
    judged: Judged, certainty: Any, read: Decoded, query: Query, alpha: float, name: Callable[[int], Any]
) -> list[str]:
    """Of each row that is in: what its imputed cells may be, and what most likely beats it. `name`: of a position.

    What would flip it is not stated: rows that others surely beat were not looked at.
    """
    signs = np.array(query.signs, np.float64)
    low, high = np.sort(np.stack((judged.low * signs, judged.high * signs)) + 0.0, axis=0)
    missing = np.isnan(query.plausible(read.raw[judged.rows])) | (low < high)
    out = []
    for k, row in enumerate(judged.rows.tolist()):
        cells = [
            (query.names[j], tuple((x, 1.0) for x in dict.fromkeys((float(low[k, j]), float(high[k, j])))))
            for j in np.flatnonzero(missing[k]).tolist()
        ]
        strong = zip(judged.strong[k].tolist(), judged.chance[k].tolist(), strict=True)
        found = Explanation(
            by=(),
            id=name(row),
            arrived=None,
            inside=certainty[k] != "possible",
            reason="",
            probability=float(judged.probability[k]),
            probability_error=float(judged.within[k]),
            row=UncertainRow(dict(cells)),
            beaten_by=tuple(Dominator(name(g), None, chance) for g, chance in strong if g >= 0),
            imputed=tuple(ImputedCell(attribute, ends, "", ends, "", False) for attribute, ends in cells),
            certainty=str(certainty[k]),
            alpha=alpha,
            outside=tuple(outside_of(read.raw[row], query)),
        )
        out.append(found.sentence)
    return out


def _shown(plain: pa.Table, query: Query, read: Decoded, judged: Judged) -> pa.Table:
    """The answer as a table, in the types of the stream."""
    rows = judged.rows
    ids = plain.column(query.id) if query.id in plain.schema.names else pa.chunked_array([np.arange(plain.num_rows)])
    columns: dict[str, Any] = {
        name: pa.array([values[k] for k in rows.tolist()], kind or pa.null())
        for name, values, kind in zip(query.by, read.by, read.kinds.by or (None,) * len(query.by), strict=True)
    }
    columns |= {query.id: ids.take(pa.array(rows))}
    columns |= {"probability": judged.probability, "probability_error": judged.within}
    raw = np.ascontiguousarray(query.plausible(read.raw[rows]).T)
    columns |= {name: pa.array(values, mask=np.isnan(values)) for name, values in zip(query.names, raw, strict=True)}
    names = query.keeping(singles(plain.schema)).kept
    source = RowSource(plain, names) if names else read.source
    columns |= {name: source.require(name, "column to keep").take(pa.array(rows)) for name in names}
    return pa.table(columns)
