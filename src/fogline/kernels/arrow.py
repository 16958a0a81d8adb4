"""Cells of a record batch, read without a Python call per column.

The batch is exported once through the Arrow C data interface; the kernel walks its structs and buffers. At 30 rows a
tick the calls, not the numbers, are what costs.

The interface's specification fixes the layout: a struct of ten 8-byte fields, of which length, offset, buffers and
children are used here.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from fogline.arrays import EARLIEST, EXACT, LATEST, ONE, Floats, Ints, UncertainRows
from fogline.kernels.compile import inner, kernel
from fogline.kernels.uncertain import fill_cell

BAD_NUMBER, BAD_WEIGHT, OUTSIDE = 1, 2, 4  # what is wrong with a cell, added up; 0: nothing
NUMBERS, LISTS = 0, 1  # a column of doubles, or of list<struct<value: double, weight: double>>
NO_CLOCK, WHOLES, REALS, STAMPS = -1, 0, 1, 2  # a column of instants: int64, float64 or timestamp('us')

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Wanted(NamedTuple):
    """Which columns are read, and how; one entry per attribute."""

    at: Ints  # where the column stands in the record batch
    kind: Ints  # NUMBERS or LISTS
    sign: Floats  # -1: less is better
    low: Floats
    high: Floats


class Found(NamedTuple):
    """What is read."""

    raw: Floats  # (n, d) as it came; NaN where it is missing or a distribution
    uncertain: UncertainRows
    code: Ints  # (n, d)


@intrinsic
def _at(typing, address):
    """An address as a pointer."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), generate


@inner
def _struct(address):
    """(length, offset, address of the list of buffers, address of the list of children) of an ArrowArray."""
    fields = carray(_at(address), (7,), dtype=np.int64)
    return fields[0], fields[2], fields[5], fields[6]


@inner
def _item(address, k):
    """The k-th of a list of pointers."""
    return carray(_at(address), (k + 1,), dtype=np.int64)[k]


