"""Does a Monitor answer for the newest row of each id, whatever comes in whatever cut?

Held to the oracle at every tick: replacements, corrections, removals, expiry, late and stale rows, groups, snapshots.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from tests import oracle
from tests.contracts import CLOSE, agree, members, replacing_reasons_hold

ALPHAS = [Fraction(a) for a in ("1/2", "0", "1/10", "9/10")]
VECTORS = json.loads((Path(__file__).parent / "vectors" / "changing.json").read_text())
FORMS: dict[bool, list[Any]] = {True: [True, 1, "true", "1"], False: [False, 0, None, "false"]}

Row = Mapping[str, Any]
Answer = dict[tuple[Any, ...], tuple[Any, float]]  # (group…, id) -> (arrived, probability)


@dataclass(frozen=True)
class Changing:
    """A question and its input; a row with `gone` is a removal."""

    attributes: Mapping[str, str]
    alpha: Fraction
    calls: Sequence[tuple[Any, Sequence[Row]]]
    window: Mapping[str, Any]
    remember: Any = None
    by: tuple[str, ...] = ("g",)
    versions: bool = True
    skyband: int = 1

    @property
    def query(self) -> fl.Query:
        more: dict[str, Any] = {"version": "v"} if self.versions else {}
        return fl.Query(
            attributes=self.attributes, id="id", time="t", alpha=float(self.alpha), by=self.by, latest=True,
            gone="gone", remember_removed=self.remember, skyband=self.skyband, **self.window, **more,
        )  # fmt: skip

    def truth(self) -> oracle.Latest:
        calls = [(now, [{**row, "gone": row["gone"] in FORMS[True]} for row in rows]) for now, rows in self.calls]
        if not self.versions:
            calls = [(now, [{k: v for k, v in row.items() if k != "v"} for row in rows]) for now, rows in calls]
        remember = self.window.get("lifetime") if self.remember is None else self.remember
        return oracle.Latest(calls, self.attributes, self.by, remember=remember, skyband=self.skyband, **self.window)


@st.composite
def changing(draw, most: int = 7) -> Changing:
    """Every call may have rows of any time up to its own: few ids in two groups, over tiny domains."""
    attributes = {f"a{j}": draw(st.sampled_from(["max", "min"])) for j in range(draw(st.integers(1, 3)))}
    windows: list[dict[str, Any]] = [{}, {"lifetime": 3}, {"lifetime": 8}, {"expires": "e"}]
    window = draw(st.sampled_from(windows))
    number = st.integers(0, draw(st.sampled_from([1, 2, 4])))
    pairs = st.lists(st.tuples(number, st.sampled_from([1, 2, 5])), min_size=2, max_size=3)
    cell, name = st.one_of(number, number, pairs), st.sampled_from("abcde"[: draw(st.sampled_from([2, 5]))])
    clock, calls = 0, []
    for _ in range(draw(st.integers(2, most))):
        clock += draw(st.sampled_from([1, 0, 1, 2, 5]))
        rows = []
        for _ in range(draw(st.integers(0, 5))):
            t = clock - draw(st.sampled_from([0, 0, 0, 1, 2, 6]))
            gone = draw(st.sampled_from(FORMS[draw(st.integers(0, 5)) == 0]))
            row = {
                "id": draw(name),
                "g": draw(st.sampled_from("xy")),
                "t": t,
                "v": draw(st.integers(0, 2)),
                "gone": gone,
            }
            row["e"] = t + draw(st.sampled_from([3, 1, 0, 2, 6, 12]))
            rows.append(row | {a: draw(cell) for a in attributes})
        calls.append((clock, rows))
    calls.append((clock + draw(st.sampled_from([0, 2, 20])), []))
    remember, versions = draw(st.sampled_from([None, 0, 2, 8])), draw(st.booleans())
    return Changing(attributes, draw(st.sampled_from(ALPHAS)), calls, window, remember, versions=versions)


def name_of(row: Row, by: Sequence[str]) -> tuple[Any, ...]:
    return (*(row[column] for column in by), row["id"])


def net(changes: pa.Table, by: Sequence[str], since: Answer, until: Any = None) -> Answer:
    """Changes are those of ids: each makes sense where it stands, and there is one of an id per tick."""
    answer, seen = dict(since), set()
    for row in changes.to_pylist():
        name, now = name_of(row, by), (row["t"], row["probability"])
        if until is not None and row["time"] > until:
            continue
        assert (row["time"], name) not in seen, f"{name} changes twice at {row['time']}"
        seen.add((row["time"], name))
        if row["change"] == "leave":
            assert row["probability"] is None
            del answer[name]
            continue
        assert (row["change"] == "update") == (name in answer), f"{name}: {row['change']}"
        answer[name] = now
    return answer


def answer_of(monitor: fl.Monitor, by: Sequence[str]) -> Answer:
    rows = monitor.answer().to_pylist()
    answer = {name_of(row, by): (row["t"], row["probability"]) for row in rows}
    assert len(answer) == len(rows), "an id is in the answer twice"
    return answer


def full(answer: Answer) -> dict[tuple[Any, ...], float]:
    return {(*name, arrived): p for name, (arrived, p) in answer.items()}


def run(stream: Changing, monitor: fl.Monitor, resume: Any = ()) -> list[Answer]:
    """Hold a Monitor to the oracle at every tick; returns the answer after each call."""
    ticks, course = defaultdict(list), stream.truth()
    windows: Any = {}
    truth: dict[tuple[Any, ...], Fraction] = {}
    answer: Answer = {}
    answers: list[Answer] = []
    for tick in course.ticks():
        ticks[tick.call].append(tick)
    for call, (now, rows) in enumerate(stream.calls):
        changes = monitor.advance(now, rows)
        assert {row["time"] for row in changes.to_pylist()} <= {tick.time for tick in ticks[call]}
        replacing_reasons_hold(changes, stream.by, windows, ticks[call])
        windows = ticks[call][-1].windows if ticks[call] else windows
        for tick in ticks[call]:
            truth = members(tick.probabilities, stream.alpha)
            agree(full(net(changes, stream.by, answer, tick.time)), truth, 2.5 * CLOSE)
        answer = net(changes, stream.by, answer)
        agree(full(answer_of(monitor, stream.by)), truth)
        assert answer.keys() == answer_of(monitor, stream.by).keys()
        monitor.check()
        if call in resume:
            monitor = fl.Monitor.restore(stream.query, monitor.snapshot())
        answers.append(answer)
    counted = monitor.stats()
    assert counted["stale"] == course.stale
    assert counted["rejected"] == 0
    assert counted["rows"] == sum(len(rows) for _, rows in stream.calls)
    assert counted["markers"] == course.markers()
    return answers


@given(changing(), st.sets(st.integers(0, 6)))
@settings(max_examples=120)
def test_a_monitor_answers_for_the_newest_row_of_each_id_at_every_tick(stream, resume):
    run(stream, fl.Monitor(stream.query), resume)


@pytest.mark.parametrize("listed", VECTORS, ids=lambda each: f"stream {each['seed']}")
def test_every_listed_stream_of_changing_rows_has_its_answers(listed):
    names = [f"a{j}" for j in range(listed["d"])]
    life = {} if listed["lifetime"] is None else {"lifetime": listed["lifetime"]}
    query = fl.Query(
        attributes=dict.fromkeys(names, "max"), id="id", time="t", alpha=float(Fraction(listed["alpha"])), latest=True,
        gone="gone", remember_removed=1000, **life,
    )  # fmt: skip
    monitor = fl.Monitor(query)
    answer: Answer = {}
    for tick in listed["ticks"]:
        rows = []
        for event in listed["events"]:
            if event["tick"] == tick["t"]:
                cells = [[(v, float(Fraction(w))) for v, w in cell] for cell in event.get("values", ())]
                row = {"id": event["id"], "t": event["time"], "gone": event.get("gone")}
                rows.append(row | dict(zip(names, cells, strict=False)))
        answer = net(monitor.advance(tick["t"], rows), (), answer)
        monitor.check()
        given_now = {name[0]: p for name, (_, p) in answer_of(monitor, ()).items()}
        assert given_now.keys() == set(tick["answer"]) == {name for (name,) in answer}
        agree(given_now, {name: Fraction(tick["probability"][name]) for name in tick["answer"]})
        monitor = fl.Monitor.restore(query, monitor.snapshot())


@given(changing(), st.sets(st.integers(0, 30)))
@settings(max_examples=40)
def test_however_an_ordered_stream_is_cut_into_calls_every_tick_has_the_same_answer(stream, cuts):
    rows = {(row["g"], row["id"], row["t"], row["v"]): row for _, part in stream.calls for row in part}
    ordered = sorted(rows.values(), key=lambda row: (row["t"], row["v"], row["gone"] in FORMS[True]))
    end, whole = stream.calls[-1][0], replace(stream, versions=True)
    ends = [*sorted(cut for cut in cuts if cut < len(ordered)), len(ordered)]
    parts = [ordered[a:b] for a, b in zip([0, *ends], ends, strict=False) if a < b]
    calls = [(part[-1]["t"], part) for part in parts]
    one, many = (
        [fl.Monitor(whole.query).advance(end, ordered)],
        list(map(fl.Monitor(whole.query).advance, *zip(*[*calls, (end, [])], strict=True))),
    )
    for t in {row["time"] for table in (*one, *many) for row in table.to_pylist()}:
        assert _at(one, t, whole.by) == _at(many, t, whole.by)


def _at(tables: Sequence[pa.Table], t: Any, by: Sequence[str]) -> Answer:
    answer: Answer = {}
    for table in tables:
        answer = net(table, by, answer, t)
    return {name: (arrived, round(p, 8)) for name, (arrived, p) in answer.items()}


@given(changing())
@settings(max_examples=30)
def test_the_order_of_rows_within_a_call_does_not_matter(stream):
    there, back = fl.Monitor(stream.query), fl.Monitor(stream.query)
    for now, rows in stream.calls:
        tables = there.advance(now, rows), back.advance(now, rows[::-1])
        one, other = (table.sort_by([(name, "ascending") for name in ("time", "g", "id")]) for table in tables)
        assert one.equals(other)  # groups are reported in the order in which they came


@given(changing())
@settings(max_examples=30)
def test_the_answer_after_each_call_is_the_same_without_ticks(stream):
    there, back = fl.Monitor(stream.query), fl.Monitor(stream.query)
    for now, rows in stream.calls:
        there.advance(now, rows)
        back.advance(now, rows, every="batch")
        back.check()
        agree(full(answer_of(there, stream.by)), full(answer_of(back, stream.by)))
