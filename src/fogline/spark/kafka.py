"""Which topic does a run on Spark read, and may it?

Offsets are Spark's, in the checkpoint. Before a run starts, the driver asks the brokers, for some seconds: is the topic
there, and does it still have what was not read yet? What is lost is an error that states it, or, if the user accepts
that, a remark.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fogline.errors import FoglineError
from fogline.files.settled import Layout
from fogline.flow.output import Output, RunStatus
from fogline.kafka.address import Address
from fogline.kafka.config import EARLIEST, LATEST, TopicOptions
from fogline.kafka.layout import layout_of_topic
from fogline.spark.apart import PartitionsApart
from fogline.spark.broker import ask
from fogline.spark.offsets import known_batches, losses, offsets_of
from fogline.spark.topic import messages

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"


class Topic:
    """A topic that a run reads."""

    def __init__(self, spark: SparkSession, output: Output) -> None:
        self.spark, self.output = spark, output
        self.address = Address.of(output.config.stream)
        self.options: TopicOptions = output.config.topic or TopicOptions()
        self.apart: PartitionsApart | None = None

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
            remark("--starting counts where a run begins; this one goes on where it stopped.")
        lost = losses(begun, there, self.address.topic)
        if lost and not self.options.accept_loss:
            raise FoglineError(
                f"{lost} Their rows are lost to this run. With --accept-loss it goes on with what is there; "
                "or choose another output, and begin anew."
            )
        if lost:
            remark(lost)

    def stream(self, layout: Layout) -> DataFrame:
        """The messages as they come."""
        options, config = self.options, self.output.config
        starting = ("startingOffsets", options.starting)
        if options.starting not in (EARLIEST, LATEST):
            starting = ("startingTimestamp", options.starting)
        given = dict([starting]) | {
            "startingOffsetsByTimestampStrategy": "latest",
            "maxOffsetsPerTrigger": str(options.per_batch),
            "failOnDataLoss": str(not options.accept_loss).lower(),
        }
        df = messages(self.spark.readStream, self.address, options, layout, given)
        if config.lateness in (0, "0"):
            self.apart = PartitionsApart(self.spark, self.output, self.address, options, layout)
        return df

    def look(self, status: RunStatus) -> list[str]:
        """A sentence, once, if partitions run apart."""
        return [] if self.apart is None else self.apart.look(status)


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
