"""How do parcels of many groups travel together?

As one binary value, a *crate*: the rows of all parcels in one block, group after group, and beside them how many rows,
stretches, rejects and revisions each parcel has. So packing and opening cost as much for a thousand groups as for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fogline.arrays import Ints
from fogline.flow import heard as hearing
from fogline.flow import revisions
from fogline.flow.block import concat, empty_block, from_arrays, to_arrays
from fogline.flow.heard import Cell
from fogline.flow.parcel import NUMBERS, Parcel
from fogline.flow.plan import Plan
from fogline.flow.rejects import RejectedRow
from fogline.impute.scores import from_plain, to_plain
from fogline.rows.names import Key
from fogline.saved import Arrays, pack, unpack, whole

_REVISIONS = "revised "  # before the names of arrays


def to_crate(plan: Plan, parcels: Sequence[tuple[Key, Parcel]]) -> bytes:
    """These parcels as one bytes object."""
    each = [parcel for _, parcel in parcels]
    there = [parcel.rows for parcel in each if len(parcel.rows.arrived)]
    rows = concat(there) if there else empty_block(len(plan.query.names), plan.width)
    header = {
        "keys": [key for key, _ in parcels],
        "rejects": [parcel.rejects for parcel in each],
        "scores": {k: to_plain(parcel.scores) for k, parcel in enumerate(each) if parcel.scores},
    }
    arrays = to_arrays(rows, plan.signs) | {
        "numbers": np.array([[getattr(parcel, name) for name in NUMBERS] for parcel in each], np.int64),
        "lengths": np.array([_lengths(parcel) for parcel in each], np.int64),
    }
    cells = [(stretch, cell) for parcel in each for stretch, cell in parcel.heard.items()]
    arrays |= hearing.columns([stretch for stretch, _ in cells], [cell for _, cell in cells])
    events = revisions.joined([parcel.revisions for parcel in each])
    return pack(header, arrays | revisions.to_arrays(events, plan.id, _REVISIONS))


def _lengths(parcel: Parcel) -> tuple[int, int, int]:
    revised = 0 if parcel.revisions is None else len(parcel.revisions.id)
    return len(parcel.rows.arrived), len(parcel.heard), revised


def from_crate(plan: Plan, packed: bytes) -> list[tuple[Key, Parcel]]:
    """The inverse of `to_crate`."""
    header, arrays = unpack(packed, "crate of rows")
    with whole("crate of rows"):
        return _opened(plan, header, arrays)


def _opened(plan: Plan, header: dict[str, Any], arrays: Arrays) -> list[tuple[Key, Parcel]]:
    every = from_arrays(arrays, plan.signs, plan.width)
    rows, heard, revised = (_cuts(each) for each in arrays["lengths"].T)
    cells = hearing.cells_of(arrays)
    events = revisions.from_arrays(arrays, _REVISIONS)
    out = []
    counted = NUMBERS[: arrays["numbers"].shape[1]]  # earlier versions had fewer
    for k, (key, numbers) in enumerate(zip(header["keys"], arrays["numbers"].tolist(), strict=True)):
        of_group: dict[float, Cell] = dict(cells[slice(*heard[k])])
        parcel = Parcel(
            every.between(*rows[k]), of_group, **dict(zip(counted, numbers, strict=True)),
            rejects=[RejectedRow(*each) for each in header["rejects"][k]],
            scores=from_plain(header["scores"][str(k)]) if str(k) in header["scores"] else {},
            revisions=None if events is None or revised[k][0] == revised[k][1] else events.part(slice(*revised[k])),
        )  # fmt: skip
        out.append((key, parcel))
    return out


def _cuts(lengths: Ints) -> list[tuple[int, int]]:
    """Where each of the parts, one after the other, begins and ends."""
    return list(pairwise([0, *np.cumsum(lengths).tolist()]))
