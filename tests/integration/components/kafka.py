"""A broker of Kafka of our own (KRaft, one node), in a temporary folder, on free ports of this machine."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.integration.components.postgres import free_port
from tools.components import COMMAND, broker_jars, connector_jars

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
USER, PASSWORD = "fogline", "hush-hush-9"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


@dataclass
class Broker:
    """A broker that can be killed and started again."""

    folder: Path
    port: int = field(default_factory=free_port)
    sasl: int = field(default_factory=free_port)  # where it asks who is there
    controller: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """Its address, as clients have it."""
        return f"127.0.0.1:{self.port}"

    def url(self, topic: str) -> str:
        """A topic, as Fogline has it."""
        return f"kafka://{self.servers}/{topic}"

    def start(self) -> None:
        """It answers when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        given = self.folder / "server.properties"
        ports = {"port": self.port, "sasl": self.sasl, "controller": self.controller}
        login = {"user": USER, "password": PASSWORD, "data": self.folder / "data"}
        given.write_text(PROPERTIES.format(**ports, **login))
        if not (self.folder / "data" / "meta.properties").exists():
            words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(given)]
            subprocess.run([*_java(), *words], check=True, capture_output=True, timeout=120)
        with (self.folder / "log").open("ab") as log:
            words = [*_java(), "kafka.Kafka", str(given)]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        limit = monotonic() + 120
        while not self.answers():
            if self.process.poll() is not None or monotonic() > limit:
                raise RuntimeError(f"the broker does not start:\n{(self.folder / 'log').read_text()[-3000:]}")
            sleep(0.1)

    def answers(self) -> bool:
        """Whether a client gets an answer."""
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def admin(self) -> Any:
        """A client that makes topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0, "logger": _silent()})

    def create(self, *topics: str, partitions: int = 1, **config: str) -> None:
        """Topics that are there when this returns."""
        from confluent_kafka.admin import NewTopic

        admin = self.admin()
        asked = [NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})
                 for name in topics]  # fmt: skip
        for future in admin.create_topics(asked).values():
            future.result(60)

    def send(self, topic: str, values: Iterable[bytes | None], **beside: Any) -> None:
        """Messages, one after another. `beside`: partition, or functions of the position: key, headers, partition."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20, "logger": _silent()})
        for i, value in enumerate(values):
            given = {name: each(i) if callable(each) else each for name, each in beside.items()}
            while True:
                try:
                    producer.produce(topic, value, **given)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0, "the broker has not taken all messages"

    def read(self, topic: str, *, committed: bool = True) -> list[Any]:
        """All messages that are there."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        level = "read_committed" if committed else "read_uncommitted"
        given = {"bootstrap.servers": self.servers, "group.id": "tests", "isolation.level": level, "logger": _silent()}
        consumer = Consumer({**given, "enable.auto.commit": False, "enable.partition.eof": True})
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        found: list[Any] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            if message.error() is None:
                found.append(message)
            else:
                ended.add(message.partition())
        consumer.close()
        return found

    def kill(self) -> None:
        """SIGKILL: nothing is written in the last moment."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(20)
            self.process = None


@contextmanager
def kafka() -> Iterator[Broker]:
    """A broker without topics; skipped, with the command that would fetch it, where there are no jars."""
    if not broker_jars() or not connector_jars():
        pytest.skip(f"there are no jars of Kafka here: {COMMAND}")
    pytest.importorskip("confluent_kafka", reason="pip install 'fogline[kafka]'")
    broker = Broker(Path(tempfile.mkdtemp(prefix="fogline-kafka-")))
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(broker.folder, ignore_errors=True)


def spark_jars() -> str:
    """What Spark needs, as `spark.jars` has it."""
    return ",".join(map(str, connector_jars()))


def _java() -> list[str]:
    from fogline.spark.java import find_java

    path = ":".join(map(str, broker_jars()))
    java = find_java() / "bin" / "java"
    return [str(java), "-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]


def _silent() -> Any:
    """librdkafka writes to stderr that a broker is gone, which is what some tests are about."""
    import logging

    logger = logging.getLogger("kafka.tests")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
