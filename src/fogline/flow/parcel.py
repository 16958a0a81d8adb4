"""How do the rows of one group travel to the place where its state lies?

As one binary value: decoded rows, what they revise, the counters and the rejects of one chunk. An engine hands rows to
a stateful operator one by one, so many rows had better be one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from fogline.arrays import Revisions
from fogline.flow import heard, revisions
from fogline.flow.block import RowBlock, from_arrays, to_arrays
from fogline.flow.heard import Heard
from fogline.flow.plan import Plan
from fogline.flow.rejects import RejectedRow
from fogline.flow.watermark import HeardPair
from fogline.impute.scores import Sums, from_plain, to_plain
from fogline.saved import Arrays, pack, unpack, whole

_REVISIONS = "revised "  # before the names of arrays
NUMBERS = ("came", "outside_limits", "incomplete", "screened", "unwatched", "sensors_forgotten")


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one chunk of a partition has for one group."""

    rows: RowBlock  # what can matter
    heard: Heard  # of the rows that were not rejected, screened ones included
    came: int  # rows of every sort
    outside_limits: int  # cells
    incomplete: int  # rows with gaps
    screened: int  # rows that cannot matter
    rejects: list[RejectedRow] = field(default_factory=list)
    scores: Sums = field(default_factory=dict)  # of values that were hidden for a moment
    reached: float = -math.inf  # the instant that the chunk's ids have reached together; it does not travel
    revisions: Revisions | None = None  # gaps of these and of earlier rows that the chunk's readings revise
    pairs: tuple[HeardPair, ...] = ()  # of this group, if the chunk has few rows: see `watermark.Farthest`
    unwatched: int = 0  # rows whose gaps no reading will revise, since too many are open where their sensors lie
    sensors_forgotten: int = 0  # sensors that left with what they had read, since there were too many where they lay

    @property
    def newest(self) -> float:
        """The greatest time of the rows that were not rejected; -inf: there were none."""
        return max((cell.greatest for cell in self.heard.values()), default=-math.inf)

    def to_bytes(self, plan: Plan) -> bytes:
        """The parcel as one bytes object."""
        header: dict[str, Any] = {name: getattr(self, name) for name in NUMBERS}
        header |= {"rejects": self.rejects, "scores": to_plain(self.scores)}
        header |= {"pairs": [each[:2] for each in self.pairs]} if self.pairs else {}
        arrays = to_arrays(self.rows, plan.signs) | heard.to_arrays(self.heard)
        return pack(header, arrays | revisions.to_arrays(self.revisions, plan.id, _REVISIONS))

    @classmethod
    def from_bytes(cls, packed: bytes, plan: Plan) -> Parcel:
        """The inverse of `to_bytes`."""
        header, arrays = unpack(packed, "parcel of rows")
        with whole("parcel of rows"):
            return cls._opened(header, arrays, plan)

    @classmethod
    def _opened(cls, header: dict[str, Any], arrays: Arrays, plan: Plan) -> Parcel:
        rejects = [RejectedRow(*each) for each in header["rejects"]]
        rows = from_arrays(arrays, plan.signs, plan.width)
        numbers = {name: header.get(name, 0) for name in NUMBERS}
        found, scores = heard.from_arrays(arrays), from_plain(header["scores"])
        events = revisions.from_arrays(arrays, _REVISIONS)
        pairs = tuple(HeardPair(*each) for each in header.get("pairs", ()))
        return cls(rows, found, **numbers, rejects=rejects, scores=scores, revisions=events, pairs=pairs)
