"""What does an attribute's column hold, whatever it came in?

An Arrow array or a list of Python values becomes an Arrow array of doubles, or of (value, weight) lists where any cell
is a distribution. A cell that cannot be read, or that float64 cannot hold (see `exact`), gets a reason, which rejects
its row and disturbs no other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Flags
from fogline.errors import RowsError
from fogline.question import UNHELD, as_real
from fogline.rows.clock import REAL, Reasons, is_missing
from fogline.rows.exact import reals, unheld_texts
from fogline.rows.text import NULL_WORDS, is_text, mended, quoted, read_numbers

PAIRS = pa.list_(pa.struct([("value", REAL), ("weight", REAL)]))


def read_cells(column: Any, name: str, refused: Reasons) -> pa.Array:
    """An attribute's column as doubles, or as lists of (value, weight) when any cell is a distribution."""
    if not isinstance(column, pa.Array):
        return _python_cells(column, name, refused)
    kind = column.type
    if kind in (REAL, PAIRS):
        return column
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _pairs_of(column, name, refused)
    if pa.types.is_dictionary(kind):
        return read_cells(column.dictionary_decode(), name, refused)
    if is_text(kind):
        values, bad = read_numbers(column)
        for i in np.flatnonzero(bad).tolist():
            refused.setdefault(i, f"{name!r} is {quoted(column[i].as_py())}, which is not a number")
        _refuse(refused, name, column, unheld_texts(column, values))
        return pa.array(values)
    found, unheld = _reals(column, name)
    _refuse(refused, name, column, unheld)
    return found


def _refuse(refused: Reasons, name: str, column: pa.Array, unheld: Flags | None, row: Any = None) -> None:
    """The rows with cells that no float holds; `row`: that of each cell, where it is not its place."""
    for i in [] if unheld is None else np.flatnonzero(unheld).tolist():
        text = f"{name!r} {'is' if row is None else 'holds'} {_written(column[i].as_py())}"
        refused.setdefault(i if row is None else int(row[i]), f"{text}, {UNHELD}")


def _reals(column: pa.Array, name: str) -> tuple[pa.Array, Flags | None]:
    """Numbers as doubles, and those that no double holds."""
    if is_text(column.type):  # within pairs: what is no number refuses its row, as infinity does
        texts = mended(column)[0]
        values, bad = read_numbers(texts)
        return pa.array(np.where(bad, np.inf, values)), unheld_texts(texts, values)
    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numeric or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise RowsError(f"attribute {name!r} has type {kind}, which holds no numbers.")
    return reals(column)


def _pairs_of(column: pa.Array, name: str, refused: Reasons) -> pa.Array:
    """Lists whose pairs are not written as we write them: other names first, other number types, large lists."""
    inner = column.type.value_type
    if not pa.types.is_struct(inner) or min(inner.get_field_index("value"), inner.get_field_index("weight")) < 0:
        raise RowsError(
            f"attribute {name!r} has type {column.type}; a distribution is list<struct<value: double, weight: double>>."
        )
    there = column.is_valid()
    offsets = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0)).cast(pa.int32())
    flat = dict(zip((each.name for each in inner), column.flatten().flatten(), strict=True))
    values, unheld = _reals(flat["value"], name)
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    _refuse(refused, name, flat["value"], unheld, np.repeat(np.arange(len(column)), sizes))
    fields = [values, _reals(flat["weight"], name)[0]]
    pairs = pa.StructArray.from_arrays(fields, fields=list(PAIRS.value_type))
    ends = pa.concat_arrays([pa.array([0], pa.int32()), offsets])
    return pa.ListArray.from_arrays(ends, pairs, mask=pc.invert(there))


def _python_cells(cells: Iterable[Any], name: str, refused: Reasons) -> pa.Array:
    """Python values: numbers, None, NaN, text that reads as a number, or lists of (value, weight) pairs."""
    cells = list(cells)
    if not any(_is_list(cell) for cell in cells):
        return pa.array([_number(cell, i, name, refused) for i, cell in enumerate(cells)], REAL)
    lists = [[{"value": v, "weight": w} for v, w in _pairs(cell, i, name, refused)] for i, cell in enumerate(cells)]
    return pa.array(lists, PAIRS)


def _is_list(cell: object) -> bool:
    if isinstance(cell, np.ndarray):
        return cell.ndim > 0
    return isinstance(cell, Sequence) and not isinstance(cell, str | bytes)


def _number(cell: Any, i: int, name: str, refused: Reasons) -> float:
    if cell is None:
        return math.nan
    try:
        value = as_real(cell)
    except (TypeError, ValueError, ArithmeticError):
        if not (is_missing(cell) or (isinstance(cell, str) and cell.strip().lower() in NULL_WORDS)):
            refused.setdefault(i, f"{name!r} is {quoted(cell)}, which is not a number")
        return math.nan
    if value is None:
        refused.setdefault(i, f"{name!r} is {_written(cell)}, {UNHELD}")
        return math.nan
    return value


def _written(cell: Any) -> str:
    """A number as one writes it."""
    return f"{cell}"[:60] if isinstance(cell, Decimal) else quoted(cell)


def _pairs(cell: Any, i: int, name: str, refused: Reasons) -> list[tuple[float, float]]:
    if not _is_list(cell):
        value = _number(cell, i, name, refused)
        return [] if math.isnan(value) else [(value, 1.0)]
    out = []
    for pair in cell:
        try:
            value, weight = (pair["value"], pair["weight"]) if isinstance(pair, dict) else pair
            real = as_real(value)
            if real is None:
                refused.setdefault(i, f"{name!r} holds {_written(value)}, {UNHELD}")
                return []
            out.append((real, float(weight)))
        except (TypeError, ValueError, KeyError, ArithmeticError):
            refused.setdefault(i, f"{name!r} holds {quoted(pair)}, which is not a (value, weight) pair")
            return []
    return out
