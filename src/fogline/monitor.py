"""The whole way of a row.

decode (rows) -> impute what is missing, at first as bounds (impute) -> tick by tick through the live set of its group
(engine) -> report (rows).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from textwrap import indent
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Delta
from fogline.engine.answer import Answers
from fogline.engine.ask import questions
from fogline.engine.audit import audit, measure, tree
from fogline.engine.bulk import threads
from fogline.engine.explain import explained, named, not_live
from fogline.engine.group import NOTHING, Group, Incoming
from fogline.engine.kinds import new_group
from fogline.errors import ClockError, FoglineError, RowsError, did_you_mean
from fogline.impute.chain import Chain, Tally, chain_of
from fogline.impute.own import ImputeFunction, as_imputer
from fogline.impute.protocol import Imputer
from fogline.impute.scores import Score, by_age, listed
from fogline.intake.take import Intake, take, warn_of
from fogline.kernels.uncertain import extent
from fogline.notebook import html_of
from fogline.query import Query, must_be_query
from fogline.repository.repository import Repository, must_be_repository
from fogline.results import Explanation, Node, Reject
from fogline.rows.cells import REAL
from fogline.rows.changes import GroupKey, Tables
from fogline.rows.clock import (
    INTEGER,
    instant,
    join_kinds,
    show_time,
    time_text,
)
from fogline.rows.names import Kinds
from fogline.rows.reader import Decoded, Reader, remembered
from fogline.rows.table import is_table, opened
from fogline.show import count_of
from fogline.snapshot import restore_monitor, save_monitor

KEPT_REJECTS = 10_000
EVERY = ("tick", "batch")


class Monitor:
    """Keeps the skyline of a stream, tick by tick: rows in, changes of the answer out. No JVM, no Spark.

    To be read: `query`, `repository` and `imputer`, as they were given; `clock`, the time that it has come to, as a
    number; `rejects`, the last 10,000 rejected rows (`fl.types.Reject`: `row`, `reason`), the newest last.

    Threads: a monitor has no lock, and is used by one thread at a time. Several monitors may be used by several threads
    at once, also with one repository.

    >>> from fogline import Query
    >>> query = Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
    >>> monitor = Monitor(query)
    >>> a = {"sensor": "a", "t": 1, "gas": 5, "oxygen": 19}
    >>> b = {"sensor": "b", "t": 1, "gas": [(3, 1), (9, 3)], "oxygen": 20}
    >>> monitor.advance(1, [a, b]).select(["sensor", "change", "probability"]).to_pylist()
    [{'sensor': 'a', 'change': 'enter', 'probability': 1.0}, {'sensor': 'b', 'change': 'enter', 'probability': 0.75}]
    """

    def __init__(
        self,
        query: Query,
        repository: Repository | None = None,
        *,
        exact_limit: int = 1_000_000,
        eager: bool = False,
        imputer: Imputer | ImputeFunction | None = None,
        remember: bool = True,
        hindsight: bool | None = None,
    ) -> None:
        """A monitor for rows that come with their own distributions, or with a repository that gives them.

        Without a repository, or an `imputer` that fills it, a row with a gap is rejected. `rejects` holds the last
        10,000 rejected rows, each with its `row` and `reason`; of each reason the first call is warned of
        (`fl.RowsRejectedWarning`), when all else is done: where that is made an error, the rows are taken.

        `exact_limit`: up to how many combinations of values a row's probability is worked out exactly; beyond, to 1e-3,
        as `probability_error` states.
        `eager`: impute every row as it comes instead of when it matters; the answers are the same.
        `imputer`: is asked first what a missing value may be: an `Imputer`, or a function, see `fogline.impute`.
        `remember`: keep what each sensor has read lately, if the repository has learnt from such readings; without,
        missing values are imputed by rules alone.
        `hindsight`: revise a missing value when its sensor has spoken again; None: where the repository has learnt it.
        """
        must_be_query(query, "what a monitor answers")
        must_be_repository(repository)
        if not isinstance(exact_limit, int) or exact_limit < 1:
            raise FoglineError(
                f"exact_limit is {exact_limit!r}; it counts combinations of values, so it is a whole number from 1 on."
            )
        threads()  # an error now, and not in the midst of the first large tick
        asked = None if imputer is None else as_imputer(imputer, query)
        self.query, self.repository, self.imputer = query, repository, imputer
        self._options = remember, hindsight, eager
        self.chain: Chain | None = chain_of(repository, query, asked, remember=remember, hindsight=hindsight)
        scoring = remember and imputer is None  # imputers of the user's own are not scored
        self.intake = Intake(self.chain, eager=eager, scoring=scoring)
        self.exact_limit = exact_limit
        self.clock = -np.inf
        self.now_kind: pa.DataType | None = None  # the kind of the last `now`
        self.kinds = Kinds()
        self.groups: dict[GroupKey, Group] = {}
        self.rejects: deque[Reject] = deque(maxlen=KEPT_REJECTS)
        self.warned: set[str] | None = set()  # kinds of reasons for which rows were rejected; None: it does not warn
        self.counts = {"rows": 0, "rejected": 0, "outside_limits": 0, "incomplete": 0}
        self.counts_of_gone: dict[str, int] = {}  # the same of groups that are gone
        also = None if imputer is not None else () if repository is None else repository.determinants
        self._reader, self._tables = Reader(query, also=also), Tables(query)
        self._answers = Answers(query)

    def __repr__(self) -> str:
        """What it has taken, what it holds, and what it is asked."""
        groups = [group.live for group in self.groups.values()]
        size, live = sum(len(each.members()) for each in groups), sum(each.alive for each in groups)
        clock = (
            "not begun" if self.clock == -np.inf else f"at {time_text(self.clock, self.kinds.time or self.now_kind)}"
        )
        held = f"{size:,} in the answer of {count_of(live, 'live row')}, {count_of(len(groups), 'group')}"
        taken = f"{count_of(self.counts['rows'], 'row')}, {self.counts['rejected']:,} rejected"
        parts = [self.query, *(() if self.repository is None else (self.repository,))]
        return f"Monitor({clock}; {taken}; {held})\n" + "\n".join(indent(repr(part), "    ") for part in parts)

    def advance(self, now: Any = None, rows: Any = None, *, every: str = "tick") -> pa.Table:
        """Move the clock to `now`, take in the rows that arrived, and return what changed in the answer.

        Rows are a table of any kind: pandas, Polars, Arrow, a DuckDB relation, a list of dicts or a dict of columns.
        They may be of many instants up to `now`, and what is later is rejected. Without `now` the clock moves to the
        newest time of the rows: `monitor.advance(rows)`; without rows it stays.

        `every`: "tick" reports each instant of the rows; "batch" only what has changed in the answer from call to call.

        Columns: `time`, the instant of the change; by…, the id and the row's own time under the query's names (a time
        column called `time` becomes `arrived`); `change`: enter, leave or update; `probability`; `probability_error`:
        how far the truth may lie from it, 0 where it is exact; of a leave its `reason`, and by which row it was
        `beaten_by`, of which time (`beaten_by_time`); the attributes and what `keep` names as they came. How certain a
        row is, only an answer shows: it may become certain while its probability stays. O(rows · live set).

        Where the newest row of each id counts, an id that stays in with another row is updated:

        >>> query = Query(attributes={"gas": "max"}, id="sensor", time="t", latest=True, gone="gone")
        >>> monitor = Monitor(query)
        >>> rows = [{"sensor": "a", "t": 1, "gas": 5}, {"sensor": "a", "t": 2, "gas": 6}]
        >>> rows += [{"sensor": "a", "t": 1, "gas": 9}, {"sensor": "a", "t": 3, "gone": True}]
        >>> [(row["time"], row["change"], row["gas"]) for row in monitor.advance(3, rows).to_pylist()]
        [(1, 'enter', 9.0), (2, 'update', 6.0), (3, 'leave', 6.0)]
        """
        if every not in EVERY:
            raise FoglineError(f"every is {every!r}; it is one of {', '.join(EVERY)}.{did_you_mean(str(every), EVERY)}")
        if is_table(now):
            if rows is not None:
                raise FoglineError(
                    "advance was given two tables; it takes the time and the rows: advance(now, rows), or the rows "
                    "alone: advance(rows)."
                )
            now, rows = None, now
        read = self._read(rows)
        until, now_kind, kinds = self._move(now, read)
        before = self._saved()
        try:
            taken = {} if read is None else take(self, read)
            deltas = self._step(until, taken, every == "tick")
        except BaseException:
            if before is not None:
                self._put_back(*before)
            raise
        self.now_kind, self.kinds = now_kind, kinds
        changes = self._report(deltas)
        if read is not None:
            warn_of(read, self.warned)
        return changes

    def _saved(self) -> tuple[bytes, list[Reject]] | None:
        """What is to be put back if the call fails: one that raises changes nothing. None: nothing need be.

        What can go wrong is looked at before anything changes. One thing cannot be: an imputer of the user's own that
        is asked when its rows matter (`lasting`), in the middle of a tick.
        """
        if self.chain is None or self.chain.own is None or not self.chain.own.lasting:
            return None
        return self.snapshot(), list(self.rejects)

    def _put_back(self, saved: bytes, rejects: list[Reject]) -> None:
        before = restore_monitor(saved, self.query, self.repository, self._fresh)
        self.chain, self.intake, self.groups = before.chain, before.intake, before.groups
        self.counts, self.counts_of_gone = before.counts, before.counts_of_gone
        self.clock, self.rejects = before.clock, deque(rejects, KEPT_REJECTS)

    def _fresh(self, exact_limit: int) -> Monitor:
        """A monitor as this one was when it was made."""
        remember, hindsight, eager = self._options
        return Monitor(
            self.query, self.repository, exact_limit=exact_limit, eager=eager, imputer=self.imputer, remember=remember,
            hindsight=hindsight,
        )  # fmt: skip

    def _read(self, rows: Any) -> Decoded | None:
        """Rows in numbers, with their names; None if there are none."""
        frame = None if rows is None else opened(rows)
        return self._reader.read(frame, self.kinds) if frame is not None and frame.length else None

    def _report(self, deltas: list[tuple[GroupKey, Delta]]) -> pa.Table:
        """The table of changes."""
        return self._tables.build(deltas, self.kinds)

    def _step(self, until: float, come: dict[GroupKey, Incoming], ticks: bool) -> list[tuple[GroupKey, Delta]]:
        """Open groups that rows came for, advance every group to `until`, and return the changes in order of time."""
        for key, part in come.items():
            if key not in self.groups and (part.rows is not None or part.removals is not None):
                self.groups[key] = self._new_group()
        deltas: list[tuple[GroupKey, Delta]] = []
        for key, group in self.groups.items():
            found = group.advance(self.clock, until, come.get(key, NOTHING), ticks)
            deltas += [(key, delta) for delta in found]
        self.clock = until
        if len(self.groups) > 1:
            self._drop_empty_groups()
            deltas.sort(key=lambda pair: pair[1].time)
        return deltas

    def answer(self, *, certainty: str = "likely", alpha: float | None = None, top: int | None = None) -> pa.Table:
        """The answer now: by…, the id, the row's own time, probability, probability_error, attributes, what `keep`
        names, certainty.

        `certainty`: of each row whether it is in the skyline under every value that was imputed (`certain`), with a
        probability above alpha (`likely`), or only under some values (`possible`). Asked for one of these, it and those
        before it are given: `certain` rows alone, the answer (`likely`), or also rows that are out though they may be
        in.
        `alpha`: the answer cut at a higher probability than the query's.
        `top`: so many rows of each group that stand for the others, with the column `stands_for`: for how many each
        does. Those that were given last time are preferred, so that a screen is steady; which they were is remembered
        by this object, and not in snapshots.
        """
        groups = {key: group.live for key, group in self.groups.items()}
        return self._answers.table(groups, self.kinds, certainty, alpha, top)

    def stats(self) -> Mapping[str, Any]:
        """Counters since the start, and sizes now. O(live) and cheap: it may be asked for every second.

        Rows are judged only when they must be. So `shadows` and the `pruned_…` counters hold what has been found out so
        far; `tree()` compares all live rows and shows what is true now. Some counters in words:

        - `doubtful`: rules that do worse than the imputers behind them, or than when they were learnt (`scores()`);
        - `wrongly_sure`: those that are too sure where the last value is of some age (`scores_by_age()`);
        - `revised`: live rows whose sensor was read again; `revised_cells`: distributions that were made anew for it;
          `clipped`: how much of these, as probability, lay outside what the cells could still become;
        - `stale`, `removed`, `markers`, where the newest row of each id counts: rows older than what was known of their
          id; rows that removals ended; ids that have no current row but whose last (time, version) is kept, so that
          older rows are recognised as stale;
        - `sensors`: whose readings are remembered now; `sensors_forgotten`: that left since there were more than
          `max_sensors`.
        """
        groups = list(self.groups.values())
        sizes = [measure(group) for group in groups]
        names = sizes[0] if sizes else measure(self._new_group())
        totals = {name: self.counts_of_gone.get(name, 0) + sum(size[name] for size in sizes) for name in names}
        scores = self.scores()
        judged = {"scored": sum(each.cells for each in scores), "doubtful": sum(s.worse or s.drifts for s in scores)}
        judged["wrongly_sure"] = len({(s.attribute, s.rule) for s in self.scores_by_age() if s.wrongly_sure})
        tally = Tally() if self.chain is None else self.chain.tally
        state = self.intake.state
        hindsight = {"revised_cells": tally.revised, "clipped": tally.clipped, "unwatched": state.lost if state else 0}
        sensors = {"sensors": len(state.number) if state else 0, "sensors_forgotten": state.forgotten if state else 0}
        return {**self.counts, **judged, "groups": len(groups), **totals, **hindsight, **sensors}

    def scores(self) -> list[Score]:
        """How well missing values are imputed, by which rule, as seen on values that were hidden for a moment."""
        return listed(self.intake.scored, self.repository)

    def scores_by_age(self) -> list[Score]:
        """The same by how old the attribute's last value was: is what is imputed rightly less sure then?"""
        return by_age(self.intake.scored)

    def tree(self) -> list[Node]:
        """The skyline tree: which row guards which. O(live²).

        How many rows have no guard, and so may be answers: `sum(node.layer == 1 for node in monitor.tree())`.
        """
        self._of_skylines("The tree shows which row guards which")
        self._reveal()
        return [node for key, group in self.groups.items() for node in tree(group.live, key, self._show)]

    def check(self) -> None:
        """Assert every invariant of every group, and name the one that fails. For tests: O(live² · combinations)."""
        for group in self.groups.values():
            audit(group.live)

    def explain(self, id: Any) -> list[Explanation]:
        """Why is it in, or why out? One explanation per live row of that id.

        What was imputed for its missing values, at first and since its sensor has spoken again; which rows may beat it;
        at which values it would enter or leave; and which missing value would move it most. Where no row has just that
        id, one that is written the same is meant: `explain("57")` finds 57, and `explain(57)` finds "57".

        A row that another one surely dominates as long as it lives is forgotten. So an id without a live row has one
        explanation that is not `live`, or one per group that remembers it: `reason` states what is known, that the row
        was surely dominated, has expired or was removed, or only that it is one of these or never came.

        >>> query = Query(attributes={"gas": "max"}, id="sensor", time="t", lifetime=10)
        >>> monitor = Monitor(query)
        >>> _ = monitor.advance([{"sensor": "a", "t": 1, "gas": 5}, {"sensor": "b", "t": 1, "gas": 3}])
        >>> monitor.explain("b")[0].sentence
        "'b' is out of the answer: a row that lives at least as long surely beats it."
        """
        found = named(id, self.groups)
        slots: dict[GroupKey, list[int]] = {}
        for key, slot in found:
            slots.setdefault(key, []).append(slot)
        if not found:
            return not_live(id, self.groups, self._show, self.query)
        return [
            each
            for key, some in slots.items()
            for each in explained(self.groups[key].live, some, key, self._show, self.query, self.chain)
        ]

    def ask_next(self, k: int = 10) -> pa.Table:
        """What to measure next: the k missing cells whose true value would be expected to change the answer most.

        `changes` is the expected number of rows that enter or leave the answer if that one cell were known: exact over
        the cell's own distribution, all else as it is. Fewer than k: no other cell would change anything. Only the
        newest row of an id is asked for, in each group: what was missing before cannot be measured any more. Rows of
        more than 4,096 combinations of values (equal ones merged) are not counted among those that enter or leave.

        >>> query = Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
        >>> monitor = Monitor(query)
        >>> rows = [{"sensor": "a", "t": 1, "gas": 5, "oxygen": 20}]
        >>> rows += [{"sensor": "b", "t": 1, "gas": [(3, 1), (9, 3)], "oxygen": 20}]
        >>> _ = monitor.advance(1, rows)
        >>> monitor.answer()["sensor"].to_pylist()
        ['b']
        >>> monitor.ask_next().select(["sensor", "attribute", "changes", "low", "high"]).to_pylist()
        [{'sensor': 'b', 'attribute': 'gas', 'changes': 0.5, 'low': 3.0, 'high': 9.0}]

        With a gas of 3, `a` would enter and `b` leave; that is as likely as one in four.
        """
        self._of_skylines("What to measure next is worked out")
        groups = [(key, group.live) for key, group in self.groups.items()]
        return questions(groups, k, self.query, self.kinds)

    def _repr_html_(self) -> str:
        return html_of(self.answer())

    def snapshot(self) -> bytes:
        """All that `restore` needs to go on bit for bit: the live set, as flat arrays in one bytes object."""
        return save_monitor(self)

    @classmethod
    def restore(
        cls,
        query: Query,
        saved: bytes,
        repository: Repository | None = None,
        *,
        imputer: Imputer | ImputeFunction | None = None,
        remember: bool = True,
        hindsight: bool | None = None,
    ) -> Monitor:
        """The monitor that `snapshot` saved, for the same query and repository."""

        def make(exact_limit: int) -> Monitor:
            return cls(
                query, repository, exact_limit=exact_limit, imputer=imputer, remember=remember, hindsight=hindsight
            )

        return restore_monitor(saved, query, repository, make)

    def _new_group(self) -> Group:
        return new_group(self.query, self.chain, self.exact_limit, remembered(self.query, None))

    def _move(self, now: Any, read: Decoded | None) -> tuple[float, pa.DataType | None, Kinds]:
        """`now` as the clock counts, its kind, and the kinds of the stream then; an error where that would be wrong."""
        kinds = self.kinds if read is None else read.kinds
        until, kind = self._newest(read, kinds.time) if now is None else self._instant(now, kinds.time)
        if read is not None and now is not None:
            self._refuse_future(read, until)
        now_kind = join_kinds(self.now_kind, kind, "now")
        if kinds.time == INTEGER and now_kind == REAL:  # late rows enter at the clock: it must be shown as it is
            kinds = replace(kinds, time=REAL)
        return until, now_kind, kinds

    def _newest(self, read: Decoded | None, seen: pa.DataType | None) -> tuple[float, pa.DataType | None]:
        """The newest time of rows that can be taken, or where the clock stands; and its kind."""
        times = np.empty(0) if read is None else np.delete(read.arrived, list(read.refused))
        return max(self.clock, float(times.max(initial=-np.inf))), seen or self.now_kind

    def _instant(self, now: Any, seen: pa.DataType | None) -> tuple[float, pa.DataType]:
        """`now` as the clock counts, and its kind; `seen` is the kind of the rows' times."""
        try:
            read = instant(now.as_py() if isinstance(now, pa.Scalar) else now, seen or self.now_kind)
        except (ValueError, OverflowError, TypeError):
            raise ClockError(f"now is {now!r}, which is neither a number nor a timestamp.") from None
        if read is None or not isfinite(read[0]):
            raise ClockError(f"now is {now!r}; it is the finite time up to which the rows are complete.")
        value, kind = read
        if kind == REAL and value.is_integer():
            kind = INTEGER  # 3.0 is as good as 3
        try:
            join_kinds(seen, kind, "now")
            join_kinds(self.now_kind, kind, "now")
        except RowsError:
            raise ClockError(
                f"now is {now!r}, but the times in {self.query.time!r} are {seen or self.now_kind}."
            ) from None
        if value < self.clock:
            raise ClockError(f"now is {now!r}, but the clock stands at {self._show(self.clock)} already.")
        return value, kind

    def _refuse_future(self, read: Decoded, until: float) -> None:
        """`now` is the caller's: a row that is later cannot have arrived, and is rejected by name."""
        if read.refused or extent(read.arrived)[1] > until:
            kind = read.kinds.time
            for i in np.flatnonzero(read.arrived > until).tolist():
                if i not in read.refused:
                    times = time_text(read.arrived[i], kind), time_text(until, kind)
                    read.refused[i] = f"its time, {times[0]}, is later than now, {times[1]}"

    def _of_skylines(self, what: str) -> None:
        """Refuse what is there for skylines alone."""
        if self.query.skyband > 1:
            raise FoglineError(
                f"{what} in skylines, and this query asks for a skyband of {self.query.skyband}; leave skyband out."
            )

    def _reveal(self) -> None:
        for group in self.groups.values():
            group.live.reveal()

    def _drop_empty_groups(self) -> None:
        """A group without live rows, or markers of removed ones, has nothing to remember but its counters, once its
        newest instant is past."""
        for key, group in list(self.groups.items()):
            if not (group.live.alive or group.newest >= self.clock or group.remembers):
                del self.groups[key]
                for name, number in measure(group).items():
                    self.counts_of_gone[name] = self.counts_of_gone.get(name, 0) + number

    def _show(self, value: float) -> Any:
        return show_time(value, self.kinds.time)
