"""Is a partition read up to its end, and is anything else an error in words?"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError
from typer.testing import CliRunner

from fogline.cli import app
from fogline.errors import FoglineError
from fogline.kafka import topic as reading
from fogline.kafka.client import Address
from fogline.kafka.topic import newest_messages
from tests.kafka.brokers import ABORTED, MARKER, OPEN, FakeBroker

ADDRESS = Address.of("kafka://host:9092/readings")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    monkeypatch.setattr(reading, "ANSWER", 0.01)
    return FakeBroker(readings=3).install(monkeypatch)


def values(count: int) -> list[tuple[int, int, bytes]]:
    return [(each.partition(), each.offset(), each.value()) for each in newest_messages(ADDRESS, {}, count)]


def test_of_each_partition_the_newest_messages_are_read_up_to_its_end(broker: FakeBroker) -> None:
    broker.add("readings", 0, [b"a", b"b", b"c", b"d"])
    broker.add("readings", 2, [b"e", b"f"])
    broker.add("readings", 2, [b""], MARKER)
    assert values(6) == [(0, 2, b"c"), (0, 3, b"d"), (2, 1, b"f")]


def test_a_topic_without_messages_has_none(broker: FakeBroker) -> None:
    broker.add("readings", 0, [b"x"], ABORTED)
    assert values(6) == []


def test_what_is_behind_an_open_transaction_is_not_waited_for(broker: FakeBroker) -> None:
    broker.add("readings", 1, [b"a"])
    broker.add("readings", 1, [b"b"], OPEN)
    assert values(6) == [(1, 0, b"a")]


def test_an_error_of_a_partition_is_no_end(broker: FakeBroker) -> None:
    broker.add("readings", 0, [b"a", b"b"])
    broker.add("readings", 1, [b"c"])
    broker.topics["readings"][1].error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(
        FoglineError, match="partition 1 of readings cannot be read: Broker: Topic authorization failed"
    ):
        values(6)


def test_a_partition_that_is_silent_is_no_end(broker: FakeBroker) -> None:
    broker.add("readings", 0, [b"a", b"b"])
    broker.add("readings", 1, [b"c"])
    broker.add("readings", 2, [b"d"])
    for k in (1, 2):
        broker.topics["readings"][k].silent = True
    with pytest.raises(FoglineError, match=r"partitions 1, 2 of readings: no message came within 0.01 s; .* slow"):
        values(6)


def test_a_topic_of_which_the_broker_knows_nothing_is_not_empty(broker: FakeBroker) -> None:
    broker.topics["readings"], broker.errors["readings"] = [], KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    with pytest.raises(FoglineError, match="reports of the topic 'readings': Broker: Leader not available"):
        values(6)


def test_check_states_that_a_broker_is_slow_and_not_that_there_are_no_rows(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text("attributes: {x: max}\nid: s\ntime: t\nlifetime: 100\n")
    broker.add("readings", 0, [b'{"s": "a", "t": 1, "x": 2}'])
    good = CliRunner().invoke(app, ["check", "kafka://host:9092/readings", "-q", "q.yaml"])
    assert (good.exit_code, "1 row" in good.output) == (0, True), good.output
    broker.topics["readings"][0].silent = True
    slow = CliRunner().invoke(app, ["check", "kafka://host:9092/readings", "-q", "q.yaml"])
    assert slow.exit_code == 2, slow.output
    assert "no message came within" in " ".join(slow.output.split())
    assert "0 rows" not in slow.output
