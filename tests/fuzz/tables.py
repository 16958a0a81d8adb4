"""Is a table that is answered once, `fl.skyline`, answered exactly, whatever its cells are?

Cells of many kinds: whole numbers that floats would round, decimals, infinities, texts, instants with nanoseconds,
lists, gaps; groups by keys that are nearly the same. The reference compares them as fractions. What the docs call an
error may be one; what is answered must be right.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import fogline as fl
from tests.fuzz.judging import Difference
from tests.reference import held

CLOSE = 1e-9
NAN, INF = math.nan, math.inf
FAR, SHORT, LONG = 2**53, Decimal("0.1"), Decimal("0.1234567890123456")
DAY = datetime(2024, 1, 1)
Row = dict[str, Any]
Point = tuple[int, Fraction]  # an infinity is beyond all others: its sign, and nothing
Cell = list[tuple[Point, Fraction]]  # with weights that add up to 1


def _nano(k: int, **how: Any) -> pd.Timestamp:
    return pd.Timestamp("2024-01-01", **how) + pd.Timedelta(k, "ns")


KINDS: dict[str, Sequence[Any]] = {
    "small": (0, 1, 2, 3),
    "floats": (0.5, 1.0, 1.5, -2.0, INF, -INF),
    "floats alone": (0.5, 1.0, 1.5, -2.0),
    "infinities": (1.0, 99.0, INF, -INF),
    "whole": (FAR - 1, FAR, FAR + 1, FAR + 2, FAR + 3),
    "large": (2**60, 2**60 + 1, 2**60 - 1024, 2**60 + 1024, 2**60 + 2048),
    "larger": (2**70, 2**70 + 1, -(2**70)),
    "of NumPy": (np.int64(FAR), np.int64(FAR + 1), FAR + 1, FAR, np.float64(FAR)),
    "decimals": (SHORT, SHORT + SHORT, LONG, LONG + Decimal("1e-16"), LONG + Decimal("1e-20")),
    "texts": ("1", "1.5", str(FAR), str(FAR + 1)),
    "mixed": (0, 0.5, FAR, FAR + 1, SHORT, LONG, True),
    "mixed and far": (FAR, FAR + 1, 2.0**53, 2.0**60, 2**60 + 1, -INF),
    "lists": ([(1, 1), (3, 1)], [(0, 2), (2, 1)], [(2, 1)], 1, 2, 3),
    "instants": (_nano(1), _nano(2), _nano(1000), DAY, DAY + timedelta(microseconds=1)),
    "zones": (_nano(1, tz="UTC"), _nano(2, tz="UTC"), _nano(3, tz="Europe/Berlin"), DAY.replace(tzinfo=UTC)),
    "lengths": (pd.Timedelta(1, "ns"), pd.Timedelta(2, "ns"), timedelta(microseconds=1)),
    "datetime64": (np.datetime64("2024-01-01", "D"), np.datetime64("2024-01-01T00:00:00.000000001", "ns"), _nano(2)),
}
TIMES = ("instants", "zones", "lengths", "datetime64")
GROUPS: tuple[Sequence[Any], ...] = (
    ("x", "y"), (None, "None", "nan", ""), (None, NAN, "None"), (0.0, -0.0, NAN, 1.0), (0.0, -0.0, None),
    (1, 1.0, True, "1"), (True, False, None), (5, 5.0, Decimal("5.00")), (pd.NaT, None, "NaT"), (1, 2**60, 2**60 + 1),
)  # fmt: skip
KNOWN = (0.0, 1.0, 100.0, -100.0, 2.0**53, 2.0**60)


@dataclass(frozen=True)
class Table:
    """A table, and what is asked."""

    seed: int
    rows: list[Row]
    ways: dict[str, str]
    by: tuple[str, ...]
    kind: str  # dicts, frame, arrow
    known: tuple[float, ...]  # what a repository has for each attribute; none: there is no repository
    front: str
    kinds: tuple[str, ...]  # of cells


def drawn(seed: int) -> Table:
    """The table of a seed."""
    r = random.Random(f"table/{seed}")
    names = tuple(f"x{j}" for j in range(r.choice((1, 1, 2))))
    kinds = tuple(r.choice([*KINDS]) for _ in names)
    repository = r.random() < 0.5 and not any(kind in TIMES for kind in kinds)
    known = tuple(r.choice(KNOWN) for _ in names) if repository else ()
    gaps = 0.25 if (known or len(names) == 1) and r.random() < 0.7 else 0.0
    groups = r.choice(GROUPS) if r.random() < 0.35 and not (gaps and not known) else ()
    rows = []
    for _ in range(r.choice((2, 3, 4, 6))):
        row: Row = {name: _cell(r, kind, gaps) for name, kind in zip(names, kinds, strict=True)}
        rows.append(row | ({"g": r.choice(groups)} if groups else {}))
    ways = {name: r.choice(("max", "min")) for name in names}
    front = r.choice(("likely", "likely", "possible", "certain"))
    return Table(seed, rows, ways, ("g",) if groups else (), r.choice(tuple(MADE)), known, front, kinds)


def _cell(r: random.Random, kind: str, gaps: float) -> Any:
    if r.random() < gaps:
        return r.choice((None, None, NAN, pd.NaT if kind in TIMES else pd.NA))
    return r.choice(KINDS[kind])


def _as_arrow(rows: list[Row]) -> Any:
    """As Arrow, where there is a type that keeps what the cells are; else as they are."""
    columns = {}
    for name in rows[0]:
        cells = [None if missing(row[name]) else row[name] for row in rows]
        types = {type(each) for each in cells if each is not None}
        if len(types) != 1 or list in types or (pd.Timestamp in types and len({each.tz for each in cells if each}) > 1):
            return rows
        kind: Any = {pd.Timestamp: pa.timestamp("ns"), pd.Timedelta: pa.duration("ns")}.get(*types)
        if pd.Timestamp in types:
            kind = pa.timestamp("ns", next(str(each.tz) for each in cells if each) if _zoned(cells) else None)
        try:
            columns[name] = pa.array(cells, kind)
        except (pa.ArrowException, OverflowError, TypeError):
            return rows
    return pa.table(columns)


def _zoned(cells: list[Any]) -> bool:
    return any(each is not None and each.tz is not None for each in cells)


MADE: dict[str, Callable[[list[Row]], Any]] = {
    "dicts": list,
    "frame": lambda rows: pd.DataFrame(
        {name: pd.Series([row[name] for row in rows], dtype=object) for name in rows[0]}
    ),
    "arrow": _as_arrow,
}


@cache
def repository(known: tuple[float, ...]) -> fl.Repository:
    """A repository that knows one value of each attribute."""
    query = fl.Query({f"x{j}": "max" for j in range(len(known))}, id="id", time="t", last=1)
    return fl.Repository.fit([{f"x{j}": value for j, value in enumerate(known)}] * 5, query, method="mean")


def run_table(table: Table) -> None:
    """The table through `fl.skyline`, held to the reference."""
    given = MADE[table.kind](table.rows)
    try:
        found = fl.skyline(
            given, table.ways, repository(table.known) if table.known else None, by=table.by, certainty=table.front
        )
    except fl.errors.QueryError as error:
        if not may_fail(table):
            raise Difference("table error", f"{error}: {table}") from error
        return
    except Exception as error:
        raise Difference(f"table {type(error).__name__}", f"{error}: {table}") from error
    truth, reported = answer(table), Counter(map(_shown, _plain(found)))
    if truth is None:
        raise Difference("table kinds", f"reported {dict(reported)}, though its cells cannot be compared: {table}")
    if reported != truth:
        raise Difference("table answer", f"reported {dict(reported)}, in truth {dict(truth)}: {table}")


def _plain(found: Any) -> list[Row]:
    if isinstance(found, pd.DataFrame):
        return [dict(zip(found.columns, row, strict=True)) for row in found.itertuples(index=False)]
    return found if isinstance(found, list) else found.to_pylist()


def _shown(row: Mapping[str, Any]) -> str:
    """A row with what is reported of it; what means the same is shown alike."""
    cells = {name: _content(value) for name, value in row.items() if name not in ("probability", "certainty")}
    return repr((sorted(cells.items()), row["certainty"], round(row["probability"], 8) + 0.0))


def _content(value: Any) -> Any:
    if isinstance(value, list | tuple | np.ndarray):
        return [(a, b) for a, b in (pair.values() if isinstance(pair, dict) else pair for pair in value)]
    if missing(value):
        return None
    kind = "bool" if isinstance(value, bool | np.bool_) else "text" if isinstance(value, str) else ""
    return kind, value if isinstance(value, str) else str(exact(value)[1])


# --- The truth --------------------------------------------------------------------------------------------------------


def missing(value: Any) -> bool:
    return value is None or (not isinstance(value, list | tuple | np.ndarray) and bool(pd.isna(value)))


def exact(value: Any) -> tuple[str, Point]:
    """What sort of value it is, and where it lies among those of its sort."""
    if isinstance(value, pd.Timestamp | datetime | np.datetime64):
        stamp = pd.Timestamp(value)
        return f"instants {stamp.tz is not None}", (0, Fraction(stamp.as_unit("ns").value))
    if isinstance(value, pd.Timedelta | timedelta):
        return "lengths", (0, Fraction(pd.Timedelta(value).as_unit("ns").value))
    if isinstance(value, float) and math.isinf(value):
        return "numbers", (1 if value > 0 else -1, Fraction(0))
    return "numbers", (0, Fraction(value.item() if isinstance(value, np.generic) else value))


def is_held(value: Any) -> bool:
    """Whether a float holds the value, if it is a number."""
    if isinstance(value, str):
        return held(int(value)) if value.isdigit() else True
    return exact(value)[0] != "numbers" or held(value.item() if isinstance(value, np.generic) else value)


def values_of(table: Table, name: str) -> list[Any]:
    """All values of a column, those of lists among them."""
    cells = [row[name] for row in table.rows]
    pairs = [each if isinstance(each, list) else [(each, 1)] for each in cells if not missing(each)]
    return [value for each in pairs for value, _ in each]


def may_fail(table: Table) -> bool:
    """Whether the docs allow an error: floats cannot hold a value, kinds are mixed, or nothing is known of a gap."""
    for name in table.ways:
        cells, values = [row[name] for row in table.rows], values_of(table, name)
        lists = any(isinstance(each, list) for each in cells)
        if not all(map(is_held, values)) or len({exact(each)[0] for each in values}) > 1:
            return True
        if any(map(missing, cells)) and not table.known and (lists or not values):
            return True
    return False


def answer(table: Table) -> Counter[str] | None:
    """The rows that are in, as they are shown; None: there is no answer."""
    names = list(table.ways)
    if any(len({exact(each)[0] for each in values_of(table, name)}) > 1 for name in names):
        return None
    uncertain = [[cell(table, j, name, row[name]) for j, name in enumerate(names)] for row in table.rows]
    keys = [tuple(key(row[name]) for name in table.by) for row in table.rows]
    out: Counter[str] = Counter()
    for k, row in enumerate(table.rows):
        p = probability(k, [i for i in range(len(keys)) if keys[i] == keys[k]], uncertain)
        front = "certain" if p == 1 else "likely" if p > 0.5 + CLOSE else "possible"
        fronts = {"certain": ("certain",), "likely": ("certain", "likely")}.get(table.front)
        if p > 0 and (fronts is None or front in fronts):
            out[_shown(row | {"probability": float(p), "certainty": front})] += 1
    return out


def cell(table: Table, j: int, name: str, value: Any) -> Cell:
    """A cell as a distribution, larger is better. A gap is what the repository has, or any value of the column."""
    sign = 1 if table.ways[name] == "max" else -1
    if missing(value):
        values = [exact(each)[1] for each in values_of(table, name)]
        finite = [each for each in values if each[0] == 0]
        known = [exact(table.known[j])[1]] if table.known else finite or values
        pairs = [(each, Fraction(1, len(known))) for each in known]
    elif isinstance(value, list):
        pairs = [(exact(each)[1], Fraction(weight, sum(w for _, w in value))) for each, weight in value]
    else:
        pairs = [(exact(value)[1], Fraction(1))]
    return [((sign * beyond, sign * number), weight) for (beyond, number), weight in pairs]


def key(value: Any) -> Any:
    """What names a group."""
    if missing(value):
        return None
    kind = "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    return kind, value


def probability(k: int, group: Sequence[int], uncertain: Sequence[Sequence[Cell]]) -> Fraction:
    """That no other row of the group beats row k."""
    total = Fraction(0)
    for place in product(*uncertain[k]):
        chance = prod((weight for _, weight in place), start=Fraction(1))
        for i in group:
            if i != k:
                pairs = list(zip(uncertain[i], [value for value, _ in place], strict=True))
                at_least = prod((sum(w for v, w in cell if v >= x) for cell, x in pairs), start=Fraction(1))
                equal = prod((sum(w for v, w in cell if v == x) for cell, x in pairs), start=Fraction(1))
                chance *= 1 - at_least + equal
        total += chance
    return total
