"""The whole way of a row.

read (impute) -> group -> tick by tick through the live set (skyline) -> changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.changes import Key, Tables
from fogline.errors import ClockError, FoglineError, RowsError
from fogline.impute.columns import instant, join_kinds, write_times
from fogline.impute.rows import Kinds, Reader, Rows
from fogline.kernels.clouds import Batch
from fogline.model import Node, Query, Reject
from fogline.skyline.explain import Explanation, explain
from fogline.skyline.group import Delta, Group
from fogline.skyline.store import join_groups, save_group, split_groups
from fogline.skyline.tree import audit, measure, tree
from fogline.snapshot import as_bytes, from_bytes, pack, unpack

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

    def __init__(self, query: Query, repository: None = None, *, places: int = 1_000_000) -> None:
        """`places`: up to how many places a row's probability is worked out exactly (beyond, it is bracketed)."""
        if not isinstance(query, Query):
            raise FoglineError(
                f"a monitor answers a Query, not {type(query).__name__}; use Query(…) or Query.load(path)."
            )
        if repository is not None:
            raise FoglineError(
                "this version has no repositories yet: rows bring distributions for their missing cells."
            )
        self.query = query
        self.places = places
        self.clock = -np.inf
        self.kinds = Kinds()
        self.groups: dict[Key, Group] = {}
        self.rejects: deque[Reject] = deque(maxlen=KEPT_REJECTS)
        self._reader, self._tables = Reader(query), Tables(query)
        self._counts = {"rows": 0, "rejected": 0, "outside_limits": 0}

    def advance(self, now: Any, rows: Any = None) -> pa.Table:
        """Move the clock to `now`, take in the rows that arrived, and return what changed in the answer.

        Rows may be of many instants up to `now`; they are taken tick by tick. O(rows · live set).
        """
        taken = self._reader.read(rows, self.kinds) if rows is not None and len(rows) else None
        until = self._instant(now, taken)
        if taken is None:
            parts: dict[Key, Batch] = {}
        else:
            self._admissible(taken, until)
            parts = self._admit(taken)
        deltas: list[tuple[Key, Delta]] = []
        for key, group in self.groups.items():
            deltas += ((key, delta) for delta in group.advance(self.clock, until, parts.get(key)))
        self.clock = until
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
        """Counters since the start, and sizes now. O(live²) at worst, for the size of layer 1."""
        groups = list(self.groups.values())
        sizes = [measure(group) for group in groups]
        names = sizes[0] if sizes else measure(Group(1, self.query.alpha, None, 1))
        return {**self._counts, "groups": len(groups), **{name: sum(size[name] for size in sizes) for name in names}}

    def tree(self) -> list[Node]:
        """The skyline tree: who guards whom. O(live²)."""
        return [node for key, group in self.groups.items() for node in tree(group.live, key, self._show)]

    def check(self) -> None:
        """Assert every invariant of every group, and say which one fails. For tests: O(live² · places)."""
        for group in self.groups.values():
            audit(group.live)

    def explain(self, id: Any) -> list[Explanation]:
        """Why is it in, or why out? One explanation per live row of that id; a forgotten row has none left."""
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
            "clock": self.clock,
            "counts": self._counts,
            "groups": [save_group(group) for group in self.groups.values()],
        }
        arrays = join_groups(list(self.groups.values()), len(self.query.names), self.kinds.id)
        for k, kind in enumerate(self.kinds.by):
            arrays[f"by_{k}"] = as_bytes([key[k] for key in self.groups], kind)
        arrays["time_kind"] = as_bytes([], self.kinds.time or pa.null())
        return pack(header, arrays)

    @classmethod
    def restore(cls, query: Query, saved: bytes, repository: None = None, *, places: int = 1_000_000) -> Monitor:
        """The monitor that `snapshot` saved, for the same query."""
        header, arrays = unpack(saved, query)
        monitor = cls(query, repository, places=places)
        monitor.clock, monitor._counts = header["clock"], header["counts"]
        by = [from_bytes(arrays[f"by_{k}"]) for k in range(len(query.by)) if f"by_{k}" in arrays]
        groups, id_kind = split_groups(header["groups"], arrays, query, places)
        keys = list(zip(*(values for values, _ in by), strict=True)) if query.by else [()] * len(groups)
        monitor.groups = dict(zip(keys, groups, strict=True))
        kinds = [from_bytes(arrays["time_kind"])[1], id_kind, *(kind for _, kind in by)]
        time, names, *keyed = (None if pa.types.is_null(kind) else kind for kind in kinds)
        monitor.kinds = Kinds(time, names, tuple(keyed))
        return monitor

    def _instant(self, now: Any, taken: Rows | None) -> float:
        read_now = instant(now) if not isinstance(now, pa.Scalar) else instant(now.as_py())
        if read_now is None:
            raise ClockError("now is missing: advance(now, rows) needs the time up to which rows are complete.")
        kinds = self.kinds if taken is None else taken.kinds
        if kinds.time is not None and pa.types.is_timestamp(kinds.time) != pa.types.is_timestamp(read_now[1]):
            raise ClockError(f"now is {now!r}, but the times in {self.query.time!r} are {kinds.time}.")
        if kinds.time is None:
            self.kinds = Kinds(join_kinds(None, read_now[1], "now"), self.kinds.id, self.kinds.by)
        if read_now[0] < self.clock:
            raise ClockError(f"now is {now!r}, but the clock stands at {self._show(self.clock)} already.")
        return read_now[0]

    def _admissible(self, taken: Rows, until: float) -> None:
        """Refuse the whole call, before anything has changed, where going on would be wrong."""
        batch, query = taken.batch, self.query
        if len(batch.id) and batch.arrived.max() > until:
            last = int(batch.arrived.argmax())
            raise ClockError(
                f"row {batch.id[last]!r} arrives at {self._show(batch.arrived[last], taken.kinds)}, after now "
                f"({self._show(until, taken.kinds)}); advance the clock at least to the newest row."
            )
        if taken.gaps and (gaps := np.isnan(batch.clouds.lo)).any():
            row, j = (int(each[0]) for each in np.nonzero(gaps))
            raise RowsError(
                f"{int(gaps.any(axis=1).sum())} of {len(batch.id)} rows lack a value or have it outside its limits "
                f"(row {batch.id[row]!r}: {query.names[j]!r}), and nothing says what it may be.\n"
                "Give such a cell a distribution, a list of (value, weight) pairs, or the monitor a repository."
            )

    def _admit(self, taken: Rows) -> dict[Key, Batch]:
        """Count the rows, put duplicates with the rejects, and split the others into groups."""
        batch = taken.batch
        self.kinds = taken.kinds
        self._counts["outside_limits"] += taken.outside
        rejects = list(taken.rejects)
        keys: list[Key] | None = None if not self.query.by else list(zip(*taken.by, strict=True))
        double = self._duplicates(batch, keys)
        if double:
            rejects += [Reject(taken.row(i), "a row with this id and time is there already") for i in double]
            left = np.setdiff1d(np.arange(len(batch.id)), double)
            batch, keys = batch.part(left), None if keys is None else [keys[k] for k in left]
        self.rejects.extend(rejects)
        self._counts["rejected"] += len(rejects)
        self._counts["rows"] += len(batch.id) + len(rejects)
        if keys is None:
            parts = {(): batch}
        else:
            rows_of: dict[Key, list[int]] = {}
            for i, key in enumerate(keys):
                rows_of.setdefault(key, []).append(i)
            parts = {key: batch.part(np.array(rows, np.int64)) for key, rows in rows_of.items()}
        for key in parts:
            if key not in self.groups:
                self.groups[key] = Group(len(self.query.names), self.query.alpha, self.query.last, self.places)
        return parts

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
        if not len(names) or batch.arrived.min() > self.clock:
            return again
        for k in np.flatnonzero(batch.arrived <= self.clock).tolist():
            group = self.groups.get(() if keys is None else keys[k])
            if group is not None and group.has(batch.id[k], batch.arrived[k]):
                again.append(k)
        return sorted(set(again))

    def _show(self, value: float, kinds: Kinds | None = None) -> Any:
        return write_times(np.array([value]), (kinds or self.kinds).time)[0].as_py()
