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

from fogline.arrays import Flags, Floats
from fogline.shown import quoted as quoted

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
