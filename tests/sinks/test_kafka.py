"""Is every batch in a topic once, also where the broker has forgotten which one was the last?

With a broker that is none; tests/integration has a real one.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("confluent_kafka")

import fogline as fl
from fogline.errors import SinkError
from fogline.kafka import topic as reading
from fogline.output.sink import RunInfo
from fogline.sinks import kafka
from fogline.sinks.kafka import KafkaSink
from fogline.sinks.places import sink_for
from tests.kafka.brokers import COMMITTED, MARKER, OPEN, FakeBroker

SCHEMA = pa.schema([("time", pa.int64()), ("id", pa.string()), ("probability", pa.float64())])
REJECTS = pa.schema([("row", pa.string()), ("reason", pa.string())])
QUERY = fl.Query(attributes={"x": "max"}, id="id", time="time", lifetime=9)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    for room in (reading, kafka):
        monkeypatch.setattr(room, "ANSWER", 0.02)
    monkeypatch.setattr(kafka, "PAUSE", 0.001)
    return FakeBroker(alarms=3, odd=1).install(monkeypatch)


def begun(last: int | None, remarks: list[str] | None = None, **how: Any) -> KafkaSink:
    """A process begins, when the engine has committed batches up to `last`."""
    sink, new = KafkaSink("host:9092", "alarms", rejects="odd", last=how.pop("stated", None)), how.pop("new", False)
    schemas = {"changes": SCHEMA, "rejects": REJECTS}
    remark = (lambda text: None) if remarks is None else remarks.append
    sink.begin(RunInfo("mark", QUERY, schemas, ("id", "arrived"), last, remark, new))
    return sink


def put(sink: KafkaSink, number: int, *, ids: str = "ab", refused: int = 0) -> None:
    rows = pa.record_batch([[number] * len(ids), list(ids), [0.5] * len(ids)], schema=SCHEMA)
    odd = pa.record_batch([["{}"] * refused, ["why"] * refused], schema=REJECTS)
    sink.put(number, iter([rows]), iter([odd]), iter(()))


def own(broker: FakeBroker, topic: str = "alarms") -> list[int]:
    """The batches of this run's messages that readers see."""
    found = [each for log in broker.topics[topic] for each in log.records if each.headers and each.state == COMMITTED]
    return sorted(json.loads(each.value)["batch"] for each in found)


def others(broker: FakeBroker, count: int, topic: str = "alarms") -> None:
    for k in range(len(broker.topics[topic])):
        broker.add(topic, k, [b"{}"] * count)


def cut(broker: FakeBroker, topic: str) -> None:
    """What has been there until now is gone, as by retention."""
    for log in broker.topics[topic]:
        log.low = log.high


def test_a_batch_is_recognised_however_much_others_have_written_since(broker: FakeBroker) -> None:
    first = begun(None, new=True)
    put(first, 0)
    put(first, 1)
    others(broker, 5000)
    broker.forget()
    remarks: list[str] = []
    again = begun(0, remarks)  # batch 1 was put, and not committed by the engine
    assert again.done == 1
    put(again, 1)
    put(again, 2)
    assert own(broker) == [0, 0, 1, 1, 2, 2]
    assert "the broker no longer knows the run's last batch" in remarks[0]
    assert "reading further back" in remarks[-1]


def test_messages_are_read_back_only_as_far_as_needed_and_none_twice(broker: FakeBroker) -> None:
    others(broker, 9000)
    sink = begun(None, new=True)
    assert broker.read == []  # of a run that was made just now there is nothing
    put(sink, 0, ids="abc", refused=1)
    others(broker, 100)
    broker.forget()
    assert begun(None).done == 0
    assert len(broker.read) == len(set(broker.read)) < 4 * reading.STRETCH


def test_the_first_batch_does_not_double_either(broker: FakeBroker) -> None:
    put(begun(None, new=True), 0)
    broker.forget()
    put(begun(None), 0)
    assert own(broker) == [0, 0]


