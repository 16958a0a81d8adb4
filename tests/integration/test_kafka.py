"""Topics as streams: poison, what is gone, keys and headers, secrets, partitions that run apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fogline.cli import app
from fogline.files.messages import NOT_PARSED
from tests.integration.components.kafka import PASSWORD, USER, Broker, spark_jars

pytestmark = pytest.mark.usefixtures("spark")
QUERY = "attributes: {x: max, y: max}\nid: id\ntime: time\nlifetime: 40\nby: [site]\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a query."""
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    """A command in this process, and all that it prints."""
    result = CliRunner().invoke(app, [*words, "-q", "q.yaml"], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"i{i}", "time": i // 10, "site": f"s{i % 2}", "x": i % 11, "y": i % 7} for i in range(count)]


def values(some: list[dict[str, Any]], **how: Any) -> list[bytes]:
    return [json.dumps(row, **how).encode() for row in some]


def rejects() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table("out/rejects").to_pylist()
    return found


def taken() -> int:
    return int(pc.sum(pq.read_table("out/health")["rows"]).as_py())


POISON: list[bytes | None] = [b"no json", None, b"", b"[1]", b"\xff", b'{"x": ' + b"[" * 30_000, b'{"x": 1}']
REASONS = [
    "the message cannot be read: it is no JSON object",
    "the message has no value (a tombstone)",
    "the message is empty",
    "the message cannot be read: it is no JSON object, but an array",
    "the message cannot be read: it is not UTF-8 text",
    "the message cannot be read: it is no JSON object",
    "the id 'id' is missing",
]


def test_poison_messages_are_rejects_with_their_offsets_and_the_run_goes_on(broker: Broker) -> None:
    broker.create("poison", partitions=2)
    broker.create("good", "bad")
    broker.send("poison", values(rows(50)), partition=0)
    broker.send("poison", POISON, partition=1)
    broker.send("poison", values(rows(100)[50:], indent=2), partition=1)
    printed = run("run", broker.url("poison"), "-o", "out", "--to", f"{broker.url('good')}?rejects=bad")
    assert "107 rows" in printed
    assert "7 rejected" in printed
    found = sorted(rejects(), key=lambda row: int(row["line"]))
    assert [(row["file"], row["line"]) for row in found] == [("poison/1", k) for k in range(7)]
    assert [row["reason"] for row in found] == REASONS
    assert taken() == 107
    in_topic = [json.loads(message.value()) for message in broker.read("bad")]
    assert sorted(row["reason"] for row in in_topic) == sorted(REASONS)
    assert {row["batch"] for row in in_topic} == {0}
    assert len(broker.read("good")) == pq.read_table("out/changes").num_rows > 0


@pytest.mark.whole
def test_a_run_goes_on_where_it_stopped_and_what_is_gone_is_stated_and_passed_only_if_accepted(broker: Broker) -> None:
    from confluent_kafka import TopicPartition

    broker.create("gone")
    broker.send("gone", values(rows(100)))
    run("run", broker.url("gone"), "-o", "out")
    broker.send("gone", values(rows(160)[100:]))
    run("run", broker.url("gone"), "-o", "out")
    assert taken() == 160
    assert "no new" in run("run", broker.url("gone"), "-o", "out")
    broker.send("gone", values(rows(200)[160:]))
    admin = broker.admin()  # it must live until it has an answer
    for future in admin.delete_records([TopicPartition("gone", 0, 190)]).values():
        future.result(30)
    lost = "topic 'gone' no longer has the offsets 160 to 189 of partition 0, which were not read yet."
    assert f"{lost} Their rows are lost to this run. With --accept-loss it goes on" in run(
        "run", broker.url("gone"), "-o", "out", code=2
    )
    assert lost in run("run", broker.url("gone"), "-o", "out", "--accept-loss")
    assert taken() == 170


@pytest.mark.whole
def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(broker: Broker) -> None:
    broker.create("anew")
    broker.send("anew", values(rows(30)))
    run("run", broker.url("anew"), "-o", "out")
    admin = broker.admin()
    for future in admin.delete_topics(["anew"]).values():
        future.result(30)
    assert "has no topic 'anew'" in run("run", broker.url("anew"), "-o", "out", code=2)
    broker.create("anew")
    broker.send("anew", values(rows(10)))
    assert "is not the one that was read: partition 0 ends before offset 10, though 30 were read" in run(
        "run", broker.url("anew"), "-o", "out", code=2
    )


def test_key_time_and_headers_serve_and_secrets_stay_secret(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker asks for a password; check and run get it from a file, and it is seen nowhere."""
    broker.create("sealed", partitions=2)
    begin = 1_700_000_000_000
    beside = {
        "key": lambda i: f"k{i % 7}".encode(),
        "headers": lambda i: [("site", b"x"), ("site", b"north")],
        "timestamp": lambda i: begin + 1000 * i,
        "partition": lambda i: i % 2,
    }
    broker.send("sealed", values([{"x": i % 5, "y": i % 3} for i in range(100)]), **beside)
    names = "id: kafka.key\ntime: kafka.timestamp\nlifetime: 1 minute\nby: [kafka.headers.site]\n"
    Path("q.yaml").write_text(f"attributes: {{x: max, y: max}}\n{names}")
    lines = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", f"sasl.username={USER}"]
    Path("client").write_text("\n".join([*lines, "sasl.password=${THE_PASSWORD}"]))
    monkeypatch.setenv("THE_PASSWORD", PASSWORD)
    monkeypatch.setenv("FOGLINE_KAFKA_CONFIG", "")  # a command sets it, and it shall not last
    stream = f"kafka://127.0.0.1:{broker.sasl}/sealed"
    looked = run("check", stream, "--kafka-config", "client")
    assert "100 rows complete 100 100.0%" in looked
    words = ["-o", "out", "--starting", "2023-11-14T22:13:30Z", "--lateness", "1 second"]
    ran = run("run", stream, "--kafka-config", "client", *words)
    assert "90 rows" in ran
    changes = pq.read_table("out/changes")
    assert set(changes["kafka.headers.site"].to_pylist()) == {"north"}
    assert set(changes["kafka.key"].to_pylist()) <= {f"k{i}" for i in range(7)}
    assert str(changes["time"][0]).startswith("2023-11-14 22:13:3")
    kept = [path.read_bytes() for path in Path("out").rglob("*") if path.is_file()]
    assert PASSWORD.encode() not in b"".join([*kept, ran.encode(), looked.encode()])
    monkeypatch.setenv("THE_PASSWORD", "wrong-one")
    refused = run("run", stream, "--kafka-config", "client", "-o", "other", code=2)
    assert "does not let us in; see user, password and mechanism" in refused
    assert "wrong-one" not in refused


@pytest.mark.whole
def test_partitions_that_run_apart_are_remarked_on_once(broker: Broker) -> None:
    broker.create("apart", partitions=2)
    Path("q.yaml").write_text("attributes: {x: max}\nid: id\ntime: time\nlifetime: 1000\n")
    for partition, lag in ((0, 0), (1, 30)):
        some = [{"id": f"{partition}-{i}", "time": i - lag, "x": i % 7} for i in range(100, 200)]
        broker.send("apart", values(some), partition=partition)
    printed = run("run", broker.url("apart"), "-o", "out", "--max-rows-per-batch", "40")
    assert printed.count("the 2 partitions of topic 'apart' run apart") == 1
    assert "State how long to wait with --lateness." in printed
    enough = run("run", broker.url("apart"), "-o", "calm", "--max-rows-per-batch", "40", "--lateness", "29")
    assert "run apart" not in enough
    assert pc.sum(pq.read_table("calm/health")["late"]).as_py() == 0


def test_what_cannot_be_read_is_one_sentence(broker: Broker) -> None:
    broker.create("readings")
    assert "has no topic 'reading'" in run("run", broker.url("reading"), "-o", "out", code=2)
    assert "has no topic 'reading'. Did you mean 'readings'?" in run("check", broker.url("reading"), code=2)
    assert "a topic is read by Spark" in run("run", broker.url("readings"), "-o", "out", "--engine", "embedded", code=2)
    assert "--starting is for topics, and 'in' is none" in run("run", "in", "-o", "out", "--starting", "latest", code=2)
    assert "names no topic" in run("run", "kafka://host", "-o", "out", code=2)
    assert "--starting is 'soon'; it may be" in run(
        "run", broker.url("readings"), "-o", "out", "--starting", "soon", code=2
    )
    assert not Path("out", "about.json").exists()
    assert "has no topic 'out'; make it first" in run(
        "run", broker.url("readings"), "-o", "out", "--to", broker.url("out"), code=2
    )


@pytest.mark.whole
def test_an_empty_topic_is_followed_from_its_first_message_on(broker: Broker) -> None:
    broker.create("empty")
    assert "no new" in run("run", broker.url("empty"), "-o", "out")
    broker.send("empty", values(rows(20)))
    assert "20 rows" in run("run", broker.url("empty"), "-o", "out")


AVRO = {
    "type": "record",
    "name": "reading",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "time", "type": "long"},
        {"name": "site", "type": "string"},
        {"name": "x", "type": ["null", "double"]},
        {"name": "y", "type": ["null", "int"]},
    ],
}


@pytest.mark.whole
def test_avro_is_read_where_spark_has_it_and_the_package_is_named_where_not(broker: Broker) -> None:
    from io import BytesIO

    import fastavro

    schema, messages = fastavro.parse_schema(AVRO), []
    for row in rows(40):
        packed = BytesIO()
        fastavro.schemaless_writer(packed, schema, row)
        messages.append(packed.getvalue())
    Path("reading.avsc").write_text(json.dumps(AVRO))
    broker.create("avro")
    broker.send("avro", [*messages, b"x", None])
    words = ["run", broker.url("avro"), "-o", "out", "--avro-schema", "reading.avsc"]
    if "spark-avro" not in spark_jars():
        assert "--packages org.apache.spark:spark-avro_2.13:" in run(*words, code=2)
        return
    assert "42 rows" in run(*words)
    assert [(row["line"], row["reason"]) for row in rejects()] == [(40, NOT_PARSED), (41, NOT_PARSED)]
    broker.create("json")
    broker.send("json", values(rows(40)))
    run("run", broker.url("json"), "-o", "other")
    assert pq.read_table("out/changes") == pq.read_table("other/changes")


@pytest.mark.whole
def test_a_broker_that_is_not_there_and_a_connector_that_is_missing(tmp_path: Path) -> None:
    assert "no broker of 127.0.0.1:1 answers within 10 s" in run("run", "kafka://127.0.0.1:1/x", "-o", "out", code=2)
    env = {**os.environ, "PYSPARK_SUBMIT_ARGS": "pyspark-shell"}
    words = ["run", "kafka://127.0.0.1:1/x", "-q", "q.yaml", "-o", "out", "--master", "local[1]"]
    python = [sys.executable, "-c", "from fogline.cli import app; app()"]
    done = subprocess.run([*python, *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "give it one: --packages org.apache.spark:spark-sql-kafka-0-10_2.13:" in " ".join(done.stderr.split())
