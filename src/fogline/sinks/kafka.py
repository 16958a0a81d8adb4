"""Changes into a topic of Kafka, exactly once under `read_committed`, each row as JSON.

Timestamps are ISO 8601 in UTC with microseconds where there are any; what JSON has no word for is null (a missing
value) or a text ("Infinity", "-Infinity"; bytes in hex). `schema_of` states it as a JSON Schema.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO, Any

import pyarrow as pa

from fogline.errors import SinkError, did_you_mean
from fogline.kafka.client import Address, Config, for_librdkafka, read_config, refused_property
from fogline.kafka.topic import Offsets, UnreadError, held_by, newest_of
from fogline.output.sink import BATCH, Batches, RunInfo, numbered, numbered_schema, refuse_gap
from fogline.pipeline.names import CHANGES
from fogline.rows.cells import is_text
from fogline.sinks.places import needs


def plain(value: Any) -> Any:
    """A cell as JSON has it.

    >>> plain(float("nan")), plain(float("inf")), plain(datetime(2024, 5, 1, 12, tzinfo=UTC))
    (None, 'Infinity', '2024-05-01T12:00:00Z')
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if isinstance(value, datetime):
        whole = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return whole.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)


def written(value: Any) -> bytes:
    """A value as JSON, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def key_of(values: Sequence[Any]) -> bytes:
    """What names a row: the id as a text, or where there are groups a JSON array of them and the id.

    >>> key_of(["a"]), key_of([7]), key_of(["north", 7])
    (b'a', b'7', b'["north",7]')
    """
    if len(values) > 1:
        return written([plain(each) for each in values])
    only = plain(values[0])
    return only.encode("utf-8", "replace") if isinstance(only, str) else written(only)


def keyed_values(batch: pa.RecordBatch, key: Sequence[str]) -> Iterator[tuple[bytes | None, bytes]]:
    """The rows of a batch, each with its key; without names for one, they have none."""
    for row in batch.to_pylist():
        yield (
            key_of([row[name] for name in key]) if key else None,
            written({name: plain(each) for name, each in row.items()}),
        )


def schema_of(schema: pa.Schema, title: str) -> dict[str, Any]:
    """What values look like, as a JSON Schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "properties": {field.name: _type_of(field.type) for field in schema},
        "required": schema.names,
        "additionalProperties": False,
    }


