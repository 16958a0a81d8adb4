"""How do several record batches become one, however much text they hold?

A column of text counts its letters in 32 bits: Arrow joins 2 GB of it, and gives back several columns where there is
more. Such a column becomes one that counts in 64 bits, so that no row is left behind. What cannot be joined even then
(much text within lists) is refused with words.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fogline.errors import RowsError

LIMIT = 2**31 - 1  # bytes that 32 bits can count
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def joined(parts: Sequence[pa.RecordBatch] | pa.Table) -> pa.RecordBatch:
    """All rows of some record batches (of at least one), or of a table, in order. Copies nothing if there is one."""
    batches = parts.to_batches() if isinstance(parts, pa.Table) else parts
    if len(batches) == 1:
        return batches[0]
    schema = parts.schema if isinstance(parts, pa.Table) else batches[0].schema
    if not batches:
        return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)
    if not len(schema):
        return batches[0].slice(0, 0)
    columns = [joined_column([batch.column(k) for batch in batches], name) for k, name in enumerate(schema.names)]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def joined_column(parts: Sequence[pa.Array], name: str) -> pa.Array:
    """All cells of some arrays (of at least one), in order."""
    if len(parts) == 1:
        return parts[0]
    large = _LARGE.get(parts[0].type)
    kinds = {each.type for each in parts}
    if large is not None and (large in kinds or sum(each.nbytes for each in parts) > LIMIT):
        kinds, parts = {large}, [each.cast(large) for each in parts]
    elif len(kinds) > 1:  # some were joined before, and hold much text
        parts = [each.cast(parts[0].type) for each in parts]
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid as error:
        raise RowsError(
            f"the {sum(len(each) for each in parts)} cells of column {name!r} ({parts[0].type}) cannot be put "
            f"together: {error}.\nTake fewer rows at once, or leave the column out."
        ) from error
