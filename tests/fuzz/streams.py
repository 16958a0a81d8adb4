"""Which streams are tried? All features at once, over tiny domains, drawn from one seed.

A stream is cut into calls; the same cuts are the batches of a pipeline. Rows are dicts; `n` numbers them. What the docs
leave open (`reference.Unstated`) is taken out by `judging.settled`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import fogline as fl
from fogline.impute.protocol import ends, listed
from tests.reference import Imputing, Question

Row = dict[str, Any]
NAMES = ("a0", "a1", "a2")
ALPHAS = (0.5, 0.0, 0.1, 0.25, 0.45, 0.75, 0.9)
LIVES = (3, 1, 2, 4, 5, 7, 0, 12, 1000)
HISTORY = {"a0": (0, 3, 1, 1), "a1": (2, 0, 0, 3), "a2": (1, 1, 2, 0)}
NAN = float("nan")
NUMBER = "n"
FAR, LONG = 2**53, Decimal("0.1234567890123456")
CELLS = {  # whole numbers and decimals, of which floats hold some
    "whole": (0, 1, 2, FAR, FAR + 1, FAR + 2),
    "decimals": (Decimal("0.10"), Decimal("0.25"), LONG, LONG + Decimal("1e-17"), Decimal(FAR), Decimal(FAR + 1)),
    "mixed": (1, 0.5, FAR, FAR + 1, Decimal("0.25"), LONG, [(FAR + 1, 1), (0, 1)], [(1, 1), (FAR, 2)]),
}
MIXED: tuple[tuple[Any, ...], ...] = (  # what may name rows and groups, of several kinds
    (5, 5.0, 6, Decimal("5.00")), (5.0, 5, 5.5, Decimal("5.50")), (True, 1, 1.0, False), ("5", 5, 5.0), (1, True, "1"),
    (FAR + 1, float(FAR), FAR), (None, 1, NAN, 1.0),
)  # fmt: skip


@dataclass
class Stream:
    """A question, its input, and how it is run."""

    seed: int
    query: dict[str, Any]  # fields of the query
    repository: str = ""  # "", whole, last, empty, learnt: see `repository`
    remember: bool = True  # whether a monitor remembers sensors
    own: str = ""  # "", some, other: a function of the user's; late: an imputer that is asked when it matters
    calls: list[tuple[int, list[Row]]] = field(default_factory=list)
    typed: bool = True  # whether rows fit into an Arrow table, and so into a pipeline
    wide: bool = False  # whether cells may be distributions
    keys: str = "texts"  # what ids and groups are: texts, odd, or of several kinds (mixed)
    numbers: str = ""  # what numbers attributes have: see CELLS
    ends: tuple[int, ...] = ()  # calls of which only the end is asked for (`ticks=False`)
    raises: tuple[int, ...] = ()  # calls in which the user's imputer raises at first
    restored: tuple[int, ...] = ()  # calls after which the monitor is restored from its snapshot
    tables: bool = False  # whether a monitor gets Arrow tables
    eager: bool = False
    every: str = "tick"
    lateness: int = 0
    ahead: int = 0  # the length of a stretch; 0: off
    idle: int = 0  # at which distance silent groups follow; 0: they do not
    parts: int = 1  # partitions of a batch
    shelved: bool = False
    others: tuple[dict[str, Any], ...] = ()  # further queries of a pipeline: what differs from the first one

    @property
    def question(self) -> Question:
        return Question(**self.query)

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in self.calls for row in rows]


# --- What gaps may be -------------------------------------------------------------------------------------------------


def some(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a user may know by the time alone."""
    if not str(row["t"]).lstrip("-").isdigit():  # rows that are rejected may be asked about as well
        return {}
    t = int(row["t"])  # a column of times may hold texts
    return {"a0": None, "a1": 2} if t % 3 == 0 else {"a0": [(1, 1), (3, 1)], "a1": None if t % 2 else [(0, 1), (2, 3)]}


