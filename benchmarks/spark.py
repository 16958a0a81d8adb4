"""How close is a streaming skyline to Spark's own speed?

    python -m benchmarks.spark

Throughput: the synthetic stream, 500,000 rows a micro-batch, through an identity `mapInArrow`, through a trivial
`transformWithStateInPandas` over the same rows, packed, and through `fogline.spark.watch` (every="batch"), in one
session, one after the other, twice; medians of warm batches.
Fixed cost: micro-batches of 100 rows, through `watch` and through a trivial `transformWithStateInPandas` that carries
one packed row and a state of the same size, with the same settings, time mode and timers.
Living: the same stream as readings of a thousand sensors, with and without the state of what each read before, and with
and without hindsight: gaps that are revised when their sensors have spoken again.
Groups: a thousand groups in one stream, held against one Monitor per group; and one group over 8 partitions of a table,
with 1 core of this machine and with 2. What Spark logs goes to a file.
Many: micro-batches in which each of 10,000 groups has a row; held against a trivial `transformWithStateInPandas` over
the same keys with a state of 1 KB a key.
Queries: micro-batches of 100,000 rows for ten queries over one stream, held against each of three of them alone.
Latest: the newest row of each id counts, every="batch": 200,000 ids in one group with 1,000 updates a micro-batch, and
10,000 groups of 20 ids with one update each; held against a trivial `transformWithStateInPandas` over the same keys
with a state of 1 KB a key.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, gettempdir
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

import fogline as fl
from fogline.rows.changes import answer_of
from fogline.spark.synthetic import register

D, MISSING, HISTORY, WINDOW, RATE = 4, 0.3, 120_000, 1_000_000, 1_000
SENSORS = 1_000
ONLY = ("throughput", "fixed", "groups", "many", "table", "living", "latest", "queries")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=12, help="measured in each turn, after as many to warm up")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--groups", type=int, default=10_000, help="so many groups, for --only many and --only latest")
    parser.add_argument("--only", choices=ONLY)
    parser.add_argument("--turns", type=int, default=3, help="of each way; the first does not count")
    asked = parser.parse_args()
    log = Path(gettempdir()) / "fogline-bench-spark.log"
    spark = fl.spark.session(master=f"local[{asked.cores}]", memory="4g", log=log)
    register(spark)
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # there is one group, as `fogline run` would see by itself
    query = fl.Query(
        attributes={f"a{j}": "max" for j in range(D)}, id="id", time="time", lifetime=WINDOW / RATE, alpha=0.5
    )
    history = stream(spark, start=10**12, rows=HISTORY, missing=0.0, reader=spark.read).toArrow()
    rules = [f"a{(j + 1) % D}(0.001) -> a{j}(0.001)" for j in range(D)]
    repository = fl.Repository.fit(history, query, rules=rules)
    if asked.only in (None, "throughput"):
        throughput(spark, query, repository, asked.batches, asked.rows, asked.turns)
    if asked.only in (None, "fixed"):
        fixed(spark, query, repository, asked.batches, asked.turns)
    if asked.only in (None, "living"):
        living(spark, query, asked.batches, asked.rows)
    if asked.only in (None, "groups"):
        groups(spark, query, repository)
    if asked.only in (None, "many"):
        many_groups(spark, query, repository, asked.batches, asked.groups, asked.turns)
    if asked.only in (None, "queries"):
        ten_queries(spark, query, repository, asked.batches, asked.turns)
    if asked.only in (None, "latest"):
        latest(spark, query, repository, asked.batches, asked.groups)
    if asked.only == "table":
        table(spark, query, repository)
    spark.stop()
    if asked.only in (None, "groups"):
        for cores in (1, 2):  # each needs a JVM of its own
            words = [sys.executable, "-m", "benchmarks.spark", "--only", "table", "--cores", str(cores)]
            allowed = sorted(os.sched_getaffinity(0))[
                :cores
            ]  # one task is several processes: they share what it may use
            subprocess.run(words, check=True, preexec_fn=partial(os.sched_setaffinity, 0, allowed))


def stream(spark: SparkSession, *, reader: Any, **options: Any) -> DataFrame:
    """The uniform stream of the paper; the history has other ids, and the same seeds."""
    given = {"distribution": "uniform", "d": D, "missing": MISSING, "m": 1, "seed": 7, "rate": RATE} | options
    return reader.format("fogline").options(**{name: str(value) for name, value in given.items()}).load()


def throughput(
    spark: SparkSession, query: fl.Query, repository: fl.Repository, batches: int, rows: int, turns: int
) -> None:
    def source() -> DataFrame:
        return stream(spark, reader=spark.readStream, batch=rows, partitions=spark.sparkContext.defaultParallelism)

    ways = {
        "identity mapInArrow": lambda: source().mapInArrow(identity, source().schema),
        "trivial packed transformWithState": lambda: trivial(source(), 1_000),
        "watch, every batch": lambda: fl.spark.watch(source(), query, repository, every="batch"),
    }
    base, stateful, watched = compared(ways, batches, rows, turns)
    print(f"watch reaches {watched / stateful:.0%} of the trivial stage, {watched / base:.0%} of the identity")


def compared(ways: dict[str, Callable[[], DataFrame]], batches: int, rows: int, turns: int = 3) -> list[float]:
    """Rows per second of each, taken in turns."""
    found: dict[str, list[Took]] = {name: [] for name in ways}
    for turn in range(turns):
        for name, way in ways.items():
            took = measured(way(), batches)
            found[name] += [took] if turn or turns == 1 else []  # the first turn warms the JVM and the workers
            print(f"  turn {turn}, {name}: {rows / median(took.seconds):,.0f} rows/s", end=", ")
            print(f"{took.cpu:.2f} CPU s a batch", flush=True)
    rates = {name: rows / median([each for took in some for each in took.seconds]) for name, some in found.items()}
    for name, rate in rates.items():
        cpu = median([took.cpu for took in found[name]])
        print(f"{name}: {rate:,.0f} rows/s, {cpu:.2f} CPU s a batch ({rows:,} rows a batch)")
    return list(rates.values())


def wandering(rows: DataFrame) -> DataFrame:
    """The same rows as readings of sensors whose values move with the time."""
    kept = rows.withColumn("id", F.col("id") % SENSORS)
    for j in range(D):
        wave = F.sin(F.col("time") * (j + 1) / 400 + F.col("id") * (j + 2))
        kept = kept.withColumn(f"a{j}", wave + F.col(f"a{j}") / 20)
    return kept


def living(spark: SparkSession, query: fl.Query, batches: int, rows: int) -> None:
    """What does it cost to remember what every sensor read?"""
    history = wandering(stream(spark, rows=HISTORY, missing=0.0, reader=spark.read)).toArrow()
    alive, dead = fl.Repository.fit(history, query), fl.Repository.fit(history, query, retention=0)
    assert alive.sensors is not None, "nothing was learnt: the comparison would be with itself"
    partitions = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))

    def source() -> DataFrame:
        start = HISTORY + 1
        return wandering(stream(spark, reader=spark.readStream, batch=rows, partitions=partitions, start=start))

    ways = {
        "watch": lambda: fl.spark.watch(source(), query, dead, every="batch"),
        "watch, living": lambda: fl.spark.watch(source(), query, alive, every="batch", hindsight=False),
        "watch, living, with hindsight": lambda: fl.spark.watch(source(), query, alive, every="batch", hindsight=True),
    }
    rates = compared(ways, batches, rows)
    print(f"with a living repository {rates[1] / rates[0]:.0%} of the rate without")
    print(f"with hindsight {rates[2] / rates[1]:.0%} of the rate of a living repository without it")


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def fixed(spark: SparkSession, query: fl.Query, repository: fl.Repository, batches: int, turns: int) -> None:
    monitor = fl.Monitor(query, repository)
    table = stream(spark, reader=spark.read, rows=WINDOW // 4).toArrow()
    monitor.advance(WINDOW // RATE, table)
    state = len(monitor.snapshot())

    def source() -> DataFrame:
        return stream(spark, reader=spark.readStream, batch=100, rate=100, start=10**9)

    ways: dict[str, Callable[[], DataFrame]] = {
        "trivial packed transformWithState": lambda: trivial(source(), state),
        "watch, every tick": lambda: fl.spark.watch(source(), query, repository),
        "watch, every batch": lambda: fl.spark.watch(source(), query, repository, every="batch"),
    }
    found: dict[str, list[Took]] = {name: [] for name in ways}
    for turn in range(turns):
        for name, way in ways.items():
            took = measured(way(), 4 * batches)
            found[name] += [took] if turn or turns == 1 else []
    print(f"micro-batches of 100 rows; the trivial state has {state / 1e3:.0f} KB")
    every = {name: median([each for took in some for each in took.seconds]) for name, some in found.items()}
    base = next(iter(every.values()))
    for name, each in every.items():
        cpu = median([took.cpu for took in found[name]])
        print(f"{name}: {each * 1e3:.0f} ms ({each / base:.2f}x), {cpu * 1e3:.0f} CPU ms")


def groups(spark: SparkSession, query: fl.Query, repository: fl.Repository, count: int = 1_000) -> None:
    """Is every group's answer that of a Monitor of its own?"""
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    apart = fl.Query.from_dict(query.to_dict() | {"by": ["site"], "lifetime": 50})
    df = stream(spark, reader=spark.readStream, rows=20 * count, batch=5 * count, rate=200, groups=count)
    with TemporaryDirectory() as folder:
        emitted: list[pa.Table] = []
        changes = fl.spark.watch(df, apart, repository)
        began = perf_counter()
        writer = changes.writeStream.outputMode("update").option("checkpointLocation", folder)
        writer = writer.foreachBatch(lambda batch, _: emitted.append(batch.toArrow()))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
    took = perf_counter() - began
    rows = stream(spark, reader=spark.read, rows=20 * count, rate=200, groups=count).toArrow()
    wrong = 0
    for site in sorted(set(rows["site"].to_pylist())):
        of_site = rows.filter(pc.equal(rows["site"], site))
        monitor = fl.Monitor(apart, repository)
        last = pc.max(of_site["time"]).as_py()
        monitor.advance(last, of_site)
        site_changes = [each.filter(pc.equal(each["site"], site)) for each in emitted]
        streamed = {row["id"]: row["probability"] for row in answer_of(site_changes, apart, last).to_pylist()}
        expected = {row["id"]: row["probability"] for row in monitor.answer().to_pylist()}
        wrong += streamed.keys() != expected.keys() or any(abs(streamed[k] - expected[k]) > 1e-9 for k in expected)
    print(f"{count:,} groups, {20 * count:,} rows in one stream: {took:.1f} s, {wrong} groups with a wrong answer")


