"""Which streams does the net hold? Each is drawn from its mode and seed by `random.Random`, the same for ever.

Nothing here imports Fogline or another test: a change of a generator elsewhere must not change what the recorded
answers belong to. A recorded stream is also known by its digest, so that a change of this file is noticed.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Row = dict[str, Any]
NAMES = ("a0", "a1", "a2", "a3")
ALPHAS = (0.5, 0.0, 0.1, 0.5, 0.9, 0.5)
LIVES = (3, 1, 2, 4, 5, 7, 0, 12, 1000)
RESTORED = 3  # snapshots of a stream


@dataclass
class Stream:
    """Queries, rows in calls (the batches of a pipeline), and how they are run."""

    mode: str
    seed: int
    queries: dict[str, dict[str, Any]]  # fields of each query; a single one has the name ""
    calls: list[tuple[int, list[Row]]] = field(default_factory=list)
    repository: str = ""  # see `driving.repository_of`
    own: str = ""  # the user's own imputer: function, or knn
    how: dict[str, Any] = field(default_factory=dict)  # of a pipeline: every, lateness, ahead, idle, explain
    monitor: dict[str, Any] = field(default_factory=dict)  # of a monitor: places, eager, remember, hindsight
    ends: tuple[int, ...] = ()  # calls of which only the end is asked for (ticks=False)
    wide: bool = False  # whether cells may be distributions
    stamps: bool = False  # whether times are timestamps
    typed: bool = True  # whether rows fit into an Arrow table
    tables: str = "dicts"  # in what a monitor gets rows: dicts, arrow or pandas
    asked: bool = False  # whether explanations and questions are recorded
    engines: tuple[str, ...] = ("monitor", "at once", "restored", "small batches", "one batch")

    @property
    def name(self) -> str:
        return f"{self.mode}/{self.seed}"

    @property
    def first(self) -> dict[str, Any]:
        return next(iter(self.queries.values()))

    @property
    def attributes(self) -> dict[str, str]:
        """Of any query."""
        return {name: way for query in self.queries.values() for name, way in query["attributes"].items()}

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in self.calls for row in rows]

    @property
    def restored(self) -> tuple[int, ...]:
        """Calls after which a monitor is restored from its snapshot: spread over the stream."""
        count = len(self.calls)
        return tuple(sorted({(k + 1) * count // (RESTORED + 1) for k in range(RESTORED)}))

    def digest(self) -> str:
        """Of all of it but the engines."""
        plain = {name: value for name, value in asdict(self).items() if name != "engines"}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


@dataclass
class Drawing:
    """What the rows of one stream are drawn by."""

    r: random.Random
    query: dict[str, Any]
    values: Callable[[random.Random], float]
    ids: tuple[str, ...] = ("a", "b", "c", "d", "e")
    groups: tuple[str, ...] = ("x", "y")
    wide: float = 0.0  # how often a cell is a distribution
    most: int = 3  # values of one
    gap: float = 0.0
    late: float = 0.0
    copy: float = 0.0
    bad: float = 0.0
    outside: float = 0.0
    gone: float = 0.12
    steps: tuple[int, ...] = (0, 1, 0, 1, 1, 2, 5)
    typed: bool = True
    serial: bool = False  # whether each row has an id of its own
    lives: tuple[int, ...] = LIVES

    def cell(self, name: str) -> Any:
        r = self.r
        if r.random() < self.gap:
            return None
        if name in self.query.get("limits", {}) and r.random() < self.outside:
            return r.choice((-50.0, 99.0))
        if r.random() >= self.wide:
            return self.values(r)
        return [[self.values(r), r.choice((1, 2, 5))] for _ in range(r.randint(1, self.most))]

    def row(self, t: int, n: int) -> Row:
        r, query = self.r, self.query
        out: Row = {"id": f"r{n}" if self.serial else r.choice(self.ids), "g": r.choice(self.groups), "t": t}
        out |= {"e": t + r.choice(self.lives), "v": r.choice((0, 1, 2, None)), "gone": r.random() < self.gone}
        wanted = {"e": query.get("expires"), "v": query.get("version"), "gone": query.get("gone")}
        out = {k: v for k, v in out.items() if k not in wanted or wanted[k]}
        return out | {a: self.cell(a) for a in NAMES[: len(query["attributes"])]}

    def broken(self, row: Row) -> Row:
        """The same row, not to be taken."""
        r, query, name = self.r, self.query, self.r.choice(tuple(self.query["attributes"]))
        kinds: list[Row] = [{"id": None}, {"t": None}]
        kinds += [{name: [[1.0, -1.0]]}, {name: [[float("inf"), 1.0]]}] if self.wide else [{name: float("inf")}]
        kinds += [{"e": row["t"] - 1}, {"e": None}] if "expires" in query else []
        if not self.typed:
            kinds += [{name: "x"}, {name: 2**53 + 1}, {"id": ["a"]}, {"t": "x"}, {"t": row["t"] + 50}, {"g": ["x"]}]
            kinds += [{"v": "x"}, {"v": 0.5}] if "version" in query else []
            kinds += [{"gone": "maybe"}] if "gone" in query else []
        return row | ({"gone": False} if "gone" in query else {}) | r.choice(kinds)

    def again(self, row: Row) -> Row:
        """A copy or a correction."""
        r, out = self.r, dict(row)
        out |= {a: self.cell(a) for a in self.query["attributes"] if r.random() < 0.7}
        out |= {"gone": r.random() < 0.2} if "gone" in self.query else {}
        out |= {"v": r.choice((0, 1, 2, None))} if "version" in self.query and r.random() < 0.3 else {}
        return out

    def rows(self, count: int) -> list[Row]:
        r, t, out = self.r, 0, list[Row]()
        for n in range(count):
            t += r.choice(self.steps)
            out.append(self.row(t - r.choice((1, 2, 4)) if r.random() < self.late else t, n))
            if r.random() < self.copy:
                out.append(self.again(r.choice(out[-3:])))
        for k in range(len(out)):
            if r.random() < self.bad:
                out[k] = self.broken(out[k])
        return [{"n": n} | row for n, row in enumerate(out)]

    def calls(self, rows: list[Row], cuts: int) -> list[tuple[int, list[Row]]]:
        """Cut anywhere; some parts in any order, the last call without rows."""
        r, clock, out = self.r, 0, list[tuple[int, list[Row]]]()
        ends = sorted(r.randint(0, len(rows)) for _ in range(cuts - 1))
        top = max((row["t"] for row in rows if isinstance(row["t"], int)), default=0)
        for a, b in zip([0, *ends], [*ends, len(rows)], strict=True):
            part = rows[a:b]
            times = [row["t"] for row in part if isinstance(row["t"], int) and row["t"] <= top]
            clock = max([clock, *times])
            if r.random() < 0.3:
                r.shuffle(part)
            out.append((clock, part))
        return [*out, (clock + r.choice((0, 1, 3, 2000)), [])]


def ties(r: random.Random) -> float:
    return float(r.randint(0, 3))


def tenths(r: random.Random) -> float:
    return round(r.uniform(0, 10), 1)


def reals(r: random.Random) -> float:
    return r.uniform(-5, 5)


def _query(r: random.Random, d: int, window: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    ways = {a: r.choice(("max", "max", "min")) for a in NAMES[:d]}
    return {"attributes": ways, "id": "id", "time": "t", "alpha": r.choice(ALPHAS), **window, **more}


def _lifetime(r: random.Random) -> dict[str, Any]:
    return {"lifetime": r.choice((1, 2, 3, 5, 8, 20, 1000))}


def _window(r: random.Random) -> dict[str, Any]:
    return r.choice((_lifetime(r), _lifetime(r), {"expires": "e"}, {"last": r.choice((1, 2, 3, 6, 15))}))


def _newest(r: random.Random) -> dict[str, Any]:
    """Fields of a query for the newest row of each id."""
    out: dict[str, Any] = {"latest": True}
    out |= r.choice(({}, {}, _lifetime(r), {"expires": "e"}))
    out |= {"gone": "gone"} if r.random() < 0.7 else {}
    out |= {"version": "v"} if r.random() < 0.5 else {}
    return out | ({"remember_removed": r.choice((0, 2, 8))} if r.random() < 0.3 else {})


def _values(r: random.Random) -> Callable[[random.Random], float]:
    return r.choice((ties, ties, tenths, reals))


def _groups(r: random.Random) -> dict[str, Any]:
    return {"by": ["g"]} if r.random() < 0.4 else {}


# --- Modes ------------------------------------------------------------------------------------------------------------


def _appended(r: random.Random, seed: int, mode: str) -> Stream:
    windows = {
        "lifetime": _lifetime(r),
        "expires": {"expires": "e"},
        "last": {"last": r.choice((1, 2, 3, 6, 15))},
    }
    query = _query(r, r.choice((1, 2, 2, 3, 4)), windows[mode], **_groups(r))
    made = Drawing(r, query, _values(r), wide=r.choice((0.0, 0.4)), late=r.choice((0.0, 0.0, 0.2)))
    made.copy = r.choice((0.0, 0.0, 0.1))
    return _stream(mode, seed, made, r.choice((8, 16, 30)))


def _latest(r: random.Random, seed: int, mode: str) -> Stream:
    query = _query(r, r.choice((1, 2, 2, 3)), _newest(r), **_groups(r))
    made = Drawing(r, query, _values(r), wide=r.choice((0.0, 0.4)), late=r.choice((0.0, 0.2)))
    made.copy = r.choice((0.0, 0.1, 0.3))
    return _stream(mode, seed, made, r.choice((8, 16, 30)))


def _carry(r: random.Random, seed: int, mode: str) -> Stream:
    d = r.choice((2, 3))
    query = _query(r, d, _newest(r), carry=sorted(r.sample(NAMES[:d], r.randint(1, d))), **_groups(r))
    made = Drawing(r, query, ties, wide=r.choice((0.0, 0.3)), gap=0.3, copy=r.choice((0.0, 0.2)))
    return _stream(mode, seed, made, r.choice((8, 16, 30)), repository=r.choice(("", "whole", "given", "fitted")))


def _many(r: random.Random, seed: int, mode: str) -> Stream:
    """Many small groups, some with gaps."""
    latest = seed % 3 == 1
    query = _query(r, 2, _newest(r) if latest else _window(r), by=["g"])
    made = Drawing(r, query, _values(r), wide=r.choice((0.0, 0.4)), gap=0.1 if seed % 4 == 3 else 0.0)
    made.groups = tuple(f"g{k}" for k in range(r.choice((20, 60))))
    made.steps = (0, 0, 0, 1)
    found = _stream(mode, seed, made, 220, cuts=4)
    found.repository = "given" if made.gap else ""
    return found


def _queries(r: random.Random, seed: int, mode: str) -> Stream:
    """Several queries of one stream: other alphas, windows, attributes, groups."""
    d = r.choice((2, 2, 3))
    first = _query(r, d, _newest(r) if seed % 4 == 3 else _lifetime(r), **_groups(r))
    made = Drawing(r, first, _values(r), wide=r.choice((0.0, 0.4)), late=r.choice((0.0, 0.2)))
    made.gap = r.choice((0.0, 0.2))
    found = _stream(mode, seed, made, r.choice((12, 24)), repository="given" if made.gap else "")
    for k in range(r.choice((1, 2))):
        other = first | {"alpha": ALPHAS[(k + seed) % len(ALPHAS)]}
        if r.random() < 0.5 and not first.get("latest"):
            other = other | _lifetime(r)
        if r.random() < 0.5 and not made.gap:
            other["attributes"] = dict(list(first["attributes"].items())[: r.randint(1, d)])
        if r.random() < 0.3:
            other = {name: value for name, value in other.items() if name != "by"}
        found.queries[f"q{k}"] = other
    found.queries["first"] = found.queries.pop("")
    found.engines = ("small batches", "one batch")
    return found


def _lateness(r: random.Random, seed: int, mode: str) -> Stream:
    window = _newest(r) if seed % 3 == 2 else _window(r)
    query = _query(r, 2, window, **_groups(r))
    made = Drawing(r, query, _values(r), wide=r.choice((0.0, 0.4)), late=r.choice((0.2, 0.5)), gap=r.choice((0, 0.2)))
    found = _stream(mode, seed, made, r.choice((12, 24)), cuts=r.choice((3, 6)))
    found.repository = r.choice(("given", "last")) if made.gap else ""
    found.how["lateness"] = r.choice((1, 3, 6))
    return found


def _limits(r: random.Random, seed: int, mode: str) -> Stream:
    latest = seed % 4 == 3
    query = _query(r, 2, _newest(r) if latest else _window(r), **_groups(r))
    query["limits"] = {a: [0.0, 10.0] for a in r.sample(NAMES[:2], r.choice((1, 2)))}
    query |= {"outside": "reject"} if r.random() < 0.4 else {}
    made = Drawing(r, query, r.choice((ties, tenths)), wide=r.choice((0.0, 0.4)), outside=0.25)
    made.gap = r.choice((0.0, 0.1))
    return _stream(mode, seed, made, r.choice((10, 24)), repository=r.choice(("", "whole", "given")))


def _uncertain(r: random.Random, seed: int, mode: str) -> Stream:
    """Rows that bring distributions, from narrow to wide."""
    latest = seed % 3 == 2
    query = _query(r, r.choice((1, 2, 3)), _newest(r) if latest else _window(r), **_groups(r))
    made = Drawing(r, query, _values(r), wide=r.choice((0.5, 0.9)), most=r.choice((2, 4, 12)))
    made.copy, made.late = r.choice((0.0, 0.1)), r.choice((0.0, 0.2))
    found = _stream(mode, seed, made, r.choice((10, 24)))
    if seed % 5 == 4:  # too many instances to be summed: probabilities are bracketed
        found.monitor["places"] = r.choice((2, 8))
    return found


def _imputed(r: random.Random, seed: int, mode: str, repository: str, own: str = "") -> Stream:
    latest = seed % 3 == 2
    d = r.choice((2, 3, 3))
    query = _query(r, d, _newest(r) if latest else _window(r), **_groups(r))
    if r.random() < 0.2:
        query["limits"] = {"a0": [0.0, 9.0]}
    made = Drawing(r, query, tenths, gap=r.choice((0.15, 0.35)), wide=r.choice((0.0, 0.0, 0.2)), outside=0.1)
    made.late = r.choice((0.0, 0.0, 0.2))
    found = _stream(mode, seed, made, r.choice((12, 30, 40)), cuts=r.choice((3, 6, 10)), repository=repository, own=own)
    found.monitor |= {"eager": True} if r.random() < 0.2 else {}
    found.monitor |= {"remember": False} if r.random() < 0.1 else {}
    if repository in ("last", "fitted") and not query.get("by") and r.random() < 0.2:
        query["max_sensors"] = r.choice((1, 2, 3))
    if own:  # the command line takes none
        found.engines = ("monitor", "at once", "restored")
    return found


def _of(repository: str, own: str = "") -> Callable[[random.Random, int, str], Stream]:
    return lambda r, seed, mode: _imputed(r, seed, mode, repository, own)


def _function(r: random.Random, seed: int, mode: str) -> Stream:
    return _imputed(r, seed, mode, r.choice(("", "whole", "given", "fitted")), "function")


def _ahead(r: random.Random, seed: int, mode: str) -> Stream:
    """Rows with wrong clocks, held until other ids follow."""
    latest = seed % 3 == 2
    query = _query(r, 2, _newest(r) if latest else {"lifetime": r.choice((2, 5, 8))}, **_groups(r))
    made = Drawing(r, query, _values(r), wide=r.choice((0.0, 0.4)))
    found = _stream(mode, seed, made, r.choice((12, 24)), cuts=6)
    rows = found.rows
    for row in rows:
        if r.random() < 0.2:
            row["t"] += r.choice((6, 12, 13, 30, 60, 61, 200))
            row |= {"e": row["t"] + r.choice(LIVES)} if "e" in row else {}
    found.how["ahead"] = r.choice((3, 5, 10))
    found.engines = ("small batches", "one batch")
    return found


def _idle(r: random.Random, seed: int, mode: str) -> Stream:
    """Groups that fall silent, and follow the clock of the others."""
    query = _query(r, 2, r.choice(({"lifetime": r.choice((2, 5, 8))}, {"expires": "e"})), by=["g"])
    made = Drawing(r, query, _values(r), wide=r.choice((0.0, 0.4)), groups=("x", "y", "z"), steps=(0, 1, 2, 5, 10))
    found = _stream(mode, seed, made, 20)
    rows = found.rows
    size = r.choice((1, 2))
    found.calls = [(rows[a]["t"], rows[a : a + size]) for a in range(0, len(rows), size)]
    found.how["idle"] = r.choice((5, 10, 20))
    found.engines = ("followed",)
    return found


def _rejects(r: random.Random, seed: int, mode: str) -> Stream:
    query = _query(r, 2, _newest(r) if seed % 3 == 2 else _window(r), **_groups(r))
    made = Drawing(r, query, ties, wide=0.3 if seed % 2 else 0.0, bad=0.3, copy=0.15, gap=0.1)
    made.typed = seed % 4 < 2
    found = _stream(mode, seed, made, 20, repository="" if seed % 3 else "whole")
    if not made.typed:
        found.typed, found.tables, found.engines = False, "dicts", ("monitor", "at once", "restored")
    return found


def _explained(r: random.Random, seed: int, mode: str) -> Stream:
    latest = seed % 4 == 3
    query = _query(r, r.choice((1, 2, 3)), _newest(r) if latest else _window(r), **_groups(r))
    made = Drawing(r, query, _values(r), wide=0.4, gap=0.2 if seed % 2 else 0.0, most=r.choice((2, 5)))
    found = _stream(mode, seed, made, r.choice((8, 14)), cuts=3)
    found.repository = r.choice(("given", "fitted", "last")) if made.gap else ""
    found.asked, found.how["explain"] = True, True
    return found


def _stamped(r: random.Random, seed: int, mode: str) -> Stream:
    """Times are timestamps, lengths durations."""
    query = _query(r, 2, r.choice((_newest(r), _lifetime(r), {"expires": "e"}, {"last": 4})), **_groups(r))
    for name in ("lifetime", "remember_removed"):
        if name in query:
            query[name] = f"{query[name]} seconds"
    made = Drawing(r, query, _values(r), wide=r.choice((0.0, 0.4)), late=r.choice((0.0, 0.2)))
    found = _stream(mode, seed, made, r.choice((10, 20)))
    found.how |= {"lateness": f"{r.choice((1, 3))} seconds"} if r.random() < 0.4 else {}
    found.stamps, found.tables = True, "arrow"
    return found


def _large(r: random.Random, seed: int, mode: str) -> Stream:
    """Thousands of rows at a few instants: what is computed in bulk, and by several threads."""
    latest, gaps = seed % 4 == 3, seed % 4 == 1
    window: dict[str, Any] = {"lifetime": 3} if seed % 2 == 0 else {"last": 900}
    query = _query(r, r.choice((2, 3)), {"latest": True, "lifetime": 3} if latest else window)
    query["alpha"] = (0.5, 0.1, 0.0, 0.9)[seed // 4 % 4]
    made = Drawing(r, query, r.choice((tenths, reals)), wide=(0.0, 0.2, 0.7)[seed % 3], most=r.choice((2, 4)))
    made.serial, made.gap, made.steps = True, 0.05 if gaps else 0.0, (0,)
    rows = [row | {"t": row["n"] // 400} for row in made.rows(2000)]
    found = _stream(mode, seed, made, 0, repository="given" if gaps else "")
    found.calls = [(k, rows[k * 400 : k * 400 + 400]) for k in range(5)] + [(6, [])]
    return found


def _crowded(r: random.Random, seed: int, mode: str) -> Stream:
    """Very many equal rows that nearly surely dominate others, or hardly ever."""
    query = _query(r, 1, {"expires": "e"})
    query["alpha"] = (0.1, 0.0, 0.3)[seed % 3]
    much = 10 ** r.choice((3, 5, 7, 9, 11))
    many = [[[0.0, 1], [10.0, much]], [[0.0, much], [10.0, 1]]][seed % 2]
    rows: list[Row] = [{"id": f"m{k}", "g": "x", "t": 0, "e": r.choice((2, 9)), "a0": many} for k in range(600)]
    for k in range(3):
        few = [[value, r.choice((1, 3))] for value in sorted(r.sample((1.0, 5.0, 10.0, 20.0), r.choice((1, 2))))]
        rows += [{"id": f"f{k}", "g": "x", "t": r.choice((0, 1)), "e": r.choice((3, 8)), "a0": few}]
    rows = [{"n": n} | row for n, row in enumerate(sorted(rows, key=lambda row: row["t"]))]
    found = _stream(mode, seed, Drawing(r, query, ties, wide=0.5), 0)
    found.calls = [(t, [row for row in rows if row["t"] == t]) for t in (0, 1)] + [(2, []), (9, [])]
    found.engines = ("monitor", "restored", "one batch")
    return found


def _dense(r: random.Random, seed: int, mode: str) -> Stream:
    """Windows of some dozen rows that change by one or two at a time: guards come and go."""
    window = (
        {"lifetime": r.choice((10, 25, 40))}, {"expires": "e"}, {"last": r.choice((20, 40))},
        {"latest": True, "gone": "gone"}, {"latest": True, "lifetime": 30},
    )[seed % 5]  # fmt: skip
    query = _query(r, r.choice((2, 3)), window) | {"alpha": (0.5, 0.9, 0.1, 0.0)[seed // 5 % 4]}
    made = Drawing(r, query, r.choice((ties, tenths, tenths, reals)), wide=r.choice((0.2, 0.5, 0.8)), steps=(0, 1, 1))
    made.lives, made.gone = (3, 8, 20, 30, 40), 0.05
    made.ids, made.serial = tuple(f"s{k}" for k in range(30)), "latest" not in window
    return _stream(mode, seed, made, 150, cuts=8)


def _walking(r: random.Random, seed: int, mode: str) -> Stream:
    """Sensors that move as those of the history do, heard at every step, often with gaps."""
    kinds = ("fitted", "fitted", "sensors", "last", "discovered")
    window: dict[str, Any] = {"latest": True, "lifetime": 5} if seed % 4 == 3 else {"lifetime": r.choice((3, 6, 12))}
    query = _query(r, 3, window, **({"by": ["g"]} if r.random() < 0.2 else {}))
    at = [[r.uniform(0, 10), 0.0, r.uniform(0, 10)] for _ in range(6)]
    rows: list[Row] = []
    for t in range(12):
        for k in r.sample(range(6), 6):
            values = at[k]
            values[0] = min(10.0, max(0.0, values[0] + r.choice((-1.0, -0.3, 0.0, 0.3, 1.0))))
            values[1] = min(10.0, max(0.0, 10 - values[0] + r.choice((-0.4, 0.0, 0.4))))
            values[2] = values[2] if r.random() < 0.8 else r.uniform(0, 10)
            cells = {name: None if r.random() < 0.3 else round(v, 1) for name, v in zip(NAMES, values, strict=False)}
            late = r.choice((1, 2)) if r.random() < 0.1 * (seed % 3) else 0
            rows.append({"n": len(rows), "id": f"s{k}", "g": "xy"[k % 2], "t": max(0, t - late), **cells})
    made = Drawing(r, query, tenths)
    found = _stream(mode, seed, made, 0, repository=kinds[seed % 5])
    found.calls = made.calls(rows, r.choice((3, 6, 12)))
    found.how |= {"lateness": r.choice((1, 2))} if seed % 3 == 2 else {}
    return found


def _tabled(r: random.Random, seed: int, mode: str) -> Stream:
    """Tables that do not move."""
    query = _query(r, r.choice((1, 2, 3)), {"lifetime": 1}, **_groups(r))
    wide = 0.4 if seed % 3 == 2 else 0.0
    made = Drawing(r, query, _values(r), wide=wide, gap=0.25 if seed % 3 == 1 else 0.0, steps=(0,), serial=True)
    found = _stream(mode, seed, made, r.choice((5, 20, 60, 300)))
    found.calls = [(0, found.rows)]
    found.repository = "given" if made.gap and seed % 2 else ""
    found.tables, found.engines = r.choice(("dicts", "arrow", "pandas")), ("table",)
    return found


def _stream(
    mode: str, seed: int, made: Drawing, count: int, *, cuts: int = 0, repository: str = "", own: str = ""
) -> Stream:
    """A stream of so many rows, and what is common to all modes."""
    r = made.r
    found = Stream(mode, seed, {"": made.query}, repository=repository, own=own)
    found.wide = made.wide > 0
    found.how = {"every": r.choice(("tick", "tick", "batch")), "ahead": "off"}
    found.tables = r.choice(("dicts", "arrow", "arrow", "pandas"))
    found.tables = "arrow" if found.wide and found.tables == "pandas" else found.tables
    found.asked = r.random() < 0.25
    if count:
        found.calls = made.calls(made.rows(count), cuts or r.choice((1, 2, 3, 5, 8)))
    found.ends = tuple(k for k in range(len(found.calls)) if r.random() < 0.1)
    return found


MODES: dict[str, tuple[int, Callable[[random.Random, int, str], Stream]]] = {
    "lifetime": (24, _appended),
    "expires": (24, _appended),
    "last": (20, _appended),
    "latest": (40, _latest),
    "carry": (16, _carry),
    "many groups": (16, _many),
    "queries": (20, _queries),
    "lateness": (24, _lateness),
    "limits": (20, _limits),
    "uncertain": (35, _uncertain),
    "rules given": (16, _of("given")),
    "rules discovered": (12, _of("discovered")),
    "rules of the paper": (8, _of("paper")),
    "sensors": (16, _of("sensors")),
    "hindsight": (24, _of("fitted")),
    "last value": (14, _of("last")),
    "mean": (8, _of("mean")),
    "others": (10, _of("others")),
    "whole": (10, _of("whole")),
    "knn": (12, _of("", "knn")),
    "function": (18, _function),
    "ahead": (20, _ahead),
    "idle": (12, _idle),
    "rejects": (20, _rejects),
    "explained": (24, _explained),
    "timestamps": (16, _stamped),
    "large": (12, _large),
    "crowded": (6, _crowded),
    "dense": (40, _dense),
    "walks": (30, _walking),
    "tables": (30, _tabled),
}


def stream(mode: str, seed: int) -> Stream:
    """The stream of a mode and seed."""
    return MODES[mode][1](random.Random(f"net/{mode}/{seed}"), seed, mode)


def streams() -> Iterator[Stream]:
    """All of them, in a fixed order."""
    for mode, (count, _) in MODES.items():
        for seed in range(count):
            yield stream(mode, seed)
