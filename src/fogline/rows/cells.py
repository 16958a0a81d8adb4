"""What a column holds: texts, numbers and distributions, each cell on its own.

A column is an Arrow array or a list of Python values. Arrow lays out the same values in many ways; here those that are
rare become the usual one for the same values: views of texts, values that repeat (run-end encoded; dictionaries of
numbers), values with a name of their own (extension types).

What is compared are floats. A number that float64 would take for another one is not compared at all: `query.as_real`
has the rule for a single number, `reals` for a column. A null word (`n/a`, `NULL`, `-`, …) is a missing number wherever
numbers are read; case and blanks around it do not count. A cell that cannot be read gets a reason, which rejects its
row and disturbs no other; a table that does not move has no rejects, so there (`measure`) it is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import EXACT, Flags, Floats
from fogline.errors import QueryError, RowsError
from fogline.query import UNHELD, as_real
from fogline.show import quoted

Reasons = dict[int, str]  # row -> why it is rejected
REAL = pa.float64()
PAIRS = pa.list_(pa.struct([("value", REAL), ("weight", REAL)]))
NULL_WORDS = (
    "", "-", "--", "?", "n/a", "na", "n.a.", "nan", "-nan", "null", "none", "<na>", "#n/a", "#n/a n/a", "#na", "#nv",
    "k.a.", "k. a.", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
)  # fmt: skip

_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
_PLAIN = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"  # a number that Arrow reads as Python does
_NARROW = 32  # bits; whole numbers of so many are exact
_DIGITS = 15
_POWERS = 10.0 ** np.arange(-60, 80)
_MOST = float(np.finfo(np.float64).max)
_EPOCH, _MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_NANOS = {"D": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_INSTANT, _LENGTH, _NUMBER = "instants", "lengths of time", "numbers"


# --- Types ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def usual_type(kind: pa.DataType) -> pa.DataType:
    """The type that values of this one are read as.

    >>> usual_type(pa.string_view()), usual_type(pa.run_end_encoded(pa.int32(), pa.float64())), usual_type(pa.int8())
    (DataType(large_string), DataType(double), DataType(int8))
    """
    if isinstance(kind, pa.BaseExtensionType):
        return usual_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return usual_type(kind.value_type)
    if pa.types.is_dictionary(kind) and not (pa.types.is_string(kind.value_type) or pa.types.is_null(kind.value_type)):
        return usual_type(kind.value_type)
    return pa.float32() if pa.types.is_float16(kind) else _VIEWS.get(str(kind), kind)


def usual_column(column: pa.Array) -> pa.Array:
    """The column in its usual type."""
    kind = usual_type(column.type)
    while column.type != kind:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        elif pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        else:
            column = column.cast(kind)
    return column


def is_text(kind: pa.DataType) -> bool:
    """Does a column of this type hold texts?"""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view")


def is_missing(cell: object) -> bool:
    """None, NaN, or one of pandas' and NumPy's marks for a missing value."""
    if cell is None or isinstance(cell, float | np.floating):
        return cell is None or math.isnan(cell)
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return type(cell).__name__ in ("NAType", "NaTType")


# --- Texts ------------------------------------------------------------------------------------------------------------


def mended(column: pa.Array) -> tuple[pa.Array, Flags | None]:
    """The texts with each byte that is no UTF-8 replaced by U+FFFD, and (n,) where that was so; None: nowhere.

    >>> bad = pa.array([b"a", b"\\xff"]).view(pa.string())
    >>> mended(bad)[0].to_pylist()
    ['a', '\\ufffd']
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        cells = plain.cast(pa.binary() if pa.types.is_string(plain.type) else pa.large_binary()).to_pylist()
        texts = [None if each is None else each.decode("utf-8", "replace") for each in cells]
        changed = [text is not None and text.encode() != each for text, each in zip(texts, cells, strict=True)]
        return pa.array(texts, plain.type), np.array(changed, np.bool_)
    return column, None


def is_null_word(texts: pa.Array, more: Collection[str] = ()) -> pa.Array:
    """(n,) whether a text means that there is no value; `more`: words beside the usual ones.

    >>> is_null_word(pa.array(["N/A ", "k.A.", "", "0", None, "ERR"]), ["err"]).to_pylist()
    [True, True, True, False, False, True]
    """
    words = [*NULL_WORDS, *(each.strip().lower() for each in more)]
    return pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), pa.array(words, texts.type))