def many_groups(
    spark: SparkSession, query: fl.Query, repository: fl.Repository, batches: int, count: int, turns: int
) -> None:
    """What does a micro-batch cost in which every one of many groups has rows?"""
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    apart = fl.Query.from_dict(query.to_dict() | {"by": ["site"], "lifetime": 20})
    rows = partial(stream, spark, reader=spark.readStream, batch=count, rate=count, groups=count, partitions=2)
    ways: dict[str, Callable[[], DataFrame]] = {
        "trivial": partial(_over, rows, partial(trivial, size=1_000, by="site")),
        "watch": partial(_over, rows, partial(fl.spark.watch, query=apart, repository=repository, every="batch")),
    }
    base, watched = (count / each for each in compared(ways, batches, count, turns))
    each = watched * spark.sparkContext.defaultParallelism / count
    print(
        f"{count:,} active groups, {count:,} rows a batch: {watched:.2f} s ({each * 1e6:,.0f} µs·core each)", end=", "
    )
    print(f"{watched / base:.2f}x a trivial stateful batch ({base:.2f} s)")


def ten_queries(
    spark: SparkSession, query: fl.Query, repository: fl.Repository, batches: int, turns: int, rows: int = 100_000
) -> None:
    """What do ten queries over one stream cost, against one?"""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    lives = (WINDOW / RATE, WINDOW / RATE / 4)
    some = {f"alpha {a}, lifetime {n:g}": {"alpha": a, "lifetime": n} for a in (0.3, 0.5, 0.7, 0.8, 0.9) for n in lives}
    queries = {name: fl.Query.from_dict(query.to_dict() | each) for name, each in some.items()}

    def source() -> DataFrame:
        return stream(spark, reader=spark.readStream, batch=rows, partitions=spark.sparkContext.defaultParallelism)

    def watched(asked: Any) -> DataFrame:
        return fl.spark.watch(source(), asked, repository, every="batch")

    ways: dict[str, Callable[[], DataFrame]] = {"ten queries": partial(watched, queries)}
    ways |= {name: partial(watched, queries[name]) for name in list(queries)[:3]}
    together, *alone = (rows / each for each in compared(ways, batches, rows, turns))
    print(f"ten queries: {together * 1e3:,.0f} ms, {together / np.mean(alone):.2f}x one", end=" ")
    print(f"({', '.join(f'{each * 1e3:,.0f} ms' for each in alone)})")


