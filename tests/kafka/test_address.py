"""Does an address name the topic that is meant, and is any other refused in words?"""

from __future__ import annotations

import pytest

from fogline.errors import FoglineError
from fogline.kafka.client import Address, is_topic


def test_several_brokers_and_the_usual_port() -> None:
    found = Address.of("kafka://one:9093,two,[::1]:7/my.topic-1?rejects=bad")
    assert (found.brokers, found.topic) == ("one:9093,two:9092,[::1]:7", "my.topic-1")
    assert found.options == {"rejects": "bad"}
    assert str(found) == "kafka://one:9093,two:9092,[::1]:7/my.topic-1"


@pytest.mark.parametrize("url", ["kafka://", "kafka://host", "kafka:///topic", "kafka://h/a/b", "kafka://h:x/t", "in/"])
def test_what_names_no_topic_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(FoglineError, match=r"names no topic; write kafka://host:port/topic"):
        Address.of(url)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(FoglineError, match="--kafka-config") as caught:
        Address.of("kafka://me:hush@host/topic")
    assert "hush" not in str(caught.value)


def test_paths_of_files_are_no_topics() -> None:
    assert is_topic("kafka://h/t")
    assert not is_topic("/data/kafka")
