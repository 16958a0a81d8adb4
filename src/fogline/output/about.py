"""What does an output folder know of its run, and which of its groups are near a limit?

`about.json` holds the query, the columns of the stream and what else must stay the same. Without a format it is of the
first one. A field that this version does not know is refused when a run goes on: what it means would be lost.

`alarms.json` holds the groups that the last batch that reached them has found near a limit, or beyond it. A group that
has become smaller is no longer among them; one that no row has reached since still is, if it is near the limit that
there is now. That sensors were forgotten stays an alarm: what they had read does not come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fogline.errors import FoglineError, other_format
from fogline.output.folder import Folder
from fogline.pipeline.limits import FORGOTTEN, Full, GroupLimits, groups_in, is_near
from fogline.pipeline.names import ABOUT, ALARMS
from fogline.queries import Asked, asked_from
from fogline.saved import opened, sealed

FORMAT = 3  # of about.json, and of the columns of what lies beside it
ASKED = "asked"  # the query with the names of all columns that it keeps, where it does not name them itself
_FORMAT = "format"


def read_about(place: Folder) -> dict[str, Any] | None:
    """What the folder knows; None: no run was begun there."""
    content = place.get(ABOUT)
    if content is None:
        return None
    about = opened(content)
    if about is None or not {"query", "shape", "stream"} <= about.keys():
        raise FoglineError(
            f"{ABOUT} of the output is damaged: it is not what a run has written. "
            "Put back a good copy of it, or choose another output."
        )
    if (found := about.get(_FORMAT, 1)) != FORMAT:
        raise FoglineError(other_format(f"{ABOUT} of the output", found, FORMAT, "choose another output"))
    return about


def asked_in(about: Mapping[str, Any]) -> Asked:
    """What the run answers; where it keeps all columns, with their names."""
    return asked_from(about.get(ASKED, about["query"]))


def zone_in(about: Mapping[str, Any]) -> str | None:
    """The zone that the times of the run's stream carry; empty: none; None: not known."""
    shape = about.get("shape")
    return shape.get("zone") if isinstance(shape, dict) else None


def write_about(place: Folder, about: Mapping[str, Any]) -> None:
    """What the folder knows from now on."""
    place.put(ABOUT, sealed({_FORMAT: FORMAT, **about}).encode())


class Alarms:
    """The alarms of an output."""

    def __init__(self, place: Folder) -> None:
        self.place = place
        self.known: list[Full] | None = None  # None: the file was not looked at yet

    def update(self, limits: GroupLimits, found: Sequence[Full], health: pa.Table | None) -> list[Full]:
        """A batch has found these near their limits, among the groups in its health: all alarms now."""
        before = read_alarms(self.place) if self.known is None else self.known
        stay: list[Full] = []
        if before:
            touched = set() if health is None else set(groups_in(health))
            stay = [each for each in _by(limits, before) if each.group not in touched]
            lost = [each for each in before if each.limit == FORGOTTEN]
            stay += [] if any(each.limit == FORGOTTEN for each in found) else lost
        self.known = sorted([*found, *stay], key=lambda each: -each.size / each.most)
        if self.known != before:
            self.place.put(ALARMS, sealed({"alarms": self.known}).encode())
        return self.known


def _by(limits: GroupLimits, before: Sequence[Full]) -> Iterator[Full]:
    """Alarms as they are by the limits of now, which may differ from those that they were found with."""
    for each in before:
        if each.limit == FORGOTTEN:
            continue
        most = getattr(limits, each.limit)
        if is_near(each.size, most):
            yield each._replace(most=most)


def read_alarms(place: Folder) -> list[Full]:
    """The alarms of an output; none where no file states any."""
    content = place.get(ALARMS)
    found = None if content is None else opened(content)
    return [] if found is None else [Full(*each) for each in found.get("alarms", ())]  # a damaged one is written anew
