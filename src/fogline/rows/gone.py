"""Which rows remove their id?

By a column of truth values: true or false, 1 or 0, also as texts; a missing one is false, and anything else refuses its
row. Or by a column and a list of its values: those remove, all others, missing ones among them, do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags
from fogline.errors import RowsError
from fogline.question import as_text
from fogline.rows.clock import Reasons, is_missing
from fogline.rows.text import quoted

_MEANING = {"true": True, "false": False, "1": True, "0": False, "": False}


def read_gone(column: Any, gone: str | Mapping[str, Sequence[str]], refused: Reasons) -> Flags:
    """(n,) where the column, an Arrow array or a list, means a removal. `gone` is that of the query.

    >>> read_gone([True, 0, "TRUE", None], "gone", {}), read_gone(["d", "u", None], {"op": ["d"]}, {})
    (array([ True, False,  True, False]), array([ True, False, False]))
    """
    name, values = (gone, None) if isinstance(gone, str) else next(iter(gone.items()))
    if isinstance(column, pa.BooleanArray) and values is None:
        return np.asarray((column.fill_null(False) if column.null_count else column).to_numpy(zero_copy_only=False))
    if isinstance(column, pa.Array):
        distinct, code = _distinct(column, name)
    else:
        distinct = list(column)
        code = np.arange(len(distinct))
    meanings = [_meaning(each, values) for each in distinct]
    unclear = np.array([each is None for each in meanings], np.bool_)
    for i in np.flatnonzero(unclear[code]).tolist() if unclear.any() else ():
        cell = quoted(distinct[code[i]])
        refused.setdefault(i, f"{name!r} is {cell}, which is neither true nor false, so it is unknown what it removes")
    return np.asarray(np.array([each is True for each in meanings], np.bool_)[code])


def _distinct(column: pa.Array, name: str) -> tuple[list[Any], Any]:
    """The different cells of a column, and (n,) which of them each one is."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_nested(plain.type):
        raise RowsError(f"{name!r} has type {column.type}; what removes an id is a single value.")
    encoded = plain.dictionary_encode("encode")
    try:
        cells = encoded.dictionary.to_pylist()
    except (OverflowError, ValueError):  # dates that no calendar has
        cells = [str(each) for each in encoded.dictionary.cast(pa.int64(), safe=False).to_pylist()]
    return cells, encoded.indices.to_numpy(zero_copy_only=False)


def _meaning(cell: Any, values: Sequence[str] | None) -> bool | None:
    """Whether a cell means a removal; None: it means neither."""
    if is_missing(cell):
        return False
    try:
        text = as_text(cell)
    except ValueError:  # a number of thousands of digits cannot be written
        return None if values is None else False
    return text in values if values is not None else _MEANING.get(text.lower())
