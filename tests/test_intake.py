"""Which rows of a call count? One rule, for a monitor and for the stages of a pipeline: decide first, then change.

A rejected row leaves nothing behind: it is no copy of another row, no reading of its sensor, and no gap that waits. A
call that raises an error has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import ClockError
from fogline.pipeline.plan import make_plan
from fogline.saved import unpack
from tests.flow.driving import DISTRIBUTION, Engine, rows_of

Call = tuple[float, list[dict[str, Any]]]  # the clock, and rows that come together


def row(id: str, t: float, **cells: Any) -> dict[str, Any]:
    return {"id": id, "t": t, **cells}


def last_values(query: fl.Query, **history: list[float | None]) -> fl.Repository:
    """A repository that knows a sensor's last value and, of attributes that its history has, that history."""
    n = len(next(iter(history.values())))
    columns = {"id": [f"old {k}" for k in range(n)], "t": [k - 1000 for k in range(n)]}
    by = {name: ["old"] * n for name in query.by}
    cells = {name: pa.array(history.get(name, [None] * n), pa.float64()) for name in query.names}
    return fl.Repository.fit(pa.table({**columns, **by, **cells}), query, method="last")


def answers_of_monitor(query: fl.Query, repository: fl.Repository | None, calls: Sequence[Call]) -> list[Any]:
    monitor, found = fl.Monitor(query, repository), []
    for now, rows in calls:
        monitor.advance(now, rows)
        found.append(_members(monitor.answer().to_pylist(), query))
    return found


def answers_of_stages(
    query: fl.Query, repository: fl.Repository | None, calls: Sequence[Call], **how: Any
) -> list[Any]:
    """The same through the stages of a pipeline, a micro-batch for each call."""
    kinds = {"id": pa.string(), "t": pa.int64(), "site": pa.string(), "v": pa.int64(), "gone": pa.bool_()}
    names = dict.fromkeys(name for _, rows in calls for each in rows for name in each)
    lists = {name for _, rows in calls for each in rows for name in each if isinstance(each[name], list)}
    fields = [(name, kinds.get(name, DISTRIBUTION if name in lists else pa.float64())) for name in names]
    opened = None if repository is None else lambda: repository
    engine = Engine(make_plan(query, pa.schema(fields), opened=opened, **how), small=10**6)
    found: list[Any] = []
    answer: dict[Any, Any] = {}
    for _, rows in calls:
        columns = {name: [_cell(each.get(name), kind) for each in rows] for name, kind in fields}
        journal = engine.batch([pa.table({name: pa.array(columns[name], kind) for name, kind in fields})])
        for change in rows_of(journal, "changes"):
            key = (*(change[name] for name in query.by), change["id"], None if query.latest else change["t"])
            answer.pop(key, None)
            if change["change"] != "leave":
                answer[key] = change
        found.append(_members(answer.values(), query))
    return found


def _cell(value: Any, kind: pa.DataType) -> Any:
    if kind != DISTRIBUTION or value is None:
        return value
    pairs = value if isinstance(value, list) else [(value, 1.0)]
    return [{"value": x, "weight": w} for x, w in pairs]


def _members(rows: Any, query: fl.Query) -> dict[Any, float]:
    return {(*(each[name] for name in query.by), each["id"], each["t"]): round(each["probability"], 9) for each in rows}


HEAT = fl.Query(attributes={"heat": "max"}, id="id", time="t", lifetime=1)
R = row("R", 2, heat=20.0)


def test_a_rejected_copy_is_no_reading_of_its_sensor():
    repository = last_values(HEAT, heat=[10.0, 11.0])
    calls = [(1, [row("A", 1, heat=None)]), (1, [row("A", 1, heat=30.0)]), (2, [R, row("A", 2, heat=None)])]
    expected = answers_of_monitor(HEAT, repository, calls)
    assert set(expected[-1]) == {("R", 2)}
    assert answers_of_stages(HEAT, repository, calls) == expected


def test_a_row_with_a_gap_that_nothing_can_fill_is_no_reading():
    query = fl.Query(attributes={"heat": "max", "gas": "max"}, id="id", time="t", lifetime=1)
    repository = last_values(query, heat=[10.0, 11.0])  # nothing is known of gas
    rows = [row("A", 1, heat=30.0, gas=None), row("A", 2, heat=None, gas=1.0), row("R", 2, heat=20.0, gas=1.0)]
    for calls in ([(2, rows)], [(1, rows[:1]), (2, rows[1:])]):
        assert set(answers_of_monitor(query, repository, calls)[-1]) == {("R", 2)}
        assert set(answers_of_stages(query, repository, calls)[-1]) == {("R", 2)}


