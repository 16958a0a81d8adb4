"""Which topic, on which brokers (kafka://host:port/topic), and how a client shows who it is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

from fogline.documents import read_small_text
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


# --- How a client shows who it is -------------------------------------------------------------------------------------
#
# One file of properties serves both clients: Java's, which Spark's source is, and librdkafka, which the sink and
# `fogline check` are. It is written as either has it (`sasl.mechanism`, `sasl.username`, `sasl.password`,
# `ssl.ca.location`); what the other calls otherwise is translated. `${NAME}` stands for a variable of the environment.

VARIABLE = "FOGLINE_KAFKA_CONFIG"  # the environment may name the file, too
EARLIEST, LATEST = "earliest", "latest"
PER_BATCH = 500_000  # messages of one micro-batch, unless stated
_NAMED = re.compile(r"\$\{(\w+)\}")
_JAVA_ONLY = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.")
_LOGINS = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule",
           "SCRAM-SHA-512": "scram.ScramLoginModule"}  # fmt: skip

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """How a topic is read, as the user states it."""

    starting: str = EARLIEST  # where a run begins that is new: `earliest`, `latest`, or milliseconds since 1970
    per_batch: int = PER_BATCH
    accept_loss: bool = False  # go on, though messages are gone that were not read
    avro: str | None = None  # the schema of values that are Avro, as JSON; None: they are JSON
    config: Config = field(default_factory=dict, repr=False)  # of clients; it may hold secrets


def read_config(path: str | Path | None) -> Config:
    """The properties in a file; without one, those that the environment names; else none."""
    named = path or os.environ.get(VARIABLE)
    if not named:
        return {}
    try:
        lines = read_small_text(named).splitlines()
    except (OSError, UnicodeDecodeError):
        raise FoglineError(
            f"{str(named)!r}, which should hold properties of Kafka's clients, cannot be read."
        ) from None
    found = {}
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare and not bare.startswith(("#", "!")):
            name, mark, value = bare.partition("=")
            if not mark or not name.strip():
                raise FoglineError(f"line {number} of {str(named)!r} is no property; write name=value.")
            found[name.strip().removeprefix("kafka.")] = _filled(value.strip(), str(named), number)
    return found


def _filled(value: str, path: str, number: int) -> str:
    for name in _NAMED.findall(value):
        if name not in os.environ:
            raise FoglineError(f"line {number} of {path!r} asks for the variable {name}, which is not set.")
    return _NAMED.sub(lambda each: os.environ[each[1]], value)


def for_java(config: Config) -> dict[str, str]:
    """The properties as Java's client has them."""
    found = {name: value for name, value in config.items() if name not in _RENAMED}
    mechanism = config.get("sasl.mechanism") or config.get("sasl.mechanisms")
    if mechanism:
        found["sasl.mechanism"] = mechanism
    if "sasl.username" in config and "sasl.jaas.config" not in config:
        login = _LOGINS.get(mechanism or "PLAIN")
        if login is None:
            raise FoglineError(
                f"sasl.mechanism is {mechanism!r}, for which a name and a password are not enough; state "
                "sasl.jaas.config as Java's client of Kafka has it."
            )
        name, password = (_quoted(config.get(each, "")) for each in ("sasl.username", "sasl.password"))
        module = f"org.apache.kafka.common.security.{login}"
        found["sasl.jaas.config"] = f"{module} required username={name} password={password};"
    if "ssl.ca.location" in config:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": config["ssl.ca.location"]}
    return found


_RENAMED = ("sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location")


def for_librdkafka(config: Config) -> dict[str, str]:
    """The properties as librdkafka has them."""
    found = {name: value for name, value in config.items() if not name.startswith(_JAVA_ONLY)}
    login = config.get("sasl.jaas.config", "")
    for name in ("username", "password"):
        stated = re.search(rf'\b{name}="((?:[^"\\]|\\.)*)"', login)
        if stated is not None:
            found.setdefault(f"sasl.{name}", re.sub(r"\\(.)", r"\1", stated[1]))
    if config.get("ssl.truststore.type", "").upper() == "PEM" and "ssl.truststore.location" in config:
        found.setdefault("ssl.ca.location", config["ssl.truststore.location"])
    return found


def refused_property(text: str) -> str:
    """A sentence about properties that librdkafka does not take; it may quote a value, which is not shown.

    >>> refused_property('Invalid value "hush" for configuration property "security.protocol"')
    "the properties of Kafka's clients (--kafka-config) are refused: Invalid value … for … property security.protocol."
    """
    found = re.sub(r'^Invalid value ".*" for (?:configuration )?property', "Invalid value … for … property", text)
    return f"the properties of Kafka's clients (--kafka-config) are refused: {found.replace(chr(34), '')}."


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
