"""Which options do commands have that read a topic of Kafka?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.options import Command, with_options
from fogline.errors import FoglineError

if TYPE_CHECKING:
    from fogline.kafka.config import TopicOptions

Topics = Callable[[], Any]  # gives `kafka.config.TopicOptions`, which is imported then; None: files are read
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        help="Properties of Kafka's clients, such as security.protocol, sasl.username, sasl.password; ${NAME} in it "
        "stands for a variable of the environment. FOGLINE_KAFKA_CONFIG may name it, too."
    ),
]
OPTIONS = {
    "starting": Annotated[
        str | None,
        typer.Option(
            help="Where to begin in a topic: `earliest` (by default), `latest`, or a time such as 2024-05-01."
        ),
    ],
    "accept_loss": Annotated[
        bool | None,
        typer.Option("--accept-loss", help="Go on, though a topic no longer has messages that were not read."),
    ],
    "avro_schema": Annotated[
        Path | None, typer.Option(help="Values of the topic are Avro of the schema in this file (.avsc), not JSON.")
    ],
    "kafka_config": KafkaConfig,
}


def reads_topics(command: Command) -> Command:
    """The command with these options; in their place it is passed one function, `topic`."""
    return with_options(command, OPTIONS, "topic", _topic)


def _topic(given: Mapping[str, Any], found: dict[str, Any]) -> Any:
    return topic_options(given["stream"], given["engine"], given["max_rows_per_batch"], **found)


def topic_options(
    stream: str,
    engine: str,
    max_rows: int | None,
    starting: str | None,
    accept_loss: bool | None,
    avro_schema: Path | None,
    kafka_config: Path | None,
) -> TopicOptions | None:
    """How the topic is read; None: the stream is none, and nothing was stated that only a topic has."""
    from fogline.documents import read_small_text
    from fogline.files.tables import DELTA
    from fogline.kafka.address import Address, is_topic
    from fogline.kafka.config import EARLIEST, PER_BATCH, VARIABLE, TopicOptions, read_config

    stated: dict[str, Any] = {"--starting": starting, "--accept-loss": accept_loss}
    stated |= {"--avro-schema": avro_schema}
    if kafka_config is not None:
        os.environ[VARIABLE] = str(kafka_config)  # a sink finds it there, too
    if stream.startswith(DELTA):
        raise FoglineError(
            "a Delta table is no stream for this command; where Spark knows Delta, watch it in Python: "
            "fl.spark.watch(spark.readStream.format('delta').load(…), query)."
        )
    if not is_topic(stream):
        given = next((name for name, value in stated.items() if value is not None), None)
        if given is not None:
            raise FoglineError(f"{given} is for topics, and {stream!r} is none; write kafka://host:port/topic.")
        return None
    Address.of(stream)
    if engine == "embedded":
        raise FoglineError("the embedded engine reads files; a topic is read by Spark: leave out --engine embedded.")
    begin = starting_at(starting or EARLIEST)
    avro = None if avro_schema is None else read_small_text(avro_schema)
    return TopicOptions(begin, max_rows or PER_BATCH, bool(accept_loss), avro, read_config(kafka_config))


def starting_at(text: str) -> str:
    """`earliest`, `latest`, or the milliseconds of a time, as UTC where it has no zone.

    >>> starting_at("latest"), starting_at("1970-01-01T00:00:01Z")
    ('latest', '1000')
    """
    from datetime import UTC, datetime

    from fogline.kafka.config import EARLIEST, LATEST

    if text in (EARLIEST, LATEST):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise FoglineError(
            f"--starting is {text!r}; it may be {EARLIEST}, {LATEST}, or a time such as 2024-05-01T12:00:00Z."
        ) from None
    whole = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return str(int(whole.timestamp() * 1000))
