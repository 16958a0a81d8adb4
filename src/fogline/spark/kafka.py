"""How does a run on Spark read a topic of Kafka?

Offsets are Spark's, in the checkpoint. Before a run starts, the driver asks the brokers, for some seconds: is the topic
there, and does it still have what was not read yet? What is lost is an error that states it, or, if the user accepts
that, a remark. The driver asks through the client that comes with Spark's connector, in its JVM.

Spark's own source gives messages as bytes. The task that gets them parses the values with `fogline.files.messages`, as
lines of files are parsed, so that no message stops the stream.

Rows of a partition that lags come late where other partitions have moved the clock on. They are counted (`late`), and
where lateness is 0 that is stated once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro

from fogline.errors import FoglineError
from fogline.files.messages import MessageReader, Messages
from fogline.files.settled import Layout
from fogline.kafka.client import EARLIEST, LATEST, Address, Config, TopicOptions, for_java
from fogline.kafka.topic import HEADERS, PREFIX, asked_beside, layout_of_topic
from fogline.pipeline.decode import NOW
from fogline.pipeline.names import CHECKPOINT
from fogline.runs.config import Output, RunStatus
from fogline.spark.errors import plainly
from fogline.spark.files import Read

Offsets = dict[int, int]  # by partition
Bounds = dict[int, tuple[int, int]]  # by partition: the first offset that is there, and the next to come
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
SECONDS = 10  # for an answer of the brokers
_FOLDER = f"{CHECKPOINT}/offsets"
_COMMITTED = {"isolation.level": "read_committed"}  # what a producer has taken back is no row


def known_batches(output: Output) -> list[int]:
    """The numbers of batches that were begun, as far as the checkpoint keeps them."""
    names = (name.rsplit("/", 1)[1] for name in output.place.listing(_FOLDER))
    return sorted(int(name) for name in names if name.isdigit())


def offsets_of(output: Output, batch: int, topic: str) -> Offsets | None:
    """Where a batch ends, by partition; None: it is not known."""
    content = output.place.get(f"{_FOLDER}/{batch}")
    if content is None:
        return None
    found = json.loads(content.decode().splitlines()[-1]).get(topic)
    return None if found is None else {int(partition): offset for partition, offset in found.items()}


def losses(begun: Offsets, there: Bounds, topic: str) -> str:
    """What is gone of a topic that was read so far; empty: nothing.

    >>> losses({0: 5, 1: 7}, {0: (9, 12), 1: (0, 7)}, "readings")
    "topic 'readings' no longer has the offsets 5 to 8 of partition 0, which were not read yet."
    """
    gone, anew = [], []
    for partition, offset in begun.items():
        first, after = there.get(partition, (0, 0))
        if offset > after:
            anew.append(f"partition {partition} ends before offset {after}, though {offset} were read")
        elif offset < first:
            gone.append(f"the offsets {offset} to {first - 1} of partition {partition}")
    parts = [f"no longer has {', '.join(gone)}, which were not read yet"] if gone else []
    parts += [f"is not the one that was read: {', '.join(anew)}"] if anew else []
    return f"topic {topic!r} {'; it '.join(parts)}." if parts else ""


def messages(reader: Any, address: Address, options: TopicOptions, layout: Layout, given: dict[str, str]) -> DataFrame:
    """Messages as bytes, with what of them is asked for; `given` are options of Spark's source."""
    client = {f"kafka.{name}": value for name, value in {**_COMMITTED, **for_java(options.config)}.items()}
    beside = asked_beside(layout)
    parts: tuple[str, ...] = ("headers",) if any(name.startswith(HEADERS) for name in beside) else ()
    parts += tuple(name for name in ("key", "timestamp") if f"{PREFIX}{name}" in beside)
    given = {"kafka.bootstrap.servers": address.brokers, "subscribe": address.topic, **client, **given}
    given |= {"includeHeaders": str("headers" in parts).lower()}
    with plainly():
        df = reader.format("kafka").options(**given).load()
        return df.select(_value(df, options), "partition", "offset", *parts)


