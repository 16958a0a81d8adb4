"""Which missing cells are worth a measurement?

Those whose true value would change the answer most: by the expected number of rows that enter or leave it, exact over
the cell's own distribution, all else as it is (`kernels.what_if`). A cell is listed if it may have several values and
one of them would change the answer. Rows that are surely dominated are not: nothing changes whatever their values are.
Nor are rows of an id that has a newer one in its group which is not: what was missing then cannot be measured any more.
A row of more than SUM_LIMIT merged instances is not counted among those that enter or leave; what its cells do to
others is.

Each cell is weighed by itself: two that would change the same rows are both listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Ints, objects
from fogline.engine.live import LiveSet
from fogline.engine.slots import SUM_LIMIT, cell_means
from fogline.errors import FoglineError
from fogline.kernels.states import OUT
from fogline.kernels.what_if import UNIT, expected_changes
from fogline.query import Query
from fogline.rows.changes import GroupKey
from fogline.rows.clock import time_text, write_times
from fogline.rows.names import Kinds


class Questions(NamedTuple):
    """Cells of a live set that are worth a measurement, the most worthy first."""

    slot: Ints  # (n,) the row
    attribute: Ints  # (n,)
    changes: Floats  # (n,) the expected number of rows that enter or leave the answer; all above 0
    low: Floats  # (n,) the least value that it may have, where larger is better
    high: Floats  # (n,) the greatest
    mean: Floats  # (n,)


def ask(live: LiveSet, k: int) -> Questions:
    """The k cells that would change the answer most, or as many as would change it at all.

    Equal ones are ordered by arrival, id and attribute. O(open² + open · dominators · instances).
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise FoglineError(f"k is {k!r}; it counts cells to be asked for, so it is a whole number of at least 0.")
    s = live.slots
    opened = s.by_key(np.flatnonzero(s.columns.state[: s.used] >= OUT))  # products are rounded: not the order of slots
    changes = expected_changes(s.live_arrays(), opened, live.limits.threshold, max(SUM_LIMIT, s.sum_limit))
    newest = dict(zip(s.id[opened].tolist(), opened.tolist(), strict=True))  # of each id the last in order of arrival
    changes[np.setdiff1d(opened, list(newest.values()))] = 0
    slot, attribute = np.nonzero(changes)
    expected = changes[slot, attribute]
    if len(slot) > k:  # all that equal the last one stay, to be sorted
        enough = np.flatnonzero(expected >= (np.partition(expected, -k)[-k] if k else np.inf))
        slot, attribute, expected = slot[enough], attribute[enough], expected[enough]
    arrived, ids = s.columns.arrived[slot].tolist(), s.id[slot].tolist()
    keys = list(zip((-expected).tolist(), arrived, ids, attribute.tolist(), strict=True))
    best = sorted(range(len(keys)), key=keys.__getitem__)[:k]
    slot, attribute, expected = slot[best], attribute[best], expected[best]
    start, size = s.uncertain.start[slot, attribute], s.uncertain.size[slot, attribute]
    ends = s.uncertain.value[start], s.uncertain.value[start + size - 1]
    return Questions(slot, attribute, expected * UNIT, *ends, cell_means(s.uncertain, slot, attribute))


class AskedCell(NamedTuple):
    """A question with the names of its row and group; their order is that of the list."""

    worth: float  # minus the expected number of changes
    arrived: float
    id: Any
    attribute: int
    group: int  # which of the groups
    low: float
    high: float
    mean: float


def questions(groups: Sequence[tuple[GroupKey, LiveSet]], k: int, query: Query, kinds: Kinds) -> pa.Table:
    """The k cells of all these groups that would change their answers most, as a table.

    Columns: by…, the id, the row's own time, attribute, changes, low, high, mean (as the user sees values), sentence.
    """
    found: list[AskedCell] = []
    for g, (_, live) in enumerate(groups):
        asked, s = ask(live, k), live.slots
        names = s.columns.arrived[asked.slot].tolist(), s.id[asked.slot].tolist(), asked.attribute.tolist()
        ranges = [each.tolist() for each in _as_seen(asked, query)]
        found += map(AskedCell, (-asked.changes).tolist(), *names, repeat(g), *ranges)
    best = sorted(found)[:k]
    by = {
        name: pa.array([groups[each.group][0][n] for each in best], kinds.by[n] if kinds.by else pa.null())
        for n, name in enumerate(query.by)
    }
    return pa.table(
        by
        | {
            query.id: pa.array(objects([each.id for each in best]), kinds.id or pa.null()),
            query.arrived: write_times(
                np.array([each.arrived for each in best], np.float64), kinds.time or pa.float64()
            ),
            "attribute": pa.array([query.names[each.attribute] for each in best], pa.string()),
            "changes": pa.array([-each.worth for each in best], pa.float64()),
            "low": pa.array([each.low for each in best], pa.float64()),
            "high": pa.array([each.high for each in best], pa.float64()),
            "mean": pa.array([each.mean for each in best], pa.float64()),
            "sentence": pa.array([_sentence(each, query, kinds) for each in best], pa.string()),
        }
    )


def _as_seen(asked: Questions, query: Query) -> tuple[Floats, Floats, Floats]:
    """(low, high, mean) as the user sees values: not oriented."""
    sign = np.array(query.signs, np.float64)[asked.attribute]
    ends = np.sort(np.stack((asked.low * sign, asked.high * sign)) + 0.0, axis=0)
    return ends[0], ends[1], asked.mean * sign + 0.0


def _sentence(each: AskedCell, query: Query, kinds: Kinds) -> str:
    number = f"{-each.worth:.3g}"
    rows = "1 row is" if number == "1" else f"{number} rows are"
    return (
        f"if {query.names[each.attribute]} of {each.id!r} (arrived {time_text(each.arrived, kinds.time)}) were known, "
        f"{rows} expected to enter or leave the answer; it lies from {each.low:g} to {each.high:g}, "
        f"on average at {each.mean:g}"
    )
