"""How does a column of any type become numbers that compare as its values do?

Numbers as they are; truth values as 0 and 1; instants and lengths of time by their units; texts that read as numbers.
Whole numbers beyond 2^53, which floats would round, are counted from the least of them. An infinity compares as it
should, beyond all others, and teaches nothing about gaps. What cannot be compared exactly is an error, not a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import EXACT, Floats
from fogline.errors import QueryError, RowsError
from fogline.rows.cells import PAIRS, read_cells
from fogline.rows.clock import Reasons
from fogline.rows.text import is_text, mended
from fogline.rows.usual import usual_column


class Measure(NamedTuple):
    """A column that counts."""

    cells: pa.Array  # doubles, null where missing; or lists of (value, weight)
    known: pa.Array | None  # the doubles that are finite, to learn from; None: distributions
    gaps: bool
    nothing: bool  # not one value is known


def measure(column: pa.Array | list[Any], name: Hashable, label: Callable[[int], str]) -> Measure:
    """The column as numbers, or an error that names the column and a row of it."""
    if isinstance(column, pa.Array):
        column = _plain(usual_column(column))
        if pa.types.is_integer(column.type):
            return _of(_whole(column, name), name)
    cells = _read(column, name, label)
    if cells.type == PAIRS:
        return Measure(cells, None, cells.null_count > 0, len(cells) > 0 and cells.null_count == len(cells))
    values = np.array(cells.to_numpy(zero_copy_only=False), np.float64)
    if isinstance(column, list):
        exact = [each for each in column if isinstance(each, int | Decimal)]
        _must_differ(len({*exact}), len({float(each) for each in exact}), name)
    elif pa.types.is_decimal(column.type):
        _must_differ(pc.count_distinct(column).as_py(), len(np.unique(values[~np.isnan(values)])), name)
    return _of(values, name)


def _plain(column: pa.Array) -> pa.Array:
    """Without dictionaries; instants and lengths of time as whole numbers."""
    if pa.types.is_dictionary(column.type):
        return _plain(column.dictionary_decode())
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_temporal(kind) and not pa.types.is_interval(kind) else column


def _read(column: Any, name: Hashable, label: Callable[[int], str]) -> pa.Array:
    bad = Reasons()
    if isinstance(column, pa.Array) and is_text(column.type):
        column, changed = mended(column)
        for i in [] if changed is None else np.flatnonzero(changed).tolist():
            raise QueryError(f"{label(i)} cannot be compared: it holds bytes that are not UTF-8 text. Mend it.")
    try:
        cells = read_cells(column, str(name), bad)
    except RowsError as error:
        raise QueryError(f"{str(error).rstrip('.')}; leave it out, or make numbers of it first.") from None
    for i, reason in bad.items():
        kind = "Map its texts to numbers first" if _texts(column) else "Mend it, or mark it as missing (None, NaN)"
        raise QueryError(f"{label(i)} cannot be compared: {reason}. {kind}.")
    return cells


def _texts(column: Any) -> bool:
    return is_text(column.type) if isinstance(column, pa.Array) else any(isinstance(each, str) for each in column)


def _whole(column: pa.Array, name: Hashable) -> Floats:
    """Whole numbers as doubles that differ where they do: beyond 2^53 counted from the least."""
    there = column.is_valid().to_numpy(zero_copy_only=False)
    known = column.drop_null().to_numpy(zero_copy_only=False)
    values = np.full(len(column), np.nan)
    if len(known) and max(abs(int(known.min())), abs(int(known.max()))) > EXACT:
        bits = known.astype(np.uint64) - np.uint64(int(known.min()) % 2**64)  # modulo 2^64, as the difference is below
        values[there] = bits.astype(np.float64)
        if bits.max() > EXACT:
            _must_differ(len(np.unique(bits)), len(np.unique(values[there])), name)
        return values
    values[there] = known
    return values


def _must_differ(exact: int, rounded: int, name: Hashable) -> None:
    if exact != rounded:
        raise QueryError(
            f"{name!r} holds numbers that differ in more digits than a float has, so they cannot be compared exactly; "
            "round them first, or subtract what they have in common."
        )


def _of(values: Floats, name: Hashable) -> Measure:
    """Infinities as the next numbers beyond the finite ones."""
    missing, finite = np.isnan(values), np.isfinite(values)
    beyond, few = ~(missing | finite), values[finite]
    if beyond.any():
        least, most = (few.min(), few.max()) if len(few) else (0.0, 0.0)
        top, bottom = math.nextafter(most, math.inf), math.nextafter(least, -math.inf)
        if not (np.isfinite(top) and np.isfinite(bottom)):
            raise QueryError(f"{name!r} holds infinities beside numbers as large as floats can be; scale those down.")
        values = np.where(values == np.inf, top, np.where(values == -np.inf, bottom, values))
    learnt = finite if len(few) else ~missing
    cells, known = pa.array(values, mask=missing), pa.array(values, mask=~learnt)
    return Measure(cells, known, bool(missing.any()), bool(missing.all()) and len(values) > 0)
