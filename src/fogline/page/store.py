"""What does an output hold now?

One thread calls `poll`: it reads the batches that have come since, once for all viewers, and gives an event that states
what has changed. A batch counts when its health is there, which a run writes after its changes.

Invariant: whatever was read is taken in whole, or not at all: a file that was joined with others meanwhile is looked
for again at the next poll. Where batches that were seen have been joined with some that were not, all is read anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import CHANGES as WORDS
from fogline.arrays import LEAVE
from fogline.errors import FoglineError
from fogline.impute.scores import by_age, listed, wrongly_sure
from fogline.output.about import read_about, read_alarms, zone_in
from fogline.output.compaction import read_stand, stand_names, tables
from fogline.output.files import Held, KeptFile, counted, refuse_hole
from fogline.output.folder import Folder, GoneError, again
from fogline.page.state import EACH, NAMES, Point, Row, State, encoded, keys_of, kinds_of, members_of
from fogline.page.views import Views
from fogline.pipeline.names import CHANGES, HEALTH, HERE, REJECTS
from fogline.queries import asked_from
from fogline.query import Query

SENT = 10_000  # rows of an answer that a browser is given, at most
COUNTED = 1_000_000  # changes that are counted when a page is opened on an output that is there
NO_RUN = "no run yet"


@dataclass(frozen=True)
class Event:
    """Something that all viewers hear of; encoded once for all."""

    name: str  # batch: what has changed; reset: all is to be asked for again
    data: bytes

    @cached_property
    def frame(self) -> bytes:
        """As it is sent to each of them."""
        return b"event: %b\ndata: %b\n\n" % (self.name.encode(), self.data)


class Follower:
    """An output that is followed."""

    def __init__(self, place: Folder, output: str) -> None:
        self.place, self.output = place, output
        self.lock = RLock()  # whatever changes the state, or encodes it, holds it
        self.state: State | None = None
        self.views = Views(place)
        self.trouble: str | None = None  # why there is nothing to show, in words
        self.version = 0  # grows with every event
        self._encoded: dict[str, tuple[int, bytes]] = {}

    # --- What the reading thread does --------------------------------------------------------------------------------

    def poll(self) -> list[Event]:
        """Read what has come since, and report it."""
        try:
            about = read_about(self.place)
            if about is None:
                return self._nothing(NO_RUN)
            if HERE not in about.get("sinks", [HERE]):
                raise FoglineError(f"{self.output!r} holds the checkpoint of a run alone: its batches go elsewhere.")
            if self.state is None or self.state.about != about:
                return self._begin(about)
            self.state.alarms = len(read_alarms(self.place))
            return self._follow(self.state)
        except GoneError:  # joined meanwhile
            return []
        except FoglineError as error:
            return self._nothing(str(error))
        except Exception as error:  # the thread that reads goes on, and the page states what is wrong
            return self._nothing(f"the output cannot be read: {type(error).__name__}: {error}")

    def _nothing(self, why: str) -> list[Event]:
        with self.lock:
            if self.trouble == why and self.state is None:
                return []
            self.state, self.trouble = None, why
            return [self._reset()]

    def _reset(self) -> Event:
        self.version += 1
        return Event("reset", encoded({"version": self.version}))

    def _begin(self, about: dict[str, Any]) -> list[Event]:
        """All that is there, for the first time."""
        state = State(about, asked_from(about["query"]), alarms=len(read_alarms(self.place)))
        listed = counted(self.place.listing(HEALTH))
        newest = listed[-1].last if listed else -1
        stands = stand_names(self.place)
        stand = read_stand(self.place, stands[max(stands)]) if stands else None
        found = [] if stand is None or stand.answer is None else [stand.answer]
        after = -1 if stand is None else stand.number
        again(lambda: refuse_hole(self.place, self.output, after=after, kinds=[CHANGES]))
        for held in counted(self.place.listing(CHANGES)):
            if after < held.last <= newest:
                found += self._tables(held)
        state.add_changes(found)
        for table in tables(self.place, HEALTH, after=-1, upto=newest):
            state.add_health(table)
        self._count_past(state, newest)
        for table in tables(self.place, REJECTS, after=-1, upto=newest, columns=["reason"]):
            state.add_reasons(table)
        self.views.begin(state.asked, newest)
        with self.lock:
            self.state, self.trouble, state.batch = state, None, newest
            return [self._reset()]

    def _count_past(self, state: State, newest: int) -> None:
        """What entered and left in batches that were there before; of very many, in the newest."""
        left = COUNTED
        for held in reversed(counted(self.place.listing(CHANGES))):
            for name in held.names if held.last <= newest else ():
                file = KeptFile(self.place, name)
                if (left := left - file.metadata.num_rows) < 0:
                    return
                if held.first == held.last:
                    state.history.count(held.last, kinds_of(file.read(columns=["change"])))
                else:
                    state.history.count_by_time(file.read(columns=["time", "change"]))
                if len(state.recent) < EACH and file.num_row_groups:
                    last = file.read_row_group(file.num_row_groups - 1)
                    for row in reversed(state.listed(last, held.last)):
                        state.recent.appendleft(row)

    def _follow(self, state: State) -> list[Event]:
        """The batches that have come since the last look."""
        before = state.batch
        fresh = [held for held in counted(self.place.listing(HEALTH)) if held.last > before]
        if not fresh:
            return []
        newest = fresh[-1].last
        again(lambda: refuse_hole(self.place, self.output, after=before, kinds=[CHANGES]))
        files = [held for held in counted(self.place.listing(CHANGES)) if before < held.last <= newest]
        if any(held.first <= before for held in (*fresh, *files)):
            return self._begin(state.about)
        health = [table for held in fresh for table in self._tables(held)]
        changes = [(held.last, table) for held in files for table in self._tables(held)]
        rejects = [held for held in counted(self.place.listing(REJECTS)) if before < held.last <= newest]
        reasons = [table for held in rejects for table in self._tables(held, ["reason"])]
        self.views.poll(newest)
        with self.lock:
            points = [point for table in health for point in state.add_health(table)]
            for table in reasons:
                state.add_reasons(table)
            recent: list[Row] = []
            for batch, table in changes:
                state.history.count(batch, kinds_of(table))
                recent += state.listed(table, batch)
            state.recent.extend(recent)
            touched = state.add_changes([table for _, table in changes])
            state.batch = newest
            return [self._changed(state, before, points, touched, recent[-EACH:])]

    def _tables(self, held: Held, columns: list[str] | None = None) -> list[pa.Table]:
        """The rows of files, a row group at a time."""
        files = [KeptFile(self.place, name) for name in held.names]
        return [file.read_row_group(k, columns) for file in files for k in range(file.num_row_groups)]

    def _changed(
        self,
        state: State,
        before: int,
        points: list[Point],
        touched: list[tuple[int, Query, pa.Table]],
        recent: list[Row],
    ) -> Event:
        self.version += 1
        if sum(last.num_rows for _, _, last in touched) > SENT:
            return self._reset()
        entered: list[Row] = []
        left: list[Row] = []
        for number, query, last in touched:
            gone = pc.equal(last["change"], WORDS[LEAVE])
            entered += members_of(last.filter(pc.invert(gone)), query, number)
            left += keys_of(last.filter(gone), query, number)
        data = {
            "version": self.version,
            "after": before,
            "batch": state.batch,
            "points": [point.plain() for point in points],
            "enter": entered,
            "leave": left,
            "changes": recent,
            "size": state.size,
            "views": self.views.version,
        }
        return Event("batch", encoded(data))

    # --- What is asked for -------------------------------------------------------------------------------------------

    def about(self) -> bytes:
        """What the page is about: queries, attributes, columns."""
        return self._once("about", self._about)

    def answer(self) -> bytes:
        """The answer now."""
        return self._once("answer", self._answer)

    def health(self) -> bytes:
        """How the run is doing, batch by batch, and its imputers."""
        return self._once("health", self._health)

    def changes(self, since: int) -> bytes:
        """The newest changes, one by one, of the batches after one."""
        with self.lock:
            rows = [] if self.state is None else [row for row in self.state.recent if row[0] > since]
        return encoded({"changes": rows})

    def _once(self, name: str, made: Callable[[], Any]) -> bytes:
        """Encoded once for all that ask, until something changes."""
        with self.lock:
            known = self._encoded.get(name)
            if known is None or known[0] != self.version:
                known = self._encoded[name] = self.version, encoded(made())
            return known[1]

    def _about(self) -> dict[str, Any]:
        found: dict[str, Any] = {"output": self.output, "version": self.version, "trouble": self.trouble}
        if (state := self.state) is None:
            return found
        queries = [
            {
                "name": name,
                "attributes": [[each, way] for each, way in query.attributes.items()],
                "id": query.id,
                "by": list(query.by),
                "alpha": query.alpha,
                "latest": query.latest,
            }
            for _, name, query in state.queries
        ]
        found |= {"zone": zone_in(state.about), "points": NAMES}
        return found | {"queries": queries, "explain": bool(state.about.get("explain"))}

    def _answer(self) -> dict[str, Any]:
        if (state := self.state) is None:
            return {"version": self.version, "batch": -1, "members": [], "size": 0}
        members = [
            row
            for number, name, query in state.queries
            if name in state.members
            for row in members_of(likeliest(state.members[name]), query, number)
        ]
        return {"version": self.version, "batch": state.batch, "members": members, "size": state.size}

    def _health(self) -> dict[str, Any]:
        if (state := self.state) is None:
            return {"points": [], "totals": {}, "scores": [], "reasons": []}
        scores = [
            [each.attribute, each.rule, each.cells, each.error, each.otherwise, each.central, each.worse, each.drifts]
            for each in listed(state.sums, None)
        ]
        return {
            "points": [point.plain() for point in state.history.points],
            "totals": state.history.totals(),
            "scores": scores,
            "doubts": wrongly_sure(by_age(state.sums)),
            "reasons": state.reasons.most_common(5),
        }


def likeliest(table: pa.Table) -> pa.Table:
    """The rows that a browser is given: those with the highest probability."""
    if table.num_rows <= SENT:
        return table
    return table.take(pc.select_k_unstable(table, SENT, [("probability", "descending")]))
