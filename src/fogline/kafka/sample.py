"""Which rows do the newest messages of a topic hold? To look at it, without Spark, and without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from fogline.errors import FoglineError, did_you_mean
from fogline.files.messages import MessageReader, Messages
from fogline.files.settled import Layout
from fogline.kafka.address import Address
from fogline.kafka.config import Config, for_librdkafka, refused_property
from fogline.kafka.layout import BESIDE, HEADERS, PREFIX, asked_beside
from fogline.kafka.newest import ANSWER, newest

COUNT = 1000  # of the newest messages


def newest_rows(address: Address, config: Config, layout: Layout, count: int = COUNT) -> Iterator[pa.RecordBatch]:
    """The rows of the newest messages, of each partition as many, in the columns of the layout's schema."""
    found = newest_messages(address, config, count)
    value = pa.array([each.value() for each in found], pa.binary())
    place = pa.array([f"{each.topic()}/{each.partition()}" for each in found], pa.string())
    beside = {name: _beside(name, found) for name in asked_beside(layout)}
    number = pa.array([each.offset() for each in found], pa.int64())
    yield from MessageReader(layout).rows(Messages(value, place, number, beside))


def newest_messages(address: Address, config: Config, count: int) -> list[Any]:
    """The newest messages; an error in words, if there is no such topic, or no answer."""
    if find_spec("confluent_kafka") is None:
        raise FoglineError(
            "to look at a topic needs confluent_kafka, which is not installed: pip install 'fogline[kafka]'"
        )
    import logging

    from confluent_kafka import Consumer, KafkaException

    log = logging.getLogger("fogline.kafka")
    log.addHandler(logging.NullHandler())
    given = {**for_librdkafka(config), "bootstrap.servers": address.brokers, "group.id": "fogline-check"}
    more = {"enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
    more |= {"auto.offset.reset": "earliest"}  # where messages are gone before they were read
    try:
        consumer = Consumer({**given, **more, "logger": log})
    except KafkaException as error:
        raise FoglineError(refused_property(error.args[0].str())) from None
    try:
        there = consumer.list_topics(timeout=ANSWER).topics
        if address.topic not in there:
            raise FoglineError(f"{address.brokers} has no topic {address.topic!r}.{did_you_mean(address.topic, there)}")
        if (reported := there[address.topic].error) is not None:
            raise FoglineError(f"{address.brokers} reports of the topic {address.topic!r}: {reported.str()}.")
        return newest(consumer, address.topic, there[address.topic].partitions, count)
    except KafkaException as error:
        raise FoglineError(
            f"no broker of {address.brokers} answers within {ANSWER:.0f} s ({error.args[0].str()}); is it running, is "
            "the address right, and do security.protocol, user and password (--kafka-config) fit?"
        ) from None
    finally:
        consumer.close()


def _beside(name: str, found: list[Any]) -> pa.Array:
    if name.startswith(HEADERS):
        wanted = name.removeprefix(HEADERS)
        values = [next((v for k, v in reversed(each.headers() or ()) if k == wanted), None) for each in found]
        return pa.array(values, pa.binary()).view(pa.string())
    if name == f"{PREFIX}key":
        return pa.array([each.key() for each in found], pa.binary()).view(pa.string())
    if name == f"{PREFIX}timestamp":
        return pa.array([each.timestamp()[1] for each in found], pa.timestamp("ms", "UTC")).cast(BESIDE[name])
    return pa.array([getattr(each, name.removeprefix(PREFIX))() for each in found], pa.int64())
