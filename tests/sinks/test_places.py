"""Does a text name the sink that was meant, and does no secret show?"""

from __future__ import annotations

import pytest

from fogline.errors import FoglineError, QueryError
from fogline.flow.folder_sink import FolderSink
from fogline.flow.sink import name_of
from fogline.sinks import places
from fogline.sinks.delta import DeltaSink
from fogline.sinks.places import sink_for
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
    with pytest.raises(QueryError, match=r"'postgresql://me@host/db\?table=t' holds a password, and a command line"):
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


def test_what_names_no_sink_is_refused_with_a_guess():
    with pytest.raises(QueryError, match=r"(?s)there is no sink 'postgersql'.*Did you mean 'postgresql'\?"):
        sink_for("postgersql://host/db?table=t")
    with pytest.raises(QueryError, match=r"names no table; add \?table=NAME"):
        sink_for("postgresql://host/db")


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    with pytest.raises(FoglineError, match=r"Delta as a sink needs deltalake, .*pip install 'fogline\[delta\]'"):
        places.needs("deltalake", "delta", "Delta as a sink")