def test_of_two_copies_that_have_no_number_a_distribution_counts():
    query = fl.Query(attributes={"heat": "max"}, id="id", time="t", latest=True)
    repository = last_values(query, heat=[90.0, 90.0])
    rows = [row("A", 1, heat=[(1.0, 1.0), (2.0, 1.0)]), row("A", 1, heat=None), row("R", 1, heat=20.0)]
    for some in (rows, rows[::-1]):
        assert set(answers_of_monitor(query, repository, [(1, some)])[-1]) == {("R", 1)}
        assert set(answers_of_stages(query, repository, [(1, some)])[-1]) == {("R", 1)}


@pytest.mark.parametrize("latest", [False, True])
@pytest.mark.parametrize("remembers", [False, True])
def test_a_copy_that_is_rejected_for_its_gap_stands_in_no_other_ones_way(latest: bool, remembers: bool):
    window = {"latest": True} if latest else {"lifetime": 10}
    query = fl.Query(attributes={"x": "max", "y": "max"}, id="id", time="t", **window)
    rows = [row("q", 1, x=9.0, y=None), row("q", 1, x=3.0, y=1.0)]
    if remembers:
        repository = last_values(query, x=[1.0, 2.0])
        assert answers_of_monitor(query, repository, [(1, rows)]) == [{("q", 1): 1.0}]
        assert answers_of_stages(query, repository, [(1, rows)]) == [{("q", 1): 1.0}]
    assert answers_of_stages(query, None, [(1, rows)]) == [{("q", 1): 1.0}]


def test_copies_and_gaps_of_many_instants_are_settled_in_the_order_of_time():
    """That the copy of t = 1 counts which has a gas gives t = 2 its gas, and so on."""
    query = fl.Query(attributes={"heat": "max", "gas": "max"}, id="id", time="t", lifetime=10)
    repository = last_values(query, heat=[10.0, 11.0])
    rows = [row("A", 1, heat=9.0, gas=None), row("A", 1, heat=3.0, gas=5.0)]
    rows += [row("A", 2, heat=8.0, gas=None), row("A", 2, heat=4.0, gas=7.0), row("A", 3, heat=2.0, gas=None)]
    monitor = fl.Monitor(query, repository)
    monitor.advance(3, rows)
    assert sorted((each["t"], each["heat"]) for each in monitor.answer().to_pylist()) == [(2, 8.0)]
    assert [(each.row["t"], each.row["heat"]) for each in monitor.rejects] == [(1, 9.0), (2, 4.0)]
    assert answers_of_stages(query, repository, [(3, rows)]) == answers_of_monitor(query, repository, [(3, rows)])


def test_one_call_with_a_reject_copies_and_many_readings_is_as_good_as_a_call_per_tick():
    query = fl.Query(attributes={"heat": "max", "gas": "max"}, id="id", time="t", latest=True)
    repository = last_values(query, heat=[10.0, 11.0])
    rows = [row("B", 1, heat=1.0, gas=None), row("A", 1, heat=9.0, gas=1.0), row("A", 1, heat=8.0, gas=2.0)]
    rows += [row("A", t, heat=float(t), gas=float(t)) for t in range(2, 13)]
    rows += [row("A", 13, heat=None, gas=None), row("R", 13, heat=12.5, gas=12.5)]
    together = answers_of_monitor(query, repository, [(13, rows)])
    apart = answers_of_monitor(
        query, repository, [(t, [each for each in rows if each["t"] == t]) for t in range(1, 14)]
    )
    assert together[-1] == apart[-1] == answers_of_stages(query, repository, [(13, rows)])[-1] == {("R", 13): 1.0}


def test_versions_of_one_tick_give_their_sensor_the_same_memory_in_one_call_or_two():
    query = fl.Query(attributes={"x": "max", "y": "max"}, id="id", time="t", latest=True, version="v")
    repository = last_values(query, x=[0.0, 1.0], y=[0.0, 1.0])
    rows = [row("A", 1, v=1, x=6.0, y=None), row("A", 1, v=3, x=None, y=5.0), row("A", 1, v=2, x=7.0, y=None)]
    end = [row("A", 2, v=1, x=None, y=None), row("R", 2, v=1, x=6.5, y=5.0)]
    for cuts in ([rows], [rows[:2], rows[2:]], [rows[:1], rows[1:]], [rows[2:], rows[:2]]):
        calls = [*((1, some) for some in cuts), (2, end)]
        assert set(answers_of_monitor(query, repository, calls)[-1]) == {("A", 2)}, cuts
        assert set(answers_of_stages(query, repository, calls)[-1]) == {("A", 2)}, cuts


def saved(snapshot: bytes) -> Any:
    """What a snapshot holds; ids of one instant have no order."""
    header, arrays = unpack(snapshot)
    plain = {name: array.tobytes() for name, array in arrays.items()}
    return header, plain | {"newest_id": sorted(plain["newest_id"])}


