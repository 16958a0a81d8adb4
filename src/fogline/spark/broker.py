"""What do the brokers of a topic know, asked by the driver before anything starts?

Through the client that comes with Spark's connector, in the driver's JVM; where there is none, as with Spark Connect,
nothing is asked, and Spark finds out.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from fogline.errors import FoglineError
from fogline.kafka.address import Address
from fogline.kafka.config import Config, for_java
from fogline.spark.offsets import Bounds

SECONDS = 10  # for an answer


def ask(spark: SparkSession, address: Address, config: Config) -> Bounds | None:
    """Where each partition of the topic begins and ends; an error in words, if there is no answer.

    None: there is no client of Kafka here to ask with.
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
