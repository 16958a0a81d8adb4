"""Is a value that is carried over the one that the id's row before had?

The reference takes rows one by one, as one would by hand, and hands complete ones to the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from tests import oracle
from tests.contracts import CLOSE, agree, members
from tests.test_latest import Answer, answer_of, full, net

ATTRIBUTES = {"place": "max", "heat": "max"}
UNKNOWN = [(0, 1), (3, 1)]  # what a gap may be: the history knows nothing else
HISTORY = pa.table({"place": [0.0, 3.0], "heat": [0.0, 3.0]})
HEAVY = [(2, 1), (3, 2)]  # a fact that is not quite known

Row = Mapping[str, Any]
Calls = Sequence[tuple[Any, Sequence[Row]]]


def query_of(window: Mapping[str, Any], alpha: Fraction = Fraction(1, 2)) -> fl.Query:
    return fl.Query(
        attributes=ATTRIBUTES, id="id", time="t", alpha=float(alpha), by=["g"], latest=True, gone="gone", version="v",
        carry=["place"], **window,
    )  # fmt: skip


REPOSITORY = fl.Repository.fit(HISTORY, query_of({}), rules=[], retention=0)


def completed(calls: Calls, window: Mapping[str, Any]) -> list[tuple[Any, list[Row]]]:
    """The same calls with rows that lack nothing."""
    held: dict[Any, dict[str, Any]] = {}  # what there is of each id: the row, or its removal
    clock, out = -np.inf, []
    for now, rows in calls:
        full_rows: dict[int, Row] = {}
        for i in sorted(range(len(rows)), key=lambda i: (rows[i]["t"], rows[i]["v"], rows[i]["gone"])):
            row, then = dict(rows[i]), max(rows[i]["t"], clock)
            name = row["g"], row["id"]
            before = held.get(name)
            if before is not None and before["gone"] and _forgotten(before, window, clock):
                before = None
            if before is None or (row["t"], row["v"]) >= (before["t"], before["v"]):
                there = before is not None and not before["gone"] and _expires(before, window) > then
                if row["place"] is None and before is not None and there:
                    row["place"] = before["place"]
                held[name] = row
            full_rows[i] = row | {name: UNKNOWN for name in ATTRIBUTES if row[name] is None}
        clock = now
        for name, row in held.items():
            if _expires(row, window) <= clock:
                held[name] = row | {"gone": True}
        out.append((now, [full_rows[i] for i in range(len(rows))]))
    return out


def _expires(row: Row, window: Mapping[str, Any]) -> Any:
    return row["e"] if "expires" in window else row["t"] + window.get("lifetime", np.inf)


def _forgotten(row: Row, window: Mapping[str, Any], clock: Any) -> bool:
    return bool(clock > row["t"] + window.get("remember_removed", window.get("lifetime", np.inf)))


@st.composite
def partial(draw) -> tuple[list[tuple[Any, list[Row]]], dict[str, Any], Fraction]:
    """Calls whose rows bring some of their values; of one id, time and version there is one row at most."""
    windows: list[dict[str, Any]] = [{}, {"lifetime": 4}, {"expires": "e"}, {"remember_removed": 1}]
    window = draw(st.sampled_from(windows))
    cell = st.sampled_from([None, None, 0, 1, 2, 3, HEAVY])
    calls: list[tuple[Any, list[Row]]] = []
    clock, seen = 0, set()
    for _ in range(draw(st.integers(1, 6))):
        clock += draw(st.sampled_from([1, 0, 2, 5]))
        rows: list[Row] = []
        for _ in range(draw(st.integers(0, 5))):
            t = clock - draw(st.sampled_from([0, 0, 1, 2]))
            row = {"id": draw(st.sampled_from("abc")), "g": draw(st.sampled_from("xxy")), "t": t}
            row |= {"v": draw(st.integers(0, 1)), "gone": draw(st.integers(0, 6)) == 0}
            row |= {"e": t + draw(st.sampled_from([0, 1, 3, 9])), "place": draw(cell), "heat": draw(cell)}
            if (row["id"], row["g"], t, row["v"], len(calls)) not in seen:
                seen.add((row["id"], row["g"], t, row["v"], len(calls)))
                rows.append(row)
        calls.append((clock, rows))
    return [*calls, (clock + 9, [])], window, draw(st.sampled_from([Fraction(1, 2), Fraction(0), Fraction(1, 10)]))


@given(partial(), st.sets(st.integers(0, 6)), st.booleans())
@settings(max_examples=100)
def test_carried_values_are_those_of_the_row_that_is_replaced(made, resume, eager):
    calls, window, alpha = made
    query, plain = query_of(window, alpha), completed(calls, window)
    monitor = fl.Monitor(query, REPOSITORY, eager=eager)
    life = {key: value for key, value in window.items() if key != "remember_removed"}
    remember = window.get("remember_removed", window.get("lifetime"))
    ticks = list(oracle.Latest(plain, ATTRIBUTES, ("g",), remember=remember, **life).ticks())
    answer: Answer = {}
    truth: dict[Any, Fraction] = {}
    for call, (now, rows) in enumerate(calls):
        changes = monitor.advance(now, rows)
        for tick in ticks:
            if tick.call == call:
                truth = members(tick.probabilities, alpha)
                agree(full(net(changes, ("g",), answer, tick.time)), truth, 2.5 * CLOSE)
        answer = net(changes, ("g",), answer)
        agree(full(answer_of(monitor, ("g",))), truth)
        monitor.check()
        if call in resume:
            monitor = fl.Monitor.restore(query, monitor.snapshot(), REPOSITORY)


@given(partial(), st.sets(st.integers(0, 20)))
@settings(max_examples=30)
def test_however_an_ordered_stream_is_cut_the_same_is_carried(made, cuts):
    calls, window, alpha = made
    rows = {(row["g"], row["id"], row["t"], row["v"]): row for _, part in calls for row in part}
    ordered = sorted(rows.values(), key=lambda row: (row["t"], row["v"]))
    ends = [*sorted(cut for cut in cuts if cut < len(ordered)), len(ordered)]
    one, many = (fl.Monitor(query_of(window, alpha), REPOSITORY) for _ in range(2))
    one.advance(calls[-1][0], ordered)
    for a, b in zip([0, *ends], ends, strict=False):
        if a < b:
            many.advance(ordered[b - 1]["t"], ordered[a:b])
    many.advance(calls[-1][0])
    assert one.answer().equals(many.answer())


# --- What it means, case by case --------------------------------------------------------------------------------------


def row(t: float, **more: Any) -> dict[str, Any]:
    return {"id": "a", "g": "x", "t": t, "heat": 1, **more}


def place_of(monitor: fl.Monitor) -> Any:
    [why] = monitor.explain("a")
    return why.row.values["place"]


def monitored(*rows: Row, **window: Any) -> fl.Monitor:
    monitor = fl.Monitor(query_of(window), REPOSITORY)
    for each in rows:
        monitor.advance(max(each["t"], monitor.clock), [each])
        monitor.check()
    return monitor


def test_a_carried_value_is_shown_as_if_the_row_had_come_with_it():
    monitor = monitored(row(1, place=2), row(3))
    assert monitor.answer().select(["t", "place"]).to_pylist() == [{"t": 3, "place": 2.0}]
    assert monitor.stats()["incomplete"] == 0


def test_a_distribution_is_carried_and_what_was_imputed_is_not():
    assert place_of(monitored(row(1, place=HEAVY), row(2), row(3))) == ((2.0, 1 / 3), (3.0, 2 / 3))
    monitor = monitored(row(1), row(2))
    assert place_of(monitor) == ((0.0, 0.5), (3.0, 0.5))
    assert monitor.stats()["incomplete"] == 2


def test_a_correction_carries_what_the_corrected_row_had_or_carried():
    assert place_of(monitored(row(1, place=2), row(2), row(2))) == ((2.0, 1.0),)
    assert place_of(monitored(row(1, place=2), row(2, place=1), row(2))) == ((1.0, 1.0),)


def test_a_removed_or_expired_row_and_a_stale_one_give_nothing():
    imputed = ((0.0, 0.5), (3.0, 0.5))
    assert place_of(monitored(row(1, place=2), row(2, gone=True), row(3))) == imputed
    assert place_of(monitored(row(1, place=2), row(7), lifetime=5)) == imputed
    assert place_of(monitored(row(2, place=2), row(1, place=1), row(3))) == ((2.0, 1.0),)
    monitor = monitored(row(2))
    monitor.advance(3, [row(1, place=1), row(3)])  # the older one comes with the row, and before it by its time
    assert place_of(monitor) == imputed


def without_heat(rows: int) -> fl.Repository:
    """A repository that knows nothing of heat: a query that carries it over may be asked with it."""
    history = pa.table({"place": [0.0, 3.0] * (rows // 2), "heat": pa.array([None] * rows, pa.float64())})
    return fl.Repository.fit(history, replace(query_of({}), carry=("heat",)), rules=[], retention=0)


def test_a_row_that_is_rejected_for_a_gap_gives_nothing():
    unsure = without_heat(2)
    for cut in (1, 3):
        monitor, rows = fl.Monitor(query_of({}), unsure), [row(1, place=1), row(2, place=2, heat=None), row(3)]
        for begin in range(0, 3, cut):
            monitor.advance(begin + cut, rows[begin : begin + cut])
        assert place_of(monitor) == ((1.0, 1.0),)
        assert [each.reason for each in monitor.rejects] == [
            "'heat' is missing, and the repository has no value for it"
        ]


def test_a_row_that_is_rejected_does_not_make_others_count_twice_in_the_scores():
    unsure = without_heat(40)
    rows = [row(1 + k // 20, place=k) | {"id": f"i{k}"} for k in range(800)]
    counted = []
    for more in ([], [row(1, place=1, heat=None) | {"id": "bad"}]):
        monitor = fl.Monitor(query_of({}), unsure)
        monitor.advance(50, [*rows, *more])
        assert monitor.stats()["rejected"] == len(more)
        counted.append(monitor.stats()["scored"])
    assert counted[0] == counted[1] > 0


def test_of_copies_the_best_that_is_not_rejected_counts():
    for asked in (query_of({}), fl.Query.from_dict({**query_of({}).to_dict(), "carry": []})):
        monitor = fl.Monitor(asked, without_heat(2))
        changes = monitor.advance(1, [row(1, place=2, heat=None), row(1, place=1, heat=3), row(1, place=0, heat=9)])
        assert changes.select(["id", "change", "place", "heat"]).to_pylist() == [
            {"id": "a", "change": "enter", "place": 1.0, "heat": 3.0}
        ]
        assert monitor.stats()["rejected"] == 1


def test_a_stale_row_with_a_gap_disturbs_no_monitor_that_has_nothing_to_impute_from():
    monitor = fl.Monitor(query_of({}))
    monitor.advance(5, [row(5, place=2)])
    monitor.advance(6, [row(3), row(6)])
    assert place_of(monitor) == ((2.0, 1.0),)
    assert monitor.stats()["stale"] == 1
    with pytest.warns(fl.RowsRejectedWarning, match="'place' is missing, and there is no repository"):
        monitor.advance(7, [{"id": "b", "g": "x", "t": 7, "heat": 1}])
    assert [each.row["id"] for each in monitor.rejects] == ["b"]
