"""Who is most dangerous now, since when, and what changed last?

An engine tells changes, for many ticks at a time; they are added up tick by tick. The answer on the screen is the sum
of the changes, nothing else.

Invariant: what is known after a tick, scores included, does not depend on how the engine cut the stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fogline.demo.accuracy import Score
from fogline.demo.mine import ATTRIBUTES, OPENING, Floats, Mine
from fogline.demo.shift import Heard

SAMPLE_EVERY = 5  # ticks
WORTH_TELLING = 0.15  # a smaller move of a probability is not in the news


@dataclass(frozen=True, slots=True)
class Told:
    """What an engine says of one batch."""

    changes: pa.Table
    clock: datetime | None  # every tick up to here is complete; None: no row has come
    live: int = 0  # rows in the live set
    seconds: float = 0.0  # that it took


@dataclass(frozen=True, slots=True)
class News:
    """A sensor entered or left the answer, or became clearly more or less likely."""

    when: datetime
    what: Literal["enter", "leave", "update"]
    sensor: str
    before: float | None  # probability, None = not in the answer
    after: float | None


class Watch:
    """What was heard from the mine, and what the engine says about it."""

    def __init__(self, sensors: int, alpha: float) -> None:
        self.alpha = alpha
        self.names = Mine(sensors, seed=0).names
        self.number = {name: i for i, name in enumerate(self.names)}
        self.score = Score(sensors)
        self.low, self.high = (np.full((sensors, len(ATTRIBUTES)), np.nan) for _ in range(2))  # (n, 4) of the window
        self.heard: deque[Heard] = deque()  # ticks on their way through the engine …
        self.changes: deque[dict[str, Any]] = deque()  # … and what came out of it, but is not yet added up
        self.now = OPENING  # the last tick that is complete
        self.clock: datetime | None = None  # what the engine told last
        self.ticks = self.rows = self.incomplete = self.missing = self.live = 0
        self.times: list[float] = []  # seconds per batch
        self.members: dict[tuple[str, datetime], float] = {}  # the answer: (sensor, arrived) -> probability
        self.since: dict[str, datetime] = {}  # how long each sensor has been in without a break
        self.news: deque[News] = deque(maxlen=40)

    @property
    def answer(self) -> dict[str, float]:
        """Sensor -> probability. Of a sensor only one row is in the window."""
        return {sensor: probability for (sensor, _), probability in self.members.items()}

    @property
    def window(self) -> int:
        """How many rows count now: one per sensor that was heard."""
        return int((~np.isnan(self.low[:, 0])).sum())

    @property
    def median_ms(self) -> float:
        """The median time of a batch so far, in milliseconds."""
        return float(np.median(self.times)) * 1e3 if self.times else 0.0

    def cells(self, sensor: str) -> tuple[Floats, Floats, Floats]:
        """The values of its row, NaN where lost, and the least and the greatest that each may be (4,)."""
        i = self.number[sensor]
        return self.score.known[i], self.low[i], self.high[i]

    def hear(self, ticks: Iterable[Heard]) -> None:
        """These are on their way through the engine."""
        self.heard.extend(ticks)
        self._catch_up()

    def follow(self, told: Told) -> None:
        """Take the ticks that are now complete, one by one."""
        changes = told.changes.select(["time", "id", "arrived", "change", "probability"]).to_pylist()
        self.changes.extend(sorted(changes, key=lambda change: change["time"]))
        self.live = told.live
        self.clock = told.clock
        self.times.append(told.seconds)
        self._catch_up()

    def _catch_up(self) -> None:
        while self.heard and self._complete(self.heard[0]):
            tick = self.heard.popleft()
            self.now = tick.reports.when
            self._add_up()
            self._take(tick)

    def _complete(self, tick: Heard) -> bool:
        """Nothing happens at a tick without reports, so nobody tells that it is over."""
        return not len(tick.reports.who) or (self.clock is not None and tick.reports.when <= self.clock)

    def _add_up(self) -> None:
        """Add up the changes to now, and tell what they mean for each sensor."""
        before, changes = self.answer, self.changes
        while changes and changes[0]["time"] <= self.now:
            change = changes.popleft()
            row = (change["id"], change["arrived"])
            if change["change"] == "leave":
                del self.members[row]
            else:
                self.members[row] = change["probability"]
        after = self.answer
        for sensor in sorted(before.keys() | after.keys()):
            self._tell(sensor, before.get(sensor), after.get(sensor))

    def _take(self, tick: Heard) -> None:
        reports = tick.reports
        self.ticks += 1
        self.rows += len(reports.who)
        self.incomplete += int(reports.lost.any(axis=1).sum())
        self.missing += int(reports.lost.sum())
        self.low[reports.who], self.high[reports.who] = tick.low, tick.high
        self.score.take(reports, tick.mean)
        if self.ticks % SAMPLE_EVERY == 1:
            self.score.compare({self.number[sensor] for sensor in self.answer})

    def _tell(self, sensor: str, before: float | None, after: float | None) -> None:
        """A new row of a sensor that stays in is no news: only its probability is."""
        if before is None:
            self.since[sensor] = self.now
            self.news.append(News(self.now, "enter", sensor, before, after))
        elif after is None:
            del self.since[sensor]
            self.news.append(News(self.now, "leave", sensor, before, after))
        elif abs(after - before) >= WORTH_TELLING:
            self.news.append(News(self.now, "update", sensor, before, after))