@inner
def _present(bitmap, k):
    """Is the k-th bit set? No bitmap: all are."""
    return bitmap == 0 or (carray(_at(bitmap), (k // 8 + 1,), dtype=np.uint8)[k // 8] >> (k % 8)) & 1 == 1


@inner
def _doubles(array):
    """(values, validity bitmap, offset) of an array of doubles."""
    length, offset, buffers, _ = _struct(array)
    address = _item(buffers, 1)
    size = length + offset if address != 0 else 0
    return carray(_at(address), (size,), dtype=np.float64), _item(buffers, 0), offset


@inner
def _room(children, wanted, n):
    """How many (value, weight) pairs the wanted columns hold."""
    room = 0
    for j in range(wanted.at.shape[0]):
        if wanted.kind[j] == LISTS and n > 0:
            _, offset, buffers, _ = _struct(_item(children, wanted.at[j]))
            ends = carray(_at(_item(buffers, 1)), (offset + n + 1,), dtype=np.int32)
            room += ends[offset + n] - ends[offset]
    return room


@inner
def _numbers(column, j, wanted, found):
    """Read column j, of doubles."""
    values, bitmap, offset = _doubles(column)
    for i in range(found.raw.shape[0]):
        x = values[offset + i] if _present(bitmap, offset + i) else np.nan
        found.raw[i, j] = x
        if np.isinf(x):
            found.code[i, j] = BAD_NUMBER
        if x < wanted.low[j] or x > wanted.high[j]:
            found.code[i, j] |= OUTSIDE
            x = np.nan
        x = x * wanted.sign[j] + 0.0  # + 0.0: there is no negative zero
        found.uncertain.lo[i, j] = found.uncertain.hi[i, j] = x


@inner
def _pairs(column, j, wanted, found, cursor):
    """Read column j, of lists of pairs. Returns the new end of the pools."""
    _, offset, buffers, children = _struct(column)
    bitmap = _item(buffers, 0)
    n, uncertain, code, sign = found.raw.shape[0], found.uncertain, found.code, wanted.sign[j]
    ends = carray(_at(_item(buffers, 1)), (offset + n + 1,), dtype=np.int32)
    _, skip, pair_buffers, fields = _struct(_item(children, 0))
    pair_bitmap = _item(pair_buffers, 0)
    values, value_bitmap, value_offset = _doubles(_item(fields, 0))
    weights, weight_bitmap, weight_offset = _doubles(_item(fields, 1))
    for i in range(n):
        first = cursor
        begin, end = ends[offset + i], ends[offset + i + 1]
        if not _present(bitmap, offset + i):
            end = begin
        for k in range(begin + skip, end + skip):
            there = _present(pair_bitmap, k) and _present(value_bitmap, k + value_offset)
            v = values[k + value_offset] if there else np.nan
            w = weights[k + weight_offset] if _present(weight_bitmap, k + weight_offset) else np.nan
            if not np.isfinite(v):
                code[i, j] |= BAD_NUMBER
            elif not (w > 0 and np.isfinite(w)):
                code[i, j] |= BAD_WEIGHT
            elif not wanted.low[j] <= v <= wanted.high[j]:
                code[i, j] |= OUTSIDE
            else:
                uncertain.value[cursor], uncertain.weight[cursor] = v * sign + 0.0, w
                cursor += 1
        cursor = fill_cell(uncertain, i, j, first, cursor)
        found.raw[i, j] = uncertain.lo[i, j] * sign + 0.0 if uncertain.size[i, j] == 1 else np.nan
    return cursor


@inner
def _empty(n, d, room):
    """Room for the cells of n rows, not yet filled."""
    code, start, size = np.empty((n, d), np.int64), np.empty((n, d), np.int64), np.empty((n, d), np.int64)
    for i in range(n):
        for j in range(d):
            code[i, j], start[i, j], size[i, j] = 0, ONE, 1
    uncertain = UncertainRows(
        np.empty((n, d)), np.empty((n, d)), start, size, np.empty(room), np.empty(room), np.empty(room)
    )
    return Found(np.empty((n, d)), uncertain, code)


@inner
def _instants(column, kind, n):
    """The instants of a clock's column (n,), and whether each is there, finite and one that can be shown."""
    _, offset, buffers, _ = _struct(column)
    bitmap, address = _item(buffers, 0), _item(buffers, 1)
    out, fine = np.empty(n), True
    whole = carray(_at(address), (offset + n if address != 0 else 0,), dtype=np.int64)
    real = carray(_at(address), (offset + n if address != 0 else 0,), dtype=np.float64)
    for i in range(n):
        if not _present(bitmap, offset + i):
            return out, False
        out[i] = real[offset + i] if kind == REALS else np.float64(whole[offset + i])
        fine &= EARLIEST <= out[i] <= LATEST if kind == STAMPS else abs(out[i]) <= EXACT  # false of NaN, too
    return out, fine


@kernel
def cells(address, columns, clock, lists):
    """The wanted columns (see `Wanted`) of a record batch as uncertain rows, oriented; values outside [low, high] are
    dropped, equal ones merged, weights normalised.

    Returns the values as they came (n, d), the arrays of the uncertain rows, a code for each cell (n, d), all codes
    or-ed together, and whether a cell is missing; then the instants of the clock's column, if it can be read here
    (`clock`: which column, and its kind), and whether each of them is there and can be shown. `lists`: None if no
    column holds lists; then what reads those is not compiled.
    """
    wanted = Wanted(*columns)  # a plain tuple: Numba takes three times as long to recognise a named one
    n, _, _, children = _struct(address)
    d = wanted.at.shape[0]
    cursor = room = 0
    if lists is not None:
        room = _room(children, wanted, n) + 1
    found = _empty(n, d, room)
    for j in range(d):
        column = _item(children, wanted.at[j])
        if wanted.kind[j] == NUMBERS:
            _numbers(column, j, wanted, found)
        elif lists is not None and n > 0:
            cursor = _pairs(column, j, wanted, found, cursor)
    codes, missing = 0, False
    for i in range(n):
        for j in range(d):
            codes |= found.code[i, j]
            missing |= np.isnan(found.uncertain.lo[i, j])
    lo, hi, start, size, value, weight, tail = found.uncertain
    times, fine = np.empty(0), False
    if clock[1] != NO_CLOCK and n > 0:
        times, fine = _instants(_item(children, clock[0]), clock[1], n)
    return found.raw, (lo, hi, start, size, value, weight, tail), found.code, codes, missing, times, fine


def read(batch: Any, columns: tuple[Any, ...], clock: tuple[int, int]) -> tuple[Any, ...]:
    """`cells` of a record batch: (raw, uncertain rows, code, codes, missing, instants, whether those are fine).

    `columns`: what to read, as the fields of `Wanted`.
    """
    _, capsule = batch.__arrow_c_array__()
    address = _pointer_of(capsule, b"arrow_array")
    raw, uncertain, *rest = cells(address, columns, clock, True if columns[1].any() else None)
    del capsule  # not earlier: it keeps the memory alive
    return raw, UncertainRows(*uncertain), *rest
