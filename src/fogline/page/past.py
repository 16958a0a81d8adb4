"""What was there at an earlier instant, and why is a row in or out?

Read from the files when a person asks, for a few askers at a time; the last few answers are kept as they were sent,
until one more batch is there: a group whose clock lags may still change what was at an earlier instant.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from threading import BoundedSemaphore, Lock
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.output.folder import again
from fogline.page.follower import Follower, likeliest
from fogline.page.state import State, encoded, groups_of, instants, members_of, texts
from fogline.page.views import Group, near_rows, next_rows
from fogline.pipeline.names import WHY
from fogline.queries import QUERY
from fogline.query import Query
from fogline.rows.changes import of_query
from fogline.rows.clock import as_instant

KEPT = 16  # answers of earlier instants
READING = 2  # askers at a time


class RowName(NamedTuple):
    """What names a row for a browser, as texts."""

    query: int  # its number
    group: Group
    id: str
    arrived: str | None  # None: the newest row of the id

    def why_in(self, table: pa.Table, name: str | None, query: Query) -> str | None:
        """Its last explanation in a table."""
        own = table if name is None else of_query(table, name)
        some = own.filter(_named(own[query.id], self.id))
        found = zip(groups_of(some, query), instants(some[query.arrived]), some[WHY].to_pylist(), strict=True)
        known = [
            why
            for group, arrived, why in found
            if why is not None and tuple(group) == self.group and self.arrived in (None, arrived)
        ]
        return known[-1] if known else None

    def why_in_file(self, file: Any, name: str | None, query: Query) -> str | None:
        """The same in a file; of row groups without the id, explanations are not read."""
        if WHY not in file.schema_arrow.names:
            return None
        columns = [*([] if name is None else [QUERY]), *query.by, query.id, query.arrived, WHY]
        for k in reversed(range(file.num_row_groups)):
            ids = file.read_row_group(k, columns=[query.id])[query.id]
            if pc.any(_named(ids, self.id)).as_py():
                found = self.why_in(file.read_row_group(k, columns=columns), name, query)
                if found is not None:
                    return found
        return None


def _named(ids: pa.ChunkedArray, wanted: str) -> Any:
    """Which ids are this one, as a browser names it."""
    if pa.types.is_string(ids.type):
        return pc.equal(ids, wanted)
    return pa.array([each == wanted for each in texts(ids)], pa.bool_())


class EarlierReader:
    """An output as it was."""

    def __init__(self, store: Follower) -> None:
        self.store, self.output = store, store.output
        self.kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self.lock, self.reading = Lock(), BoundedSemaphore(READING)

    def answer(self, at: str) -> bytes:
        """The answer at an instant."""

        def made(state: State) -> Any:
            shown = self.output.shown(at)
            members = [
                row
                for number, name, query in state.queries
                for row in members_of(likeliest(shown[name].rows), query, number)
            ]
            size = sum(each.rows.num_rows for each in shown.values())
            return {"at": at, "batch": self._batch(state, at), "members": members, "size": size}

        return self._kept(("answer", at), made)

    def near(self, at: str | None, group: Group = ()) -> bytes:
        """The rows near the answer, at an instant or now; of one group, if it is named."""

        def made(state: State) -> Any:
            table = self.store.views.near.all() if at is None else self.output.near(self._batch(state, at))
            return {"near": near_rows(table, state.queries, group)}

        return self._kept(("near", at, group), made)

    def next(self, at: str | None, group: Group = ()) -> bytes:
        """The cells to be measured, at an instant or now; of one group, if it is named."""

        def made(state: State) -> Any:
            table = self.store.views.next.all() if at is None else self.output.next(self._batch(state, at))
            return {"next": next_rows(table, state.queries, group)}

        return self._kept(("next", at, group), made)

    def explain(self, asked: RowName, at: str | None) -> bytes:
        """Why a row is in or out, as the run has written it down; {"why": null}: it has not."""

        def made(state: State) -> Any:
            if not state.about.get("explain"):
                return {"why": None, "explain": False}
            name, query = next((name, query) for k, name, query in state.queries if k == asked.query)
            batch = None if at is None else self._batch(state, at)
            found = again(lambda: self._in_near(asked, name, query, batch) or self._in_changes(asked, name, query, at))
            return {"why": None if found is None else json.loads(found, parse_constant=lambda _: None), "explain": True}

        return self._kept(("explain", asked, at), made)

    # --- How ---------------------------------------------------------------------------------------------------------

    def _kept(self, key: tuple[Any, ...], made: Callable[[State], Any]) -> bytes:
        """Made once of what the store has read so far, and kept for a while."""
        with self.store.lock:
            state, read = self.store.state, (self.store.version, self.store.views.version)
            if state is None:
                raise FoglineError(self.store.trouble or "no run yet")
        key = (*read, *key)
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        with self.reading:
            found = encoded(made(state))
        with self.lock:
            self.kept[key] = found
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        return found

    def _batch(self, state: State, at: str) -> int:
        """The last batch by an instant."""
        with self.store.lock:
            known = [point.time for point in state.history.points if point.time is not None]
            if not known:
                return -1
            stamps = not isinstance(known[-1], int | float)
            instant = as_instant(at, pa.scalar(known[-1]).type if stamps else pa.float64()).as_py()
            found = state.history.batch_at(instant)
        return -1 if found is None else found

    def _in_near(self, asked: RowName, name: str | None, query: Query, batch: int | None) -> str | None:
        """Among the rows near the answer: now in the newest file of its group, else in those up to a batch."""
        if batch is not None:
            return asked.why_in(self.output.near(batch), name, query)
        for file in self.store.views.files_of(name, asked.group):
            if (there := self.output.place.open(file)) is None:  # folded into another meanwhile
                return asked.why_in(self.output.near(), name, query)
            if (found := asked.why_in_file(pq.ParquetFile(there), name, query)) is not None:
                return found
        return None

    def _in_changes(self, asked: RowName, name: str | None, query: Query, at: str | None) -> str | None:
        """Beside its last change: a member that is not among the rows near the answer, since there are very many."""
        if at is not None:
            return None
        for file in self.output.changes_newest_first():
            if (found := asked.why_in_file(file, name, query)) is not None:
                return found
        return None