def _value(df: DataFrame, options: TopicOptions) -> Any:
    """The bytes of a message, or, where these are Avro, what they hold."""
    if options.avro is None:
        return df["value"]
    try:
        with redirect_stdout(StringIO()):  # PySpark prints what we state below
            made = from_avro(df["value"], options.avro, {"mode": "PERMISSIVE"}).alias("value")
        _ = df.select(made).schema  # an error, if there is no such function, or the schema is none
    except (PySparkException, TypeError) as error:
        if isinstance(error, PySparkException) and "AVRO_NOT_LOADED" not in str(error).upper():
            raise FoglineError(f"--avro-schema is no schema of Avro: {str(error).splitlines()[0]}") from None
        package = f"org.apache.spark:spark-avro_2.13:{df.sparkSession.version}"
        raise FoglineError(f"Spark has no Avro; give it one: --packages {package}, or its jar by --jars.") from None
    return made


def reader(layout: Layout, address: Address) -> Read:
    """What a task does with messages: their rows, in `layout.schema`."""
    beside = asked_beside(layout)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parser = MessageReader(layout)
        for batch in batches:
            place = pc.binary_join_element_wise(address.topic, batch["partition"].cast(pa.string()), "/")
            columns = {name: beside_value(name, batch) for name in beside}
            found = Messages(batch["value"], place, batch["offset"], columns)
            done = 0
            for rows in parser.rows(found):
                if NOW in batch.schema.names:
                    now = batch.column(NOW).slice(done, rows.num_rows)
                    yield rows.append_column(batch.schema.field(NOW), now)
                else:
                    yield rows
                done += rows.num_rows

    return read


def beside_value(name: str, batch: pa.RecordBatch) -> pa.Array:
    """A column of what a message has beside its value; bytes are taken for UTF-8, and looked at later."""
    if not name.startswith(HEADERS):
        column = batch[name.removeprefix(PREFIX)]
        return column.view(pa.string()) if pa.types.is_binary(column.type) else column
    asked = name.removeprefix(HEADERS)
    last = [
        next((each["value"] for each in reversed(headers or ()) if each["key"] == asked), None)
        for headers in batch["headers"].to_pylist()
    ]
    return pa.array(last, pa.binary()).view(pa.string())


