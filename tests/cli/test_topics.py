"""What of a topic is refused before anything starts?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from fogline.cli import app
from fogline.cli.options import topic_options
from fogline.cli.places import where_to
from fogline.kafka.client import VARIABLE
from fogline.sinks.kafka import KafkaSink


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "")
    Path("q.yaml").write_text("attributes: {x: max}\nid: id\ntime: time\nlifetime: 40\n")


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "-q", "q.yaml", "-o", "out"], env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    assert not Path("out").exists()
    return " ".join(result.output.split())


def test_an_address_that_names_no_topic() -> None:
    assert "names no topic; write kafka://host:port/topic" in refused("run", "kafka://host")
    assert "no place in the address of a topic" in refused("run", "kafka://me:hush@host/topic")


def test_the_embedded_engine() -> None:
    assert "a topic is read by Spark" in refused("run", "kafka://host/topic", "--engine", "embedded")


def test_options_of_topics_for_files() -> None:
    Path("in").mkdir()
    assert "--starting is for topics, and 'in' is none" in refused("run", "in", "--starting", "latest")
    assert "--accept-loss is for topics" in refused("run", "in", "--accept-loss")


def test_so_many_messages_at_once() -> None:
    nothing = {"starting": None, "accept_loss": None, "avro_schema": None}
    options = topic_options("kafka://host/topic", "spark", 40, None, **nothing)
    assert options is not None
    assert options.per_batch == 40


def test_a_time_that_is_none() -> None:
    words = "--starting is 'soon'; it may be earliest, latest, or a time such as 2024-05-01T12:00:00Z"
    assert words in refused("run", "kafka://host/topic", "--starting", "soon")


def test_a_file_of_secrets_that_is_not_there() -> None:
    assert "'nowhere', which should hold properties" in refused(
        "run", "kafka://host/topic", "--kafka-config", "nowhere"
    )
    assert not os.environ[VARIABLE]  # it does not stay for the next call


def test_a_file_of_secrets_is_also_that_of_a_sink_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in ("client", "other"):
        (tmp_path / name).write_text(f"client.id={name}\n")
    urls = ["kafka://host/topic", f"kafka://host/own?config={tmp_path / 'other'}"]
    for given, names in ((tmp_path / "client", ["client", "other"]), (None, [None, "other"])):
        _, sinks = where_to("in", str(tmp_path / "out"), urls, None, given)
        assert [(cast(KafkaSink, each).config or {}).get("client.id") for each in sinks] == names


def test_a_schema_that_is_not_there() -> None:
    assert "'none.avsc' is not there" in refused("run", "kafka://host/topic", "--avro-schema", "none.avsc")


@pytest.mark.parametrize("text", ["nonsense.property=hush", "security.protocol=hush"])
def test_properties_that_clients_refuse_are_one_sentence_without_their_values(text: str) -> None:
    pytest.importorskip("confluent_kafka")
    Path("client.properties").write_text(text + "\n")
    words = "check", "kafka://127.0.0.1:1/topic", "-q", "q.yaml", "--kafka-config", "client.properties"
    checked = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    Path("in").mkdir()
    Path("in/a.csv").write_text("id,time,x\na,1,2\n")
    to = "kafka://127.0.0.1:1/topic?config=client.properties"
    run = "run", "in", "-q", "q.yaml", "--engine", "embedded", "--checkpoint", "run", "--to", to
    for result in (checked, CliRunner().invoke(app, run, env={"COLUMNS": "200"})):
        shown = " ".join(result.output.split())
        assert result.exit_code == 2
        assert "the properties of Kafka's clients (--kafka-config) are refused: " in shown
        assert text.partition("=")[0] in shown
        assert "hush" not in shown
        assert "did not foresee" not in shown
