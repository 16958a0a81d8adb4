"""Which streams of changing rows do we try, and how does a group of the newest rows see them?

Few ids over tiny domains, so that ties, replaced guards, corrections and returning ids abound. Cells are numbers,
distributions, or gaps: bounds at first, a distribution (`Gap.first`) when it comes to that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import fogline as fl
from fogline.arrays import BOUNDS_ONLY, ONE, Batch, Removals, UncertainRows, objects
from fogline.engine.group import Group
from fogline.engine.latest import LatestGroup, LatestLiveSet
from fogline.engine.skyband import SkybandLiveSet
from fogline.engine.store import join_groups, save_group, split_groups
from fogline.saved import pack, unpack
from tests import oracle
from tests.strategies import Gap, gaps

ALPHAS = [Fraction(a) for a in ("1/2", "0", "1/10", "9/10")]


@dataclass(frozen=True)
class Changing:
    """A question and its input."""

    attributes: Mapping[str, str]
    alpha: Fraction
    calls: Sequence[tuple[Any, Sequence[Mapping[str, Any]]]]  # (now, rows); a row with `gone` is a removal
    window: Mapping[str, Any]  # expires="e", lifetime=5, or nothing
    remember: Any = None
    skyband: int = 1

    def oracle(self) -> oracle.Latest:
        """The true course of it: gaps are what they will be."""
        plain = [(now, [{k: _plain(v) for k, v in row.items()} for row in rows]) for now, rows in self.calls]
        return oracle.Latest(plain, self.attributes, remember=self.remember, skyband=self.skyband, **self.window)


def _plain(cell: Any) -> Any:
    return list(cell.first) if isinstance(cell, Gap) else cell


@st.composite
def changing(draw, most: int = 9, bounds_only: bool = True) -> Changing:
    """Every call may have rows of any time up to its own; some ids are never heard again, some at every tick."""
    attributes = {f"a{j}": "max" for j in range(draw(st.integers(1, 3)))}
    window = draw(st.sampled_from([{}, {"lifetime": 3}, {"lifetime": 8}, {"expires": "e"}]))
    top, names = draw(st.sampled_from([1, 2, 4])), "abcdefgh"[: draw(st.sampled_from([2, 4, 8]))]
    number = st.integers(0, top)
    pairs = st.lists(st.tuples(number, st.sampled_from([1, 2, 5])), min_size=2, max_size=3)
    cell = st.one_of(number, number, pairs, *([gaps(top)] if bounds_only else []))
    versions = st.sampled_from([0, 1, 2] if draw(st.booleans()) else [0])
    clock, calls = 0, []
    for _ in range(draw(st.integers(2, most))):
        clock += draw(st.sampled_from([1, 0, 1, 2, 5]))
        rows: list[dict[str, Any]] = []
        for name in draw(st.lists(st.sampled_from(names), max_size=5)):
            t = clock - draw(st.sampled_from([0, 0, 0, 1, 2, 6]))
            row = {"id": name, "t": t, "v": draw(versions), "gone": draw(st.integers(0, 5)) == 0}
            row["e"] = t + draw(st.sampled_from([3, 1, 0, 2, 6, 12]))
            row |= {a: draw(cell) for a in attributes}
            if not _unclear(row, rows):
                rows.append(row)
        calls.append((clock, rows))
    calls.append((clock + draw(st.sampled_from([0, 2, 20])), []))
    remember = draw(st.sampled_from([None, 0, 2, 8]))
    return Changing(attributes, draw(st.sampled_from(ALPHAS)), calls, window, remember)


def _unclear(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Of rows with one id, time and version the content decides, and the oracle does not see bounds of gaps."""
    copies = [other for other in rows if all(other[k] == row[k] for k in ("id", "t", "v"))]
    return bool(copies) and any(isinstance(cell, Gap) for each in (row, *copies) for cell in each.values())