def _type_of(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_boolean(kind):
        return {"type": ["boolean", "null"]}
    if pa.types.is_integer(kind):
        return {"type": ["integer", "null"]}
    if pa.types.is_floating(kind):
        return {"anyOf": [{"type": ["number", "null"]}, {"enum": ["Infinity", "-Infinity"]}]}
    if pa.types.is_timestamp(kind):
        return {"type": ["string", "null"], "format": "date-time"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": ["array", "null"], "items": _type_of(kind.value_type)}
    if pa.types.is_struct(kind):
        return {"type": ["object", "null"], "properties": {each.name: _type_of(each.type) for each in kind}}
    return {"type": ["string", "null"]} if is_text(kind) or pa.types.is_binary(kind) else {}


# --- Record batches that come once, read several times ----------------------------------------------------------------


class Spool:
    """Record batches that were written to a file."""

    def __init__(self, file: IO[bytes], rows: int) -> None:
        self.file, self.rows = file, rows

    def read(self) -> Batches:
        """All of them, from the first on."""
        if not self.rows:
            return
        self.file.seek(0)
        with pa.ipc.open_stream(pa.PythonFile(self.file, "r")) as reader:
            yield from reader


@contextmanager
def spooled(batches: Batches) -> Iterator[Spool]:
    """The batches, to be read as often as needed."""
    with TemporaryFile(prefix="fogline-sink-") as file:
        writer, rows = None, 0
        for batch in batches:
            if writer is None:
                writer = pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
        yield Spool(file, rows)


# --- The sink ---------------------------------------------------------------------------------------------------------
#
# The driver's producer writes each batch in one transaction, and in the same transaction the batch's number, as the
# offset of a consumer group that is named by the run's mark. So a batch is in the topic if and only if the group's
# offset has passed it. A process that begins takes over the transactions of the one before it (they have the same id):
# what that had left open is ended by the broker, one way or the other, and the group's offset shows which way it was.
# Whether a commit that got no answer has happened is found out in the same way.
#
# Brokers forget the offsets of groups after a week or so. Then the run's own messages show it: each names the run and
# the batch, and the newest of each partition is looked for, as far back as the topic goes. Where messages are gone that
# might have shown it, the run is refused, since a batch might double: the user states the last batch.
#
# Values are JSON (`sinks.kafka`), keyed by group and id, with `batch` and `position` beside the columns of changes.

ANSWER = 10.0  # seconds in which a broker answers, when a run begins
PATIENCE = 300.0  # seconds for which a batch is tried again, when brokers are gone
ONE_TRY = 10.0  # seconds after which an answer is no longer waited for, and a new producer finds out
OPEN = 300_000  # milliseconds after which a broker ends a transaction by itself
PAUSE = 0.5  # seconds between two tries
POLLED = 1000  # messages between two looks at what was delivered
RUN, NUMBER = "fogline-run", "fogline-batch"  # the headers that name the run and the batch
_CALM = {"metadata.recovery.strategy": "none"}  # else, while brokers are gone, clients look for them without a pause
_OPTIONS = ("config", "rejects", "last")
_FENCED = "another process writes with the same checkpoint, and this one has been shut out; let only one of them run."


class KafkaSink:
    """Changes into one topic, and rejects, if asked for, into another.

    `config`: properties of the client, such as sasl.password; without, those of the file that the environment names.
    `patience`: for how many seconds a batch is tried again while no broker answers. `last`: the last batch of this run
    that is in the topic, -1 for none; asked for where neither the broker nor the topic shows it, and ignored otherwise.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        *,
        rejects: str | None = None,
        config: Config | None = None,
        patience: float = PATIENCE,
        last: int | None = None,
    ) -> None:
        self.address = Address.of(f"kafka://{brokers}/{topic}")
        self.rejects, self.patience, self.stated, self.config = rejects, patience, last, config
        self.place = f"{self.address}{'' if rejects is None else f'?rejects={rejects}'}"
        self.run: RunInfo | None = None
        self.done: int | None = None  # the last batch that is in the topic
        self._begun = False  # whether `done` is known
        self._producer: Any = None
        self._limit = 0.0  # when patience ends
        self._clients: dict[str, str] = {}

    @classmethod
    def from_url(cls, url: str) -> KafkaSink:
        """kafka://host:port/topic?rejects=TOPIC&config=FILE&last=NUMBER"""
        address = Address.of(url)
        for name in address.options:
            if name not in _OPTIONS:
                raise SinkError(
                    f"a topic has no option {name!r}; it has {', '.join(_OPTIONS)}.{did_you_mean(name, _OPTIONS)}"
                )
        file = address.options.get("config")
        config = read_config(file) if file is not None else None
        last = address.options.get("last")
        if last is not None and not re.fullmatch(r"-1|[0-9]{1,18}", last):
            raise SinkError(f"last is {last!r}; it is the number of the last batch in the topic, -1 for none.")
        stated = None if last is None else int(last)
        return cls(address.brokers, address.topic, rejects=address.options.get("rejects"), config=config, last=stated)

    @property
    def name(self) -> str:
        """Of the transactions, and of the group whose offset is the number of the next batch."""
        assert self.run is not None, "put before begin"
        return f"fogline-{self.run.mark}-{self.address.topic}"

    def schema(self, run: RunInfo) -> dict[str, Any]:
        """What the values of changes look like, as a JSON Schema."""
        return schema_of(numbered_schema(run.schemas[CHANGES]), "a change of the answer")

    def begin(self, run: RunInfo) -> None:
        """Are the topics there? Then an earlier process of this run is shut out, and what it left is settled."""
        needs("confluent_kafka", "kafka", "a topic as a sink")
        self.close()
        self.run, self.done, self._begun = run, None, False
        config = for_librdkafka(read_config(None) if self.config is None else self.config)
        self._clients = {**_CALM, **config, "bootstrap.servers": self.address.brokers}
        self._must_have_topics()
        self._until(monotonic() + 3 * ANSWER, self._take_over)
        self._begun = True
        refuse_gap(run, self.done, known=True)  # of a run that has reported nothing yet, a topic knows nothing

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        """The batch in one transaction with its number; one that is there already is ignored."""
        assert self.run is not None, "put before begin"
        if self.done is not None and number <= self.done:
            return
        wanted = iter(()) if self.rejects is None else rejects
        with spooled(numbered(number, changes, self.run.schemas[CHANGES])) as kept, spooled(wanted) as refused:
            if kept.rows or refused.rows:
                self._until(monotonic() + self.patience, lambda: self._once(number, kept, refused))
        self.done = number

    def close(self) -> None:
        """The producer is let go; what it had open is ended by the next one, or by the broker in time."""
        self._producer = None

    def _until(self, limit: float, step: Callable[[], None]) -> None:
        """A step that is tried until brokers answer, or it cannot go well, or patience ends."""
        from confluent_kafka import KafkaException

        self._limit = limit
        while True:
            try:
                return step()
            except (KafkaException, UnreadError) as error:
                self._producer = None  # a new one ends the transaction, and finds out what became of it
                self._give_up(error)
                sleep(PAUSE)

    def _give_up(self, error: Exception) -> None:
        """An error in words, unless another try may help."""
        from confluent_kafka import KafkaError

        found = error.error if isinstance(error, UnreadError) else error.args[0]
        fenced = KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH
        lasting = {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: "this user may not write to the topic",
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this user may not use transactions of that name",
            KafkaError.GROUP_AUTHORIZATION_FAILED: "this user may not use the group that keeps the batch's number",
            KafkaError.SASL_AUTHENTICATION_FAILED: "user or password are wrong",
            KafkaError.MSG_SIZE_TOO_LARGE: "a row is larger than the topic's max.message.bytes",
            KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic is gone",
        }
        if found.code() in fenced:
            raise SinkError(_FENCED) from None
        if found.code() in lasting:
            raise SinkError(f"{lasting[found.code()]} ({found.str()})") from None
        if monotonic() > self._limit and isinstance(error, UnreadError):
            raise SinkError(f"which batch is in the topic could not be read: {error}") from None
        if monotonic() > self._limit:
            raise SinkError(
                f"{self.address.brokers} does not answer, after several tries ({found.str()}). Start the same "
                "command again when the broker is back: nothing is lost, and nothing doubled."
            ) from None

    def _once(self, number: int, kept: Spool, refused: Spool) -> None:
        """One try. A new producer is made where the last one failed: then the batch may be there already."""
        if self._producer is None:
            self._take_over()
            if self.done is not None and number <= self.done:
                return
        producer = self._producer
        producer.begin_transaction()
        assert self.run is not None
        key = tuple(name for name in self.run.key if name != self.run.query.arrived)  # it names a row of an id
        self._send(self.address.topic, number, kept.read(), key)
        if self.rejects is not None:
            self._send(self.rejects, number, _with_batch(refused.read(), number), ())
        waiting = len(producer)
        while waiting and (now := producer.flush(self._left(ONE_TRY))):
            if now >= waiting or monotonic() > self._limit:
                raise _exception(_timed_out())
            waiting = now
        producer.send_offsets_to_transaction([self._number(number + 1)], self._group(), self._left(ONE_TRY))
        producer.commit_transaction(self._left(ONE_TRY))
        self.done = number

    def _left(self, most: float = PATIENCE) -> float:
        """Seconds that are left of our patience, at most so many."""
        return min(max(self._limit - monotonic(), 1.0), most)

    def _send(self, topic: str, number: int, batches: Iterable[pa.RecordBatch], key: tuple[str, ...]) -> None:
        assert self.run is not None
        headers, producer = [(RUN, self.run.mark), (NUMBER, str(number))], self._producer
        sent = 0
        for batch in batches:
            for name, value in keyed_values(batch, key):
                while True:
                    try:
                        producer.produce(topic, value, name, headers=headers)
                        break
                    except BufferError:  # as many are on their way as may be
                        producer.poll(PAUSE)
                        if monotonic() > self._limit:
                            raise _exception(_timed_out()) from None
                sent += 1
                if sent % POLLED == 0:
                    producer.poll(0)

    def _take_over(self) -> None:
        """A producer with the run's transactions, whatever had them before; and what is in the topic."""
        from confluent_kafka import Producer

        more: dict[str, Any] = {"transactional.id": self.name, "transaction.timeout.ms": OPEN, "linger.ms": 5}
        producer = Producer({**self._clients, **more, "compression.type": "lz4", "logger": _logger()})
        producer.init_transactions(self._left(ONE_TRY))
        self._producer, self.done = producer, self._last()

    def _last(self) -> int | None:
        """The last batch that is in the topic, as the group's offset shows; None: none."""
        consumer = self._consumer()
        try:
            found = consumer.committed([self._number(0)], ANSWER)[0]
            if found.error is not None:
                raise _exception(found.error)
            if found.offset >= 0:
                return int(found.offset) - 1
            assert self.run is not None, "put before begin"
            if self._begun:  # what this process has committed since, the broker cannot have forgotten yet
                return self.done
            return None if self.run.new else self._last_in_topics(consumer)
        finally:
            consumer.close()

    def _last_in_topics(self, consumer: Any) -> int | None:
        """The same by the run's own messages, the newest of each partition; an error, where it cannot be known."""
        assert self.run is not None
        self.run.remark(f"{self.place}: the broker no longer knows the run's last batch; looking for it in the topic")
        unsure: list[str] = []
        newest = -1
        for topic in (self.address.topic, self.rejects):
            if topic is not None:
                held = self._held(topic)
                found = newest_of(consumer, topic, held, self._batch_of, self._progress)
                newest = max([newest, *(each for each in found.values() if each is not None)])
                gone = [k for k, each in found.items() if each is None and held[k].begin > 0]
                if gone or self._is_compacted(topic):
                    unsure.append(f"{topic} ({'partitions ' + ', '.join(map(str, gone)) if gone else 'compacted'})")
        if newest > (-1 if self.run.last is None else self.run.last) or not unsure:
            return newest if newest >= 0 else None
        if self.stated is not None and self.stated >= newest:
            return self.stated
        raise SinkError(
            "it cannot be known whether the next batch is in the topic already: the broker no longer knows the "
            f"run's last batch, and messages that could show it are gone from {', '.join(unsure)}. Find out which "
            f"batch of this run readers got last (the header {NUMBER!r} of a message has its number), and state "
            f"it once: --to '{self.address}?last=NUMBER', with -1 for none."
        )

    def _batch_of(self, message: Any) -> int | None:
        """The batch of a message, if it is of this run; before there was a header, changes had it in their values."""
        assert self.run is not None
        headers = dict(message.headers() or ())
        if headers.get(RUN) != self.run.mark.encode():
            return None
        if NUMBER in headers:
            return int(headers[NUMBER])
        name = BATCH
        return int(json.loads(message.value())[name])

    def _held(self, topic: str) -> dict[int, Offsets]:
        """What the partitions of a topic hold, up to their very ends: also behind what others have not committed."""
        consumer = self._consumer("read_uncommitted")
        try:
            return {
                k: held_by(consumer, topic, k) for k in consumer.list_topics(topic, ANSWER).topics[topic].partitions
            }
        finally:
            consumer.close()

    def _is_compacted(self, topic: str) -> bool:
        """Whether messages may be gone from between others; if we may not know, too."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, ConfigResource

        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
        client = AdminClient({**self._clients, "logger": _logger()})
        try:
            found = client.describe_configs([wanted], request_timeout=ANSWER)[wanted].result(timeout=2 * ANSWER)
        except KafkaException:
            return True
        return "compact" in found["cleanup.policy"].value

    def _progress(self, text: str) -> None:
        assert self.run is not None
        self.run.remark(text)
        self._limit = max(self._limit, monotonic() + 3 * ANSWER)  # it answers

    def _consumer(self, isolation: str = "read_committed") -> Any:
        from confluent_kafka import Consumer

        more = {"group.id": self.name, "isolation.level": isolation, "enable.auto.commit": False}
        more |= {"enable.partition.eof": True, "auto.offset.reset": "error"}  # no leap over what is gone meanwhile
        return Consumer({**self._clients, **more, "logger": _logger()})

    def _group(self) -> Any:
        consumer = self._consumer()
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _number(self, offset: int) -> Any:
        """The number of a batch, where the group keeps it."""
        from confluent_kafka import TopicPartition

        return TopicPartition(self.address.topic, 0, offset)

    def _must_have_topics(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            client = AdminClient({**self._clients, "logger": _logger()})
        except KafkaException as error:
            raise SinkError(refused_property(error.args[0].str())) from None
        try:
            there = set(client.list_topics(timeout=ANSWER).topics)
        except KafkaException as error:
            raise SinkError(
                f"no broker of {self.address.brokers} answers within {ANSWER:.0f} s ({error.args[0].str()}); is it "
                "running, is the address right, and do security.protocol, user and password (--kafka-config) fit?"
            ) from None
        for topic in (self.address.topic, self.rejects):
            if topic is not None and topic not in there:
                raise SinkError(
                    f"{self.address.brokers} has no topic {topic!r}; make it first.{did_you_mean(topic, there)}"
                )


def _with_batch(rejects: Iterable[pa.RecordBatch], number: int) -> Batches:
    for each in rejects:
        if BATCH in each.schema.names:
            yield each
        else:
            yield each.append_column(BATCH, pa.repeat(pa.scalar(number, pa.int64()), each.num_rows))


def _timed_out() -> Any:
    from confluent_kafka import KafkaError

    return KafkaError(KafkaError._TIMED_OUT)


def _exception(error: Any) -> Exception:
    from confluent_kafka import KafkaException

    made: Exception = KafkaException(error)
    return made


def _logger() -> logging.Logger:
    """What librdkafka has to report goes to a log that is silent unless the user wants it."""
    found = logging.getLogger("fogline.kafka")
    if not found.handlers:
        found.addHandler(logging.NullHandler())
    return found
