"""How do record batches reach a library that reads them as a stream, in types that its store has?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa


def cast_to(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a batch, in their order, as those of a schema."""
    columns = []
    for each, field in zip(batch.columns, schema, strict=True):
        plain = each.dictionary_decode() if pa.types.is_dictionary(each.type) else each
        if isinstance(plain.type, pa.BaseExtensionType) and plain.type != field.type:
            plain = pa.array([None if value is None else str(value) for value in plain.to_pylist()], pa.string())
        columns.append(plain if plain.type == field.type else plain.cast(field.type))
    return pa.record_batch(columns, schema=schema)


@contextmanager
def streamed(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, to: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[Any]:
    """A reader over batches, each made ready by `to`.

    What goes wrong in them is raised as it was: a library would make an error of its own of it.
    """
    failed: list[Exception] = []

    def ready() -> Iterator[pa.RecordBatch]:
        try:
            for each in batches:
                yield to(each)
        except Exception as error:
            failed.append(error)
            raise

    try:
        yield pa.RecordBatchReader.from_batches(schema, ready())
    except Exception:
        if failed:
            raise failed[0] from None
        raise
