"""Which rows hold bytes that are no text?

A column of texts may hold any bytes: files are written by many hands. A row that has such bytes where the query looks
is refused; there they are replaced by U+FFFD, so that no later step stumbles over them.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from fogline.rows.clock import Reasons
from fogline.rows.text import is_text, mended


class Cleaner:
    """Cleans the columns `asked` of record batches, most of which have the same columns."""

    def __init__(self, asked: Collection[str | None]) -> None:
        self.asked = asked
        self.schema: pa.Schema | None = None
        self.texts: list[tuple[int, str]] = []  # where texts lie in it, of the columns asked

    def clean(self, batch: pa.RecordBatch, refused: Reasons) -> pa.RecordBatch:
        """The batch with texts that are texts; rows with others are refused."""
        if self.schema is None or not batch.schema.equals(self.schema):
            self.schema = batch.schema
            named = [(k, field) for k, field in enumerate(self.schema) if field.name in self.asked]
            self.texts = [(k, field.name) for k, field in named if _holds_texts(field.type)]
        for k, name in self.texts:
            column, changed = mended(batch.column(k))
            if changed is not None:
                batch = batch.set_column(k, pa.field(name, column.type), column)
                for i in np.flatnonzero(changed).tolist():
                    refused.setdefault(i, f"{name!r} holds bytes that are not UTF-8 text")
        return batch


def _holds_texts(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)
