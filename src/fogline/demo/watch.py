"""Who is most dangerous now, since when, and what changed last?

One tick goes mine -> control room -> Monitor -> changes. The answer on the screen is the sum of the changes, nothing
else; the Monitor is never asked for it again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter
from typing import Literal

import numpy as np
import pyarrow as pa

from fogline.demo.mine import ATTRIBUTES, OPENING, PERIOD, STEP, Mine
from fogline.demo.room import ControlRoom
from fogline.demo.score import Score
from fogline.model import Query
from fogline.monitor import Monitor

SAMPLE_EVERY = 5  # ticks
WORTH_TELLING = 0.15  # a smaller move of a probability is not in the news


@dataclass(frozen=True, slots=True)
class News:
    """A sensor entered or left the answer, or became clearly more or less likely."""

    when: datetime
    what: Literal["enter", "leave", "update"]
    sensor: str
    before: float | None  # probability, None = not in the answer
    after: float | None


class Watch:
    """A mine, the room that hears it, and the Monitor that keeps the answer."""

    def __init__(self, sensors: int, seed: int, alpha: float) -> None:
        lifetime = PERIOD * STEP  # a reading counts until the sensor's next one
        self.query = Query(attributes=ATTRIBUTES, id="sensor", time="ts", lifetime=lifetime, alpha=alpha)
        self.mine = Mine(sensors, seed)
        self.room = ControlRoom(self.mine.names, self.mine.history())
        self.monitor = Monitor(self.query)
        self.score = Score(sensors)
        self.number = {name: i for i, name in enumerate(self.mine.names)}
        self.now = OPENING
        self.ticks = self.rows = self.incomplete = self.missing = 0
        self.times: list[float] = []  # seconds per tick
        self.members: dict[tuple[str, datetime], float] = {}  # the answer: (sensor, arrived) -> probability
        self.since: dict[str, datetime] = {}  # how long each sensor has been in without a break
        self.news: deque[News] = deque(maxlen=40)

    @property
    def answer(self) -> dict[str, float]:
        """Sensor -> probability. Of a sensor only one row is in the window."""
        return {sensor: probability for (sensor, _), probability in self.members.items()}

    @property
    def median_us(self) -> float:
        """The median time of a tick so far, in microseconds."""
        return float(np.median(self.times)) * 1e6 if self.times else 0.0

    def tick(self) -> None:
        """Let the next tick happen."""
        reports = self.mine.tick()
        rows = self.room.take(reports)
        start = perf_counter()
        changes = self.monitor.advance(reports.when, rows)
        self.times.append(perf_counter() - start)
        self.now = reports.when
        self.ticks += 1
        self.rows += len(rows)
        self.incomplete += int(reports.lost.any(axis=1).sum())
        self.missing += int(reports.lost.sum())
        self._follow(changes)
        self.score.take(reports, rows)
        if self.ticks % SAMPLE_EVERY == 1:
            self.score.compare({self.number[sensor] for sensor in self.answer})

    def _follow(self, changes: pa.Table) -> None:
        """Add the changes up, and tell what they mean for each sensor."""
        before = self.answer
        for change in changes.select(["id", "arrived", "change", "probability"]).to_pylist():
            row = (change["id"], change["arrived"])
            if change["change"] == "leave":
                del self.members[row]
            else:
                self.members[row] = change["probability"]
        after = self.answer
        for sensor in sorted(before.keys() | after.keys()):
            self._tell(sensor, before.get(sensor), after.get(sensor))

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


def warm_up(alpha: float) -> None:
    """Run a small mine for four minutes, so that every kernel the demo needs is compiled."""
    watch = Watch(sensors=60, seed=0, alpha=alpha)
    while watch.now < OPENING + timedelta(minutes=4):
        watch.tick()
    watch.monitor.stats()