def _over(rows: Callable[[], DataFrame], way: Callable[[DataFrame], DataFrame]) -> DataFrame:
    return way(rows())


def latest(spark: SparkSession, query: fl.Query, repository: fl.Repository, batches: int, many: int) -> None:
    """What does it cost that a few of many ids change?"""
    newest = fl.Query.from_dict({**query.to_dict(), "lifetime": None, "latest": True, "by": ["site"]})
    for groups, ids, updates in ((1, 200_000, 1_000), (many, 20, many)):
        parts = 1 if groups == 1 else spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.shuffle.partitions", str(parts))
        rows = partial(changing, spark, groups, ids, updates)
        ways: dict[str, Callable[[], DataFrame]] = {
            "trivial": partial(_over, rows, partial(trivial, size=1_000, by="site")),
            "watch": partial(_over, rows, partial(fl.spark.watch, query=newest, repository=repository, every="batch")),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(2):
            for name, way in ways.items():
                took = measured(way(), batches).seconds
                seconds[name] += took
                print(f"  turn {turn}, {name}: {median(took) * 1e3:,.0f} ms, at most {max(took) * 1e3:,.0f} ms")
        base, watched = (median(each) for each in seconds.values())
        print(f"{groups:,} groups of {ids:,} ids, {updates:,} updates a batch: {watched * 1e3:,.0f} ms", end=", ")
        print(f"{watched / base:.2f}x a trivial stateful batch ({base * 1e3:,.0f} ms)")


def changing(spark: SparkSession, groups: int, ids: int, updates: int) -> DataFrame:
    """Every id once in the first micro-batch, and then so many updates in each."""
    made = stream(spark, reader=spark.readStream, batch=updates, rate=updates, partitions=2)
    many, number = groups * ids // updates, F.col("id")
    first, some = number < updates, F.pmod(F.hash(number, F.lit(1)), F.lit(ids))
    again = F.explode(F.when(first, F.sequence(F.lit(0), F.lit(many - 1))).otherwise(F.array(F.lit(0))))
    made = made.withColumn("copy", again).withColumn("number", number * many + F.col("copy"))
    cells = {
        f"a{j}": F.when(F.col(f"a{j}").isNotNull(), F.pmod(F.hash("number", F.lit(j)), F.lit(10**6)) / 1e6)
        for j in range(D)
    }
    site = F.when(first, F.col("number") % groups).otherwise(number % groups)
    found = F.when(first, (F.col("number") / groups).cast("long")).otherwise(some)
    return made.select(
        found.alias("id"), site.alias("site"), "time", *(each.alias(name) for name, each in cells.items())
    )


def table(spark: SparkSession, query: fl.Query, repository: fl.Repository, rows: int = 1_000_000) -> None:
    """One group over 8 partitions."""
    df = stream(spark, reader=spark.read, rows=rows, partitions=8)
    changes = fl.spark.watch(df, query, repository, every="batch")
    took = []
    for _ in range(4):
        began = perf_counter()
        count = changes.count()
        took.append(perf_counter() - began)
    cores = spark.sparkContext.defaultParallelism
    print(f"{rows:,} rows, 1 group, 8 partitions, {cores} core(s): {median(took[1:]):.2f} s, {count:,} in the answer")


def trivial(df: DataFrame, size: int, by: str | None = None) -> DataFrame:
    """Packs the rows of a batch, keeps a state of so many bytes and a timer, and hands a few rows on."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if by is not None:
                yield from pack_each(batch)
                continue
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            newest = pa.array([int(batch.column("time")[-1].as_py()) * 1_000_000]).cast(pa.timestamp("us", "UTC"))
            columns = [pa.array(["[]"]), pa.array([sink.getvalue().to_pybytes()], pa.binary()), newest]
            yield pa.record_batch(columns, ["group", "packed_rows", "event"])

    def pack_each(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        order = pc.sort_indices(batch.column(by))
        batch = batch.take(order)
        keys = batch.column(by).dictionary_encode().indices.to_numpy()
        ends = [*(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)] if len(keys) else []
        parts = [batch.slice(a, b - a) for a, b in zip([0, *ends], ends, strict=False)]
        packed = []
        for part in parts:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_batch(part)
            packed.append(sink.getvalue().to_pybytes())
        times = pa.array([int(part.column("time")[-1].as_py()) * 1_000_000 for part in parts], pa.int64())
        groups = pa.array([str(part.column(by)[0].as_py()) for part in parts], pa.string())
        columns = [groups, pa.array(packed, pa.binary()), times.cast(pa.timestamp("us", "UTC"))]
        yield pa.record_batch(columns, ["group", "packed_rows", "event"])

    packed = df.mapInArrow(pack, "group string, packed_rows binary, event timestamp")
    keyed = packed.withWatermark("event", "0 seconds").select("group", "packed_rows").groupBy("group")
    few = 20 if by is None else 2
    return keyed.transformWithStateInPandas(Trivial(size, few), "group string, rows long", "Update", "EventTime")


class Trivial(StatefulProcessor):  # type: ignore[misc]
    """Reads and rewrites its state, and moves its timer."""

    def __init__(self, size: int, few: int) -> None:
        self.size, self.few = size, few

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.state = handle.getValueState("group", "saved binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        parts = [bytes(each) for frame in rows for each in frame["packed_rows"]]
        count = sum(pa.ipc.open_stream(each).read_all().num_rows for each in parts)
        saved = self.state.get()
        self.state.update((bytes(self.size) if saved is None else bytes(saved[0]),))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 10**12)
        yield pd.DataFrame({"group": [key[0]] * self.few, "rows": [count] * self.few})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from ()

    def close(self) -> None:
        """Nothing is held."""


class Took(NamedTuple):
    """What micro-batches took."""

    seconds: list[float]  # each of them
    cpu: float  # seconds of all processes, for one of them


def measured(df: DataFrame, batches: int) -> Took:
    """Seconds of each micro-batch, after as many that do not count."""
    with TemporaryDirectory() as folder:
        running = df.writeStream.format("noop").outputMode("update").option("checkpointLocation", folder).start()
        before: tuple[int, float] | None = None
        try:
            while len(done := finished(running)) < 2 * batches:
                if running.exception() is not None:
                    raise RuntimeError(str(running.exception()))
                if before is None and len(done) >= batches:
                    before = len(done), cpu_seconds()
                sleep(0.02)
            assert before is not None
            cpu = (cpu_seconds() - before[1]) / (len(done) - before[0])
        finally:
            running.stop()
        return Took(done[batches : 2 * batches], cpu)


def cpu_seconds() -> float:
    """Of this process and all that it has started, so far. Only Linux knows; elsewhere 0."""
    stats = dict[int, list[str]]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    children: dict[int, list[int]] = {}
    for pid, each in stats.items():
        children.setdefault(int(each[1]), []).append(pid)
    found, total = [os.getpid()], 0
    while found:
        pid = found.pop()
        found += children.get(pid, [])
        total += sum(map(int, stats[pid][11:15])) if pid in stats else 0  # its own, and of children that have ended
    return float(total / os.sysconf("SC_CLK_TCK"))


def finished(running: Any) -> list[float]:
    """Seconds of the micro-batches that had rows."""
    return [p["durationMs"]["triggerExecution"] / 1e3 for p in running.recentProgress if p["numInputRows"] > 0]


if __name__ == "__main__":
    main()