class Toy:
    """A chain that knows every row of a stream beforehand."""

    def __init__(self, stream: Changing) -> None:
        self.stream, self.names = stream, list(stream.attributes)
        self.rows = [row for _, rows in stream.calls for row in rows]

    def fill(self, uncertain: UncertainRows, known: np.ndarray, wanted: np.ndarray) -> UncertainRows:
        """Distributions for gaps; the boxes become as narrow as they are."""
        lo, hi, start, size = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy(), uncertain.size.copy()
        pools = [list(each) for each in uncertain[4:]]
        for i, j in zip(*np.nonzero(wanted), strict=True):
            _write(self.rows[int(known[i, 0])][self.names[j]], i, j, (lo, hi, start, size), pools)
        return UncertainRows(lo, hi, start, size, *(np.array(each, float) for each in pools))

    def batch(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> Batch | None:
        """Rows, with their numbers in the stream, that are no removals."""
        rows = [(k, row) for k, row in rows if not row["gone"]]
        if not rows:
            return None
        n, d = len(rows), len(self.names)
        cells = np.empty((n, d)), np.empty((n, d)), np.full((n, d), ONE), np.ones((n, d), np.int64)
        pools: list[list[float]] = [[], [], []]
        for i, (_, row) in enumerate(rows):
            for j, name in enumerate(self.names):
                if isinstance(row[name], Gap):
                    cells[0][i, j], cells[1][i, j], cells[2][i, j] = row[name].low, row[name].high, BOUNDS_ONLY
                else:
                    _write(row[name], i, j, cells, pools)
        uncertain = UncertainRows(*cells, *(np.array(each, float) for each in pools))
        raw = np.where(uncertain.start == ONE, uncertain.lo, np.nan)
        life = self.stream.window
        expires = [row["e"] if "expires" in life else row["t"] + life.get("lifetime", np.inf) for _, row in rows]
        return Batch(
            objects([row["id"] for _, row in rows]), np.array([row["t"] for _, row in rows], float),
            np.array(expires, float), raw, np.array([[k] for k, _ in rows], float), uncertain,
            np.array([row["v"] for _, row in rows]),
        )  # fmt: skip

    def removals(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> Removals | None:
        gone = [row for _, row in rows if row["gone"]]
        if not gone:
            return None
        times, versions = [row["t"] for row in gone], [row["v"] for row in gone]
        return Removals(objects([row["id"] for row in gone]), np.array(times, float), np.array(versions))

    def group(self) -> LatestGroup:
        remember = np.inf if self.stream.remember is None else self.stream.remember
        group = LatestGroup(LatestLiveSet(len(self.names), float(self.stream.alpha), known=1, fill=self.fill), remember)
        in_skyband(group, self.stream.skyband)
        return group

    def resumed(self, group: LatestGroup) -> LatestGroup:
        """The group again, from its stored state."""
        arrays = join_groups([group], len(self.names), pa.string())
        header, arrays = unpack(pack({"groups": [save_group(group)]}, arrays))
        query = fl.Query(attributes=self.stream.attributes, id="id", time="t", lifetime=1)
        [again], _ = split_groups(header["groups"], arrays, query, self.group)
        assert isinstance(again, LatestGroup)
        return again


def in_skyband(group: Group, k: int) -> None:
    """From now on rows of this group, which is empty, are in where fewer than k others beat them."""
    if k > 1:
        live, slots = group.live, group.live.slots
        group.live = SkybandLiveSet(
            slots.d, live.alpha, k, by_id=isinstance(group, LatestGroup), exact_limit=live.limits.exact_limit,
            known=slots.known.shape[1], fill=live.fill, note=live.note,
        )  # fmt: skip


def _write(given: Any, i: int, j: int, cells: Sequence[Any], pools: list[list[float]]) -> None:
    """One cell's distribution."""
    lo, hi, start, size = cells
    pairs = oracle.cell(_plain(given), "max")
    lo[i, j], hi[i, j], size[i, j] = float(pairs[0][0]), float(pairs[-1][0]), len(pairs)
    start[i, j] = len(pools[0]) if len(pairs) > 1 else ONE
    if len(pairs) > 1:
        pools[0] += [float(value) for value, _ in pairs]
        pools[1] += [float(weight) for _, weight in pairs]
        pools[2] += [float(sum(weight for _, weight in pairs[k:])) for k in range(len(pairs))]


# --- Listed streams ---------------------------------------------------------------------------------------------------

LISTED = json.loads((Path(__file__).parent / "vectors" / "changing.json").read_text())


def of_listed(listed: Mapping[str, Any]) -> Changing:
    """A listed stream: one call per listed tick."""
    names = [f"a{j}" for j in range(listed["d"])]

    def row(event: Mapping[str, Any]) -> dict[str, Any]:
        cells = [[(value, Fraction(weight)) for value, weight in cell] for cell in event.get("values", [])]
        return {"id": event["id"], "t": event["time"], "v": 0, "gone": event.get("gone", False)} | dict(
            zip(names, cells, strict=False)
        )

    calls = [(tick["t"], [row(e) for e in listed["events"] if e["tick"] == tick["t"]]) for tick in listed["ticks"]]
    window = {} if listed["lifetime"] is None else {"lifetime": listed["lifetime"]}
    return Changing(dict.fromkeys(names, "max"), Fraction(listed["alpha"]), calls, window)
