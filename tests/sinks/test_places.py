"""Does a text name the sink that was meant, and does no secret show?"""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from fogline.errors import FoglineError, QueryError
from fogline.output.folder_sink import FolderSink
from fogline.output.sink import name_of
from fogline.sinks import Webhook, places
from fogline.sinks.delta import DeltaSink
from fogline.sinks.places import refuse_overlaps, sink_for
from fogline.sinks.postgres import PostgresSink


def test_texts_name_sinks(tmp_path):
    found = sink_for("postgresql://me@host:5433/db?table=mine&sslmode=require", typed=True)
    assert isinstance(found, PostgresSink)
    assert found.place == "postgresql://me@host:5433/db?sslmode=require&table=mine"
    assert found.session.url.startswith("postgresql://me@host:5433/db?connect_timeout=10&")
    assert "table=" not in found.session.url
    assert isinstance(sink_for(f"delta:{tmp_path}"), DeltaSink)
    assert isinstance(sink_for(str(tmp_path)), FolderSink)
    assert name_of(sink_for("delta:s3://bucket/folder/")) == "delta:s3://bucket/folder"


def test_a_secret_comes_from_the_environment_and_never_shows(monkeypatch):
    url = "postgresql://me:hush@host/db?table=t"
    with pytest.raises(
        QueryError, match=r"'postgresql://me@host/db\?table=t' holds a password, and others can see a command line"
    ):
        sink_for(url, typed=True)
    with pytest.raises(QueryError, match=r"password=…' holds a password"):
        sink_for("postgresql://host/db?table=t&password=hush", typed=True)
    named = "postgresql://me:${DB_PASSWORD}@host/db?table=t"
    with pytest.raises(QueryError, match="names the variable DB_PASSWORD, which is not set"):
        sink_for(named, typed=True)
    monkeypatch.setenv("DB_PASSWORD", "hush")
    for sink in (sink_for(named, typed=True), sink_for(url)):
        assert isinstance(sink, PostgresSink)
        assert "me:hush@host" in sink.session.url
        assert sink.place == "postgresql://me@host/db?table=t"


def test_a_variable_may_hold_a_whole_address_or_a_password_of_any_characters(monkeypatch, tmp_path):
    hard = "p@ss/w#rd?1&%40"
    monkeypatch.setenv("DB_PASSWORD", hard)
    for text in (
        "postgresql://me:${DB_PASSWORD}@host/db?table=t",
        "postgresql://me@host/db?password=${DB_PASSWORD}&table=t",
    ):
        sink = sink_for(text, typed=True)
        assert isinstance(sink, PostgresSink)
        parts = urlsplit(sink.session.url)
        assert parts.hostname == "host"
        assert parts.path == "/db"
        assert hard in (unquote(parts.password or ""), dict(parse_qsl(parts.query)).get("password"))
        assert "p@ss" not in sink.place
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hush@host/db?table=t")
    whole = sink_for("${DATABASE_URL}", typed=True)
    assert isinstance(whole, PostgresSink)
    assert whole.place == "postgresql://me@host/db?table=t"
    monkeypatch.setenv("PLACE", str(tmp_path / "a b#c"))
    assert name_of(sink_for("${PLACE}/out", typed=True)) == str(tmp_path / "a b#c" / "out")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql:me:hush@host/db?table=t",
        "postgresql://me:hush@[::1/db?table=t",
        "delta:s3://me:hush@bucket/folder",
        "webhook+https://host/path?key=hush",
        "webhook+https://host/path?sig=hush",
    ],
)
def test_a_secret_in_an_odd_address_is_refused_and_not_shown(text):
    with pytest.raises(QueryError) as error:
        sink_for(text, typed=True)
    assert "hush" not in str(error.value)


SECRET_PATHS = [
    "services/T000/B000/XXXX",
    "api/webhooks/1234567890/aBcD",
    "hooks/0b7e2c1e-94d1-4a57-9d6b-0c9d7a3f6f10",
    "bot12:AbC/send",
    "correcthorsebatterystaple",
    "x?code=XXXX",
    "x?XXXX",
    "x#XXXX",
    "%58%58",
]


