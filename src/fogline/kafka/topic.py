"""A topic as rows: its columns, its newest messages, and the rows that they hold.

The columns are what the query asks for, and nothing else: no message has to be looked at, so a run begins the same way
on an empty topic and on a full one. What the query compares comes as the text or number of its JSON value, as in files;
names are texts: 7 and "7" are one id. Beside the value, the query may name what a message has otherwise: `kafka.key`,
`kafka.timestamp`, `kafka.headers.NAME`, and `kafka.partition`, `kafka.offset`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from fogline.errors import FoglineError, QueryError, did_you_mean
from fogline.files.messages import MessageReader, Messages
from fogline.files.options import Options
from fogline.files.settled import Layout, Roles
from fogline.kafka.client import Address, Config, for_librdkafka, refused_property
from fogline.queries import Asked, each_of
from fogline.rows.cells import is_text
from fogline.rows.clock import CLOCKS, ZONED, meant_by

KIND = "topic"  # of a layout
PREFIX = "kafka."
HEADERS = f"{PREFIX}headers."
BESIDE = {
    f"{PREFIX}key": pa.string(),
    f"{PREFIX}timestamp": ZONED,
    f"{PREFIX}partition": pa.int64(),
    f"{PREFIX}offset": pa.int64(),
}


def layout_of_topic(
    query: Asked, options: Options, *, also: Iterable[str] = (), clock: str | None = None, lateness: Any = 0
) -> Layout:
    """How messages are read for this query. `also`: columns that the repository's rules ask for."""
    if clock not in (None, *CLOCKS):
        raise QueryError(f"clock is {clock!r}; it may be 'number' or 'timestamp'.")
    roles = Roles.of(query)
    if any(each.keep is True for each in each_of(query).values()):
        raise QueryError("a topic does not show which columns it has; name those to keep: keep=['room', 'floor'].")
    names = dict.fromkeys([*roles.names, *roles.times, *roles.numbers, *query.kept, *also])
    columns = pa.schema([(name, _kind_of(name)) for name in names])
    times = [name for name in (query.time, query.expires) if name is not None and is_text(columns.field(name).type)]
    meant = clock or ("timestamp" if options.time_format or options.zone else None) or meant_by(query, lateness)
    if times and meant is None:
        raise QueryError(
            f"the query does not show whether the times in {times[0]!r} mean numbers or timestamps; state it: "
            "--clock number, or --clock timestamp."
        )
    versions = "number" if query.version is not None and is_text(columns.field(query.version).type) else ""
    return Layout(KIND, options, columns, roles, (meant or "") if times else clock or "", versions)


def _kind_of(name: str) -> pa.DataType:
    if not name.startswith(PREFIX) or name.startswith(HEADERS):
        return pa.string()
    if name not in BESIDE:
        known = [*BESIDE, f"{HEADERS}NAME"]
        raise QueryError(f"a message has no {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")
    return BESIDE[name]


def asked_beside(layout: Layout) -> list[str]:
    """The columns that do not come from the value."""
    return [name for name in layout.columns.names if name.startswith(PREFIX)]


# --- The newest messages ----------------------------------------------------------------------------------------------
#
# What are the newest messages of a topic, and the newest of one writer? Read without a group, so that nothing is
# committed anywhere.
#
# A partition is read when it was read up to the offset at which it ended, or what is committed ends; nothing else is an
# end. What a client reports of a partition is an error, and so is silence: both name the partition.

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


# --- Their rows -------------------------------------------------------------------------------------------------------
#
# Which rows do the newest messages of a topic hold? To look at it, without Spark, and without a trace.

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
