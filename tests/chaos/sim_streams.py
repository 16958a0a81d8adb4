"""Which streams do schedules carry, and how are they asked about?

One `random.Random` decides everything: the query, tiny domains with many ties, gaps, odd lifetimes, groups, copies,
late rows, removals, corrections, broken rows, rows that run ahead; into which batches and partitions they are cut; and
how small blocks, shards, logs and chunks are, so that rare paths are common.

Order matters where docs/reference.md states it: which batch a row comes with decides what it meets. Within a batch, and
between its partitions, it does not. Copies that disagree are drawn only where chunks are not screened, and in one
batch: what is left out of that promise is stated under "Copies".
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.queries import Queries
from tests.contracts import DISTRIBUTION
from tests.flow.moving import by_sensors
from tests.test_carry import ATTRIBUTES as CARRIED
from tests.test_carry import REPOSITORY as CARRYING
from tests.walks import QUERY as WALKS
from tests.walks import walks

Row = dict[str, Any]
BAD = "bad"  # marks a row that must be rejected; no column of the stream
ALPHAS = [Fraction(a) for a in ("1/2", "0", "1/10", "1/4", "9/20", "3/4", "9/10")]
LIVES = [3, 1, 2, 4, 5, 7, 9, 12, 0, 1000]
ALL = 10**9  # no chunk is as large as that: all rows travel
MODES = ("append", "last", "latest", "late", "gaps", "moved", "carry", "queries", "ahead", "sensors", "explain")
HISTORIES = ([(0, 0), (3, 0), (1, 1), (2, 1)], [(1, 0), (1, 0), (2, 0), (0, 1), (3, 2)])  # a0, a1


@dataclass(frozen=True)
class World:
    """A stream, cut into batches of partitions, and how it is watched."""

    mode: str
    seed: int
    queries: Mapping[str, fl.Query]  # by name; a single one has the name ""
    alphas: Mapping[str, Fraction]
    how: Mapping[str, Any]  # of the plan
    batches: Sequence[Sequence[Sequence[Row]]]
    schema: pa.Schema
    chunks: Mapping[str, int]  # slice_rows, chunk_rows, small
    sizes: Mapping[str, int]  # constants of modules
    repositories: Sequence[fl.Repository] = ()  # the run's first, and the one that it moves to
    border: int = ALL  # the first batch of the second repository
    flows: bool = False  # whether all of it expires at the end
    stamps: bool = False
    names: tuple[str, ...] = ("id", "t")  # of the columns for id and time

    @property
    def asked(self) -> Any:
        return self.queries[""] if "" in self.queries else Queries(dict(self.queries))

    @property
    def screens(self) -> bool:
        """Whether rows are left out before they reach their groups."""
        return self.chunks["small"] < ALL

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """Rows as Arrow."""
        return pa.table([_column([row.get(f.name) for row in rows], f.type) for f in self.schema], schema=self.schema)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == DISTRIBUTION:
        wide = [None if v is None else v if isinstance(v, list) else [(v, 1)] for v in values]
        return pa.array([None if v is None else [{"value": a, "weight": w} for a, w in v] for v in wide], kind)
    if pa.types.is_timestamp(kind):
        return pa.array([None if v is None else v * 1_000_000 for v in values], pa.int64()).cast(kind)
    return pa.array([None if v is None else float(v) for v in values] if kind == pa.float64() else values, kind)


# --- What gaps may be -------------------------------------------------------------------------------------------------

GAPPED = {"a0": "max", "a1": "min"}
RULE = "a1(0) -> a0(9)"


@cache
def repository(number: int) -> fl.Repository:
    """One of two tiny histories: a0 by the rule, or what it has ever been; a1 what it has ever been."""
    a0, a1 = zip(*HISTORIES[number], strict=True)
    query = fl.Query(attributes=GAPPED, id="id", time="t", lifetime=1)
    history = pa.table({"a0": [float(v) for v in a0], "a1": [float(v) for v in a1]})
    return fl.Repository.fit(history, query, rules=[RULE], retention=0)


def completed(row: Row, number: int) -> Row:
    """The same row with distributions for its gaps: the rule, in one line."""
    history, full, known = HISTORIES[number], dict(row), row["a1"]
    if isinstance(known, list) and len({value for value, _ in known}) == 1:
        known = known[0][0]
    if row["a0"] is None:
        near = [a0 for a0, a1 in history if a1 == known]
        full["a0"] = [(value, 1) for value in near or [a0 for a0, _ in history]]
    if row["a1"] is None:
        full["a1"] = [(a1, 1) for _, a1 in history]
    return full


# --- Drawing ----------------------------------------------------------------------------------------------------------


@dataclass
class Drawing:
    """What one stream is drawn by."""

    r: random.Random
    attributes: Mapping[str, str]
    top: int
    wide: bool = True  # whether cells may be distributions
    gap: float = 0.0
    ids: str = "abcde"
    groups: str = "xy"
    rows: list[Row] = field(default_factory=list)

    def cell(self) -> Any:
        r = self.r
        if r.random() < self.gap:
            return None
        if not self.wide or r.random() < 0.55:
            return r.randint(0, self.top)
        return [(r.randint(0, self.top), r.choice((1, 2, 5))) for _ in range(r.choice((1, 2, 2, 3)))]

    def row(self, t: int) -> Row:
        r = self.r
        named = {
            "id": r.choice(self.ids),
            "g": r.choice(self.groups),
            "t": t,
            "e": t + r.choice(LIVES),
            "v": r.randint(0, 2),
        }
        return named | {"gone": False} | {a: self.cell() for a in self.attributes}


def world(mode: str, seed: int) -> World:
    """The stream of a seed."""
    r = random.Random(f"{mode}/{seed}")
    return _of_sensors(r, seed) if mode == "sensors" else _of_rows(mode, r, seed)


def _of_rows(mode: str, r: random.Random, seed: int) -> World:
    latest = mode in ("latest", "carry") or (mode in ("gaps", "moved", "late", "explain") and r.random() < 0.4)
    imputes = mode in ("gaps", "moved", "carry")
    attributes = (
        CARRIED
        if mode == "carry"
        else GAPPED
        if imputes
        else {f"a{j}": r.choice(("max", "min")) for j in range(r.choice((1, 2, 2, 3)))}
    )
    by = ["g"] if mode == "queries" or r.random() < 0.75 else []
    made = Drawing(r, attributes, r.choice((1, 2, 3)), r.random() < 0.7, r.choice((0.2, 0.5)) if imputes else 0.0)
    made.groups = ("xy" if r.random() < 0.8 else "wxyz") if by else "x"
    late = r.choice((0.0, 0.0, 0.15, 0.5)) if mode != "late" else 0.5
    lateness = (
        r.choice((1, 3, 6)) if mode == "late" or (imputes and r.random() < (0.6 if mode == "moved" else 0.3)) else 0
    )
    screens = r.random() < 0.4 and mode != "carry"
    stamps = mode != "ahead" and r.random() < 0.12
    window, life = _window(mode, r, latest)
    batches = _batches(made, r, late, latest=latest, screens=screens, imputes=imputes, window=window)
    if mode == "ahead":
        _run_ahead(made, r, batches, life)
    queries, alphas = _queries(mode, r, attributes, by, window, latest=latest, stamps=stamps)
    how: dict[str, Any] = {"every": r.choice(("tick", "tick", "batch")), "lateness": _length(lateness, stamps)}
    idle = r.choice((None, 0, 3)) if "last" not in window else None
    how |= {"idle": None if idle is None else _length(idle, stamps), "buckets": r.randint(1, 3)}
    how |= {"ahead": r.choice((4, 10)) if mode == "ahead" else "off", "explain": mode == "explain"}
    wide = {a for a in attributes if any(isinstance(row[a], list) for b in batches for part in b for row in part)}
    clock = pa.timestamp("us", "UTC") if stamps else pa.int64()
    plain = [
        ("id", pa.string()),
        ("g", pa.string()),
        ("t", clock),
        ("e", clock),
        ("v", pa.int64()),
        ("gone", pa.bool_()),
    ]
    schema = pa.schema([*plain, *((a, DISTRIBUTION if a in wide else pa.float64()) for a in attributes)])
    moved = mode == "moved"
    return World(
        mode, seed, queries, alphas, how, batches, schema, _chunks(r, screens=screens), _sizes(r),
        repositories=_repositories(mode),
        border=r.randint(1, max(1, len(batches) - 1)) if moved else ALL,
        flows=idle is not None and life is not None and mode != "ahead",  # what is held stays held
        stamps=stamps,
    )  # fmt: skip


def _repositories(mode: str) -> list[fl.Repository]:
    if mode == "carry":
        return [CARRYING]
    return [repository(0), *([repository(1)] if mode == "moved" else [])] if mode in ("gaps", "moved") else []


def _window(mode: str, r: random.Random, latest: bool) -> tuple[dict[str, Any], int | None]:
    """How long rows count, and for how long at most, if there is a most."""
    if mode == "last":
        return {"last": r.choice((1, 2, 3, 4, 6, 100))}, None
    if mode in ("queries", "ahead") or r.random() < 0.5:
        life = r.choice((1, 2, 3, 5, 8, 1000))
        return {"lifetime": life}, life
    if latest and r.random() < 0.4:
        return ({"remember_removed": r.choice((0, 2, 8))} if r.random() < 0.5 else {}), None
    return {"expires": "e"}, None if latest else max(LIVES)


def _length(length: int, stamps: bool) -> Any:
    return f"{length} seconds" if stamps else length


def _queries(
    mode: str, r: random.Random, attributes: Mapping[str, str], by: list[str], window: dict[str, Any], *, latest: bool,
    stamps: bool,
) -> tuple[dict[str, fl.Query], dict[str, Fraction]]:  # fmt: skip
    queries, alphas = {}, {}
    for name in ("one", "two", "three")[: r.choice((2, 3))] if mode == "queries" else ("",):
        alphas[name] = r.choice(ALPHAS)
        some = dict(list(attributes.items())[: r.randint(1, len(attributes))]) if name == "three" else dict(attributes)
        lives = dict(window)
        if name and r.random() < 0.5:
            lives["lifetime"] = r.choice((1, 2, 3, 5, 8, 1000))
        lives = {k: _length(v, stamps) if k in ("lifetime", "remember_removed") else v for k, v in lives.items()}
        more: dict[str, Any] = {"latest": True, "gone": "gone", "version": "v"} if latest else {}
        more |= {"carry": ["place"]} if mode == "carry" else {}
        queries[name] = fl.Query(attributes=some, id="id", time="t", alpha=float(alphas[name]), by=by, **lives, **more)
    return queries, alphas


def _batches(
    made: Drawing, r: random.Random, late: float, *, latest: bool, screens: bool, imputes: bool, window: dict[str, Any]
) -> list[list[list[Row]]]:
    """Rows in the order of their times, but for late ones, cut anywhere; in each batch in any order."""
    whole = screens and r.random() < 0.5  # in one chunk, so that rows in its midst are left out
    t, drawn, seen = 0, [], set()
    for _ in range(24 if whole else r.choice((5, 8, 8, 12, 12, 16, 24))):
        t += r.choice((0, 1, 0, 1, 0, 2, 5))
        row = made.row(t)
        if latest:
            row["gone"] = r.random() < 0.15
        name = row["g"], row["id"], t, row["v"] if latest else None
        if (latest and not imputes) or name not in seen:
            drawn.append((t + (r.choice((1, 2, 3, 6)) if r.random() < late else 0), row))
            seen.add(name)
    rows = [row for _, row in sorted(drawn, key=lambda each: each[0])]
    ends = sorted(r.randint(0, len(rows)) for _ in range(r.choice((0, 1) if whole else (0, 1, 2, 2, 3, 4))))
    batches = [rows[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]
    copies: list[Row] = []
    for k, batch in enumerate(batches):
        for row in list(batch):
            if not latest and r.random() < 0.1:
                again = dict(row)
                differs = not screens and not imputes and r.random() < 0.5
                if differs and not any(row is each for each in copies):  # a late one counts if the first is forgotten
                    again |= {a: made.cell() for a in made.attributes}
                    batch.append(again)
                else:
                    batches[r.randint(k, len(batches) - 1)].append(again)
                copies.append(again)
            if latest and r.random() < 0.2:  # a correction, or the same instant once more
                again = made.row(row["t"]) | {"g": row["g"], "id": row["id"], "gone": r.random() < 0.3}
                name = again["g"], again["id"], again["t"], again["v"]
                if not imputes or name not in seen:
                    batches[r.randint(k, len(batches) - 1)].append(again)
                    seen.add(name)
            if r.random() < 0.06:
                batch.append(_broken(made, r, row, window, imputes=imputes))
        r.shuffle(batch)
    count = 1 if whole else r.choice((1, 1, 2, 3))
    return [[batch[p::count] for p in range(count)] for batch in batches]


def _broken(made: Drawing, r: random.Random, row: Row, window: dict[str, Any], *, imputes: bool) -> Row:
    """A row that no query can take."""
    first = next(iter(made.attributes))
    kinds: list[Row] = [{"id": None}, {"t": None}]
    kinds += [{first: [(1, -1)]} if made.wide else {first: float("inf")}]
    kinds += [{"e": row["t"] - 1}] if "expires" in window else []
    kinds += [] if imputes else [{first: None}]
    return {**made.row(row["t"]), "id": "bad", **r.choice(kinds), BAD: True, "gone": False}


def _run_ahead(made: Drawing, r: random.Random, batches: list[list[list[Row]]], life: int | None) -> None:
    """Some rows with wrong clocks."""
    for _ in range(r.choice((0, 1, 2, 4))):
        part = r.choice(r.choice(batches))
        wrong = made.row(r.choice((30, 60, 61, 200)))
        if part and not any(
            row["t"] == wrong["t"] and row["id"] == wrong["id"] for b in batches for p in b for row in p
        ):
            part.append(wrong)


def _chunks(r: random.Random, *, screens: bool) -> dict[str, int]:
    return {
        "slice_rows": r.choice((1, 2, 3, 50)),
        "chunk_rows": r.choice((1, 3, 5, 50)),
        "small": 0 if screens else ALL,
    }


def _sizes(r: random.Random) -> dict[str, int]:
    """Constants of modules, by module and name: mostly tiny."""
    return {
        "shard.FULL": r.choice((1, 2, 48)), "shard.AT_ONCE": r.choice((1, 2, 1000)),
        "shard.OPEN": r.choice((0, 4)),
        "small_groups.ROWS": r.choice((0, 1, 2, 256)), "cache.LARGE": r.choice((0, 0, 10**6)), "small_groups.FEW": 1,
        "log.FEW": r.choice((0, 1, 3, 1000)), "log.UPDATES": r.choice((1, 2, 64)), "log.SPARE": r.choice((1, 2)),
        "log.SHARE": r.choice((0, 1, 2)), "waiting.FEW": r.choice((0, 1, 1000)),
        "readings.SMALL": r.choice((0, 0, 1000)),
        "readings.PART": r.choice((1, 2)),
    }  # fmt: skip


# --- Sensors ----------------------------------------------------------------------------------------------------------


def _of_sensors(r: random.Random, seed: int) -> World:
    """Readings of a few sensors; mostly in the order of their times."""
    hindsight, moved = r.random() < 0.6, r.random() < 0.25
    table = walks(sensors=r.choice((2, 3, 4)), steps=r.choice((4, 6, 8)), begin=r.randint(200, 280), gaps=0.35,
                  seed=r.randint(1, 5))  # fmt: skip
    rows = [row | {"id": row["sensor"]} for row in table.to_pylist()]
    lateness = r.choice((0, 0, 3))
    off = 0.0 if lateness == 0 else 0.3
    order = sorted(range(len(rows)), key=lambda i: rows[i]["t"] + (2 if r.random() < off else 0))
    rows = [rows[i] for i in order]
    ends = sorted(r.randint(0, len(rows)) for _ in range(r.choice((1, 2, 3, 4, 5))))
    batches = [rows[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]
    count = r.choice((1, 2))
    alpha = r.choice(ALPHAS)
    query = fl.Query.from_dict(WALKS.to_dict() | {"alpha": float(alpha), "lifetime": r.choice((1, 3, 12))})
    how = {"every": r.choice(("tick", "batch")), "lateness": lateness, "idle": r.choice((None, 0, 3)), "ahead": "off"}
    how |= {"buckets": r.randint(1, 3), "hindsight": hindsight}
    known = [by_sensors(1, hindsight=hindsight), *([by_sensors(2, hindsight=hindsight)] if moved else [])]
    return World(
        "sensors", seed, {"": query}, {"": alpha}, how, [[b[p::count] for p in range(count)] for b in batches],
        table.schema, _chunks(r, screens=r.random() < 0.4), _sizes(r), known,
        r.randint(1, max(1, len(batches) - 1)) if moved else ALL, names=("sensor", "t"),
    )  # fmt: skip
