"""Which rows do files hold: one of a stream (`batches`), or all of a history (`table`)?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from fogline.files.history import history_schema, joined_kinds, kinds_of, left_out, typed, unreadable
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.one_file import batches
from fogline.files.options import Options
from fogline.model import Query
from fogline.rows.text import is_text, quoted, read_numbers

__all__ = ["batches", "table", "with_numbers"]


def table(
    path: str, query: Query | None, options: Options, remark: Callable[[str], None] = lambda text: None
) -> pa.Table:
    """All rows of files: numbers where a column is numbers, names as texts, times as a stream's; see `files.history`.

    What cannot be read is left out, and `remark` gets to know it.
    """
    layout = layout_of(path, query, options, remark=remark, history=True)
    read = [batch for file in files_of(path) for batch in batches(str(file), layout)]
    kinds = joined_kinds(kinds_of(batch, layout) for batch in read)
    bad = [text for batch in read for text in unreadable(batch)]
    if bad:
        remark(left_out(bad))
    return pa.Table.from_batches([typed(batch, layout, kinds) for batch in read], history_schema(layout, kinds))


def with_numbers(rows: pa.Table, query: Query, remark: Callable[[str], None] = lambda text: None) -> pa.Table:
    """The same with texts in the query's attributes read as numbers, and as missing where they are none."""
    for k, field in enumerate(rows.schema):
        if field.name in query.names and is_text(field.type):
            values, bad = read_numbers(rows.column(k).cast(pa.string()).combine_chunks())
            if bad.any():
                first = quoted(rows.column(k)[int(np.flatnonzero(bad)[0])].as_py())
                remark(f"{int(bad.sum()):,} cells of {field.name!r} are no numbers, such as {first}: they are missing.")
            rows = rows.set_column(k, field.name, pa.array(values, mask=np.isnan(values)))
    return rows
