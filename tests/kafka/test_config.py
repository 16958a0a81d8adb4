"""Do both clients get what one file states, and secrets only from there?"""

from __future__ import annotations

from pathlib import Path

import pytest

from fogline.errors import FoglineError
from fogline.kafka.client import VARIABLE, TopicOptions, for_java, for_librdkafka, read_config


def write(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text)
    return path


def test_a_file_serves_both_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_PASSWORD", 'hu"sh\\')
    text = "# who we are\n\nsecurity.protocol=SASL_SSL\nsasl.mechanism = SCRAM-SHA-512\nsasl.username=me\n"
    found = read_config(write(tmp_path, f"{text}sasl.password=${{THE_PASSWORD}}\nssl.ca.location=/ca.pem\n"))
    java, other = for_java(found), for_librdkafka(found)
    assert java["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="hu\\"sh\\\\";'
    )
    assert (java["ssl.truststore.type"], java["ssl.truststore.location"]) == ("PEM", "/ca.pem")
    assert "sasl.password" not in java
    assert (other["sasl.username"], other["sasl.password"], other["ssl.ca.location"]) == ("me", 'hu"sh\\', "/ca.pem")
    again = for_librdkafka(java)
    assert (again["sasl.username"], again["sasl.password"], again["ssl.ca.location"]) == ("me", 'hu"sh\\', "/ca.pem")


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_config(None) == {}
    monkeypatch.setenv(VARIABLE, str(write(tmp_path, "client.id=me")))
    assert read_config(None) == {"client.id": "me"}


def test_what_is_wrong_is_named_without_secrets(tmp_path: Path) -> None:
    with pytest.raises(FoglineError, match="cannot be read"):
        read_config(tmp_path / "none")
    with pytest.raises(FoglineError, match=r"line 2 of .* is no property; write name=value") as caught:
        read_config(write(tmp_path, "sasl.password=hush\nhush\n"))
    assert "hush" not in str(caught.value)
    with pytest.raises(FoglineError, match="asks for the variable NOT_SET_ANYWHERE, which is not set"):
        read_config(write(tmp_path, "sasl.password=${NOT_SET_ANYWHERE}"))
    with pytest.raises(FoglineError, match=r"sasl.mechanism is 'GSSAPI'"):
        for_java({"sasl.mechanism": "GSSAPI", "sasl.username": "me"})


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(TopicOptions(config={"sasl.password": "hush"}))
