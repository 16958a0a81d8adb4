"""What are the newest messages of a topic? Read without a group, so that nothing is committed anywhere."""

from __future__ import annotations

from time import monotonic
from typing import Any

ANSWER = 10.0  # seconds in which a broker answers


def newest(consumer: Any, partitions: list[Any], count: int) -> list[Any]:
    """The newest messages of these partitions, as many of each, together at most `count`; in the order of offsets.

    `consumer` reports the ends of partitions (`enable.partition.eof`).
    """
    each = max(1, count // max(len(partitions), 1))
    begin, waited = [], {}
    for partition in partitions:
        low, high = consumer.get_watermark_offsets(partition, ANSWER)
        if high > low:
            waited[partition.partition] = high
            begin.append(type(partition)(partition.topic, partition.partition, max(low, high - each)))
    consumer.assign(begin)
    found, limit = [], monotonic() + ANSWER
    while waited and monotonic() < limit:
        message = consumer.poll(0.5)
        if message is None:
            continue
        limit = monotonic() + ANSWER
        if message.error() is None:
            found.append(message)
        if message.error() is not None or message.offset() + 1 >= waited.get(message.partition(), 0):
            waited.pop(message.partition(), None)
    consumer.unassign()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))
