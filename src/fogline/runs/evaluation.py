"""What does one batch change, if all stages run in this process?

As on any engine: rows are decoded and screened (or dealt to the buckets of their sensors, and screened there), parcels
meet the state of their groups, then the timers fire that the watermark has reached: the greatest event time of the
batches before. State, cells and timers are entries of `EmbeddedState`. Groups stay loaded between batches as long as
there is room, so their states are written, and hardly ever read.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from fogline.pipeline import stages
from fogline.pipeline.decode import NOW, asks_now
from fogline.pipeline.exchange import Parcel
from fogline.pipeline.loaded import LoadedGroup
from fogline.pipeline.plans import AnyPlan, kin_of, kin_of_bucket, parcel_of, split_key
from fogline.pipeline.report import Journal
from fogline.pipeline.runner import Keepers, Outcome
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.time_buckets import stretches
from fogline.pipeline.watermark import Farthest, HeardPair, event
from fogline.rows.names import Key
from fogline.runs.embedded_state import EmbeddedState, Entry

LOADED = 64_000_000  # bytes of the states of groups that stay loaded; loaded, they are about four times as large
LEAST = 20_000  # bytes that a loaded group counts as, at least

_GROUP, _TIMER, _WATERMARK, _PAIRS = "group", "timer", Entry("watermark"), "pairs"


class Evaluation:
    """The stages of a plan, over one state."""

    def __init__(self, plan: AnyPlan, state: EmbeddedState) -> None:
        self.plan, self.state = plan, state
        self.keepers = Keepers(plan)
        self.kin = kin_of(plan)
        self.sensors = [SensorStage(kin.plan) for kin in self.kin if plan.deals]
        self.timers = {key: int(saved) for key, saved in state.all(_TIMER)}
        self.loaded: OrderedDict[Key, tuple[LoadedGroup, int]] = OrderedDict()
        self.room = LOADED
        before, watermark = json.loads(state.get(_WATERMARK) or b"[0, 0]")
        self.before: int = before  # the watermark that the last batch had, an event time in milliseconds
        self.watermark: int = watermark  # and that the next one will have
        self.farthest = {name: Farthest.from_plain(json.loads(saved)) for name, saved in state.all(_PAIRS)}  # by query

    @property
    def moves(self) -> bool:
        """Whether a batch without rows would change something: the watermark has moved, and has reached a timer."""
        return self.watermark > self.before and any(due <= self.watermark for due in self.timers.values())

    def take(self, rows: Iterable[pa.RecordBatch], now: int) -> Iterator[Journal]:
        """What is reported of each group that rows or time have reached; `now`: the machine's clock."""
        watermark, parcels = self.watermark, dict[Key, list[Parcel]]()
        for out in self._parcels(with_now(rows, self.plan, now)):
            columns = (out.column(name).to_pylist() for name in ("group", "parcel"))
            for key, packed in zip(*columns, strict=True):
                parcels.setdefault(key, []).append(parcel_of(self.plan, key, packed))
            times = out.column("event").cast(pa.int64()).drop_null().to_pylist()
            self.watermark = max([self.watermark, *(time // 1000 for time in times)])
        for key in list(parcels):
            some = parcels.pop(key)
            yield self._turn(key, some, None)
            self._hear(key, [pair for parcel in some for pair in parcel.pairs])
        for key in sorted(
            key for key, due in self.timers.items() if due <= watermark
        ):  # in one order, as after a restart
            yield self._turn(key, [], watermark)
        if (watermark, self.watermark) != (self.before, watermark):
            self.state.put(_WATERMARK, json.dumps([watermark, self.watermark]).encode())
        self.before = watermark

    def _parcels(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self.plan.deals:
            yield from stages.screened(self.plan, rows)
            return
        packets: dict[int, list[bytes]] = {}
        for out in stages.dealt(self.plan, rows):
            columns = (out.column(name).to_pylist() for name in ("bucket", "packet"))
            for bucket, packet in zip(*columns, strict=True):
                packets.setdefault(bucket, []).append(packet)
        for bucket in sorted(packets):
            entry, cells = Entry("bucket", str(bucket)), self.state.cells("bucket readings", str(bucket))
            number, own = kin_of_bucket(self.plan, bucket)
            found, then = self.sensors[number].take(own, self.state.get(entry), packets.pop(bucket), cells)
            if then is not None:
                self.state.put(entry, then)
            yield stages.as_batch(self.kin[number], found)

    def _turn(self, key: Key, parcels: list[Parcel], watermark: int | None) -> Journal:
        known, size = self.loaded.pop(key, (None, 0))
        self.room += size
        found = self.state.get(Entry(_GROUP, key)) if known is None else known
        cells, parts, pages = (self.state.cells(name, key) for name in ("cells", "parts", "pages"))
        outcome = self.keepers.take(key, found, parcels, watermark=watermark, cells=cells, parts=parts, pages=pages)
        self._keep(key, outcome)
        return outcome.journal

    def _hear(self, key: Key, pairs: list[HeardPair]) -> None:
        """The watermark follows the pairs of small slices, but for rows that are held: see `watermark.Farthest`."""
        if not pairs or key not in self.loaded:
            return
        name, plan, own = split_key(self.plan, key)
        reach = self.loaded[key][0].ahead.ground + 1 if plan.ahead < math.inf else math.inf
        newest = np.array([each.newest for each in pairs])
        taken = [each for each, s in zip(pairs, stretches(newest, plan.ahead), strict=True) if s <= reach]
        before = self.farthest.get(name or "", Farthest())
        then = before.with_pairs(
            (each._replace(name=each.name ^ zlib.crc32(own.encode())) for each in taken), plan.ahead
        )
        if then != before:
            self.farthest[name or ""] = then
            self.state.put(Entry(_PAIRS, name or ""), json.dumps(then.to_plain()).encode())
            self.watermark = max(self.watermark, event(plan.kind, then.clock - plan.lateness) or 0)

    def _keep(self, key: Key, outcome: Outcome) -> None:
        if outcome.state is None:
            self.state.remove(Entry(_GROUP, key))
        else:
            self.state.put(Entry(_GROUP, key), outcome.state)
            size = len(outcome.state) if outcome.group.log is None else outcome.group.log.size
            self.loaded[key] = outcome.group, max(size, LEAST)
            self.room -= max(size, LEAST)
            while self.room < 0 and len(self.loaded) > 1:
                self.room += self.loaded.popitem(last=False)[1][1]
        if outcome.timer is None:
            self.timers.pop(key, None)
            self.state.remove(Entry(_TIMER, key))
        elif self.timers.get(key) != outcome.timer:
            self.timers[key] = outcome.timer
            self.state.put(Entry(_TIMER, key), str(outcome.timer).encode())


def with_now(rows: Iterable[pa.RecordBatch], plan: AnyPlan, now: int) -> Iterable[pa.RecordBatch]:
    """The rows with the machine's clock, if they are compared with it."""
    if not asks_now(plan):
        return rows
    kind = pa.timestamp("us", "UTC")
    return (each.append_column(NOW, pa.repeat(pa.scalar(now, kind), each.num_rows)) for each in rows)