def test_a_batch_of_rejects_alone_is_recognised(broker: FakeBroker) -> None:
    sink = begun(None, new=True)
    put(sink, 0)
    put(sink, 1, ids="", refused=2)
    others(broker, 3000, "odd")
    broker.forget()
    put(begun(0), 1, ids="", refused=2)
    assert own(broker, "odd") == [1, 1]


def test_messages_without_the_number_in_a_header_are_known_by_their_values(broker: FakeBroker) -> None:
    put(begun(None, new=True), 0, refused=1)
    for log in (*broker.topics["alarms"], *broker.topics["odd"]):
        for each in log.records:
            each.headers = each.headers[:1]
    broker.forget()
    assert begun(None).done == 0


def test_what_lies_behind_a_transaction_of_another_producer_is_waited_for(broker: FakeBroker) -> None:
    sink = begun(None, new=True)
    put(sink, 0, ids="a")
    for k in range(3):
        broker.add("alarms", k, [b"{}"], OPEN)
    put(sink, 1, ids="a")
    broker.forget()
    with pytest.raises(SinkError, match=r"which batch is in the topic could not be read: .* transaction is open there"):
        begun(0)
    for log in broker.topics["alarms"]:
        for each in log.records:
            each.state = COMMITTED if each.state == OPEN else each.state
    put(begun(0), 1, ids="a")
    assert own(broker) == [0, 1]


def test_where_messages_are_gone_that_might_show_it_the_run_is_refused_until_it_is_stated(broker: FakeBroker) -> None:
    sink = begun(None, new=True)
    put(sink, 0)
    cut(broker, "alarms")
    others(broker, 3)
    broker.forget()
    with pytest.raises(
        SinkError, match=r"cannot be known whether .* gone from alarms \(partitions 1, 2\).*last=NUMBER"
    ):
        begun(0)
    put(begun(0, stated=1), 1)
    assert own(broker) == [0, 0]  # those of batch 1 were there, readers say
    put(begun(0, stated=0), 1)
    assert own(broker) == [0, 0, 1, 1]


def test_a_newer_batch_that_is_found_needs_no_others_to_be_known(broker: FakeBroker) -> None:
    sink = begun(None, new=True)
    put(sink, 0)
    cut(broker, "alarms")
    put(sink, 1, ids="a")  # in one partition
    broker.forget()
    assert begun(0).done == 1
    with pytest.raises(SinkError, match="cannot be known"):
        begun(1, stated=0)  # the topic has more than is stated


def test_of_a_compacted_topic_only_a_newer_batch_is_sure(broker: FakeBroker) -> None:
    put(begun(None, new=True), 0, ids="abc")
    broker.forget()
    broker.policies["alarms"] = "compact,delete"
    assert begun(None).done == 0
    with pytest.raises(SinkError, match=r"gone from alarms \(compacted\)"):
        begun(0)


def test_within_a_process_nothing_has_to_be_read_again(broker: FakeBroker) -> None:
    sink = begun(None, new=True)
    put(sink, 0)
    broker.forget()
    cut(broker, "alarms")
    sink.close()  # as after an error of the broker
    put(sink, 0)
    put(sink, 1)
    assert own(broker) == [0, 0, 1, 1]
    assert broker.read == []


def test_an_end_that_is_a_marker_of_a_transaction_is_an_end(broker: FakeBroker) -> None:
    others(broker, 2)
    for k in range(3):
        broker.add("alarms", k, [b""] * 3, MARKER)
    assert begun(None).done is None


def test_the_last_batch_is_stated_in_the_address() -> None:
    sink = sink_for("kafka://host/alarms?rejects=odd&last=12", typed=True)
    assert isinstance(sink, KafkaSink)
    assert (sink.stated, sink.place) == (12, "kafka://host:9092/alarms?rejects=odd")
    with pytest.raises(SinkError, match=r"last is '1\.5'; it is the number of the last batch"):
        sink_for("kafka://host/alarms?last=1.5")