@pytest.mark.parametrize("path", SECRET_PATHS)
def test_a_path_that_may_be_a_secret_is_not_typed_and_no_path_is_shown(path, monkeypatch):
    text = f"webhook+https://hooks.example:8443/{path}"
    with pytest.raises(QueryError) as error:
        sink_for(text, typed=True)
    assert str(error.value).startswith("'webhook+https://hooks.example:8443/…' ")
    assert "Write ${NAME} there" in str(error.value)
    assert "XXXX" not in str(error.value)
    assert not any(word in str(error.value) for word in path.split("/") if len(word) > 8)
    monkeypatch.setenv("HOOK", path)
    for sink in (sink_for("webhook+https://hooks.example:8443/${HOOK}", typed=True), sink_for(text)):
        assert isinstance(sink, Webhook)
        assert sink.parts.geturl() == f"https://hooks.example:8443/{path}"
        assert name_of(sink) == "webhook+https://hooks.example:8443/…"
        assert path not in repr(sink)


@pytest.mark.parametrize(
    "path", ["", "/", "/alerts", "/v1/rooms/12/gas-alerts", "/alerts?room=1", "/a/${HUSH}?key=${HUSH}"]
)
def test_a_path_of_plain_words_may_be_typed(path, monkeypatch):
    monkeypatch.setenv("HUSH", "hush")
    assert isinstance(sink_for(f"webhook+https://me:${{HUSH}}@host{path}", typed=True), Webhook)


@pytest.mark.parametrize(
    "text",
    [
        "webhook+https:host/services/XXXX",
        "webhook+https://[::1/services/XXXX",
        "webhook+https://host:port/services/XXXX",
        "https://host/services/XXXX",
        "webhok+https://host/services/XXXX",
        "webhook+https://XXXX@host/services/XXXX?token=XXXX",
        "webhook+https://host/services/XXXX/${NOT_SET}",
        "kafka://host/no topic?sasl.password=XXXX",
    ],
)
def test_an_address_that_is_refused_is_shown_without_its_path(text):
    for typed in (True, False):
        if "?token" in text and not typed:
            continue
        with pytest.raises(FoglineError) as error:
            sink_for(text, typed=typed)
        assert "XXXX" not in str(error.value)


def test_what_a_web_address_has_beyond_its_host_is_not_shown(monkeypatch):
    monkeypatch.setenv("HOOK", "T0/B0/hush")
    assert name_of(sink_for("webhook+https://host:8443/services/${HOOK}", typed=True)) == "webhook+https://host:8443/…"


def test_a_database_of_this_machine_is_named_without_a_host():
    sink = sink_for("postgresql:///db?host=/tmp&table=t", typed=True)
    assert isinstance(sink, PostgresSink)
    assert sink.session.url.startswith("postgresql:///db?")


def test_a_place_that_is_empty_or_no_address_is_refused():
    with pytest.raises(QueryError, match="is empty; name one"):
        sink_for("", typed=True)
    with pytest.raises(QueryError, match="cannot be read; check its brackets"):
        sink_for("postgresql://[::1/db?table=t")
    with pytest.raises(QueryError, match="is no web address"):
        sink_for("webhook+https://host:port/path")


def test_an_address_of_this_machines_files_is_a_path(tmp_path):
    assert name_of(sink_for(f"file://{tmp_path}/out@2")) == f"{tmp_path}/out@2"


def test_what_names_no_sink_is_refused_with_a_guess():
    with pytest.raises(QueryError, match=r"(?s)there is no sink 'postgersql'.*Did you mean 'postgresql'\?"):
        sink_for("postgersql://host/db?table=t")
    with pytest.raises(QueryError, match=r"names no table; add \?table=NAME"):
        sink_for("postgresql://host/db")


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    with pytest.raises(FoglineError, match=r"Delta as a sink needs deltalake, .*pip install 'fogline\[delta\]'"):
        places.needs("deltalake", "delta", "Delta as a sink")


def test_one_place_twice_and_folders_in_one_another_are_refused(tmp_path):
    folder, table = sink_for(str(tmp_path / "a")), sink_for(f"delta:{tmp_path}/a")
    refuse_overlaps([folder, sink_for(f"delta:{tmp_path}/ab")], str(tmp_path / "run"))
    refuse_overlaps([sink_for("delta:s3://bucket/a")], "s3a://bucket/a")
    with pytest.raises(QueryError, match="is named twice as a place"):
        refuse_overlaps([folder, sink_for(f"{tmp_path}/b/../a")], str(tmp_path / "run"))
    for sinks, own in (([folder, table], "run"), ([table], "a"), ([table], "a/b"), ([folder], ".")):
        with pytest.raises(QueryError, match="are one folder, or one lies in the other"):
            refuse_overlaps(sinks, str(tmp_path / own))
