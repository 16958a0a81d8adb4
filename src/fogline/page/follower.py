"""What does an output hold now?

One thread calls `poll`: it asks the output for what has come since (`OutputReader.follow`), once for all viewers, and
gives an event that states what has changed.

Invariant: whatever was read is taken in whole, or not at all: where a file was joined with others meanwhile, all is
asked for again at the next poll.
"""

from __future__ import annotations

from collections import Counter
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
from fogline.output.about import asked_in, zone_in
from fogline.output.answers import News, OutputReader
from fogline.output.folder import GoneError
from fogline.page.state import ADDED, EACH, NAMES, Point, Row, State, encoded, keys_of, kinds_of, members_of
from fogline.page.views import Views
from fogline.pipeline.names import CHANGES
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

    def __init__(self, output: OutputReader) -> None:
        self.output = output
        self.lock = RLock()  # whatever changes the state, or encodes it, holds it
        self.state: State | None = None
        self.views = Views(output.place)
        self.trouble: str | None = None  # why there is nothing to show, in words
        self.version = 0  # grows with every event
        self.counted: Counter[str] = Counter()  # of what has come since this page was started: see `state.ADDED`
        self.last: tuple[Any, int] | None = None  # the run that was read last, and its last batch
        self._encoded: dict[str, tuple[int, bytes]] = {}

    # --- What the reading thread does --------------------------------------------------------------------------------

    def poll(self) -> list[Event]:
        """Read what has come since, and report it."""
        try:
            if not self.output.begun():
                return self._nothing(NO_RUN)
            about, before = self.output.about(), self.state
            known = before is not None and before.about == about
            news = self.output.follow(before.batch if before is not None and known else None)
            if before is not None and known:
                before.alarms = len(self.output.alarms())
            if news is None:
                return []
            return self._begin(news) if before is None or news.whole else self._add(before, news)
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

    def _begin(self, news: News) -> list[Event]:
        """All that is there, for the first time."""
        state = State(news.about, asked_in(news.about), alarms=len(self.output.alarms()))
        state.add_changes([table for _, table in news.changes])
        for table in news.health:
            state.add_health(table)
        self._count_past(state, news.batch)
        for table in news.reasons:
            state.add_reasons(table)
        self.views.begin(state.asked, news.batch)
        run = news.about.get("mark")
        seen = news.batch if not self.version else self.last[1] if self.last and self.last[0] == run else -1
        with self.lock:
            self._count([point for point in state.history.points if point.batch > seen], run, news.batch)
            self.state, self.trouble, state.batch = state, None, news.batch
            return [self._reset()]

    def _count(self, points: list[Point], run: Any, batch: int) -> None:
        """Batches that have come since the last look."""
        self.counted.update({name: sum(getattr(point, name) for point in points) for name in ADDED})
        self.last = run, batch

    def _count_past(self, state: State, newest: int) -> None:
        """What entered and left in batches that were there before; of very many, in the newest."""
        left = COUNTED
        for held, files in self.output.files(CHANGES, upto=newest, newest_first=True):
            for file in files:
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

    def _add(self, state: State, news: News) -> list[Event]:
        """The batches that have come since the last look."""
        before, changes = state.batch, list(news.changes)
        self.views.poll(news.batch)
        with self.lock:
            points = [point for table in news.health for point in state.add_health(table)]
            for table in news.reasons:
                state.add_reasons(table)
            recent: list[Row] = []
            for batch, table in changes:
                state.history.count(batch, kinds_of(table))
                recent += state.listed(table, batch)
            state.recent.extend(recent)
            touched = state.add_changes([table for _, table in changes])
            state.batch = news.batch
            self._count(points, news.about.get("mark"), news.batch)
            return [self._changed(state, before, points, touched, recent[-EACH:])]

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
        found: dict[str, Any] = {"output": self.output.name, "version": self.version, "trouble": self.trouble}
        if (state := self.state) is None:
            return found
        queries = [
            {
                "name": name,
                "attributes": [[each, way] for each, way in query.attributes.items()],
                "id": query.id,
                "arrived": query.arrived,
                "by": list(query.by),
                "kept": list(query.kept),
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
