"""How do many small groups lie in one value?

In columns, side by side: so many are opened, and saved, at the price of a few. Some can be taken out, and others put
in, without opening the rest. What a group seldom has (rows that wait or are held, readings of its sensors) has no
columns here: a group that has it, or is large, lies apart (`fits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints
from fogline.engine.current import LatestGroup
from fogline.engine.store import NAMES, join_columns, save_group, split_columns
from fogline.flow import heard as hearing
from fogline.flow.ahead import Ahead
from fogline.flow.cache import LoadedGroup
from fogline.rows.names import Key
from fogline.rows.table import joined_column
from fogline.saved import Arrays, table_as_bytes, table_from_bytes

if TYPE_CHECKING:
    from fogline.flow.keeper import Keeper

ROWS = 256  # live rows of a group that lies here, at most …
VALUES = 8_192  # … and values of their distributions, and sums

# Of which each group has how many: the columns that lie side by side.
_OF = {
    "rows": (
        "lo", "hi", "start", "size", "arrived", "expires", "until", "reported", "state", "counted", "probability",
        "within", "raw", "known", "id", "guard", "version",
    ),
    "pools": ("value", "weight", "tail"),
    "sums": ("logs", "zeros"),
    "newest": ("newest_id",),
    "queue": ("queue_arrived", "queue_id"),
    "out": ("joint",),
    "open": ("open",),
    "markers": ("marker_time", "marker_version", "marker_id"),
    "stretches": (f"{hearing.PREFIX}times", f"{hearing.PREFIX}sizes"),
    "hashes": (f"{hearing.PREFIX}ids",),
}  # fmt: skip
SORT_OF = {name: kind for kind, names in _OF.items() for name in names}
_SIZE = "size of "  # before the names of arrays


class Bundle(NamedTuple):
    """Groups side by side."""

    keys: list[Key]
    headers: list[dict[str, Any]]
    sizes: dict[str, Ints]  # of each sort of column, how many cells each group has
    columns: dict[str, Any]  # arrays, Arrow's for names

    def part(self, which: Sequence[int]) -> Bundle:
        """Some of the groups."""
        if len(which) == len(self.keys) and all(k == i for k, i in enumerate(which)):
            return self
        some = np.array(which, np.int64)
        places = {kind: _places(size, some) for kind, size in self.sizes.items()}
        columns = {name: _taken(column, places[SORT_OF[name]]) for name, column in self.columns.items()}
        sizes = {kind: size[some] for kind, size in self.sizes.items()}
        return Bundle([self.keys[i] for i in which], [self.headers[i] for i in which], sizes, columns)

    def to_arrays(self) -> Arrays:
        """For `packing.pack`, beside keys and headers."""
        out: Arrays = {f"{_SIZE}{kind}": size for kind, size in self.sizes.items()}
        for name, column in self.columns.items():
            out[name] = table_as_bytes(pa.table({"values": column})) if name in NAMES else column
        return out

    @classmethod
    def from_arrays(cls, keys: list[Key], headers: list[dict[str, Any]], arrays: Arrays) -> Bundle:
        """The inverse of `to_arrays`, among other arrays."""
        sizes = {kind: arrays[f"{_SIZE}{kind}"] for kind in _OF if f"{_SIZE}{kind}" in arrays}
        columns: dict[str, Any] = {name: arrays[name] for name in SORT_OF if name in arrays}
        for name in NAMES:
            if name in columns:
                columns[name] = table_from_bytes(columns[name]).column(0).combine_chunks()
        return cls(keys, headers, sizes, columns)


def joined(bundles: Sequence[Bundle]) -> Bundle | None:
    """The groups of all bundles, in order; None if there are none."""
    there = [each for each in bundles if each.keys]
    if len(there) < 2:
        return there[0] if there else None
    columns = {}
    for name in there[0].columns:
        parts = [each.columns[name] for each in there]
        columns[name] = joined_column(parts, name) if name in NAMES else np.concatenate(parts)
    sizes = {kind: np.concatenate([each.sizes[kind] for each in there]) for kind in there[0].sizes}
    keys, headers = ([one for each in there for one in getattr(each, name)] for name in ("keys", "headers"))
    return Bundle(keys, headers, sizes, columns)


def fits(loaded: LoadedGroup) -> bool:
    """Whether the group may lie in a bundle: it has nothing that has no columns here, and is small."""
    ahead, s = loaded.ahead, loaded.group.live.slots
    if loaded.waiting is not None or loaded.slots or loaded.sensors is not None or loaded.log is not None:
        return False
    if not ahead.holds_nothing:
        return False
    if isinstance(loaded.group, LatestGroup) and len(loaded.group.names.number) > ROWS:
        return False
    if loaded.group.window is not None and loaded.group.window.size > ROWS:
        return False
    return loaded.group.live.alive <= ROWS and max(s.pool - len(s.lists.value), s.filled) <= VALUES


def bundled(keeper: Keeper, groups: Sequence[tuple[Key, LoadedGroup]]) -> Bundle:
    """Groups that fit as they lie in a bundle."""
    plan = keeper.plan
    columns = join_columns([each.group for _, each in groups], len(plan.query.names), plan.id)
    headers = [
        {"clock": each.clock, "timer": each.timer, "ground": each.ahead.ground, **save_group(each.group)}
        for _, each in groups
    ]
    latest = [each["latest"] or {"out": 0, "open": 0, "markers": 0} for each in headers]
    counts = {
        "rows": [each["rows"] for each in headers],
        "newest": [each["newest_ids"] for each in headers],
        "queue": [0 if each["order"] is None else each["order"][1] for each in headers],
        **{kind: [each[kind] for each in latest] for kind in ("out", "open", "markers")},
        "stretches": [len(each.ahead.heard) for _, each in groups],
        "hashes": [sum(len(cell.ids) for cell in each.ahead.heard.values()) for _, each in groups],
    }
    sizes = {kind: np.array(each, np.int64) for kind, each in counts.items()}
    sizes |= {kind: columns.pop(kind) for kind in ("pools", "sums")}
    cells = [(stretch, cell) for _, each in groups for stretch, cell in each.ahead.heard.items()]
    heard = hearing.columns([stretch for stretch, _ in cells], [cell for _, cell in cells])
    columns |= heard or {
        f"{hearing.PREFIX}times": np.empty((0, 3)),
        f"{hearing.PREFIX}sizes": np.empty((0, 2), np.int64),
        f"{hearing.PREFIX}ids": hearing.NO_IDS,
    }
    return Bundle([key for key, _ in groups], headers, sizes, columns)


def unbundled(keeper: Keeper, bundle: Bundle) -> list[LoadedGroup]:
    """The groups of a bundle, loaded."""
    arrays = bundle.columns | {kind: bundle.sizes[kind] for kind in ("pools", "sums")}
    groups = split_columns(bundle.headers, arrays, keeper.plan.query, keeper.empty)
    cells, at, out = hearing.cells_of(bundle.columns), 0, []
    for group, header, stretches in zip(groups, bundle.headers, bundle.sizes["stretches"].tolist(), strict=True):
        ahead = Ahead(header["ground"], dict(cells[at : at + stretches]))
        out.append(LoadedGroup(group, header["clock"], None, header["timer"], ahead))
        at += stretches
    return out


def _places(size: Ints, which: Ints) -> Ints:
    """Where the cells of some groups lie, group after group."""
    length = size[which]
    end = np.cumsum(length)
    begin = (np.cumsum(size) - size)[which]
    return np.repeat(begin - (end - length), length) + np.arange(end[-1] if len(end) else 0)


def _taken(column: Any, places: Ints) -> Any:
    return column.take(pa.array(places)) if isinstance(column, pa.Array) else column[places]