def ask(spark: SparkSession, address: Address, config: Config) -> Bounds | None:
    """Where each partition of the topic begins and ends; an error in words, if there is no answer.

    None: there is no client of Kafka here to ask with, as with Spark Connect; Spark finds out.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None or not callable(getattr(jvm.org.apache.kafka.clients.admin.AdminClient, "create", None)):
        return None
    properties = jvm.java.util.Properties()
    wait = str(SECONDS * 1000)
    limits = {"request.timeout.ms": wait, "default.api.timeout.ms": wait, "retries": "3"}
    for name, value in {**for_java(config), "bootstrap.servers": address.brokers, **limits}.items():
        properties.setProperty(name, value)
    client = None
    try:
        client = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        return _bounds(jvm, client, address.topic)
    except Py4JJavaError as error:
        raise in_words(_causes(error.java_exception), address) from None
    finally:
        if client is not None:
            client.close(jvm.java.time.Duration.ofSeconds(1))


def _bounds(jvm: Any, client: Any, topic: str) -> Bounds:
    topics = jvm.java.util.ArrayList()
    topics.add(topic)
    unit = jvm.java.util.concurrent.TimeUnit.SECONDS
    described = client.describeTopics(topics).allTopicNames().get(SECONDS, unit)
    partitions = [each.partition() for each in described.get(topic).partitions()]
    named = {each: jvm.org.apache.kafka.common.TopicPartition(topic, each) for each in partitions}
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    found = []
    for which in (spec.earliest(), spec.latest()):
        asked = jvm.java.util.HashMap()
        for each in named.values():
            asked.put(each, which)
        found.append(client.listOffsets(asked).all().get(SECONDS, unit))
    return {each: (found[0].get(key).offset(), found[1].get(key).offset()) for each, key in named.items()}


def _causes(error: Any) -> list[str]:
    """The class and the message of an error, and of what caused it."""
    found: list[str] = []
    while error is not None and len(found) < 10:
        found.append(f"{error.getClass().getSimpleName()}: {error.getMessage()}")
        error = error.getCause()
    return found


def in_words(causes: list[str], address: Address) -> FoglineError:
    """What went wrong when brokers were asked, as they or their clients report it.

    >>> in_words(["UnknownTopicOrPartitionException: This server does not host …"], Address.of("kafka://h/readings"))
    FoglineError("h:9092 has no topic 'readings'; make it first, or see whether its name is written so.")
    """
    text = " ".join(causes)
    if "UnknownTopicOrPartition" in text:
        why = f"{address.brokers} has no topic {address.topic!r}; make it first, or see whether its name is written so."
    elif "Authentication" in text:
        why = f"{address.brokers} does not let us in; see user, password and mechanism in the file of --kafka-config."
    elif "Authorization" in text:
        why = f"{address.brokers} does not let this user read topic {address.topic!r}."
    elif "Timeout" in text or "No resolvable bootstrap" in text or "Failed to create" in text:
        why = (
            f"no broker of {address.brokers} answers within {SECONDS} s; is it running, is the address right, and does "
            "security.protocol (--kafka-config) fit?"
        )
    else:
        why = f"Kafka at {address.brokers} reports: {causes[-1]}"
    return FoglineError(why)


class Topic:
    """A topic that a run reads."""

    def __init__(self, spark: SparkSession, output: Output) -> None:
        self.spark, self.output = spark, output
        self.address = Address.of(output.config.stream)
        self.options: TopicOptions = output.config.topic or TopicOptions()
        self.stated = output.config.lateness not in (0, "0")  # that partitions run apart

    def settle(self, clock: str | None) -> Layout:
        """How messages are read: as the query and the repository's rules ask for it."""
        config = self.output.config
        also = () if config.repository is None else config.repository.determinants
        return layout_of_topic(config.query, config.options, also=also, clock=clock, lateness=config.lateness)

    def check(self, remark: Callable[[str], None]) -> None:
        """An error, if the topic cannot be read; with what was lost, if it no longer has what was not yet read."""
        must_have_connector(self.spark)
        there = ask(self.spark, self.address, self.options.config)
        numbers = known_batches(self.output)
        begun = offsets_of(self.output, numbers[-1], self.address.topic) if numbers else None
        if begun is None or there is None:
            return
        if self.options.starting != EARLIEST:
            remark("--starting is not used: it states where a run begins, and this one goes on where it stopped.")
        lost = losses(begun, there, self.address.topic)
        if lost and not self.options.accept_loss:
            raise FoglineError(
                f"{lost} Their rows are lost to this run. Add --accept-loss to go on with what is there, or "
                "choose another output and begin anew."
            )
        if lost:
            remark(lost)

    def stream(self, layout: Layout) -> DataFrame:
        """The messages as they come."""
        options = self.options
        starting = ("startingOffsets", options.starting)
        if options.starting not in (EARLIEST, LATEST):
            starting = ("startingTimestamp", options.starting)
        given = dict([starting]) | {
            "startingOffsetsByTimestampStrategy": "latest",
            "maxOffsetsPerTrigger": str(options.per_batch),
            "failOnDataLoss": str(not options.accept_loss).lower(),
        }
        return messages(self.spark.readStream, self.address, options, layout, given)

    def look(self, status: RunStatus) -> list[str]:
        """A sentence, the first time that rows of several partitions are late and the clock waits for none."""
        if self.stated or not status.late:
            return []
        numbers = known_batches(self.output)
        ends = offsets_of(self.output, numbers[-1], self.address.topic) if numbers else None
        if ends is None or len(ends) < 2:
            return []
        self.stated = True
        return [
            f"{status.late:,} rows came late, and the clock waits for none: the {len(ends)} partitions of topic "
            f"{self.address.topic!r} run apart. State how long to wait with --lateness."
        ]


def must_have_connector(spark: SparkSession) -> None:
    """An error that names the package, if Spark knows no Kafka."""
    try:
        spark.read.format("kafka").option("kafka.bootstrap.servers", "none:1").option("subscribe", "none").load()
    except PySparkException as error:
        if "find data source" not in str(error) and "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise FoglineError(
            f"Spark has no connector for Kafka; give it one: --packages {CONNECTOR}:{spark.version}, "
            "or its jars by --jars."
        ) from None