def read_numbers(texts: pa.Array) -> tuple[Floats, Flags]:
    """(n,) the numbers that texts mean, NaN for none; and (n,) which texts are neither a null word nor a number.

    Plain numbers are read all at once; only the others one by one, as Python reads floats.

    >>> read_numbers(pa.array(["1.5", " +2 ", "n/a", None, "x"]))
    (array([1.5, 2. , nan, nan, nan]), array([False, False, False, False,  True]))
    """
    values = _all_plain(texts)
    if values is not None:
        return values, np.zeros(len(values), np.bool_)
    bare = pc.utf8_trim_whitespace(texts)
    plain = pc.match_substring_regex(bare, _PLAIN)
    values = np.array(pc.if_else(plain, bare, None).cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    bad = np.zeros(len(values), np.bool_)
    odd = pc.invert(pc.or_(plain, is_null_word(bare))).fill_null(False)
    for i in np.flatnonzero(odd.to_numpy(zero_copy_only=False)).tolist():
        try:
            values[i] = float(bare[i].as_py())
        except ValueError:
            bad[i] = True
    return values, bad


def _all_plain(texts: pa.Array) -> Floats | None:
    """(n,) numbers, if every text is one that is written plainly; None: some are not."""
    try:
        values = np.array(texts.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return values if np.isfinite(values).sum() == len(texts) - texts.null_count else None


# --- Numbers ----------------------------------------------------------------------------------------------------------


def reals(column: pa.Array) -> tuple[pa.Array, Flags | None]:
    """Numbers or truth values as doubles; and (n,) which of them no double holds exactly, None: each is held.

    Decimals go by way of texts, which are read to the nearest float: Arrow's own cast is off by a bit now and then.

    >>> reals(pa.array([2**53, 2**53 + 1]))[1]
    array([False,  True])
    """
    if pa.types.is_decimal(column.type):
        values = column.cast(pa.string()).cast(pa.float64())
        return values, _unheld(column, _long(column, values))
    values = column.cast(pa.float64(), safe=False)
    if not pa.types.is_integer(column.type) or column.type.bit_width <= _NARROW:
        return values, None
    large = np.abs(values.fill_null(0.0).to_numpy(zero_copy_only=False)) > EXACT
    return values, _unheld(column, large)


def unheld_texts(texts: pa.Array, values: Floats) -> Flags | None:
    """(n,) which texts are whole numbers that no float holds exactly; None: none is."""
    return _unheld(texts, np.abs(np.nan_to_num(values)) > EXACT)


def _unheld(column: pa.Array, doubtful: Flags) -> Flags | None:
    """(n,) which of the doubtful values, looked at one by one, no float holds exactly; None: none."""
    bad = np.zeros(len(column), np.bool_)
    for i in np.flatnonzero(doubtful).tolist():
        bad[i] = as_real(column[i].as_py()) is None
    return bad if bad.any() else None


def _long(column: pa.Array, values: pa.Array) -> Flags:
    """(n,) which decimals may have more than 15 digits: those that rounding to 15 digits changes, and large ones."""
    if column.type.precision <= _DIGITS:
        return np.zeros(len(column), np.bool_)
    size = np.abs(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    whole = np.searchsorted(_POWERS, size, side="right") - 61  # the power of ten below, or greater by one
    places = np.clip(_DIGITS - 1 - whole, -75, 75)
    try:
        same = pc.equal(pc.round_binary(column, pa.array(places, pa.int32())), column).fill_null(True)
    except pa.ArrowInvalid:  # what is rounded up may have a digit more than the type
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    large = size > EXACT
    return np.asarray(~same.to_numpy(zero_copy_only=False) | large)


# --- Cells of attributes ----------------------------------------------------------------------------------------------


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
    """Refuse rows with cells that no float holds; `row`: the row of each cell, where a row has several."""
    for i in [] if unheld is None else np.flatnonzero(unheld).tolist():
        text = f"{name!r} {'is' if row is None else 'holds'} {_written(column[i].as_py())}"
        refused.setdefault(i if row is None else int(row[i]), f"{text}, {UNHELD}")


def _reals(column: pa.Array, name: str) -> tuple[pa.Array, Flags | None]:
    """Numbers as doubles, and which of them no double holds exactly."""
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
    """Lists of (value, weight) as PAIRS: of large lists, other types of numbers, or with further fields."""
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


# --- Columns of a table that does not move ----------------------------------------------------------------------------


class Measure(NamedTuple):
    """A column as numbers that compare as its values do."""

    cells: pa.Array  # doubles, null where missing; or lists of (value, weight)
    known: pa.Array | None  # the finite ones of them, to learn from; None: cells are distributions
    gaps: bool  # whether a cell is missing
    nothing: bool  # whether all are
    unheld: str = ""  # a value that no float holds exactly: then the doubles mean something in this table alone


def measure(column: pa.Array | list[Any], name: Hashable, label: Callable[[int], str]) -> Measure:
    """The column as numbers that compare as its values do, or an error that names the column and a row of it.

    Numbers are as they are, truth values 0 and 1, instants and lengths of time counted in nanoseconds or their own
    unit, texts the numbers that they mean. Where floats would take two values for one, all are counted from the least
    of them. An infinity compares beyond all others and all that is imputed, and teaches nothing about gaps.
    """
    if isinstance(column, list):
        column = _times_as_numbers(column, name)
    else:
        column = _as_numbers(usual_column(column))
        if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
            return _measured_numbers(column, name)
    cells, unheld = _measured_cells(column, name, label)
    if cells.type == PAIRS:
        gaps = int(np.count_nonzero(pc.fill_null(pc.list_value_length(cells), 0).to_numpy(zero_copy_only=False) == 0))
        return Measure(cells, None, gaps > 0, len(cells) > 0 and gaps == len(cells))
    values = np.array(cells.to_numpy(zero_copy_only=False), np.float64)
    if not unheld:
        return _measured(values, name)
    given = column if isinstance(column, list) else column.to_pylist()
    exact = [_exact_value(each, value) for each, value in zip(given, values.tolist(), strict=True)]
    return _measured(_offsets(exact, name), name, unheld)


def _as_numbers(column: pa.Array) -> pa.Array:
    """The column without a dictionary; instants and lengths of time as whole numbers."""
    if pa.types.is_dictionary(column.type):
        return _as_numbers(column.dictionary_decode())
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_temporal(kind) and not pa.types.is_interval(kind) else column


def _times_as_numbers(column: list[Any], name: Hashable) -> list[Any]:
    """Instants and lengths of time as whole nanoseconds; other values as they are."""
    found = [_nanoseconds(each) for each in column]
    kinds = {kind for each, (kind, _) in zip(column, found, strict=True) if not is_missing(each)}
    if kinds <= {_NUMBER}:
        return column
    if len(kinds) > 1:
        raise QueryError(f"{name!r} holds {' and '.join(sorted(kinds))}, which cannot be compared; keep one of them.")
    return [None if is_missing(each) else nanos for each, (_, nanos) in zip(column, found, strict=True)]


def _nanoseconds(cell: Any) -> tuple[str, Any]:
    """What kind a value is, and the value, if it is a time in nanoseconds."""
    if is_missing(cell):
        return "", None
    if isinstance(cell, datetime):  # those of pandas, too, which know nanoseconds
        plain = cell.to_pydatetime(warn=False) if hasattr(cell, "to_pydatetime") else cell
        zoned = plain.tzinfo is not None
        since = (plain if zoned else plain.replace(tzinfo=UTC)) - _EPOCH
        kind = _INSTANT + (" with a zone" if zoned else " without a zone")
        return kind, since // _MICRO * 1000 + getattr(cell, "nanosecond", 0)
    if isinstance(cell, date):
        return _INSTANT + " without a zone", cell.toordinal() * _NANOS["D"] - _EPOCH.toordinal() * _NANOS["D"]
    if isinstance(cell, timedelta):
        plain = cell.to_pytimedelta() if hasattr(cell, "to_pytimedelta") else cell
        return _LENGTH, plain // _MICRO * 1000 + getattr(cell, "nanoseconds", 0)
    if isinstance(cell, np.datetime64 | np.timedelta64):
        unit, count = np.datetime_data(cell.dtype)
        if unit in _NANOS:
            kind = _LENGTH if isinstance(cell, np.timedelta64) else _INSTANT + " without a zone"
            return kind, int(cell.astype(np.int64)) * count * _NANOS[unit]
    return _NUMBER, cell


def _measured_cells(column: Any, name: Hashable, label: Callable[[int], str]) -> tuple[pa.Array, str]:
    """The cells, and one of them that is a number no float holds exactly, as text; empty: there is none."""
    bad = Reasons()
    if isinstance(column, pa.Array) and is_text(column.type):
        column, changed = mended(column)
        for i in [] if changed is None else np.flatnonzero(changed).tolist():
            raise QueryError(f"{label(i)} cannot be compared: it holds bytes that are not UTF-8 text. Mend it.")
    try:
        cells = read_cells(column, str(name), bad)
    except RowsError as error:
        raise QueryError(f"{str(error).rstrip('.')}; leave it out, or make numbers of it first.") from None
    unheld = ""
    for i, reason in bad.items():
        cell = column[i].as_py() if isinstance(column, pa.Array) else column[i]
        if cells.type != PAIRS and (exact := _fraction(cell)) is not None:
            unheld = unheld or _example(exact, cell)
            continue
        kind = (
            "Map its texts to numbers first" if _holds_texts(column) else "Mend it, or mark it as missing (None, NaN)"
        )
        raise QueryError(f"{label(i)} cannot be compared: {reason}. {kind}.")
    return cells, unheld


def _holds_texts(column: Any) -> bool:
    return is_text(column.type) if isinstance(column, pa.Array) else any(isinstance(each, str) for each in column)


def _fraction(cell: Any) -> Fraction | None:
    """A number that no float holds, as a fraction; None: it is another value, or too long to be worked with."""
    try:
        if as_real(cell) is None and not (isinstance(cell, Decimal) and abs(cell.adjusted()) > 400):
            return Fraction(cell.item() if isinstance(cell, np.generic) else cell)
    except (TypeError, ValueError, ArithmeticError):
        pass
    return None


def _example(exact: Fraction, cell: Any) -> str:
    return f"{cell}"[:60] if exact.denominator > 1 or abs(exact) < 10**60 else "a number of more than 60 digits"


def _exact_value(cell: Any, value: float) -> Fraction | float:
    """A value as a fraction; infinities and NaN (missing) stay floats."""
    found = _fraction(cell)
    return found if found is not None else Fraction(value) if math.isfinite(value) else value


def _measured_numbers(column: pa.Array, name: Hashable) -> Measure:
    """A column of Arrow's whole numbers or decimals."""
    values, unheld = reals(column)
    found = np.array(values.to_numpy(zero_copy_only=False), np.float64)
    if unheld is None:
        return _measured(found, name)
    example = f"{column[int(np.flatnonzero(unheld)[0])].as_py()}"
    if pa.types.is_integer(column.type):
        return _measured(_integer_offsets(column, name), name, example)
    if pc.count_distinct(column).as_py() == len(np.unique(found[~np.isnan(found)])):
        return _measured(found, name, example)
    exact = [math.nan if each is None else Fraction(each) for each in column.to_pylist()]
    return _measured(_offsets(exact, name), name, example)


def _integer_offsets(column: pa.Array, name: Hashable) -> Floats:
    """`_offsets` of whole numbers of at most 64 bits, all at once."""
    there = column.is_valid().to_numpy(zero_copy_only=False)
    known = column.drop_null().to_numpy(zero_copy_only=False)
    values = np.full(len(column), np.nan)
    bits = known.astype(np.uint64) - np.uint64(int(known.min()) % 2**64)  # modulo 2^64, as the difference is below
    values[there] = bits.astype(np.float64)
    _must_differ(len(np.unique(bits)), len(np.unique(values[there])), name)
    return values


def _offsets(exact: list[Fraction | float], name: Hashable) -> Floats:
    """(n,) the values counted from the least of them; an error if floats still take two of them for one."""
    finite = [each for each in exact if isinstance(each, Fraction)]
    least = min(finite)
    try:
        values = [float(each - least) if isinstance(each, Fraction) else each for each in exact]
    except OverflowError:
        raise QueryError(f"{name!r} holds numbers larger than floats can be; scale them down.") from None
    _must_differ(len({*finite}), len({each for each in values if math.isfinite(each)}), name)
    return np.array(values, np.float64)


def _must_differ(exact: int, rounded: int, name: Hashable) -> None:
    if exact != rounded:
        raise QueryError(
            f"{name!r} holds numbers that differ in more digits than a float has, so they cannot be compared exactly; "
            "round them first, or subtract what they have in common."
        )


def _measured(values: Floats, name: Hashable, unheld: str = "") -> Measure:
    """The column of these values (n,); an infinity becomes the greatest float, beyond all others."""
    missing, finite = np.isnan(values), np.isfinite(values)
    beyond, few = ~(missing | finite), values[finite]
    if beyond.any():
        if len(few) and np.abs(few).max() >= _MOST:
            raise QueryError(f"{name!r} holds infinities beside numbers as large as floats can be; scale those down.")
        values = np.where(beyond, np.copysign(_MOST, values), values)
    learnt = finite if len(few) else ~missing
    cells, known = pa.array(values, mask=missing), pa.array(values, mask=~learnt)
    return Measure(cells, known, bool(missing.any()), bool(missing.all()) and len(values) > 0, unheld)
