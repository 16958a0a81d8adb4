"""What became of the rows of an id: what was reported of each, and why it is in or out.

`output.recorded` reads it from the folder of a run, `replay` plays the stream again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fogline.results import Change, number, plain, row_text
from fogline.show import quoted

_UTC = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00:00")
_LEFT = {
    "expired": "it has expired",
    "beaten": "another row surely beats it",
    "less likely": "its probability is not above alpha any more",
    "replaced": "a newer row of its id has taken its place, and is not in",
    "removed": "it was removed",
    "begun anew": "the clock of its group had run ahead, and the group was begun anew",
}
RowKey = tuple[tuple[Any, ...], Any, Any]  # group, id and arrival of a row


@dataclass(frozen=True, slots=True)
class RowStory:
    """One row of an id: what was reported of it, and why it is in or out now, where that is known."""

    by: tuple[Any, ...]
    id: Any
    arrived: Any
    changes: tuple[Change, ...]
    """The newest last."""
    why: Mapping[str, Any] | None = None
    """As `Explanation.to_dict` gives it; None: it has left, was forgotten, or was not explained."""
    inside: bool = False
    probability: float | None = None
    """Where it may be in."""
    guard: tuple[Any, Any] | None = None
    """The id and the arrival of the row that surely beats one that was forgotten."""
    newer: Any = None
    """Where only the newest row of an id counts: the arrival of the one that was reported in its place."""

    @property
    def sentence(self) -> str:
        """Why it is in or out, in one plain sentence."""
        if self.why is not None:
            return str(self.why["sentence"])
        if self.inside and self.probability is not None:
            return f"{quoted(self.id)} is in the answer with probability {number(self.probability)}."
        out = f"{quoted(self.id)} is out of the answer"
        if self.guard is not None:
            return f"{out}: {row_text(*self.guard)} surely beats it, for the rest of its life."
        if self.changes and self.changes[-1].change == "leave":
            return f"{out}: {why_it_left(self.changes[-1])}."
        if self.newer is not None:
            return f"{out}: a newer row of {quoted(self.id)} (arrived {self.newer}) has taken its place."
        if self.probability is not None:
            return f"{out} with probability {number(self.probability)}."
        return f"{out}: it is not in the window."

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values: why it is in or out, if that is known, and what was reported."""
        row = {"id": plain(self.id), "arrived": plain(self.arrived), "by": [plain(each) for each in self.by]}
        row |= {"inside": self.inside, "certainty": "", "probability": self.probability, "sentence": self.sentence}
        row["guard"] = None if self.guard is None else dict(zip(("id", "arrived"), map(plain, self.guard), strict=True))
        reported = [
            {"time": plain(each.time), "change": each.change, "probability": each.probability, "reason": each.reason}
            for each in self.changes
        ]
        return row | dict(self.why or {}) | {"changes": reported}


@dataclass(frozen=True, slots=True)
class Story:
    """What became of an id, up to an instant."""

    at: Any
    rows: tuple[RowStory, ...]
    """The newest first."""
    rejected: tuple[str, ...]
    """Why others of its rows could not be taken."""
    taken: bool = True
    """Whether any of its rows could."""
    more: bool = False
    """Whether there were changes before those that are shown."""

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        rows = [each.to_dict() for each in self.rows]
        return {"at": plain(self.at), "rows": rows, "rejected": list(self.rejected)}


def why_it_left(change: Change) -> str:
    """The reason of a leave, in words."""
    words = _LEFT.get(change.reason or "", "it is not in the answer any more")
    if change.beaten_by is None:
        return words
    other = row_text(*change.beaten_by)
    if change.reason == "replaced":
        return f"its id has a newer row, which is not in: {other} surely beats that one"
    return f"{other} surely beats it"


def by_row(changes: Iterable[Change]) -> dict[RowKey, list[Change]]:
    """The changes of each row, in their order."""
    found: dict[RowKey, list[Change]] = {}
    for change in changes:
        found.setdefault((change.by, change.id, change.arrived), []).append(change)
    return found


def replaced(changes: Iterable[Change]) -> dict[RowKey, Any]:
    """Of each row in whose place another of its id was reported: the arrival of that one."""
    last: dict[tuple[tuple[Any, ...], Any], Any] = {}
    out: dict[RowKey, Any] = {}
    for change in changes:
        before = last.get((change.by, change.id))
        if before is not None and before != change.arrived:
            out[change.by, change.id, before] = change.arrived
        last[change.by, change.id] = change.arrived
    return out


def in_zone_of(arrived: Any, why: Mapping[str, Any]) -> dict[str, Any]:
    """An explanation, which has times in UTC, with times as `arrived`, the row's own, shows them."""
    if not isinstance(arrived, datetime) or arrived.tzinfo is None:
        return dict(why)

    def local(text: Any) -> str:
        return str(datetime.fromisoformat(str(text)).replace(tzinfo=UTC).astimezone(arrived.tzinfo))

    def shown(each: Mapping[str, Any]) -> dict[str, Any]:
        return {**each, "arrived": local(each["arrived"])}

    found = shown(why) | {name: [shown(each) for each in why[name]] for name in ("beaten_by", "flips")}
    found["decisive"] = None if why["decisive"] is None else shown(why["decisive"])
    found["sentence"] = _UTC.sub(lambda each: local(each[0].removesuffix("+00:00")), why["sentence"])
    return found
