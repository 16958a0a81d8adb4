"""How do messages become rows, in the tasks of Spark?

Spark's own source gives them as bytes; the task that gets them parses the values with `fogline.files.messages`, as
lines of files are parsed, so that no message stops the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.avro.functions import from_avro

from fogline.errors import FoglineError
from fogline.files.messages import MessageReader, Messages
from fogline.files.settled import Layout
from fogline.flow.machine import NOW
from fogline.kafka.address import Address
from fogline.kafka.config import TopicOptions, for_java
from fogline.kafka.layout import HEADERS, PREFIX, asked_beside
from fogline.spark.errors import plainly
from fogline.spark.files import Read

_COMMITTED = {"isolation.level": "read_committed"}  # what a producer has taken back is no row


def messages(reader: Any, address: Address, options: TopicOptions, layout: Layout, given: dict[str, str]) -> DataFrame:
    """Messages as bytes, with what of them is asked for; `given` are options of Spark's source."""
    client = {f"kafka.{name}": value for name, value in {**_COMMITTED, **for_java(options.config)}.items()}
    beside = asked_beside(layout)
    parts: tuple[str, ...] = ("headers",) if any(name.startswith(HEADERS) for name in beside) else ()
    parts += tuple(name for name in ("key", "timestamp") if f"{PREFIX}{name}" in beside)
    given = {"kafka.bootstrap.servers": address.brokers, "subscribe": address.topic, **client, **given}
    given |= {"includeHeaders": str("headers" in parts).lower()}
    with plainly():
        df = reader.format("kafka").options(**given).load()
        return df.select(_value(df, options), "partition", "offset", *parts)


def _value(df: DataFrame, options: TopicOptions) -> Any:
    """The bytes of a message, or, where these are Avro, what they hold."""
    if options.avro is None:
        return df["value"]
    try:
        with redirect_stdout(StringIO()):  # PySpark prints what we state below
            made = from_avro(df["value"], options.avro, {"mode": "PERMISSIVE"}).alias("value")
        _ = df.select(made).schema  # an error, if there is no such function, or the schema is none
    except (PySparkException, TypeError) as error:
        if isinstance(error, PySparkException) and "AVRO_NOT_LOADED" not in str(error).upper():
            raise FoglineError(f"--avro-schema is no schema of Avro: {str(error).splitlines()[0]}") from None
        package = f"org.apache.spark:spark-avro_2.13:{df.sparkSession.version}"
        raise FoglineError(f"Spark has no Avro; give it one: --packages {package}, or its jar by --jars.") from None
    return made


def reader(layout: Layout, address: Address) -> Read:
    """What a task does with messages: their rows, in `layout.schema`."""
    beside = asked_beside(layout)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parser = MessageReader(layout)
        for batch in batches:
            place = pc.binary_join_element_wise(address.topic, batch["partition"].cast(pa.string()), "/")
            columns = {name: beside_value(name, batch) for name in beside}
            found = Messages(batch["value"], place, batch["offset"], columns)
            done = 0
            for rows in parser.rows(found):
                if NOW in batch.schema.names:
                    now = batch.column(NOW).slice(done, rows.num_rows)
                    yield rows.append_column(batch.schema.field(NOW), now)
                else:
                    yield rows
                done += rows.num_rows

    return read


def beside_value(name: str, batch: pa.RecordBatch) -> pa.Array:
    """A column of what a message has beside its value; bytes are taken for UTF-8, and looked at later."""
    if not name.startswith(HEADERS):
        column = batch[name.removeprefix(PREFIX)]
        return column.view(pa.string()) if pa.types.is_binary(column.type) else column
    asked = name.removeprefix(HEADERS)
    last = [
        next((each["value"] for each in reversed(headers or ()) if each["key"] == asked), None)
        for headers in batch["headers"].to_pylist()
    ]
    return pa.array(last, pa.binary()).view(pa.string())
