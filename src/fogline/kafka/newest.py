"""What are the newest messages of a topic, and the newest of one writer? Read without a group, so that
nothing is committed anywhere.

A partition is read when it was read up to the offset at which it ended, or what is committed ends; nothing else is an
end. What a client reports of a partition is an error, and so is silence: both name the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from fogline.errors import FoglineError

ANSWER = 10.0  # seconds in which a broker answers
STRETCH = 1000  # messages of a partition that are read at first, where one is looked for from its end on
Found = TypeVar("Found")


class Offsets(NamedTuple):
    """Offsets of a partition, from `begin` up to `end`."""

    begin: int
    end: int


class UnreadError(FoglineError):
    """A partition was not read up to its end. `error`: what the client reports, or that it has timed out."""

    def __init__(self, text: str, error: Any) -> None:
        super().__init__(text)
        self.error = error


def newest(consumer: Any, topic: str, partitions: Iterable[int], count: int) -> list[Any]:
    """The newest messages of these partitions, as many of each, together at most `count`; in the order of offsets.

    `consumer` reports the ends of partitions (`enable.partition.eof`).
    """
    held = {each: held_by(consumer, topic, each) for each in partitions}
    each = max(1, count // max(len(held), 1))
    spans = {k: Offsets(max(span.begin, span.end - each), span.end) for k, span in held.items()}
    return sorted(read(consumer, topic, spans), key=lambda message: (message.partition(), message.offset()))


def newest_of(
    consumer: Any,
    topic: str,
    held: Mapping[int, Offsets],
    wanted: Callable[[Any], Found | None],
    progress: Callable[[str], None],
) -> dict[int, Found | None]:
    """Of each partition, what its newest message has that is wanted; None: there is none back to its beginning.

    Read from the end on, in stretches that double: no message twice, and few where the wanted one is among the newest.
    """
    found: dict[int, Found | None] = dict.fromkeys(held)
    left, size = {k: span for k, span in held.items() if span.begin < span.end}, STRETCH
    while left:
        spans = {k: Offsets(max(span.begin, span.end - size), span.end) for k, span in left.items()}
        for message in read(consumer, topic, spans, waiting=True):
            if (one := wanted(message)) is not None:
                found[message.partition()] = one
        left = {
            k: Offsets(span.begin, spans[k].begin)
            for k, span in left.items()
            if found[k] is None and span.begin < spans[k].begin
        }
        size *= 2
        if left:
            progress(f"{topic}: nothing yet in the newest messages of {len(left):,} partitions; reading further back")
    return found


def held_by(consumer: Any, topic: str, partition: int) -> Offsets:
    """The offsets that a partition holds, for what its consumer may see."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    try:
        found = consumer.get_watermark_offsets(TopicPartition(topic, partition), ANSWER)
    except KafkaException as error:
        raise UnreadError(f"partition {partition} of {topic}: {error.args[0].str()}.", error.args[0]) from None
    if found is None:
        late = KafkaError(KafkaError._TIMED_OUT)
        raise UnreadError(f"partition {partition} of {topic}: its broker did not answer within {ANSWER:g} s.", late)
    return Offsets(*found)


def read(consumer: Any, topic: str, spans: Mapping[int, Offsets], *, waiting: bool = False) -> Iterator[Any]:
    """The messages of these partitions, as they come, until each is read up to its end.

    `waiting`: for transactions that are open there, behind which a reader of what is committed sees nothing.
    """
    from confluent_kafka import KafkaError, TopicPartition

    left = {k: span for k, span in spans.items() if span.begin < span.end}
    consumer.assign([TopicPartition(topic, k, span.begin) for k, span in left.items()])
    open_at: dict[int, int] = {}  # where partitions end for readers of what is committed, before their end
    limit = monotonic() + ANSWER
    try:
        while left:
            message = consumer.poll(min(0.5, ANSWER))
            if message is None:
                if monotonic() > limit:
                    raise UnreadError(_silent(topic, left, open_at), KafkaError(KafkaError._TIMED_OUT))
                continue
            error, partition = message.error(), message.partition()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                where = f"partition {partition} of {topic}" if partition is not None and partition >= 0 else topic
                raise UnreadError(f"{where} cannot be read: {error.str()}.", error)
            if partition not in left:  # beyond its end
                continue
            limit, end = monotonic() + ANSWER, left[partition].end
            if error is not None:
                open_at[partition] = message.offset()
            elif message.offset() < end:
                yield message
            if message.offset() + (error is None) >= end or (error is not None and not waiting):
                del left[partition]
    finally:
        consumer.unassign()


def _silent(topic: str, left: Mapping[int, Offsets], open_at: Mapping[int, int]) -> str:
    """Which partitions were not read up to their ends in time."""
    for partition, at in open_at.items():
        if partition in left:
            return (
                f"partition {partition} of {topic} has messages up to offset {left[partition].end}, and what is "
                f"committed ends at {at}: a producer's transaction is open there; try again when it has ended."
            )
    which = f"partition{'s' if len(left) > 1 else ''} {', '.join(map(str, sorted(left)))}"
    return f"{which} of {topic}: no message came within {ANSWER:g} s; the broker is slow, or gone."
