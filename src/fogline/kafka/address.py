"""Which topic, on which brokers? What kafka://host:port/topic means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from fogline.errors import FoglineError

SCHEME = "kafka://"
PORT = 9092
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_BROKER = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """A topic and where to ask for it.

    >>> Address.of("kafka://one:9093,two/readings")
    Address(brokers='one:9093,two:9092', topic='readings', options={})
    """

    brokers: str
    topic: str
    options: dict[str, str] = field(default_factory=dict)  # what stands behind a question mark

    @classmethod
    def of(cls, url: str) -> Address:
        """An error, if this names no topic."""
        if "@" in url:
            raise FoglineError(
                "a user or a password has no place in the address of a topic; put sasl.username and sasl.password into "
                "a file, and name it by --kafka-config."
            )
        rest, _, query = url.removeprefix(SCHEME).partition("?")
        brokers, _, topic = rest.partition("/")
        named = [_BROKER.fullmatch(each) for each in brokers.split(",")]
        if not is_topic(url) or not all(named) or not _TOPIC.fullmatch(topic):
            raise FoglineError(
                f"{url.partition('?')[0]!r} names no topic; write kafka://host:port/topic (several brokers: "
                "host:port,host:port), and a topic of letters, digits, '.', '_' and '-'."
            )
        hosts = [f"{each['host']}:{each['port'] or PORT}" for each in named if each is not None]
        return cls(",".join(hosts), topic, dict(parse_qsl(query, keep_blank_values=True)))

    def __str__(self) -> str:
        return f"{SCHEME}{self.brokers}/{self.topic}"


def is_topic(path: str) -> bool:
    """Whether this is the address of a topic, and not of files."""
    return path.startswith(SCHEME)
