"""A broker of Kafka that is none, for what a real one does too rarely: partitions that err, or are silent; open
transactions, messages that are gone, groups that are forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

Headers = list[tuple[str, bytes]]
OPEN, COMMITTED, ABORTED, MARKER = "open", "committed", "aborted", "marker"


@dataclass
class Record:
    """What lies at one offset; a marker ends a transaction, and no reader sees it."""

    value: bytes
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    state: str = COMMITTED


@dataclass
class Partition:
    """The log of one partition, from its first offset on."""

    records: list[Record] = field(default_factory=list)
    low: int = 0
    error: int | None = None  # what its reader gets to hear, in place of messages
    silent: bool = False

    @property
    def high(self) -> int:
        return len(self.records)

    @property
    def stable(self) -> int:
        """Where what is committed ends."""
        return next((k for k, each in enumerate(self.records) if each.state == OPEN), self.high)


class Message:
    """One message, or what a client reports of a partition."""

    def __init__(self, where: tuple[str, int, int], record: Record | None, error: Any = None) -> None:
        self.where, self.record, self._error = where, record, error

    def topic(self) -> str:
        return self.where[0]

    def partition(self) -> int:
        return self.where[1]

    def offset(self) -> int:
        return self.where[2]

    def error(self) -> Any:
        return self._error

    def value(self) -> bytes:
        assert self.record is not None
        return self.record.value

    def headers(self) -> Headers:
        assert self.record is not None
        return self.record.headers


class FakeBroker:
    """Topics, offsets of groups, and who writes."""

    def __init__(self, **topics: int) -> None:
        self.topics = {name: [Partition() for _ in range(count)] for name, count in topics.items()}
        self.groups: dict[tuple[str, str, int], int] = {}
        self.policies: dict[str, str] = {}
        self.read: list[tuple[str, int, int]] = []  # all that readers saw
        self.errors: defaultdict[str, Any] = defaultdict(lambda: None)  # of topics

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
        """All clients of this process are those of this broker."""
        monkeypatch.setattr("confluent_kafka.Consumer", lambda config: FakeConsumer(self, config))
        monkeypatch.setattr("confluent_kafka.Producer", lambda config: FakeProducer(self))
        monkeypatch.setattr("confluent_kafka.admin.AdminClient", lambda config: FakeAdmin(self))
        return self

    def add(self, topic: str, partition: int, values: Iterable[bytes], state: str = COMMITTED) -> None:
        """Messages of another producer."""
        self.topics[topic][partition].records += [Record(each, state=state) for each in values]

    def forget(self) -> None:
        """What groups have committed, as a broker does after a week or so."""
        self.groups.clear()

    def listed(self) -> Any:
        topics = {
            name: SimpleNamespace(partitions=dict.fromkeys(range(len(each))), error=self.errors[name])
            for name, each in self.topics.items()
        }
        return SimpleNamespace(topics=topics)


class FakeConsumer:
    """Reads one message of each partition in turn, then reports its end, as librdkafka does."""

    def __init__(self, broker: FakeBroker, config: dict[str, Any]) -> None:
        self.broker, self.group = broker, str(config["group.id"])
        self.committed_only = config.get("isolation.level", "read_committed") == "read_committed"
        self.at: dict[tuple[str, int], int] = {}
        self.ended: dict[tuple[str, int], int] = {}

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        return self.broker.listed()

    def get_watermark_offsets(self, where: TopicPartition, timeout: float) -> tuple[int, int]:
        log = self.broker.topics[where.topic][where.partition]
        return log.low, log.stable if self.committed_only else log.high

    def assign(self, wanted: list[TopicPartition]) -> None:
        self.at = {(each.topic, each.partition): each.offset for each in wanted}
        self.ended = {}

    def unassign(self) -> None:
        self.at = {}

    def poll(self, timeout: float) -> Message | None:
        for where in list(self.at):
            offset = self.at.pop(where)
            self.at[where] = offset  # in turn
            if (found := self._next(where, offset)) is not None:
                return found
        return None

    def _next(self, where: tuple[str, int], offset: int) -> Message | None:
        log = self.broker.topics[where[0]][where[1]]
        if log.error is not None:
            return Message((*where, -1001), None, KafkaError(log.error))
        if log.silent:
            return None
        if offset < log.low:
            return Message((*where, offset), None, KafkaError(KafkaError._AUTO_OFFSET_RESET))
        end = log.stable if self.committed_only else log.high
        while offset < end and log.records[offset].state in (MARKER, ABORTED):
            offset += 1
        self.at[where] = offset
        if offset >= end:
            if self.ended.get(where) == offset:
                return None
            self.ended[where] = offset
            return Message((*where, offset), None, KafkaError(KafkaError._PARTITION_EOF))
        self.at[where] = offset + 1
        self.broker.read.append((*where, offset))
        return Message((*where, offset), log.records[offset])

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        groups, name = self.broker.groups, self.group
        return [
            TopicPartition(each.topic, each.partition, groups.get((name, each.topic, each.partition), -1001))
            for each in wanted
        ]

    def consumer_group_metadata(self) -> str:
        return self.group

    def close(self) -> None:
        self.at = {}


class FakeProducer:
    """Writes in transactions, each key to a partition of its own."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.sent: list[tuple[Partition, Record]] = []
        self.offsets: dict[tuple[str, str, int], int] = {}

    def __len__(self) -> int:
        return 0

    def init_transactions(self, timeout: float) -> None:
        """Nothing was left open."""

    def begin_transaction(self) -> None:
        self.sent, self.offsets = [], {}

    def produce(self, topic: str, value: bytes, key: bytes | None, headers: list[tuple[str, Any]]) -> None:
        logs = self.broker.topics[topic]
        log = logs[sum(key if isinstance(key, bytes) else (key or "").encode()) % len(logs)]
        plain = [(name, text if isinstance(text, bytes) else text.encode()) for name, text in headers]
        record = Record(value, key, plain, OPEN)
        log.records.append(record)
        self.sent.append((log, record))

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: str, timeout: float) -> None:
        self.offsets |= {(group, each.topic, each.partition): each.offset for each in offsets}

    def commit_transaction(self, timeout: float) -> None:
        for _, record in self.sent:
            record.state = COMMITTED
        for log in {id(log): log for log, _ in self.sent}.values():
            log.records.append(Record(b"", state=MARKER))
        self.broker.groups |= self.offsets


class FakeAdmin:
    """Which topics are there, and how they are kept."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker

    def list_topics(self, timeout: float) -> Any:
        return self.broker.listed()

    def describe_configs(self, wanted: list[Any], request_timeout: float) -> dict[Any, Any]:
        policies = self.broker.policies
        kept = {each: SimpleNamespace(value=policies.get(each.name, "delete")) for each in wanted}
        return {
            each: SimpleNamespace(result=lambda timeout, value=value: {"cleanup.policy": value})
            for each, value in kept.items()
        }
