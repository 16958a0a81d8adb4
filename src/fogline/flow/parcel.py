"""How do the rows of one group travel to the place where its state lies?

As one binary value: decoded rows, the counters and the rejects of one chunk. An engine hands rows to a stateful
operator one by one, so many rows had better be one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fogline.flow.block import RowBlock, from_arrays, to_arrays
from fogline.flow.plan import Plan
from fogline.impute.scoring import Sums, from_plain, to_plain
from fogline.packing import pack, unpack

_NUMBERS = ("newest", "came", "outside_limits", "incomplete", "screened")


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one chunk of a partition has for one group."""

    rows: RowBlock  # what can matter
    newest: float  # the greatest time of the rows that were taken, screened ones included; -inf: there were none
    came: int  # rows of every sort
    outside_limits: int  # cells
    incomplete: int  # rows with gaps
    screened: int  # rows that cannot matter
    rejects: list[tuple[str, str]] = field(default_factory=list)  # row as JSON, reason
    scores: Sums = field(default_factory=dict)  # of values that were hidden for a moment

    def to_bytes(self, plan: Plan) -> bytes:
        """The parcel as one bytes object."""
        header: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        header |= {"rejects": self.rejects, "scores": to_plain(self.scores)}
        return pack(header, to_arrays(self.rows, plan.signs))

    @classmethod
    def from_bytes(cls, packed: bytes, plan: Plan) -> Parcel:
        """The inverse of `to_bytes`."""
        header, arrays = unpack(packed, "parcel of rows")
        rejects = [(row, reason) for row, reason in header["rejects"]]
        rows = from_arrays(arrays, plan.signs, plan.width)
        return cls(rows, **{n: header[n] for n in _NUMBERS}, rejects=rejects, scores=from_plain(header["scores"]))
