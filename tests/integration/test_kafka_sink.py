"""Is every batch in a topic exactly once, whatever is killed when, as readers of what is committed see it?

Without Spark: batches are put as an engine would put them, after a crash again with the same number and rows.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from threading import Thread
from time import sleep
from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError, SinkError
from fogline.kafka import topic as newest
from fogline.output.sink import RunInfo
from fogline.sinks import kafka
from fogline.sinks.kafka import KafkaSink
from fogline.sinks.places import sink_for
from tests.integration.components.kafka import PASSWORD, USER, Broker

SCHEMA = pa.schema(
    [("time", pa.timestamp("us", "UTC")), ("site", pa.string()), ("id", pa.string()), ("probability", pa.float64())]
)
REJECTS = pa.schema([("site", pa.string()), ("row", pa.string()), ("reason", pa.string()), ("file", pa.string())])
QUERY = fl.Query(attributes={"x": "max"}, id="id", time="time", by=["site"], lifetime="1 hour")


def info(mark: str, last: int | None = None) -> RunInfo:
    return RunInfo(mark, QUERY, {"changes": SCHEMA, "rejects": REJECTS}, ("site", "id", "arrived"), last)


def changes(number: int, rows: int = 3) -> Iterator[pa.RecordBatch]:
    when = datetime(2024, 5, 1, 12, 0, number % 60, tzinfo=UTC)
    half = rows // 2
    for first, last in ((0, half), (half, rows)):
        n = last - first
        cells = [pa.repeat(pa.scalar(when, SCHEMA.field("time").type), n), pa.repeat("north", n)]
        ids = pa.array([f"{number}-{i}" for i in range(first, last)])
        yield pa.record_batch([*cells, ids, pa.repeat(0.75, n)], schema=SCHEMA)


def put(sink: KafkaSink, number: int, rows: int = 3) -> None:
    refused = pa.record_batch([["north"], ["{}"], [f"because {number}"], ["in/0"]], schema=REJECTS)
    sink.put(number, changes(number, rows), iter([refused]), iter(()))


def names(broker: Broker, topic: str, **how: Any) -> list[tuple[int, int]]:
    found = [json.loads(message.value()) for message in broker.read(topic, **how)]
    return sorted((row["batch"], row["position"]) for row in found)


def expected(*numbers: int, rows: int = 3) -> list[tuple[int, int]]:
    return sorted((number, i) for number in numbers for i in range(rows))


def test_values_are_json_keyed_by_group_and_id_and_rejects_go_to_their_own_topic(broker: Broker) -> None:
    broker.create("values", "refused", partitions=2)
    sink = sink_for(f"{broker.url('values')}?rejects=refused")
    assert isinstance(sink, KafkaSink)
    sink.begin(info("m1"))
    put(sink, 0)
    put(sink, 0)
    put(sink, 2)
    messages = broker.read("values")
    assert names(broker, "values") == expected(0, 2)
    first = next(each for each in messages if each.key() == b'["north","2-1"]')
    row = {"batch": 2, "position": 1, "time": "2024-05-01T12:00:02Z", "site": "north", "id": "2-1", "probability": 0.75}
    assert json.loads(first.value()) == row
    assert sink.schema(info("m1"))["required"] == list(row)
    rejects = [json.loads(message.value()) for message in broker.read("refused")]
    assert sorted((row["batch"], row["reason"]) for row in rejects) == [(0, "because 0"), (2, "because 2")]


def test_what_is_missing_is_found_at_the_beginning(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fogline.sinks.kafka.ANSWER", 2.0)
    broker.create("outcomes")
    with pytest.raises(SinkError, match=r"has no topic 'outcome'; make it first.\s*Did you mean 'outcomes'"):
        KafkaSink(broker.servers, "outcome").begin(info("m2"))
    with pytest.raises(SinkError, match="has no topic 'nowhere'"):
        KafkaSink(broker.servers, "outcomes", rejects="nowhere").begin(info("m2"))
    with pytest.raises(SinkError, match=r"no broker of 127.0.0.1:1 answers within 2 s"):
        KafkaSink("127.0.0.1:1", "outcomes").begin(info("m2"))
    with pytest.raises(SinkError, match="a topic has no option 'reject'"):
        sink_for(f"{broker.url('outcomes')}?reject=bad")


def test_a_process_that_begins_shuts_out_the_one_before(broker: Broker) -> None:
    broker.create("fenced")
    old, new = KafkaSink(broker.servers, "fenced"), KafkaSink(broker.servers, "fenced")
    old.begin(info("m3"))
    put(old, 0)
    new.begin(info("m3", 0))
    put(new, 1)
    with pytest.raises(SinkError, match="another process writes with the same checkpoint"):
        put(old, 1)
    assert names(broker, "fenced") == expected(0, 1)


def test_two_runs_write_to_one_topic_and_know_their_own_batches(broker: Broker) -> None:
    broker.create("shared")
    for mark in ("m4", "m5"):
        sink = KafkaSink(broker.servers, "shared")
        sink.begin(info(mark))
        put(sink, 0)
    assert names(broker, "shared") == sorted(expected(0) * 2)


def test_a_group_that_the_broker_has_forgotten_is_replaced_by_the_newest_messages(broker: Broker) -> None:
    from confluent_kafka import Producer

    broker.create("forgotten", partitions=3)
    sink = KafkaSink(broker.servers, "forgotten")
    sink.begin(info("m6"))
    put(sink, 0)
    put(sink, 1)
    other = Producer({"bootstrap.servers": broker.servers, "transactional.id": "other"})
    other.init_transactions(30)
    other.begin_transaction()
    for k in range(9000):
        other.produce("forgotten", b'{"batch": 7, "position": 7}', str(k), partition=k % 3)
    other.flush(30)
    admin = broker.admin()
    for future in admin.delete_consumer_groups([sink.name]).values():
        future.result(30)
    other.commit_transaction(30)
    again, remarks = KafkaSink(broker.servers, "forgotten"), list[str]()
    again.begin(replace(info("m6", 0), remark=remarks.append))
    assert "reading further back" in remarks[-1]
    put(again, 1)
    put(again, 2)
    assert sorted(set(names(broker, "forgotten"))) == sorted([*expected(0, 1, 2), (7, 7)])
    assert len(names(broker, "forgotten")) == len(expected(0, 1, 2)) + 9000


def test_a_transaction_of_another_producer_is_waited_for_where_the_group_is_forgotten(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Producer

    for room in (kafka, newest):
        monkeypatch.setattr(room, "ANSWER", 2.0)
    broker.create("held")
    sink = KafkaSink(broker.servers, "held")
    sink.begin(info("m10"))
    put(sink, 0)
    other = Producer({"bootstrap.servers": broker.servers, "transactional.id": "holds"})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce("held", b"{}", "x")
    other.flush(30)
    put(sink, 1)
    admin = broker.admin()
    for future in admin.delete_consumer_groups([sink.name]).values():
        future.result(30)
    again = KafkaSink(broker.servers, "held")
    with pytest.raises(SinkError, match="a producer's transaction is open there"):
        again.begin(info("m10", 0))
    other.abort_transaction(30)
    again.begin(info("m10", 0))
    assert again.done == 1


def test_where_messages_are_gone_that_might_show_it_the_last_batch_is_to_be_stated(broker: Broker) -> None:
    from confluent_kafka import TopicPartition

    broker.create("cut")
    sink = KafkaSink(broker.servers, "cut")
    sink.begin(info("m11"))
    put(sink, 0)
    admin = broker.admin()
    for future in admin.delete_records([TopicPartition("cut", 0, -1)]).values():
        future.result(30)
    for gone in admin.delete_consumer_groups([sink.name]).values():
        gone.result(30)
    with pytest.raises(SinkError, match=r"gone from cut \(partitions 0\)"):
        KafkaSink(broker.servers, "cut").begin(info("m11", 0))
    again = KafkaSink(broker.servers, "cut", last=0)
    again.begin(info("m11", 0))
    put(again, 1)
    assert names(broker, "cut") == expected(1)


def test_a_topic_that_has_batches_which_the_checkpoint_does_not_know_is_refused(broker: Broker) -> None:
    broker.create("older")
    sink = KafkaSink(broker.servers, "older")
    sink.begin(info("m8"))
    for number in range(4):
        put(sink, number)
    again = KafkaSink(broker.servers, "older")
    again.begin(info("m8", 2))  # batch 3 was not committed by the engine
    with pytest.raises(FoglineError, match="it has batch 3, but the checkpoint knows of batches up to 1 only"):
        again.begin(info("m8", 1))


def test_a_forgotten_group_is_replaced_where_the_stream_has_a_column_called_batch(broker: Broker) -> None:
    broker.create("lots")
    schema = pa.schema([*SCHEMA, ("batch", pa.float64())])
    run = RunInfo("m9", QUERY, {"changes": schema, "rejects": REJECTS}, ("site", "id", "arrived"), 1)
    sink = KafkaSink(broker.servers, "lots")
    sink.begin(run)
    for number in (0, 1):
        lot = (each.append_column("batch", pa.repeat(0.5, each.num_rows)) for each in changes(number))
        sink.put(number, lot, iter(()), iter(()))
    admin = broker.admin()
    for future in admin.delete_consumer_groups([sink.name]).values():
        future.result(30)
    again = KafkaSink(broker.servers, "lots")
    again.begin(run)
    assert again.done == 1


def test_secrets_come_from_a_file_and_wrong_ones_are_refused(
    broker: Broker, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("secret")
    monkeypatch.setattr("fogline.sinks.kafka.ANSWER", 2.0)
    monkeypatch.setenv("THE_PASSWORD", PASSWORD)
    path = tmp_path / "client.properties"
    text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password="
    path.write_text(text + "${THE_PASSWORD}\n")
    url = f"kafka://127.0.0.1:{broker.sasl}/secret"
    sink = KafkaSink.from_url(f"{url}?config={path}")
    sink.begin(info("m7"))
    put(sink, 0)
    assert names(broker, "secret") == expected(0)
    assert PASSWORD not in f"{sink.place} {sink.address}"
    path.write_text(f"{text}wrong\n")
    monkeypatch.setenv("FOGLINE_KAFKA_CONFIG", str(path))
    with pytest.raises(SinkError, match="user and password") as caught:
        KafkaSink.from_url(url).begin(info("m7"))
    assert "wrong" not in str(caught.value)


DRIVER = """
import os, signal, sys
from tests.integration.test_kafka_sink import KafkaSink, info, put
servers, topic, mark, number, rows, when = sys.argv[1:]
sink = KafkaSink(servers, topic)
sink.begin(info(mark, int(number) - 1 if int(number) else None))
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if when == "middle":
    calm = sink._send
    def half(*words):
        calm(*words)
        sink._producer.flush(30)
        die()
    sink._send = half
