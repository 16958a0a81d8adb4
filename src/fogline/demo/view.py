"""Which places are most dangerous now, since when, and what changed last?

An engine reports changes, for many ticks at a time; they are added up tick by tick. The answer on the screen is the sum
of the changes, nothing else.

Invariant: what is known after a tick, comparisons included, does not depend on how the engine cut the stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fogline.demo.comparison import TruthComparison
from fogline.demo.mine import ATTRIBUTES, OPENING, Floats, Mine
from fogline.demo.shift import ShiftTick

SAMPLE_EVERY = 5  # ticks
LOOKED_AT = ["time", "sensor", "ts", "change", "probability", "reason", "beaten_by"]
WORTH_SHOWING = 0.15  # a smaller move of a probability is not shown


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What an engine reports of one batch."""

    changes: pa.Table
    clock: datetime | None  # every tick up to here is complete; None: no row has come
    live: int = 0  # rows in the live set
    seconds: float = 0.0  # that it took


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A sensor entered or left the answer, or became clearly more or less likely."""

    when: datetime
    what: Literal["enter", "leave", "update"]
    sensor: str
    before: float | None  # probability, None = not in the answer
    after: float | None
    why: str = ""  # of one that leaves: what put it out
    gaps: tuple[tuple[int, float, float], ...] = ()  # of one that is in: attributes that it lacks, and their ranges


class MineView:
    """What happened in the mine, and what the engine answers."""

    def __init__(self, sensors: int, alpha: float, *, latest: bool = False) -> None:
        self.alpha, self.latest = alpha, latest
        self.names = Mine(sensors, seed=0).names
        self.number = {name: i for i, name in enumerate(self.names)}
        self.comparison = TruthComparison(sensors)
        self.low, self.high = (np.full((sensors, len(ATTRIBUTES)), np.nan) for _ in range(2))  # (n, 4) of the window
        self.pending: deque[ShiftTick] = deque()  # ticks on their way through the engine …
        self.changes: deque[dict[str, Any]] = deque()  # … and what came out of it, but is not yet added up
        self.now = OPENING  # the last tick that is complete
        self.clock: datetime | None = None  # the last that the engine reported
        self.ticks = self.rows = self.incomplete = self.missing = self.live = 0
        self.times: list[float] = []  # seconds per batch
        self.members: dict[tuple[str, datetime | None], float] = {}  # the answer: (sensor, ts) -> probability; …
        # … by the sensor alone, where its newest reading is asked for: its changes are those of one row
        self.since: dict[str, datetime] = {}  # how long each sensor has been in without a break
        self.recent: deque[AnswerChange] = deque(maxlen=40)

    @property
    def answer(self) -> dict[str, float]:
        """Sensor -> probability. Of a sensor only one row is in the window."""
        return {sensor: probability for (sensor, _), probability in self.members.items()}

    @property
    def window(self) -> int:
        """How many rows count now: one per sensor that has reported."""
        return int((~np.isnan(self.low[:, 0])).sum())

    @property
    def median_ms(self) -> float:
        """The median time of a batch so far, in milliseconds."""
        return float(np.median(self.times)) * 1e3 if self.times else 0.0

    def cells(self, sensor: str) -> tuple[Floats, Floats, Floats]:
        """The values of its row, NaN where lost, and the least and the greatest that each may be (4,)."""
        i = self.number[sensor]
        return self.comparison.known[i], self.low[i], self.high[i]

    def expect(self, ticks: Iterable[ShiftTick]) -> None:
        """These are on their way through the engine."""
        self.pending.extend(ticks)
        self._catch_up()

    def follow(self, report: BatchReport) -> None:
        """Take the ticks that are now complete, one by one."""
        changes = report.changes.select(LOOKED_AT).to_pylist()
        self.changes.extend(sorted(changes, key=lambda change: change["time"]))
        self.live = report.live
        self.clock = report.clock
        self.times.append(report.seconds)
        self._catch_up()

    def _catch_up(self) -> None:
        while self.pending and self._complete(self.pending[0]):
            tick = self.pending.popleft()
            self.now = tick.reports.when
            self._take(tick)
            self._add_up()
            if self.ticks % SAMPLE_EVERY == 1:
                self.comparison.compare({self.number[sensor] for sensor in self.answer})

    def _complete(self, tick: ShiftTick) -> bool:
        """Nothing happens at a tick without reports, so no change reports that it is over."""
        return not len(tick.reports.who) or (self.clock is not None and tick.reports.when <= self.clock)

    def _add_up(self) -> None:
        """Add up the changes to now, and note what they mean for each sensor."""
        before, changes, why = self.answer, self.changes, {}
        while changes and changes[0]["time"] <= self.now:
            change = changes.popleft()
            row = (change["sensor"], None if self.latest else change["ts"])
            if change["change"] == "leave":
                del self.members[row]
                why[change["sensor"]] = _why(change)
            else:
                self.members[row] = change["probability"]
        after = self.answer
        for sensor in sorted(before.keys() | after.keys()):
            self._note(sensor, before.get(sensor), after.get(sensor), why.get(sensor, ""))

    def _take(self, tick: ShiftTick) -> None:
        reports = tick.reports
        self.ticks += 1
        self.rows += len(reports.who)
        self.incomplete += int(reports.lost.any(axis=1).sum())
        self.missing += int(reports.lost.sum())
        self.low[reports.who], self.high[reports.who] = tick.low, tick.high
        self.comparison.take(reports, tick.mean)

    def _note(self, sensor: str, before: float | None, after: float | None, why: str) -> None:
        """A new row of a sensor that stays in is no change: only its probability may be."""
        if before is None:
            self.since[sensor] = self.now
            self.recent.append(AnswerChange(self.now, "enter", sensor, before, after, gaps=self._gaps(sensor)))
        elif after is None:
            del self.since[sensor]
            self.recent.append(AnswerChange(self.now, "leave", sensor, before, after, why))
        elif abs(after - before) >= WORTH_SHOWING:
            self.recent.append(AnswerChange(self.now, "update", sensor, before, after, gaps=self._gaps(sensor)))

    def _gaps(self, sensor: str) -> tuple[tuple[int, float, float], ...]:
        """What its row lacks."""
        known, low, high = self.cells(sensor)
        return tuple((j, float(low[j]), float(high[j])) for j in np.flatnonzero(np.isnan(known)).tolist())


def _why(change: dict[str, Any]) -> str:
    """What put a row out, in a few words."""
    reason = change["reason"]
    if reason == "beaten" and change["beaten_by"] is not None:
        return f"beaten by {change['beaten_by']}"
    return {"expired": "its reading is too old", "replaced": "its newer reading is better"}.get(reason, reason or "")
