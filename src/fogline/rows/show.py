"""How is a row shown as it came, whatever is in it?

Arrow holds values that Python has none for: instants beyond the year 9999, bytes that are no text. A reject must show
them all the same, so what cannot be a Python value is shown as a text.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_UNSHOWN = (ValueError, OverflowError, TypeError, LookupError, pa.ArrowException)  # a zone may be unknown


def row_of(batch: pa.RecordBatch, i: int) -> dict[str, Any]:
    """A row of a record batch as Python values.

    >>> far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    >>> row_of(pa.record_batch([far, pa.array(["a"])], ["t", "id"]), 0)
    {'t': '4611686018427387904 (timestamp[us])', 'id': 'a'}
    """
    one = batch.slice(i, 1)
    try:
        whole: dict[str, Any] = one.to_pylist()[0]
        return whole
    except _UNSHOWN:
        return {name: _cell(column) for name, column in zip(one.schema.names, one.columns, strict=True)}


def _cell(column: pa.Array) -> Any:
    try:
        return column[0].as_py()
    except _UNSHOWN:
        return _as_text(column)


def _as_text(column: pa.Array) -> str:
    """What Python cannot hold: bytes as far as they are text, else the number behind it, or Arrow's own words."""
    kind = column.type
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return str(column.cast(pa.large_binary())[0].as_py().decode("utf-8", "replace"))
        width = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        return f"{column.cast(width)[0].as_py()} ({kind})"
    except _UNSHOWN:
        return f"a value of type {kind}"
