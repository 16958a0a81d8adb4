"""What did a row's sensor say before it, wherever the row lies?

Sensors are dealt into a fixed number of buckets; each has its memory as state, so buckets work in parallel and every
reading is remembered exactly once, as any state of Spark is. The rows of a bucket come as one value per partition and
leave as one; those with gaps take their context along, in a column of its own, and from
there on nobody needs to know who said what: screening and groups go on as with rows that know nothing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.arrays import Ints
from fogline.flow.keys import Key, keyed
from fogline.flow.parcel import table_from_bytes, table_to_bytes
from fogline.flow.plan import Plan
from fogline.flow.screening import CHUNK, readable, slices
from fogline.impute.chain import CONTEXT
from fogline.impute.scoring import chosen
from fogline.repository.sensors.state import Name, SensorState, sensor_names
from fogline.rows.columns import Reasons
from fogline.rows.reader import Reader
from fogline.rows.source import RowSource
from fogline.snapshot import pack_memory, unpack_memory

BUCKETS = 8  # of sensors; a checkpoint holds one memory for each

_DEALT = "bucket int, rows binary"


def remembering(df: DataFrame, plan: Plan) -> DataFrame:
    """The rows, packed in the only column; those with gaps know what their sensors said before."""
    dealt = df.mapInArrow(_dealing(plan), _DEALT)
    if not df.isStreaming:
        return dealt.groupBy("bucket").applyInArrow(_all_at_once(plan), "rows binary")
    return dealt.groupBy("bucket").transformWithStateInPandas(Rememberer(plan), "rows binary", "Update", "None")


def _dealing(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def dealing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in slices(batches, CHUNK):
            keys, code = keyed(batch, (*plan.query.by, plan.query.id))
            bucket = np.array([bucket_of(name_of(key)) for key in keys], np.int64)[code]
            order = np.argsort(bucket, kind="stable")
            ends = np.searchsorted(bucket[order], np.arange(BUCKETS + 1))
            rows = pa.Table.from_batches([batch.take(pa.array(order))])
            parts = [(k, rows.slice(ends[k], ends[k + 1] - ends[k])) for k in range(BUCKETS) if ends[k] < ends[k + 1]]
            packed = pa.array([table_to_bytes(part) for _, part in parts], pa.binary())
            yield pa.record_batch([pa.array([k for k, _ in parts], pa.int32()), packed], ["bucket", "rows"])

    return dealing


def name_of(key: Key) -> Name:
    """What the sensor of this key is called in a memory."""
    *groups, name = json.loads(key)
    return sensor_names([name], [tuple(groups)])[0]


def bucket_of(name: Name) -> int:
    """In which bucket the sensor of this name lies, today and after a restart."""
    return zlib.crc32(json.dumps(name).encode()) % BUCKETS


def _all_at_once(plan: Plan) -> Callable[[Any, pa.Table], pa.Table]:
    def all_at_once(key: Any, table: pa.Table) -> pa.Table:
        parts = [table_from_bytes(each.as_py()) for each in table.column("rows")]
        told, _ = Recaller(plan).take(key[0].as_py(), None, parts)
        return pa.table({"rows": pa.array([table_to_bytes(told)], pa.binary())})

    return all_at_once


class Recaller:
    """Gives rows their context, from the memory of a bucket."""

    def __init__(self, plan: Plan) -> None:
        assert plan.imputer is not None
        assert plan.imputer.sensors is not None
        self.plan, self.imputer, self.sensors = plan, plan.imputer, plan.imputer.sensors
        self.reader = Reader(plan.query)

    def take(self, bucket: int, state: bytes | None, parts: list[pa.Table]) -> tuple[pa.Table, bytes]:
        """The rows with their contexts, and the state after them."""
        memory = self._wake(bucket, state)
        rows = pa.concat_tables(parts).combine_chunks()
        batch = rows.to_batches()[0]
        refused: Reasons = {}
        source = RowSource(readable(batch, self.plan, refused))
        read = self.reader.numbers(source, None, refused)
        keys, code = keyed(batch, (*self.plan.query.by, self.plan.query.id))
        known = self.imputer.known(lambda _: None, read.clouds)[:, self.imputer.readings]
        able = np.isfinite(read.arrived)
        able[list(refused)] = False
        names = [name_of(key) for key in keys]
        able &= ~np.array([name[-1] is None for name in names])[code]
        which = np.flatnonzero(able)
        gaps = np.asarray(np.isnan(known[which]).any(axis=1))
        gaps[chosen(read.arrived[which], self.imputer.single(read.clouds)[which])[0]] = True  # they will be asked
        who, mine = np.unique(code[which], return_inverse=True)
        told = memory.update([names[k] for k in who], read.arrived[which], known[which], gaps, mine.reshape(-1))
        return rows.append_column(CONTEXT, _listed(told, which[gaps], batch.num_rows)), pack_memory(memory)

    def _wake(self, bucket: int, state: bytes | None) -> SensorState:
        if state is not None:
            return unpack_memory(state, self.sensors.empty_state())
        return self.sensors.state([k for k, name in enumerate(self.sensors.known_sensors) if bucket_of(name) == bucket])


def _listed(told: Any, which: Ints, n: int) -> pa.Array:
    """(n,) lists of numbers: the contexts of the rows `which`, null for the others."""
    width = np.zeros(n, np.int64)
    width[which] = told[0].size if len(told) else 0
    ends = pa.array(np.concatenate(([0], np.cumsum(width))).astype(np.int32))
    return pa.ListArray.from_arrays(ends, pa.array(told.reshape(-1)), mask=pa.array(width == 0))


class Rememberer(StatefulProcessor):
    """What Spark calls for each bucket of a micro-batch."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("memory", "saved binary")
        self.recaller: Recaller | None = None  # made when it is needed: Spark also calls this where there are no rows

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        self.recaller = self.recaller or Recaller(self.plan)
        parts = [table_from_bytes(bytes(each)) for frame in rows for each in frame["rows"]]
        found = self.state.get()
        told, state = self.recaller.take(int(key[0]), None if found is None else bytes(found[0]), parts)
        self.state.update((state,))
        yield pd.DataFrame({"rows": [table_to_bytes(told)]})

    def close(self) -> None:
        """Nothing is held."""
