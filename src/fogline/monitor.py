"""The whole way of a row.

read (impute) -> group -> tick by tick through the live set (skyline) -> changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Delta
from fogline.errors import ClockError, FoglineError, RowsError, SnapshotError
from fogline.impute.chain import Chain
from fogline.impute.function import ImputeFunction, check_teller
from fogline.impute.function import told as told_by
from fogline.impute.scoring import Score, Scorer, Sums, add, chosen, from_plain, plain
from fogline.kernels.clouds import extent
from fogline.model import Node, Query, Reject
from fogline.repository.repository import Repository
from fogline.rows.changes import Key, Tables
from fogline.rows.columns import INTEGER, REAL, instant, join_kinds, write_times
from fogline.rows.reader import Kinds, Reader, Rows
from fogline.rows.source import RowSource
from fogline.skyline.explain import Explanation, explain
from fogline.skyline.group import Group
from fogline.skyline.store import join_groups, save_group, split_groups
from fogline.skyline.tree import audit, measure, tree
from fogline.snapshot import as_bytes, from_bytes, pack, pack_memory, unpack, unpack_memory

KEPT_REJECTS = 10_000


class Monitor:
    """Keeps the skyline of a stream, tick by tick: rows in, changes of the answer out. No JVM, no Spark.

    >>> from fogline import Query
    >>> query = Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
    >>> monitor = Monitor(query)
    >>> a = {"sensor": "a", "t": 1, "gas": 5, "oxygen": 19}
    >>> b = {"sensor": "b", "t": 1, "gas": [(3, 1), (9, 3)], "oxygen": 20}
    >>> monitor.advance(1, [a, b]).select(["id", "change", "probability"]).to_pylist()
    [{'id': 'a', 'change': 'enter', 'probability': 1.0}, {'id': 'b', 'change': 'enter', 'probability': 0.75}]
    """

    def __init__(
        self,
        query: Query,
        repository: Repository | None = None,
        *,
        places: int = 1_000_000,
        eager: bool = False,
        imputer: ImputeFunction | None = None,
        remember: bool = True,
    ) -> None:
        """A monitor for rows that bring their own distributions, or with a repository that gives them.

        `places`: up to how many places a row's probability is worked out exactly (beyond, it is bracketed).
        `eager`: impute every row as it comes instead of when it matters; the answers are the same.
        `imputer`: a function that is asked first what a missing value may be, see `fogline.impute.knn`.
        `remember`: keep what each sensor said lately, if the repository knows their sensors; without, rows are told by
        rules alone.
        """
        if not isinstance(places, int) or places < 1:
            raise FoglineError(f"places is {places!r}; it counts places, so it is a whole number of at least 1.")
        if not isinstance(query, Query):
            raise FoglineError(
                f"a monitor answers a Query, not {type(query).__name__}; use Query(…) or Query.load(path)."
            )
        check_teller(imputer)
        self.query, self.teller = query, imputer
        self.places = places
        self.clock = -np.inf
        self._told: pa.DataType | None = None  # the kind of the last `now`
        self.kinds = Kinds()
        self.groups: dict[Key, Group] = {}
        self.rejects: deque[Reject] = deque(maxlen=KEPT_REJECTS)
        self.imputer = None if repository is None else Chain(repository, query)
        sensors = None if repository is None or not remember else repository.sensors
        if sensors is not None:
            sensors.check_keys(query)
        self.memory = None if sensors is None else sensors.state()
        self._reader, self._tables = Reader(query, self.imputer), Tables(query)
        self.eager = eager
        scoring = remember and imputer is None  # what somebody else tells is not ours to judge
        self._scorer = Scorer(self.imputer) if self.imputer is not None and scoring else None
        self._scores: Sums = {}
        self._past: dict[str, int] = {}  # counters of groups that are gone
        self._counts = {"rows": 0, "rejected": 0, "outside_limits": 0, "incomplete": 0}

    def advance(self, now: Any, rows: Any = None, *, ticks: bool = True) -> pa.Table:
        """Move the clock to `now`, take in the rows that arrived, and return what changed in the answer.

        Rows may be of many instants up to `now`; they are taken tick by tick. Without `ticks` only the answer at `now`
        is looked at, and the changes lead there from the answer last told. O(rows · live set).
        """
        refused: list[Reject] = []
        if self.teller is not None and _any(rows):
            rows, refused = self._told_by(rows)
        taken = self._reader.read(rows, self.kinds) if _any(rows) else None
        until, told = self._instant(now, (self.kinds if taken is None else taken.kinds).time)
        parts: dict[Key, Batch] = {}
        if taken is not None:
            self._admissible(taken, until)
            parts = self._admit(taken, refused)
        else:
            self._refuse(refused)
        self._told = join_kinds(self._told, told, "now")
        if self.kinds.time == INTEGER and self._told == REAL:  # late rows enter at the clock: it must be shown as it is
            self.kinds = replace(self.kinds, time=REAL)
        deltas: list[tuple[Key, Delta]] = []
        for key, group in self.groups.items():
            deltas += [(key, delta) for delta in group.advance(self.clock, until, parts.get(key), ticks)]
        self.clock = until
        self._forget_empty_groups()
        if len(self.groups) > 1:
            deltas.sort(key=lambda pair: pair[1].time)
        return self._tables.build(deltas, self.kinds)

    def answer(self) -> pa.Table:
        """The answer now: by…, id, arrived, probability, exact, attributes as they came."""
        parts = []
        for key, group in self.groups.items():
            s, c = group.live.slots, group.live.slots.columns
            who = s.by_key(group.live.members())
            same = np.zeros(len(who), np.int64)
            delta = Delta(self.clock, s.id[who], c.arrived[who], same, c.probability[who], c.exact[who], s.raw[who])
            parts.append((key, delta))
        return self._tables.build(parts, self.kinds).drop_columns(["time", "change"])

    def stats(self) -> Mapping[str, int]:
        """Counters since the start, and sizes now. O(live²) at worst, for the size of layer 1.

        Rows are judged only when they must be, so `shadows` and the `pruned_…` counters tell what has been found out so
        far: a row that waits under an earlier guard is not counted yet. `tree()` says what is true now. `doubtful`
        counts rules that do worse than what would be told without them, or than when they were learnt: see `scores()`.
        """
        groups = list(self.groups.values())
        sizes = [measure(group) for group in groups]
        names = sizes[0] if sizes else measure(Group(1, self.query.alpha, None, 1))
        past = self._past
        totals = {name: past.get(name, 0) + sum(size[name] for size in sizes) for name in names}
        scores = self.scores()
        judged = {"scored": sum(each.cells for each in scores), "doubtful": sum(s.worse or s.drifts for s in scores)}
        return {**self._counts, **judged, "groups": len(groups), **totals}

    def scores(self) -> list[Score]:
        """How well missing values are told, by whom, as seen on values that were hidden for a moment."""
        return [] if self._scorer is None else self._scorer.listed(self._scores)

    def tree(self) -> list[Node]:
        """The skyline tree: who guards whom. O(live²)."""
        self._reveal()
        return [node for key, group in self.groups.items() for node in tree(group.live, key, self._show)]

    def _reveal(self) -> None:
        for group in self.groups.values():
            group.live.reveal()

    def check(self) -> None:
        """Assert every invariant of every group, and say which one fails. For tests: O(live² · places)."""
        for group in self.groups.values():
            audit(group.live)

    def explain(self, id: Any) -> list[Explanation]:
        """Why is it in, or why out? One explanation per live row of that id; a forgotten row has none left."""
        self._reveal()
        return [
            explain(group.live, int(slot), key, self._show(group.live.slots.columns.arrived[slot]), self.query)
            for key, group in self.groups.items()
            for slot in group.live.slots.alive()
            if group.live.slots.id[slot] == id
        ]

    def snapshot(self) -> bytes:
        """All that `restore` needs to go on bit for bit: the live set, as flat arrays in one bytes object."""
        header = {
            "query": self.query.fingerprint(),
            "repository": None if self.imputer is None else self.imputer.repository.fingerprint,
            "clock": self.clock,
            "places": self.places,
            "counts": self._counts,
            "past": self._past,
            "scores": plain(self._scores),
            "groups": [save_group(group) for group in self.groups.values()],
        }
        arrays = join_groups(list(self.groups.values()), len(self.query.names), self.kinds.id)
        for k, kind in enumerate(self.kinds.by):
            arrays[f"by_{k}"] = as_bytes([key[k] for key in self.groups], kind)
        arrays["time_kind"] = as_bytes([], self.kinds.time or pa.null())
        arrays["told_kind"] = as_bytes([], self._told or pa.null())
        if self.memory is not None:
            arrays["memory"] = np.frombuffer(pack_memory(self.memory), np.uint8)
        return pack(header, arrays)

    @classmethod
    def restore(
        cls,
        query: Query,
        saved: bytes,
        repository: Repository | None = None,
        *,
        imputer: ImputeFunction | None = None,
        remember: bool = True,
    ) -> Monitor:
        """The monitor that `snapshot` saved, for the same query and repository."""
        header, arrays = unpack(saved, query)
        if header["repository"] != (None if repository is None else repository.fingerprint):
            need = "no repository" if header["repository"] is None else "another repository"
            raise SnapshotError(f"this snapshot was taken with {need}; restore it with the one it was taken with.")
        monitor = cls(query, repository, places=header["places"], imputer=imputer, remember=remember)
        if (monitor.memory is None) is ("memory" in arrays):
            what = "remembered" if monitor.memory is None else "did not remember"
            raise SnapshotError(f"this snapshot was taken by a monitor that {what} what sensors said; see `remember`.")
        if monitor.memory is not None:
            monitor.memory = unpack_memory(arrays["memory"].tobytes(), monitor.memory)
        monitor.clock, monitor._counts = header["clock"], header["counts"]
        monitor._past, monitor._scores = header["past"], from_plain(header["scores"])
        by = [from_bytes(arrays[f"by_{k}"]) for k in range(len(query.by)) if f"by_{k}" in arrays]
        groups, id_kind = split_groups(header["groups"], arrays, query, monitor._new_group)
        keys = list(zip(*(values for values, _ in by), strict=True)) if query.by else [()] * len(groups)
        monitor.groups = dict(zip(keys, groups, strict=True))
        kinds = [from_bytes(arrays[name])[1] for name in ("told_kind", "time_kind")]
        kinds += [id_kind, *(kind for _, kind in by)]
        monitor._told, time, names, *keyed = (None if pa.types.is_null(kind) else kind for kind in kinds)
        monitor.kinds = Kinds(time, names, tuple(keyed))
        return monitor

    def _instant(self, now: Any, seen: pa.DataType | None) -> tuple[float, pa.DataType]:
        """`now` as the clock counts, and its kind; `seen` is the kind of the rows' times."""
        try:
            told = instant(now.as_py() if isinstance(now, pa.Scalar) else now)
        except (ValueError, OverflowError, TypeError):
            raise ClockError(f"now is {now!r}, which is neither a number nor a timestamp.") from None
        if told is None or not np.isfinite(told[0]):
            raise ClockError(f"now is {now!r}; it is the finite time up to which the rows are complete.")
        value, kind = told
        if kind == REAL and value.is_integer():
            kind = INTEGER  # 3.0 is as good as 3
        try:
            for other in (seen, self._told):
                join_kinds(other, kind, "now")
        except RowsError:
            raise ClockError(
                f"now is {now!r}, but the times in {self.query.time!r} are {seen or self._told}."
            ) from None
        if value < self.clock:
            raise ClockError(f"now is {now!r}, but the clock stands at {self._show(self.clock)} already.")
        return value, kind

    def _admissible(self, taken: Rows, until: float) -> None:
        """Refuse the whole call, before anything has changed, where going on would be wrong."""
        batch, query = taken.batch, self.query
        if len(batch.id) and extent(batch.arrived)[1] > until:
            last = int(batch.arrived.argmax())
            raise ClockError(
                f"row {batch.id[last]!r} arrives at {self._show(batch.arrived[last], taken.kinds)}, after now "
                f"({self._show(until, taken.kinds)}); advance the clock at least to the newest row."
            )
        if self.imputer is None and taken.gaps and (gaps := np.isnan(batch.clouds.lo)).any():
            row, j = (int(each[0]) for each in np.nonzero(gaps))
            raise RowsError(
                f"{int(gaps.any(axis=1).sum())} of {len(batch.id)} rows lack a value or have it outside its limits "
                f"(row {batch.id[row]!r}: {query.names[j]!r}), and nothing says what it may be.\n"
                "Give such a cell a distribution, a list of (value, weight) pairs, or the monitor a repository"
                f"{'' if query.outside == 'reject' or not query.limits else '; or set outside to reject'}."
            )

    def _told_by(self, rows: Any) -> tuple[Any, list[Reject]]:
        """The rows with what the user's function tells, and those that cannot be read."""
        assert self.teller is not None
        filled, unread = told_by(rows, self.query, self.teller)
        source = RowSource(rows)
        refused = [Reject(source.row(i), unread[i]) for i in sorted(unread)]
        left = np.setdiff1d(np.arange(filled.num_rows), list(unread)) if unread else None
        return filled if left is None else filled.take(pa.array(left)), refused

    def _admit(self, taken: Rows, before: list[Reject]) -> dict[Key, Batch]:
        """Count the rows, put duplicates with the rejects, and split the others into groups."""
        batch = taken.batch
        self.kinds = taken.kinds
        self._counts["outside_limits"] += taken.outside
        rejects = [*before, *taken.rejects]
        keys: list[Key] | None = None if not self.query.by else list(zip(*taken.by, strict=True))
        refused = dict.fromkeys(self._duplicates(batch, keys), "a row with this id and time is there already")
        names = np.arange(len(batch.id))
        if refused:
            names = np.setdiff1d(names, list(refused))
            batch, keys = batch.part(names), None if keys is None else [keys[k] for k in names]
        self._recall(batch, keys)
        if self.imputer is not None and taken.gaps:
            hopeless = self.imputer.hopeless(batch.known, np.isnan(batch.clouds.lo))
            if hopeless:
                left = np.setdiff1d(np.arange(len(batch.id)), list(hopeless))
                refused |= {int(names[i]): reason for i, reason in hopeless.items()}
                batch, keys = batch.part(left), None if keys is None else [keys[k] for k in left]
        rejects += [Reject(taken.row(i), refused[i]) for i in sorted(refused)]
        if self.imputer is not None and taken.gaps:
            batch = self._impute(batch)
        self._refuse(rejects)
        self._counts["rows"] += len(batch.id)
        if keys is None:
            parts = {(): batch}
        else:
            rows_of: dict[Key, list[int]] = {}
            for i, key in enumerate(keys):
                rows_of.setdefault(key, []).append(i)
            parts = {key: batch.part(np.array(rows, np.int64)) for key, rows in rows_of.items()}
        for key in parts:
            if key not in self.groups:
                self.groups[key] = self._new_group()
        return parts

    def _refuse(self, rejects: list[Reject]) -> None:
        self.rejects.extend(rejects)
        self._counts["rejected"] += len(rejects)
        self._counts["rows"] += len(rejects)

    def _recall(self, batch: Batch, keys: list[Key] | None) -> None:
        """Let rows with gaps know what their sensors said before; now and then hide a value, and keep score."""
        imputer, hidden = self.imputer, None
        if imputer is None:
            return
        if self._scorer is not None:
            single = imputer.single(batch.clouds)
            hidden, which = chosen(batch.arrived, single)
        if self.memory is not None:
            imputer.recall(self.memory, batch, keys, hidden)
        if self._scorer is not None and hidden is not None and len(hidden):
            add(self._scores, self._scorer.score(batch.known[hidden], single[hidden], which))

    def _impute(self, batch: Batch) -> Batch:
        """Bounds for what is missing; with `eager`, distributions at once."""
        assert self.imputer is not None
        gaps = np.isnan(batch.clouds.lo)
        self._counts["incomplete"] += int(np.count_nonzero(gaps.any(axis=1)))
        if self.eager:
            return batch._replace(clouds=self.imputer.fill(batch.clouds, batch.known, gaps))
        return batch._replace(clouds=self.imputer.bound(batch.clouds, batch.known, gaps))

    def _forget_empty_groups(self) -> None:
        """A group without live rows has nothing to remember but its counters, once its newest instant is past."""
        if len(self.groups) > 1:
            for key, group in list(self.groups.items()):
                if group.live.alive == 0 and group.window is None and group.newest < self.clock:
                    del self.groups[key]
                    for name, number in measure(group).items():
                        self._past[name] = self._past.get(name, 0) + number

    def _new_group(self) -> Group:
        query, imputer = self.query, self.imputer
        if imputer is None:
            return Group(len(query.names), query.alpha, query.last, self.places)
        return Group(len(query.names), query.alpha, query.last, self.places, imputer.width, imputer.fill)

    def _duplicates(self, batch: Batch, keys: list[Key] | None) -> list[int]:
        """Rows whose group, id and arrival occurred before, in this call or as far as the live set remembers."""
        again: list[int] = []
        names: list[Any] = batch.id.tolist()
        if len(set(names)) < len(names):  # ids repeat: look again with all that names a row
            names = list(zip(names, batch.arrived.tolist(), keys or names, strict=True))
            seen: set[Any] = set()
            for i, name in enumerate(names):
                if name in seen:
                    again.append(i)
                seen.add(name)
        if not len(names) or extent(batch.arrived)[0] > self.clock:
            return again
        for k in np.flatnonzero(batch.arrived <= self.clock).tolist():
            group = self.groups.get(() if keys is None else keys[k])
            if group is not None and group.has(batch.id[k], batch.arrived[k]):
                again.append(k)
        return sorted(set(again))

    def _show(self, value: float, kinds: Kinds | None = None) -> Any:
        return write_times(np.array([value]), (kinds or self.kinds).time)[0].as_py()


def _any(rows: Any) -> bool:
    """Is there anything to read? What has no length is left to the reader to refuse."""
    return rows is not None and (not hasattr(rows, "__len__") or len(rows) > 0)