put(sink, int(number), int(rows))
if when == "after":
    die()
"""


def killed(broker: Broker, topic: str, mark: str, number: int, rows: int, when: str) -> None:
    words = [sys.executable, "-c", DRIVER, broker.servers, topic, mark, str(number), str(rows), when]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def drivers_killed(broker: Broker, topic: str, kills: int) -> None:
    broker.create(topic, partitions=2)
    for number in range(kills):
        killed(broker, topic, topic, number, 500, "middle")  # the transaction is open
        killed(broker, topic, topic, number, 500, "after")  # it is committed, and the engine does not know
        sink = KafkaSink(broker.servers, topic)
        sink.begin(info(topic, number - 1 if number else None))
        put(sink, number, 500)
        assert names(broker, topic) == expected(*range(number + 1), rows=500)
    assert len(broker.read(topic, committed=False)) > 500 * kills, "no transaction was left open"


def test_a_driver_is_killed_in_the_middle_and_after_the_commit(broker: Broker) -> None:
    drivers_killed(broker, "killed", 1)


@pytest.mark.whole
def test_drivers_are_killed_again_and_again(broker: Broker) -> None:
    drivers_killed(broker, "killed-often", 5)


def brokers_killed(broker: Broker, topic: str, kills: int, patch: pytest.MonkeyPatch) -> None:
    broker.create(topic, partitions=2)
    sink = KafkaSink(broker.servers, topic, patience=120)
    sink.begin(info(topic))
    calls: list[Any] = []
    calm = sink._send

    def and_kill(*words: Any) -> None:
        calm(*words)
        if not calls:
            calls.append(words)
            broker.kill()
            broker.start()

    patch.setattr(sink, "_send", and_kill)
    for number in range(kills):
        calls.clear()
        put(sink, number, 500)
    broker.kill()
    broker.start()
    put(sink, kills, 500)
    assert names(broker, topic) == expected(*range(kills + 1), rows=500)


def test_a_broker_is_killed_in_the_middle_and_between_batches(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers_killed(broker, "broken", 1, monkeypatch)


@pytest.mark.whole
def test_brokers_are_killed_again_and_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers_killed(broker, "broken-often", 5, monkeypatch)


@pytest.mark.whole
@pytest.mark.parametrize("delay", [0.0, 0.01, 0.02, 0.05, 0.1])
def test_a_broker_is_killed_while_it_commits(broker: Broker, delay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = f"committing-{delay}"
    broker.create(topic)
    sink = KafkaSink(broker.servers, topic, patience=120)
    sink.begin(info(topic))
    put(sink, 0)
    threads: list[Thread] = []
    calm = sink._group

    def fails() -> None:
        sleep(delay)
        broker.kill()
        broker.start()

    def late() -> Any:
        found = calm()
        if not threads:
            threads.append(Thread(target=fails))
            threads[0].start()
        return found

    monkeypatch.setattr(sink, "_group", late)
    put(sink, 1, 500)
    threads[0].join()
    put(sink, 2)
    assert names(broker, topic) == sorted([*expected(0, 2), *expected(1, rows=500)])


@pytest.mark.whole
def test_a_broker_that_stays_away_is_an_error_that_states_the_way_out(broker: Broker) -> None:
    broker.create("away")
    sink = KafkaSink(broker.servers, "away", patience=3)
    sink.begin(info("away"))
    broker.kill()
    try:
        with pytest.raises(SinkError, match=r"no answer from .*start the same command again"):
            put(sink, 0)
    finally:
        broker.start()
    again = KafkaSink(broker.servers, "away")
    again.begin(info("away"))
    put(again, 0)
    assert names(broker, "away") == expected(0)
