"""Which of two rows of one id and time is the later word?

Versions are whole numbers of 64 bits, or timestamps, which count in microseconds (what is finer is cut; one without a
zone counts as UTC); a stream has one of the two. Texts are read as what the stream has shown so far or, at first, as
what most of them are. A missing version is the least. What is no version refuses its row and no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import EXACT, ONE, Flags, Floats, Ints, UncertainRows
from fogline.errors import RowsError
from fogline.query import is_short
from fogline.rows.clock import INTEGER, STAMP, Reasons, instant, is_missing, micros_of
from fogline.rows.numbers import is_text
from fogline.show import quoted

LEAST = -(2**63)  # of a row without a version
_GREATEST = 2**63 - 1
_WHOLE = re.compile(r"([+-]?\d{1,400})(\.0*)?")  # the second as whole numbers with gaps are often written


class Versions(NamedTuple):
    """A column of versions."""

    value: Ints  # (n,) LEAST where it is missing
    kind: pa.DataType | None  # int64 or timestamp[us]; None: nothing but nulls


def read_versions(column: Any, name: str, kind: pa.DataType | None, refused: Reasons) -> Versions:
    """A column of versions, an Arrow array or a list; `kind` is what the stream has shown so far.

    >>> read_versions([3, None, "2"], "v", None, {}).value.tolist()[::2]
    [3, 2]
    """
    if isinstance(column, pa.Array):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        own = column.type
        if pa.types.is_integer(own) and not pa.types.is_uint64(own):
            _same(kind, INTEGER, name)
            return Versions(column.cast(INTEGER).fill_null(LEAST).to_numpy(zero_copy_only=False), INTEGER)
        if pa.types.is_timestamp(own) or pa.types.is_date(own):
            _same(kind, STAMP, name)
            return _stamps(column, name, refused)
        numeric = pa.types.is_integer(own) or pa.types.is_floating(own) or pa.types.is_decimal(own)
        if not (numeric or is_text(own) or pa.types.is_null(own)):
            raise RowsError(f"{name!r} has type {own}; a version is a whole number or a timestamp.")
        if is_text(own) and (found := _texts(column, kind)) is not None:
            return found
        column = column.to_pylist()
    return _read(list(column), name, kind, refused)


def _same(kind: pa.DataType | None, shown: pa.DataType, name: str) -> None:
    if kind not in (None, shown):
        raise RowsError(f"{name!r} holds {shown}, and held {kind} before; one stream has one kind of version.")


def _texts(column: pa.Array, kind: pa.DataType | None) -> Versions | None:
    """Texts that are all plain whole numbers, as most are; None: they are to be looked at one by one."""
    bare = pc.utf8_trim_whitespace(column.cast(pa.large_string()))  # not every kind of text can be trimmed
    try:
        whole = pc.if_else(pc.equal(bare, ""), None, bare).cast(INTEGER)
    except pa.ArrowInvalid:
        return None
    if kind not in (None, INTEGER) or whole.null_count == len(whole):
        return None
    if pc.any(pc.match_substring(bare, "x", ignore_case=True)).as_py():  # Arrow reads 0x10, and others do not
        return None
    return Versions(whole.fill_null(LEAST).to_numpy(zero_copy_only=False), INTEGER)


def _stamps(column: pa.Array, name: str, refused: Reasons) -> Versions:
    micros, far = micros_of(column)
    for i in np.flatnonzero(far).tolist():
        refused.setdefault(i, f"{name!r} is outside the years 1 to 9999")
    missing = np.isnan(micros)
    return Versions(np.where(missing, LEAST, np.where(missing, 0, micros).astype(np.int64)), STAMP)


def _read(cells: list[Any], name: str, kind: pa.DataType | None, refused: Reasons) -> Versions:
    """Values of any sort, one by one: those that are of the stream's kind, which is what most show where it is new."""
    value = np.full(len(cells), LEAST, np.int64)
    there = [
        i for i, cell in enumerate(cells) if not is_missing(cell) and not (isinstance(cell, str) and not cell.strip())
    ]
    found = {i: _version(cells[i]) for i in there}
    shown = [own for own, _ in found.values() if own is not None]
    if kind is None and shown:
        kind = max((INTEGER, STAMP), key=shown.count)
    for i in there:
        own, number = found[i]
        if own is None or own != kind:
            reason = (
                "neither a whole number of 64 bits nor a timestamp" if own is None else f"no {_word(kind)} as others"
            )
            refused.setdefault(i, f"the version {name!r} is {quoted(cells[i])}, which is {reason}")
        else:
            value[i] = number
    return Versions(value, kind)


def _word(kind: pa.DataType | None) -> str:
    return "whole number" if kind == INTEGER else "timestamp"