class Service:
    """An imputer of a user's own that is away at certain calls."""

    name, width, lasting = "service", 1, True

    def __init__(self) -> None:
        self.away: set[str] = set()

    def look(self, rows: Any) -> Any:
        self._ask("look")
        return rows.values[:, :1] * 0

    def able(self, known: Any, j: int) -> Any:
        self._ask("able")
        return known[:, 0] == known[:, 0]

    def bounds(self, known: Any, j: int, *, rough: bool = False) -> Any:
        self._ask("bounds")
        from fogline.impute.protocol import ends

        return ends(self.found(len(known)))

    def distributions(self, known: Any, j: int) -> Any:
        self._ask("distributions")
        return self.found(len(known))

    def found(self, n: int) -> Any:
        import numpy as np

        from fogline.impute.protocol import listed

        return listed(np.tile([2.0, 30.0], (n, 1)))

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def _ask(self, what: str) -> None:
        if what in self.away:
            raise ConnectionError("the service is away")


def test_a_call_in_which_an_imputer_raises_has_changed_nothing():
    """Hindsight: the reading that the failed call had seen revises a gap when the call is made again."""
    from tests.walks import QUERY, walks

    repository = fl.Repository.fit(walks(), QUERY)
    stream = walks(steps=30, gaps=0.3, begin=200).to_pylist()
    calls = [(t, [each for each in stream if each["t"] == t]) for t in range(200, 230)]
    for eager in (False, True):
        failing: list[Any] = []
        fine: list[Any] = []
        for found, fails in ((failing, True), (fine, False)):
            away = [False]

            def ask(batch: pa.RecordBatch, away: list[bool] = away) -> dict[str, Any]:
                if away[0]:
                    raise ConnectionError("the service is away")
                return {"light": [3.0 if k % 3 == 0 else None for k in range(batch.num_rows)]}

            monitor = fl.Monitor(QUERY, repository, imputer=ask, eager=eager)
            for now, rows in calls:
                if fails and now % 3 == 0:
                    away[0] = True
                    before = monitor.snapshot()
                    with pytest.raises(ConnectionError):
                        monitor.advance(now, rows)
                    assert monitor.snapshot() == before
                    away[0] = False
                found += monitor.advance(now, rows).to_pylist()
            found.append(dict(monitor.stats()))
        assert failing == fine


@pytest.mark.parametrize("what", ["look", "bounds", "able", "distributions"])
def test_so_it_is_where_the_imputer_is_asked_in_the_midst_of_a_tick(what: str):
    query = fl.Query(attributes={"x": "max", "y": "max"}, id="id", time="t", lifetime=3, by=["site"])
    service = Service()
    monitor, other = (fl.Monitor(query, imputer=each) for each in (service, Service()))
    for t in range(1, 12):
        rows = [row(f"{k}", t, site="ab"[k % 2], x=float(k * t % 7), y=None if k % 2 else 5.0) for k in range(6)]
        service.away = {what}
        before = monitor.snapshot()
        try:
            monitor.advance(t, rows)
        except ConnectionError:
            service.away = set()
            assert saved(monitor.snapshot()) == saved(before)
            assert monitor.advance(t, rows).to_pylist() == other.advance(t, rows).to_pylist()
            assert monitor.stats() == other.stats()
            continue
        service.away = set()
        other.advance(t, rows)
    assert monitor.answer().equals(other.answer())


def test_a_call_whose_rows_are_all_rejected_moves_the_clock_and_no_more():
    query = fl.Query(attributes={"x": "max"}, id="id", time="t", last=2)
    for ticks in (True, False):
        monitor = fl.Monitor(query)
        monitor.advance(1, [row("a", 1, x=1.0)])
        assert monitor.advance(2, [row("b", 2, x=float("inf"))], every="tick" if ticks else "batch").num_rows == 0
        assert monitor.clock == 2
        assert monitor.counts["rows"] == 2
        assert monitor.counts["rejected"] == 1
        with pytest.raises(ClockError):
            monitor.advance(1, None)


def test_a_call_that_raises_settles_no_kinds():
    def impute(rows):
        raise ValueError("not now")

    query = fl.Query(attributes={"x": "max"}, id="id", time="t", lifetime=3)
    monitor = fl.Monitor(query, imputer=impute)
    with pytest.raises(ValueError, match="not now"):
        monitor.advance(1, [row("a", 1, x=None)])
    assert monitor.counts["rows"] == 0
    monitor.advance(1, [{"id": 7, "t": 1.5 - 0.5, "x": 1.0}])
    assert monitor.answer()["id"].to_pylist() == [7]


def test_changes_of_one_call_are_in_the_order_of_time_also_where_groups_empty():
    query = fl.Query(attributes={"x": "max"}, id="id", time="t", lifetime=3, by=["site"])
    monitor = fl.Monitor(query)
    monitor.advance(1, [row("a", 1, site="n", x=1.0)])
    found = monitor.advance(9, [row("b", 2, site="s", x=1.0)])
    assert found["time"].to_pylist() == sorted(found["time"].to_pylist())
    assert found["id"].to_pylist() == ["b", "a", "b"]
