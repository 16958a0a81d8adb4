"""How close does a streaming skyline over a topic come to an identity `mapInArrow` over the same topic, parsed?

    python -m benchmarks.kafka

A broker of our own (see tools/components.py) gets a topic of JSON messages, in two partitions; then it is read from its
beginning again and again, in turns: by Spark's `from_json` and an identity `mapInArrow`; by Fogline's own parser and an
identity; and by the pipeline of `fogline run` (every="batch"). Medians of warm batches, rows per second.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

import fogline as fl
from benchmarks.spark import finished, identity
from fogline.files.options import Options
from fogline.kafka.client import PER_BATCH, Address, TopicOptions
from fogline.kafka.topic import layout_of_topic
from fogline.spark.kafka import messages, reader
from fogline.spark.pipeline import plans_for, results
from fogline.synthetic import Stream, rows
from tests.integration.components.kafka import Broker, kafka, spark_jars

D, MISSING, HISTORY, WINDOW, RATE = 4, 0.3, 120_000, 1_000_000, 1_000
TOPIC, PARTITIONS = "readings", 2
AT_ONCE = 50_000  # rows that are sent at once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2, help="measured in each turn, after as many to warm up")
    parser.add_argument("--rows", type=int, default=PER_BATCH, help="of a micro-batch, as in `fogline run`")
    parser.add_argument("--turns", type=int, default=4, help="the first one warms up and does not count")
    asked = parser.parse_args()
    query = fl.Query(
        attributes={f"a{j}": "max" for j in range(D)}, id="id", time="time", lifetime=WINDOW / RATE, alpha=0.5
    )
    past = Stream(d=D, missing=0.0, seed=7, rate=RATE)
    rules = [f"a{(j + 1) % D}(0.001) -> a{j}(0.001)" for j in range(D)]
    history = pa.Table.from_batches([rows(past, 10**12, 10**12 + HISTORY)])
    repository = fl.Repository.fit(history, query, rules=rules)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {spark_jars()} pyspark-shell"
    with kafka() as broker:
        fill(broker, 2 * asked.batches * asked.rows)
        log = Path(gettempdir()) / "fogline-bench-kafka.log"
        spark = fl.spark.session(master="local[2]", memory="4g", log=log)
        spark.conf.set("spark.sql.shuffle.partitions", "1")
        ways = ways_of(spark, broker, query, repository, asked.rows)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(asked.turns):
            for name, way in ways.items():
                took = measured(way(), asked.batches)
                seconds[name] += took if turn else []
                print(f"  turn {turn}, {name}: {asked.rows / median(took):,.0f} rows/s", flush=True)
        spark.stop()
    rates = {name: asked.rows / median(took) for name, took in seconds.items()}
    for name, rate in rates.items():
        print(f"{name}: {rate:,.0f} rows/s ({asked.rows:,} rows a batch)")
    first, _, watched = rates.values()
    print(f"from Kafka, Fogline reaches {watched / first:.0%} of the identity over the parsed topic")


def fill(broker: Broker, count: int) -> None:
    """The stream, as JSON, dealt out to the partitions row by row."""
    broker.create(TOPIC, partitions=PARTITIONS)
    made = Stream(d=D, missing=MISSING, m=1, seed=7, rate=RATE)
    for begin in range(0, count, AT_ONCE):
        some = rows(made, begin, min(begin + AT_ONCE, count)).to_pylist()
        broker.send(TOPIC, (json.dumps(row).encode() for row in some), partition=lambda i: i % PARTITIONS)


def ways_of(
    spark: SparkSession, broker: Broker, query: fl.Query, repository: fl.Repository, per_batch: int
) -> dict[str, Callable[[], DataFrame]]:
    """The same topic, read in three ways."""
    address, options = Address.of(broker.url(TOPIC)), TopicOptions(per_batch=per_batch)
    layout = layout_of_topic(query, Options(), also=repository.determinants)
    read = reader(layout, address)
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(per_batch)}
    plain = "id long, time long, " + ", ".join(f"a{j} double" for j in range(D))

    def source() -> DataFrame:
        return messages(spark.readStream, address, options, layout, given)

    def by_spark() -> DataFrame:
        parsed = source().select(F.from_json(F.col("value").cast("string"), plain).alias("row")).select("row.*")
        return parsed.mapInArrow(identity, parsed.schema)

    def by_fogline() -> DataFrame:
        def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (rows.select(layout.columns.names) for rows in read(batches))

        return source().mapInArrow(rows_of, from_arrow_schema(layout.columns, True))

    def watched() -> DataFrame:
        df = source()
        plan = plans_for(df, query, repository, schema=layout.schema, every="batch", clock=layout.clock)
        return results(df, plan, None, read)

    return {"from_json, identity": by_spark, "Fogline's parser, identity": by_fogline, "Fogline": watched}


def measured(df: DataFrame, batches: int) -> list[float]:
    """Seconds of each micro-batch of the second half of the topic."""
    with TemporaryDirectory() as folder:
        writer: Any = df.writeStream.format("noop").outputMode("update").option("checkpointLocation", folder)
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        done = finished(running)
    assert len(done) == 2 * batches, f"{len(done)} batches"
    return done[batches:]


if __name__ == "__main__":
    main()
