"""Which rows do files hold: one of a stream (`batches`), or all of a history (`table`)?"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from fogline.files.history import history_schema, joined_kinds, kinds_of, left_out, typed, unreadable
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.one_file import batches
from fogline.files.options import Options
from fogline.query import Query
from fogline.rows.clock import in_zone

__all__ = ["batches", "table"]


def table(
    path: str,
    query: Query | None,
    options: Options,
    remark: Callable[[str], None] = lambda text: None,
    *,
    zoned: bool = False,
) -> pa.Table:
    """All rows of files: numbers where a column is numbers, names as texts, times as a stream's; see `files.history`.

    What cannot be read is left out, and `remark` gets to know it. `zoned`: times are in the zone that they carry.
    """
    layout = layout_of(path, query, options, remark=remark, history=True)
    read = [batch for file in files_of(path) for batch in batches(str(file), layout)]
    kinds = joined_kinds(kinds_of(batch, layout) for batch in read)
    bad = [text for batch in read for text in unreadable(batch)]
    if bad:
        remark(left_out(bad))
    found = pa.Table.from_batches([typed(batch, layout, kinds) for batch in read], history_schema(layout, kinds))
    for name in layout.roles.times if zoned else ():
        if name in found.schema.names:
            found = found.set_column(found.schema.names.index(name), name, in_zone(found[name], layout.zone))
    return found
