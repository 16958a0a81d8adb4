"""How does what explains groups become tables: near rows, and cells to measure next?

One table of each for all groups of a call. A group of which there is nothing to show has one row of nulls, so that a
reader knows that what it showed before has gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Objects
from fogline.flow.names import NEAR, NEXT
from fogline.flow.plan import Plan
from fogline.flow.view_columns import NEXT_COLUMNS, near_schema, next_schema
from fogline.rows.clock import write_times


class NearRows(NamedTuple):
    """Possible rows of a group: those that are in, and the best of those that are out; values as the user sees them."""

    id: Objects
    arrived: Floats
    inside: Flags
    front: list[str]
    probability: Floats
    within: Floats
    cells: Floats  # (n, 4 d) of each attribute: as it came (NaN: a gap), the least, the greatest and the mean value
    why: list[str | None]


class GroupView(NamedTuple):
    """What explains a group after a call."""

    why: list[str | None]  # beside its changes, in their order
    near: NearRows | None = None  # None: it is not asked for, or as it was
    next: pa.Table | None = None  # the columns from `id` on


def view_tables(
    plan: Plan, clocks: Sequence[float], views: Sequence[GroupView | None], groups: list[pa.Array]
) -> list[tuple[str, pa.Table]]:
    """The tables of all groups of a call, with their kinds; `groups`: their columns."""
    shown = [k for k, view in enumerate(views) if view is not None and view.near is not None]
    if not shown:
        return []
    near = [view.near for view in views if view is not None and view.near is not None]
    cells = [view.next for view in views if view is not None and view.next is not None]
    times = np.array([clocks[k] for k in shown])
    return [(NEAR, _near(plan, near, shown, times, groups)), (NEXT, _next(plan, cells, shown, times, groups))]


def _near(plan: Plan, parts: list[NearRows], shown: list[int], times: Floats, groups: list[pa.Array]) -> pa.Table:
    sizes = [max(1, len(each.id)) for each in parts]
    of = np.repeat(np.arange(len(parts)), sizes)
    empty = np.array([not len(parts[k].id) for k in of], np.bool_)
    ids = [name for each in parts for name in (each.id.tolist() or [None])]

    def floats(arrays: list[Floats]) -> Floats:
        return np.concatenate([each if len(each) else np.full((1, *each.shape[1:]), np.nan) for each in arrays])

    schema = near_schema(plan.query, plan.kinds)
    cells = floats([each.cells for each in parts])
    columns = [each.take(pa.array(np.array(shown)[of])) for each in groups]
    columns += [
        _instants(plan, times[of]),
        pa.array(ids, plan.id),
        _instants(plan, floats([each.arrived for each in parts])),
        pa.array(np.concatenate([each.inside if len(each.id) else [False] for each in parts]), mask=empty),
        pa.array([name for each in parts for name in [*each.front] or [None]], pa.string()),
        *(_floats(floats(list(each))) for each in zip(*((p.probability, p.within) for p in parts), strict=True)),
        *(_floats(column) for column in cells.T),
        pa.array([text for each in parts for text in [*each.why] or [None]], pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _next(plan: Plan, parts: list[pa.Table], shown: list[int], times: Floats, groups: list[pa.Array]) -> pa.Table:
    schema = next_schema(plan.query, plan.kinds)
    rest = pa.schema([schema.field(name) for name in NEXT_COLUMNS[2:]])
    none = pa.Table.from_pylist([{}], rest)
    sizes = [max(1, each.num_rows) for each in parts]
    of = np.repeat(np.arange(len(parts)), sizes)
    ranks = [k for each in parts for k in (range(each.num_rows) or [None])]
    columns = [each.take(pa.array(np.array(shown)[of])) for each in groups]
    columns += [_instants(plan, times[of]), pa.array(ranks, pa.int64())]
    cells = pa.concat_tables([each.cast(rest) if each.num_rows else none for each in parts])
    return pa.Table.from_arrays([*columns, *cells.columns], schema=schema)


def _instants(plan: Plan, values: Floats) -> pa.Array:
    unknown = ~np.isfinite(values)
    return write_times(np.where(unknown, 0.0, values), plan.kind, unknown)


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
