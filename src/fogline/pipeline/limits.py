"""How large may a group become, and what happens when it is larger?

Two limits, each of one group, since a group is what has to fit into the memory of one task: its live rows, and the
bytes that it takes (`pipeline.loaded`). From 80 % of a limit on there is an alarm. Beyond it the run stops before the
batch is put anywhere, so that it goes on from there, with a higher limit, and nothing is lost; or, if that was asked
for, it goes on and the alarm stays. Rows are never dropped: an answer is exact, or there is none.

Sensors are another matter: of those silent longest what they have read is forgotten where there are more than the
query's `max_sensors`. The run goes on, and there is an alarm.

GroupLimits are no part of what a run is begun with: they may differ when it is resumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import LimitError, QueryError
from fogline.queries import QUERY
from fogline.query import count_in
from fogline.show import count_of, size_text

STOP, WARN = POLICIES = ("stop", "warn")
NEAR = 0.8  # of a limit, from which on there is an alarm
LARGE = "large"  # the kind of a table in a result: groups that are near their limit of state; no sink gets it
FORGOTTEN = "sensors_forgotten"  # what the alarm about sensors is called, as the counter in health
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """How large a group may become."""

    max_live: int | None = None  # live rows
    max_state: int | None = None  # bytes
    when_full: str = STOP

    @classmethod
    def of(cls, max_live: int | None = None, max_state: int | str | None = None, when_full: str = STOP) -> GroupLimits:
        """As users state them; an error names what is none.

        >>> GroupLimits.of(1000, "2 GB")
        GroupLimits(max_live=1000, max_state=2000000000, when_full='stop')
        """
        if when_full not in POLICIES:
            raise QueryError(f"when_full is {when_full!r}; it may be {' or '.join(POLICIES)}.")
        live = None if max_live is None else count_in(max_live, "max_live")
        return cls(live, None if max_state is None else bytes_of(max_state), when_full)


class Full(NamedTuple):
    """A group that is near a limit, or beyond it."""

    group: str
    limit: str  # its name
    size: int
    most: int

    def sentence(self) -> str:
        """For people."""
        if self.limit == FORGOTTEN:
            return (
                f"{self.group or 'the stream'} has more sensors than max_sensors of the query: what those silent "
                f"longest had read is forgotten ({count_of(self.size, 'sensor')} in the last batch that had too many)"
            )
        what = f"{self.size:,} live rows" if self.limit == "max_live" else f"{size_text(self.size)} of state"
        most = f"{self.most:,}" if self.limit == "max_live" else size_text(self.most)
        return f"{self.group or 'the stream'} has {what}, {self.size / self.most:.0%} of {self.limit} ({most})"


def bytes_of(text: int | str) -> int:
    """A number of bytes, as people write it.

    >>> bytes_of("2GB"), bytes_of("1.5 m"), bytes_of(4096)
    (2000000000, 1500000, 4096)
    """
    found = _SIZE.fullmatch(str(text).strip())
    size = 0 if found is None else int(float(found[1]) * _UNITS[found[2].lower()])
    if size < 1:
        raise QueryError(f"{text!r} is no size; write bytes, or a number with a unit, such as 500MB or 2GB.")
    return size


def is_near(size: int, most: int | None) -> bool:
    """Whether there is an alarm."""
    return most is not None and size >= NEAR * most


def alarms(limits: GroupLimits, health: pa.Table | None, large: Iterable[pa.Table]) -> list[Full]:
    """Groups of a batch that are near a limit, the fullest first; an error, if one is beyond it and that is to stop."""
    found = [*_live(limits, health), *_large(limits, large)]
    found.sort(key=lambda each: -each.size / each.most)
    if found and found[0].size > found[0].most and limits.when_full == STOP:
        raise LimitError(refusal(found[0]))
    return [*found, *_forgotten(health)]


def refusal(full: Full) -> str:
    """Why a run stops, and the ways out."""
    option = "--" + full.limit.replace("_", "-")
    return (
        f"{full.sentence()}: the run stops, its last batch is not committed, and nothing is lost. Run it again with a "
        f"higher {option}, or with --when-full warn; what makes a group smaller needs a new output: a shorter "
        "lifetime, more groups (by), fewer attributes."
    )


def _live(limits: GroupLimits, health: pa.Table | None) -> Iterator[Full]:
    most = limits.max_live
    if most is None or health is None:
        return
    near = health.filter(pc.greater_equal(health["live"], NEAR * most))
    for group, live in zip(groups_in(near), near["live"].to_pylist(), strict=True):
        yield Full(group, "max_live", live, most)


def _forgotten(health: pa.Table | None) -> Iterator[Full]:
    """Whether sensors were forgotten; which groups they were of is not known."""
    sensors = 0 if health is None or FORGOTTEN not in health.schema.names else pc.sum(health[FORGOTTEN]).as_py()
    if sensors:
        yield Full("", FORGOTTEN, sensors, 1)


def groups_in(health: pa.Table) -> list[str]:
    """The groups of a batch's health, as `group_text` has them."""
    names = health.schema.names
    keys = names[names.index("seconds") + 1 : names.index("time")]
    rows = health.select(keys).to_pylist() if keys else [dict[str, Any]() for _ in range(health.num_rows)]
    queries = [row.pop(QUERY, None) for row in rows]
    return [text_of_query(group_text(row), query) for row, query in zip(rows, queries, strict=True)]


def _large(limits: GroupLimits, large: Iterable[pa.Table]) -> Iterator[Full]:
    for table in large if limits.max_state is not None else ():
        for row in table.to_pylist():
            yield Full(row["group"], "max_state", row["bytes"], limits.max_state or 1)


def group_text(group: dict[str, Any]) -> str:
    """A group for people; the same from a result as from health, where columns of other queries are null.

    >>> group_text({"site": "north", "floor": 2}), group_text({"site": None}), group_text({})
    ('the group site north, floor 2', '', '')
    """
    named = ", ".join(f"{name} {value}" for name, value in group.items() if value is not None)
    return f"the group {named}" if named else ""


def text_of_query(group: str, query: str | None) -> str:
    """A group for people, where there may be several queries."""
    return group if query is None else f"{group or 'the stream'} of query {query}"


def large_table(groups: list[tuple[str, int]]) -> pa.Table:
    """Groups that are near their limit of state, as a table of a result."""
    return pa.table({"group": [name for name, _ in groups], "bytes": [size for _, size in groups]})
