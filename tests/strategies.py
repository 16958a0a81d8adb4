"""Which streams do we try?

Random ones over tiny domains, so that ties, sure victories and repeated ids abound, and the listed ones of `vectors/`.
All weights are small integers or listed fractions: the oracle knows every probability exactly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True)
class Stream:
    """A question and its input: all that a Monitor, or the oracle, needs."""

    attributes: Mapping[str, str]
    alpha: Fraction
    window: Mapping[str, Any]  # one of expires="e", lifetime=5, last=7
    calls: Sequence[tuple[Any, Sequence[Mapping[str, Any]]]]  # (now, rows)
    by: tuple[str, ...] = ()
    skyband: int = 1

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        return [row for _, rows in self.calls for row in rows]

    @property
    def end(self) -> Any:
        return self.calls[-1][0]


# --- Random streams ---------------------------------------------------------------------------------------------------

ALPHAS = [Fraction(a) for a in ("1/2", "0", "1/10", "1/4", "9/20", "3/4", "9/10", "99/100")]
IDS: list[list[Any]] = [["a", "b", "c", "d", "e"], [9, 10, 2, 33, -1]]  # 10 is before 9 as a text, not as a number
LIVES = [3, 1, 2, 4, 5, 7, 9, 12, 0, -1, 1000]  # 0 is expired on arrival, -1 is rejected


def cells(top: int) -> list[Any]:
    """Known values and distributions, about as many draws of the one as of the other; some of them repeat a value."""
    values, weights = range(top + 1), (1, 2, 5)
    pairs = [[(a, v), (b, w)] for a, b, v, w in product(values, values, weights, weights)]
    triples = [[(a, 1), (b, 2), (c, 1)] for a, b, c in product(values, repeat=3)]
    foggy = [*([(a, 3)] for a in values), *pairs, *triples]
    return [*values] * (len(foggy) // len(values)) + foggy


CELLS = {top: cells(top) for top in (1, 2, 3)}


@st.composite
def questions(draw, window: str | None = None, groups: int = 1) -> Stream:
    """A question without input yet."""
    attributes = {f"a{j}": draw(st.sampled_from(["max", "min"])) for j in range(draw(st.integers(1, 4)))}
    kind = window or draw(st.sampled_from(["expires", "lifetime", "last"]))
    size: dict[str, list[Any]] = {"expires": ["e"], "lifetime": [3, 1, 2, 5, 8, 1000], "last": [3, 1, 2, 4, 6, 100]}
    by = ("g",) if groups > 1 else ()
    return Stream(attributes, draw(st.sampled_from(ALPHAS)), {kind: draw(st.sampled_from(size[kind]))}, [], by)


@st.composite
def batches_at(draw, question: Stream, batches: Sequence[Sequence[Any]], groups: int = 1) -> list[list[dict[str, Any]]]:
    """A row for each arrival in each batch; a second row with the same group, id and arrival is left out."""
    domain = st.sampled_from(CELLS[draw(st.sampled_from(sorted(CELLS)))])
    person = st.sampled_from(list(product(draw(st.sampled_from(IDS)), "xyz"[:groups], LIVES)))
    seen: set[Any] = set()
    made: list[list[dict[str, Any]]] = []
    for arrivals in batches:
        made.append([])
        for t in arrivals:
            name, group, life = draw(person)
            row = {"id": name, "t": t, "e": t + life, "g": group} | {a: draw(domain) for a in question.attributes}
            if (group, name, t) not in seen:
                seen.add((group, name, t))
                made[-1].append(row)
    return made


@st.composite
def cuts(draw, rows: Sequence[Mapping[str, Any]], end: Any) -> list[tuple[Any, list[Mapping[str, Any]]]]:
    """Rows in order of arrival as calls up to `end`: cut anywhere, also within a tick; some calls come in reverse."""
    calls: list[tuple[Any, list[Mapping[str, Any]]]] = []
    places = draw(st.integers(0, 2 ** (len(rows) - 1) - 1))  # bit i: a cut after row i
    waiting: list[Mapping[str, Any]] = []
    for i, row in enumerate(rows):
        waiting.append(row)
        if i + 1 == len(rows) or places >> i & 1:
            following = end if i + 1 == len(rows) else rows[i + 1]["t"]
            now, order = draw(st.sampled_from([(row["t"], 1), (row["t"], -1), (following, 1), (following, -1)]))
            calls.append((now, waiting[::order]))
            waiting = []
    return [*calls, (end, [])]


@st.composite
def streams(draw, window: str | None = None, groups: int = 1, most: int = 14) -> Stream:
    """Rows in order, several to a tick, with gaps between ticks; time in ones or in halves."""
    question: Stream = draw(questions(window, groups))
    unit, t, arrivals = draw(st.sampled_from([1, 0.5])), 0, []
    for _ in range(draw(st.integers(1, most))):
        t += draw(st.sampled_from([0, 1, 0, 1, 2, 5]))
        arrivals.append(t * unit)
    [rows] = draw(batches_at(question, [arrivals], groups))
    end = (t + draw(st.sampled_from([0, 1, 4, 2000]))) * unit
    return replace(question, calls=draw(cuts(rows, end)))


@st.composite
def late_streams(draw, window: str | None = None, groups: int = 1) -> Stream:
    """Every call may bring rows from before the clock that it finds."""
    question: Stream = draw(questions(window, groups))
    clocks, batches, clock = [], [], 0
    for _ in range(draw(st.integers(2, 6))):
        clock += draw(st.sampled_from([1, 0, 2, 4]))
        delays = draw(st.lists(st.sampled_from([0, 1, 2, 3, 6]), max_size=4))
        clocks.append(clock)
        batches.append([clock - delay for delay in delays])
    return replace(question, calls=list(zip(clocks, draw(batches_at(question, batches, groups)), strict=True)))


# --- Streams with hindsight -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gap:
    """A missing cell: what it may be at first, what it may be once more is known, and a box that holds both."""

    first: Sequence[tuple[Any, int]]
    then: Sequence[tuple[Any, int]]
    low: Any
    high: Any


@dataclass(frozen=True)
class Hindsight:
    """A stream whose rows hold gaps, and the revisions of each call: (id, arrived, time, names of the cells)."""

    stream: Stream
    revisions: Sequence[Sequence[tuple[Any, Any, Any, tuple[str, ...]]]]


@st.composite
def gaps(draw, top: int) -> Gap:
    """Narrow boxes and wide ones, distributions of one value among them."""
    values = st.lists(st.tuples(st.integers(0, top), st.sampled_from([1, 2, 5])), min_size=1, max_size=3)
    first, then = draw(values), draw(values)
    ends = [value for value, _ in [*first, *then]]
    return Gap(first, then, min(ends) - draw(st.sampled_from([0, 1, 2])), max(ends) + draw(st.sampled_from([0, 1, 2])))


@st.composite
def hindsights(draw, window: str | None = None, alphas: Sequence[Fraction] = tuple(ALPHAS)) -> Hindsight:
    """Rows of which about half the cells are gaps; each gap is revised once or never, at any time and in any call."""
    made: Stream = draw(streams(window, most=10) | late_streams(window))
    top = draw(st.sampled_from([1, 2, 3]))
    cell = st.one_of(st.integers(0, top), gaps(top), gaps(top))
    calls = [(now, [{**row, **{a: draw(cell) for a in made.attributes}} for row in rows]) for now, rows in made.calls]
    revisions: list[list[Any]] = [[] for _ in calls]
    for came, (_, rows) in enumerate(calls):
        for row in rows:
            left = [a for a in made.attributes if isinstance(row[a], Gap)]
            for _ in range(draw(st.integers(0, 2)) if left else 0):
                some = tuple(a for a in left if draw(st.booleans()))
                left = [a for a in left if a not in some]
                call = draw(st.integers(max(came - 1, 0), len(calls) - 1))
                time = min(row["t"] + draw(st.sampled_from([1, 0, 2, 3, 6])), calls[call][0])
                if some:
                    revisions[call].append((row["id"], row["t"], time, some))
    alpha = draw(st.sampled_from(alphas))
    return Hindsight(replace(made, calls=calls, alpha=alpha), revisions)


# --- Listed streams ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vector:
    """A stream with its exact answers."""

    name: str
    stream: Stream
    probabilities: Mapping[int, Mapping[str, Fraction]]  # tick -> id -> probability
    answers: Mapping[int, set[str]]  # tick -> ids
    listed: Mapping[str, Any]  # the stream as the file holds it

    def __str__(self) -> str:
        return self.name


def _vector(listed: Mapping[str, Any]) -> Vector:
    attributes = {f"a{j}": "max" for j in range(listed["d"])}
    rows = [
        {"id": one["id"], "t": one["arrives"], "e": one["expires"]}
        | {f"a{j}": [(value, Fraction(weight)) for value, weight in cell] for j, cell in enumerate(one["values"])}
        for one in listed["objects"]
    ]
    calls = [(tick["t"], [row for row in rows if row["t"] == tick["t"]]) for tick in listed["ticks"]]
    return Vector(
        name=listed.get("name", "").split(":")[0] or f"stream {listed['seed']}",
        stream=Stream(attributes, Fraction(listed["alpha"]), {"expires": "e"}, calls),
        probabilities={t["t"]: {o: Fraction(p) for o, p in t["probability"].items()} for t in listed["ticks"]},
        answers={tick["t"]: set(tick["answer"]) for tick in listed["ticks"]},
        listed=listed,
    )


_FOLDER = Path(__file__).parent / "vectors"
PAPER = [_vector(listed) for listed in json.loads((_FOLDER / "paper.json").read_text())["streams"]]
VECTORS = PAPER + [_vector(listed) for listed in json.loads((_FOLDER / "streams.json").read_text())]
COAL_MINE, NOT_TRANSITIVE = PAPER
