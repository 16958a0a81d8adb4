"""Which rows hold bytes that are no text?

A column of texts may hold any bytes: files are written by many hands. A row that has such bytes where the query looks
is refused; everywhere they are replaced by U+FFFD, so that no later step stumbles over them.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from fogline.rows.clock import Reasons
from fogline.rows.text import is_text, mended


def cleaned(batch: pa.RecordBatch, asked: Collection[str], refused: Reasons) -> pa.RecordBatch:
    """The batch with texts that are texts; rows with others in the columns `asked` are refused."""
    for k, field in enumerate(batch.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not is_text(kind):
            continue
        column, changed = mended(batch.column(k))
        if changed is None:
            continue
        batch = batch.set_column(k, pa.field(field.name, column.type), column)
        if field.name in asked:
            for i in np.flatnonzero(changed).tolist():
                refused.setdefault(i, f"{field.name!r} holds bytes that are not UTF-8 text")
    return batch