def other(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same by another attribute."""
    known = row.get("a1")
    return {"a0": None if known is None else [(known, 1), (0, 1)]}


OWN = {"some": some, "other": other, "late": some}


class Imputer:
    """The same function for record batches; `armed`: it raises once."""

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self.__name__, self.plain, self.attributes, self.armed = name, OWN[name], tuple(attributes), False

    def __call__(self, rows: pa.RecordBatch) -> dict[str, Any]:
        if self.armed:
            self.armed = False
            raise ValueError("the imputer is not there just now")
        found: list[dict[str, Any]] = [self.plain({k: _number(v) for k, v in row.items()}) for row in rows.to_pylist()]
        names = [name for name in self.attributes if any(name in each for each in found)]
        return {name: [each.get(name) for each in found] for name in names}


class Lasting:
    """`some` as an imputer that is asked when it matters; `armed`: it raises once, in the midst of a call."""

    name, width, lasting = "late", 1, True

    def __init__(self, query: Mapping[str, Any]) -> None:
        self.names, self.limits, self.armed = tuple(query["attributes"]), query.get("limits", {}), False

    def look(self, rows: Any) -> Any:
        return np.array([[float(t) if str(t).lstrip("-").isdigit() else np.nan] for t in rows.column("t").to_pylist()])

    def able(self, known: Any, j: int) -> Any:
        return self._given(known, j).size > 0

    def bounds(self, known: Any, j: int, *, rough: bool = False) -> Any:
        return ends(self._given(known, j))

    def distributions(self, known: Any, j: int) -> Any:
        if self.armed:
            self.armed = False
            raise ValueError("the imputer is not there just now")
        return self._given(known, j)

    def sources(self, j: int) -> Any:
        return (self.name,)

    def _given(self, known: Any, j: int) -> Any:
        low, high = self.limits.get(self.names[j], (-np.inf, np.inf))
        value, weight = np.full((len(known), 2), np.nan), np.ones((len(known), 2))
        for i, (t,) in enumerate(known.tolist()):
            found = None if np.isnan(t) else some({"t": int(t)}).get(self.names[j])
            pairs = found if isinstance(found, list) else [] if found is None else [(found, 1)]
            for k, (v, w) in enumerate([(v, w) for v, w in pairs if low <= v <= high]):
                value[i, k], weight[i, k] = v, w
        return listed(value, weight)


def own_imputer(stream: Stream) -> Any:
    """The user's own imputer, if there is one."""
    if stream.own == "late":
        return Lasting(stream.query)
    return Imputer(stream.own, stream.query["attributes"]) if stream.own else None


def _number(value: Any) -> Any:
    pairs = value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else None
    return value if pairs is None else pairs[0]["value"] if len(pairs) == 1 else None


@cache
def repository(kind: str, d: int, by: tuple[str, ...]) -> fl.Repository | None:
    """What history knows: all of it (`whole`), sensors' last readings and all of it (`last`), nothing of the first
    attribute beside such readings (`empty`), or how sensors change, with hindsight (`learnt`): more than the reference
    knows."""
    if not kind:
        return None
    names = NAMES[:d]
    query = fl.Query(attributes=dict.fromkeys(names, "max"), id="id", time="t", lifetime=1, by=list(by))
    rows = [
        {"id": "history", "g": "history", "t": -1000 + k, **{a: float(HISTORY[a][k]) for a in names}} for k in range(4)
    ]
    if kind == "learnt":
        return fl.Repository.fit(_walks(names, by), query)
    if kind == "whole":
        return fl.Repository.fit(pa.Table.from_pylist(rows), query, rules=[], retention=0)
    if kind == "empty":
        rows = [row | {"a0": None} for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns = {k: pa.array(v, pa.float64()) if k in names else pa.array(v) for k, v in columns.items()}
    return fl.Repository.fit(pa.table(columns), query, method="last")


def _walks(names: tuple[str, ...], by: tuple[str, ...]) -> pa.Table:
    """Sensors that move by a step, or not at all: a history from which hindsight is learnt."""
    r, sensors, steps = random.Random("walks"), 6, 60
    rows: list[Row] = []
    at = [[r.randint(0, 3) for _ in names] for _ in range(sensors)]
    for t in range(steps):
        for k, values in enumerate(at):
            values[:] = [min(3, max(0, value + r.choice((-1, 0, 0, 1)))) for value in values]
            cells = {name: float(value) for name, value in zip(names, values, strict=True)}
            rows.append({"id": f"history {k}", "t": t - 1000, **({"g": "history"} if by else {}), **cells})
    return pa.Table.from_pylist(rows)


def imputing(stream: Stream, *, pipeline: bool = False) -> Imputing:
    """The same, as the reference knows it."""
    names = tuple(stream.query["attributes"])
    whole = {a: HISTORY[a] for a in names} if stream.repository else {}
    if stream.repository == "empty":
        whole.pop("a0")
    last = stream.repository in ("last", "empty") and (stream.remember or pipeline)
    return Imputing(OWN.get(stream.own), last, whole, late=stream.own == "late")


SKYBANDS = (1, 1, 1, 2, 3)  # the first of them: skylines


# --- Drawing ----------------------------------------------------------------------------------------------------------


def drawn(seed: int) -> Stream:
    """The stream of a seed."""
    r = random.Random(f"fuzz/{seed}")
    query = _query(r)
    k = random.Random(f"skyband/{seed}").choice(SKYBANDS)
    query |= {"skyband": k} if k > 1 else {}
    stream = Stream(seed, query)
    stream.repository = r.choice(("whole", "last", "last", "empty", "empty", ""))
    stream.remember = r.random() < 0.85
    stream.own = r.choice(("", "", "some", "other"))
    if query.get("carry") and not stream.repository and r.random() < 0.7:
        stream.repository = "whole"
    stream.typed = r.random() < 0.65
    stream.wide = stream.own != "other" and r.random() < 0.6
    stream.keys = "odd" if r.random() < 0.08 else "texts"
    if not stream.typed and r.random() < 0.2:
        stream.keys = "mixed"
    if r.random() < 0.07:
        stream.numbers, stream.own = r.choice(("whole", "decimals") if stream.typed else ("mixed",)), ""
        stream.wide = not stream.typed
    stream.tables = stream.typed and r.random() < 0.3
    stream.eager = r.random() < 0.15
    stream.every = r.choice(("tick", "tick", "batch"))
    stream.lateness = r.choice((0, 0, 0, 1, 3))
    stream.parts, stream.shelved = r.choice((1, 1, 2, 3)), r.random() < 0.3
    if stream.typed and r.random() < 0.12:
        stream.others = tuple(_other(r, query) for _ in range(r.choice((1, 2))))
    if stream.repository in ("last", "empty") and not query["by"] and r.random() < 0.15:
        query["max_sensors"] = r.choice((1, 2, 3))
    if stream.typed and stream.repository in ("", "whole") and not stream.own and not query.get("carry"):
        stream.ahead = r.choice((0, 3, 5))
    still = stream.lateness == stream.ahead == 0 and ("lifetime" in query or "expires" in query)
    if stream.typed and query["by"] and still and r.random() < 0.25:
        stream.idle = r.choice((5, 10, 20))
    _Drawing(r, stream).calls()
    count = len(stream.calls)
    stream.ends = tuple(k for k in range(count) if r.random() < 0.1)
    stream.restored = tuple(k for k in range(count) if r.random() < 0.1)
    stream.raises = tuple(k for k in range(count) if stream.own and r.random() < 0.2)
    if stream.own == "some" and r.random() < 0.4:
        stream.own = "late"
    return stream


def _query(r: random.Random) -> dict[str, Any]:
    d = r.choice((1, 2, 2, 2, 3))
    query: dict[str, Any] = {
        "attributes": {a: r.choice(("max", "max", "min")) for a in NAMES[:d]},
        "id": "id",
        "time": "t",
    }
    query |= {"alpha": r.choice(ALPHAS), "by": ["g"] if r.random() < 0.45 else []}
    latest = r.random() < 0.45
    window = r.choice(("lifetime", "expires", "none" if latest else "last"))
    windows: dict[str, dict[str, Any]] = {
        "lifetime": {"lifetime": r.choice((1, 2, 3, 5, 8, 1000))}, "expires": {"expires": "e"},
        "last": {"last": r.choice((1, 2, 3, 4, 6))}, "none": {},
    }  # fmt: skip
    query |= windows[window]
    if latest:
        query |= {"latest": True}
        query |= {"gone": "gone"} if r.random() < 0.6 else {}
        query |= {"version": "v"} if r.random() < 0.5 else {}
        query |= {"carry": r.sample(NAMES[:d], r.randint(1, d))} if r.random() < 0.35 else {}
        query |= {"remember_removed": r.choice((0, 2, 8))} if r.random() < 0.3 else {}
    if r.random() < 0.3:
        query |= {"limits": {r.choice(NAMES[:d]): r.choice(((0, 3), (0, 3), (0, 5)))}}
        query |= {"outside": "reject"} if r.random() < 0.3 else {}
    return query


def _other(r: random.Random, query: Mapping[str, Any]) -> dict[str, Any]:
    """Another query of the same stream."""
    out: dict[str, Any] = {"alpha": r.choice(ALPHAS)}
    if r.random() < 0.3 and "lifetime" in query:
        out["lifetime"] = r.choice((1, 2, 3, 5, 8, 1000))
    return out


@dataclass
class _Drawing:
    """What one stream is drawn by."""

    r: random.Random
    stream: Stream

    def __post_init__(self) -> None:
        r, stream = self.r, self.stream
        self.query = stream.query
        self.names = tuple(self.query["attributes"])
        self.top = r.choice((1, 2, 3))
        self.gap = r.choice((0.0, 0.15, 0.35)) if stream.repository or stream.own else r.choice((0.0, 0.0, 0.02))
        self.ids: tuple[Any, ...] = tuple("abcd"[: r.choice((1, 2, 3, 4))])
        self.groups: tuple[Any, ...] = ("x", "y", "z")[: r.choice((1, 2, 3))]
        if stream.keys == "odd":
            self.ids = r.choice(((0.0, -0.0, 1.0), (0.0, NAN, 2.0), ("None", "", "a"), (0.0, -0.0, None)))
            self.groups = r.choice(((None, "None", ""), (0.0, -0.0, NAN), (NAN, None, 1.0), ("x", "y")))
        elif stream.keys == "mixed":
            self.ids, self.groups = r.choice(MIXED), r.choice(MIXED)
            self.gap = max(self.gap, 0.1)  # a call that is an error settles no kind
        self.late = 0.0 if stream.idle else r.choice((0.0, 0.0, 0.1, 0.3))
        self.copy = r.choice((0.0, 0.1, 0.3))
        self.bad = r.choice((0.0, 0.05, 0.15))

    def cell(self, name: str) -> Any:
        r = self.r
        if r.random() < self.gap:
            return r.choice((None, None, NAN)) if not self.stream.tables else None
        if name in self.query.get("limits", {}) and r.random() < 0.2:
            return 9
        if self.stream.numbers:
            return r.choice(CELLS[self.stream.numbers])
        if not self.stream.wide or r.random() < 0.6:
            return r.randint(0, self.top)
        return [(r.randint(0, self.top), r.choice((1, 2, 5))) for _ in range(r.choice((1, 2, 2, 3)))]

    def row(self, t: int) -> Row:
        r, query = self.r, self.query
        out: Row = {"id": r.choice(self.ids), "t": t}
        out |= {"g": r.choice(self.groups)} if query["by"] else {}
        out |= {"e": t + r.choice(LIVES)} if "expires" in query else {}
        out |= {"v": r.choice((0, 1, 2, None))} if "version" in query else {}
        out |= {"gone": r.random() < 0.15} if "gone" in query else {}
        return out | {a: self.cell(a) for a in self.names}

    def broken(self, t: int) -> Row:
        """A row that is rejected."""
        r, query, row = self.r, self.query, self.row(t)
        row |= {"gone": False} if "gone" in query else {}
        kinds: list[Row] = [{"id": None}, {"t": None}]
        name = r.choice(self.names)
        kinds += [{name: [(1, -1)]}, {name: [(NAN, 1)]}] if self.stream.wide else []
        kinds += [] if self.stream.wide or self.stream.numbers else [{name: float("inf")}]
        kinds += [{"e": t - 1}, {"e": None}] if "expires" in query else []
        if not self.stream.typed:
            kinds += [{name: "x"}, {name: 2**53 + 1}, {"id": ["a"]}, {"t": "x"}, {"t": t + 50}]
            kinds += [{"v": "x"}, {"v": 0.5}] if "version" in query else []
            kinds += [{"gone": "maybe"}, {"gone": 2}] if "gone" in query else []
        return row | r.choice(kinds)

    def again(self, row: Row) -> Row:
        """A copy, mostly with other content."""
        r = self.r
        out = dict(row)
        if r.random() < 0.2:
            return out | {r.choice(self.names): r.choice((None, self.cell(self.names[0])))}
        if r.random() < 0.8:
            out |= {a: self.cell(a) for a in self.names if r.random() < 0.7}
            out |= {"e": row["t"] + r.choice(LIVES)} if "expires" in self.query and r.random() < 0.5 else {}
            out |= {"gone": r.random() < 0.2} if "gone" in self.query else {}
            out |= {"v": r.choice((0, 1, 2, None))} if "version" in self.query and r.random() < 0.3 else {}
        return out

    def calls(self) -> None:
        """Rows in the order of time, but for late ones and copies, cut anywhere."""
        r, t, rows = self.r, 0, list[Row]()
        for _ in range(r.choice((3, 5, 8, 8, 12, 16))):
            t += r.choice((0, 1, 0, 1, 1, 2, 5) if not self.stream.idle else (0, 1, 1, 2, 5, 10))
            at = t - r.choice((1, 2, 4)) if r.random() < self.late else t
            rows.append(self.row(at))
            while r.random() < self.copy:
                rows.append(self.again(r.choice(rows[-1:] if self.stream.idle else rows[-3:])))
        for row in list(rows):
            if self.stream.ahead and r.random() < 0.15:
                rows.insert(r.randint(0, len(rows)), self.row(row["t"] + r.choice((6, 12, 13, 30, 60, 61, 200))))
            if r.random() < self.bad:
                rows.insert(r.randint(0, len(rows)), self.broken(row["t"]))
        for k, row in enumerate(rows):
            row[NUMBER] = k
        ends = sorted(r.randint(0, len(rows)) for _ in range(r.choice((0, 1, 2, 3, 4, 6))))
        ends = list(range(1, len(rows))) if r.random() < 0.1 else ends
        ends = list(range(1, len(rows), r.choice((1, 1, 2, 3)))) if self.stream.idle else ends
        calls, clock = [], 0
        for a, b in zip([0, *ends], [*ends, len(rows)], strict=True):
            times = [row["t"] for row in rows[a:b] if isinstance(row["t"], int) and row["t"] < t + 20]
            clock = max([clock, *times]) + (r.choice((0, 0, 1, 4)) if r.random() < 0.2 else 0)
            part = rows[a:b]
            if r.random() < 0.3:
                r.shuffle(part)
            calls.append((clock, part))
        if r.random() < 0.7:
            calls.append((clock + r.choice((0, 1, 3, 2000)), []))
        self.stream.calls = calls
