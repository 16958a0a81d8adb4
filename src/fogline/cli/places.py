"""Where shall the batches of a run go, as options of a command state it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fogline.errors import QueryError
from fogline.files.listing import absolute, must_be_apart
from fogline.kafka.client import Address, is_topic, read_config
from fogline.output.folder_sink import FolderSink
from fogline.output.sink import Sink
from fogline.sinks.delta import DeltaSink
from fogline.sinks.kafka import KafkaSink
from fogline.sinks.places import refuse_overlaps, shown, sink_for


def where_to(
    stream: str, output: str | None, to: Sequence[str], checkpoint: str | None, kafka_config: Path | None = None
) -> tuple[str, tuple[Sink, ...]]:
    """The run's own folder, and the sinks beside it. `kafka_config`: for topics whose address names no such file."""
    if output is not None and checkpoint is not None:
        raise QueryError(f"--output keeps what a restart needs itself; leave --checkpoint {checkpoint} out.")
    if output is None and not to:
        raise QueryError("say where the answer goes: --output FOLDER, or another place with --to.")
    folder = output if output is not None else checkpoint
    if folder is None:
        raise QueryError(
            "--to without --output needs --checkpoint FOLDER: what a restart needs is kept there. Or add "
            "--output FOLDER."
        )
    if twice := [each for each, count in Counter(to).items() if count > 1]:
        raise QueryError(f"--to {shown(twice[0])} is named twice; each batch goes there once.")
    sinks = tuple(sink_for(each, typed=True) for each in to)
    for sink in sinks:
        if isinstance(sink, FolderSink | DeltaSink):
            if sink.path == absolute(folder):
                raise QueryError(f"--to {sink.path} is the output itself, which gets every batch; leave --to out.")
            must_be_apart(stream, sink.path)
        if isinstance(sink, KafkaSink):
            _refuse_circle(stream, sink)
            if sink.config is None and kafka_config is not None:
                sink.config = read_config(kafka_config)
    refuse_overlaps(sinks, folder)
    return folder, sinks


def _refuse_circle(stream: str, sink: KafkaSink) -> None:
    """A topic that is read and written would be read again, for ever."""
    if is_topic(stream):
        read = Address.of(stream)
        same = set(read.brokers.split(",")) & set(sink.address.brokers.split(","))
        if same and read.topic in (sink.address.topic, sink.rejects):
            raise QueryError(
                f"--to {sink.place} writes to the topic that is read: it would be read again. Name another topic."
            )