def _version(cell: Any) -> tuple[pa.DataType | None, int]:
    """The kind of one version, and its number; None: it is none."""
    if isinstance(cell, bool | np.bool_):
        return None, 0
    if isinstance(cell, str) and (whole := _WHOLE.fullmatch(cell.strip())):
        cell = int(whole[1])
    if isinstance(cell, float | np.floating) and abs(float(cell)) <= EXACT and float(cell).is_integer():
        cell = int(cell)  # a column of whole numbers with gaps often comes so; beyond 2^53 it would have been rounded
    if isinstance(cell, Decimal) and is_short(cell) and cell == cell.to_integral_value():
        cell = int(cell)
    if isinstance(cell, Integral):
        return (INTEGER, int(cell)) if LEAST <= int(cell) <= _GREATEST else (None, 0)
    try:
        read = instant(cell, STAMP if isinstance(cell, str) else None)
    except (ValueError, OverflowError, TypeError):
        return None, 0
    if read is None or not pa.types.is_timestamp(read[1]):
        return None, 0
    return STAMP, int(read[0])


# --- copies ---
# Of rows that share a stamp, which one counts?
#
# Rows with one group, id and time (and version, where there is one) are *copies*. Of copies that come together one
# counts, by what they hold and not by their order: the one that is better in the first attribute in which they
# differ, a
# number before a gap or a distribution; then the one that expires later; then a distribution before a gap, and the
# better
# of two distributions, from their worst values on. Rows that are rejected are no copies, so copies are kept in that
# order: the first that is not rejected counts.

DUPLICATE = "a row with this id and time is there already"  # the reason of a reject


class Contents(NamedTuple):
    """What rows hold, beside their names."""

    raw: Floats  # (n, d) as it came
    expires: Floats  # (n,)
    uncertain: UncertainRows
    signs: Floats  # (d,)
    points: bool = True  # whether a single value that did not come was given by a user's imputer, as if it had come

    def part(self, which: list[int] | Ints) -> Contents:
        """Of some of the rows."""
        return Contents(self.raw[which], self.expires[which], self.uncertain.part(which), self.signs, self.points)

    def rank(self, i: int) -> tuple[Any, ...]:
        """Greater for the copy that counts. It does not depend on the boxes of gaps."""
        uncertain = self.uncertain
        point = (uncertain.start[i] == ONE) & (uncertain.lo[i] == uncertain.hi[i])
        known = (self.raw[i] * self.signs == uncertain.lo[i]) | (point if self.points else False)
        numbers = np.where(known, uncertain.lo[i], -np.inf)
        pools = []
        for start, size in zip(uncertain.start[i].tolist(), uncertain.size[i].tolist(), strict=True):
            many = slice(start, start + size) if start >= 0 else slice(0, 0)
            pools.append((uncertain.value[many].tolist(), uncertain.weight[many].tolist()))
        came = np.where(np.isnan(self.raw[i]), -np.inf, self.raw[i] * self.signs)  # of equal ones: beyond its limits
        return numbers.tolist(), float(self.expires[i]), pools, came.tolist()

    def best(self, copies: Iterable[int]) -> int:
        """The one that counts, the first of those that are the same."""
        return max(copies, key=self.rank)

    def as_good(self, n: int, c: int) -> bool:
        """Could row n have dropped whatever row c did, both having arrived at one instant?"""
        lo = self.uncertain.lo
        return bool(self.expires[n] >= self.expires[c] and (lo[n] >= lo[c]).all())


Copies = list[list[int]]  # for each stamp that several rows have: their positions, the best first


def copies_of(names: Iterable[Any], contents: Callable[[], Contents]) -> Copies:
    """The rows that share a stamp; names: of each row, its stamp. O(n), and sorting copies."""
    found: dict[Any, list[int]] = {}
    for i, name in enumerate(names):
        found.setdefault(name, []).append(i)
    several = [which for which in found.values() if len(which) > 1]
    if not several:
        return []
    held = contents()
    return [sorted(which, key=held.rank, reverse=True) for which in several]


def stamps(copies: Copies, n: int) -> Ints:
    """(n,) rows that share a stamp have one number; -1: no other row has it."""
    out = np.full(n, -1)
    for number, which in enumerate(copies):
        out[which] = number
    return out


def in_order(time: Floats, version: Ints | None, copies: Copies) -> Ints:
    """The rows in the order of their times; of one instant the greatest version first, of copies the best first."""
    order = np.argsort(time, kind="stable") if version is None else np.lexsort((~version, time))
    if copies:
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        for which in copies:
            order[np.sort(place[which])] = which
    return order


def others(copies: Copies, able: Flags | None = None) -> Ints:
    """The rows that do not count, since another of their stamp does: the first that is able (None: all are)."""
    out: list[int] = []
    for which in copies:
        fine = which if able is None else [k for k in which if able[k]]
        out += fine[1:]
    return np.array(sorted(out), np.int64)


def stamp_names(names: Sequence[Any], time: Floats, version: Ints | None) -> Iterable[Any]:
    """What names the stamps of rows; nothing, where no two rows have one name."""
    if len(set(names)) == len(names):
        return ()
    return zip(names, time.tolist(), [0] * len(names) if version is None else version.tolist(), strict=True)
