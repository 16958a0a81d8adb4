"""Which number does a text mean, and which texts mean that there is none?

A null word (`n/a`, `NULL`, `-`, …) is a missing number, wherever it is read; case and blanks around it do not count.
What looks like a plain number is read all at once; only the rest is looked at one by one, as Python reads floats. Texts
whose bytes are no UTF-8 (files carry any bytes) are mended before they are read: see `mended`.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import EXACT, Flags, Floats
from fogline.query import as_real

NULL_WORDS = (
    "", "-", "--", "?", "n/a", "na", "n.a.", "nan", "-nan", "null", "none", "<na>", "#n/a", "#n/a n/a", "#na", "#nv",
    "k.a.", "k. a.", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
)  # fmt: skip
_PLAIN = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def is_text(kind: pa.DataType) -> bool:
    """Does a column of this type hold texts?"""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view")


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
    """(n,) numbers, NaN where there is none; and where a text is neither a null word nor a number.

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
    """(n,) numbers, if every text there is one, written plainly; None: they must be looked at."""
    try:
        values = np.array(texts.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return values if np.isfinite(values).sum() == len(texts) - texts.null_count else None


# --- exact ---
# Which numbers of a column can float64 hold?
#
# What is compared are floats. A value that would be taken for another one there is not compared at all: `as_real` has
# the
# rule for a single number, and here it is for columns. Arrow's own cast of decimals is off by a bit now and then;
# texts
# are read to the nearest float, so decimals go by way of them.

_NARROW = 32  # bits; whole numbers of so many are exact
_DIGITS = 15
_POWERS = 10.0 ** np.arange(-60, 80)


def reals(column: pa.Array) -> tuple[pa.Array, Flags | None]:
    """Numbers or truth values as doubles, null where they are; and (n,) which are held by none. None: all are held.

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
    """(n,) which texts are whole numbers that their floats do not hold; None: all are held."""
    return _unheld(texts, np.abs(np.nan_to_num(values)) > EXACT)


def _unheld(column: pa.Array, doubtful: Flags) -> Flags | None:
    """Of the doubtful ones, looked at one by one, those that no float holds."""
    bad = np.zeros(len(column), np.bool_)
    for i in np.flatnonzero(doubtful).tolist():
        bad[i] = as_real(column[i].as_py()) is None
    return bad if bad.any() else None


def _long(column: pa.Array, values: pa.Array) -> Flags:
    """(n,) decimals that may have more than 15 digits: all but those that rounding to 15 leaves as they are."""
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
