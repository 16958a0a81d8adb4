"""Does a monitor know better once a sensor has spoken again, and is its answer right at every tick?

Random streams of a few sensors with many gaps, over a tiny domain. What the chain gives for each gap, at first and
after the reading that revises it, is asked here by hand; from that the oracle works out the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.arrays import Revisions, objects
from fogline.impute.chain import chain_of
from fogline.impute.protocol import Evidence
from fogline.repository.repository import Repository
from fogline.repository.sensors.gaps import Gaps
from fogline.repository.sensors.state import SensorRows, sensor_names
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader
from tests import oracle
from tests.contracts import CLOSE, agree, answer_of, members, net
from tests.walks import QUERY, walks

ATTRIBUTES = {"a": "max", "b": "min"}
ALPHAS = [Fraction(each) for each in ("0", "3/10", "1/2")]
BEGIN, TOP = 200, 3
Calls = Sequence[tuple[int, Sequence[Mapping[str, Any]]]]


def query_of(alpha: Fraction = Fraction(1, 2), lifetime: int = 4) -> fl.Query:
    return fl.Query(attributes=ATTRIBUTES, id="id", time="t", lifetime=lifetime, alpha=float(alpha))


@cache
def tiny() -> Repository:
    """Sensors whose attributes go up and down by one, between 0 and TOP."""
    rng, sensors = np.random.default_rng(3), 8
    steps = rng.integers(-1, 2, (BEGIN, sensors, 2))
    values = np.empty(steps.shape)
    now = rng.integers(0, TOP + 1, (sensors, 2))
    for k in range(BEGIN):
        now = np.clip(now + steps[k], 0, TOP)
        values[k] = now
    names = [f"s{k}" for k in range(sensors)] * BEGIN
    columns = {name: values[:, :, j].reshape(-1) for j, name in enumerate(ATTRIBUTES)}
    return Repository.fit(pa.table({"id": names, "t": np.repeat(np.arange(BEGIN), sensors), **columns}), query_of())


cells = st.sampled_from([None, None, 0.0, 1.0, 2.0, 3.0])
readings = st.fixed_dictionaries({"id": st.sampled_from(["s0", "s1", "new"]), "a": cells, "b": cells})


@st.composite
def streams(draw) -> Calls:
    """Calls of several ticks, and rows that come late; no two rows of one id and time."""
    calls: list[Any] = []
    seen, clock = set(), BEGIN
    for _ in range(draw(st.integers(2, 6))):
        now = clock + draw(st.sampled_from([1, 2, 0, 3]))
        rows = []
        for row in draw(st.lists(readings, max_size=4)):
            t = draw(st.sampled_from([now, now, now - 1, clock + 1, clock - 1]))
            if t <= now and (row["id"], t) not in seen:
                seen.add((row["id"], t))
                rows.append({**row, "t": t})
        calls.append((now, rows))
        clock = now
    return [*calls, (clock + draw(st.sampled_from([1, 20])), [])]


class ByHand:
    """What the chain gives, row by row: cells as lists of (value, weight), and revisions of them."""

    def __init__(self, query: fl.Query) -> None:
        chain = chain_of(tiny(), query)
        assert chain is not None
        assert chain.hindsight
        assert chain.sensors is not None
        self.query, self.chain, self.state = query, chain, chain.sensors.state()
        self.known: dict[Any, Any] = {}
        self.box: dict[Any, Any] = {}
        self.calls: list[Any] = []
        self.events: list[oracle.Revise] = []

    def take(self, now: int, rows: Sequence[Mapping[str, Any]]) -> None:
        shown = [dict(row) for row in rows]
        if rows:
            self._take(rows, shown)
        self.calls.append((now, shown))

    def _take(self, rows: Sequence[Mapping[str, Any]], shown: list[dict[str, Any]]) -> None:
        chain, named = self.chain, Reader(self.query).read(list(rows), Kinds())
        decoded, gaps = named, np.isnan(named.uncertain.lo)
        values = chain.values(decoded.uncertain, decoded.raw)
        every = np.ones(len(rows), np.bool_)
        asked = SensorRows(sensor_names(named.id), decoded.arrived, values, every, gaps=Gaps(gaps, decoded.expires))
        context, revised, _ = chain.take(self.state, asked)
        known = chain.evidence(Evidence(values, gaps, decoded.source, None, context))
        box = chain.bound(decoded.uncertain, known, gaps)
        for i, row in enumerate(rows):
            key = row["id"], row["t"]
            self.known[key] = known[i : i + 1]
            self.box[key] = np.sort(np.stack((box.lo[i], box.hi[i])) * chain.signs, axis=0)
            for j, name in enumerate(ATTRIBUTES):
                if gaps[i, j]:
                    shown[i][name] = self.cell(key, j)
        for reading, target, _, which in zip(*revised, strict=True):
            self._revise(rows[reading], int(target), which, values[reading])

    def _revise(self, reading: Mapping[str, Any], target: int, which: Any, values: Any) -> None:
        key = reading["id"], target
        times = np.array([float(target)]), np.array([float(reading["t"])])
        event = Revisions(objects([reading["id"]]), *times, which[None], values[None])
        self.known[key] = self.chain.note(self.known[key], event)
        cells = {name: self.cell(key, j) for j, name in enumerate(ATTRIBUTES) if which[j]}
        self.events.append(oracle.Revise(reading["id"], target, reading["t"], cells, len(self.calls)))

    def cell(self, key: Any, j: int) -> list[tuple[float, float]]:
        gaps = np.zeros((1, len(ATTRIBUTES)), np.bool_)
        gaps[0, j] = True
        [answer] = self.chain.search(self.known[key], gaps)
        low, high = self.box[key][:, j].tolist()
        found = answer.found
        part = slice(found.start[0], found.start[0] + found.size[0])
        pairs = zip(found.value[part].tolist(), found.often[part].tolist(), strict=True)
        return [(min(max(value, low), high), often) for value, often in pairs]


def drive(monitor: fl.Monitor, calls: Calls, restarts: Sequence[int] = (), **how: Any) -> list[pa.Table]:
    tables = []
    for k, (now, rows) in enumerate(calls):
        tables.append(monitor.advance(now, list(rows)))
        monitor.check()
        if monitor.intake is not None and monitor.intake.state is not None:
            monitor.intake.state.check()
        if k in restarts:
            monitor = fl.Monitor.restore(monitor.query, monitor.snapshot(), tiny(), **how)
    return tables


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams(), st.sampled_from(ALPHAS), st.sampled_from([3, 2, 6]), st.sets(st.integers(0, 5), max_size=2))
def test_the_answer_is_right_at_every_tick(calls, alpha, lifetime, restarts):
    query = query_of(alpha, lifetime)
    hand = ByHand(query)
    for now, rows in calls:
        hand.take(now, rows)
    ticks = defaultdict(list)
    for tick in oracle.replay(hand.calls, ATTRIBUTES, (), hand.events, lifetime=lifetime):
        ticks[tick.call].append(tick)
    monitor = fl.Monitor(query, tiny())
    answer: dict[tuple[Any, ...], float] = {}
    for call, (now, rows) in enumerate(calls):
        changes = monitor.advance(now, list(rows))
        for tick in ticks[call]:
            truth = members(tick.probabilities, alpha)
            agree(net(changes, since=answer, until=tick.time), truth, 2.5 * CLOSE)
        answer = net(changes, since=answer)
        if ticks[call]:
            agree(answer_of(monitor), truth)
        monitor.check()
        if call in restarts:
            monitor = fl.Monitor.restore(query, monitor.snapshot(), tiny())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams(), st.sampled_from(ALPHAS), st.sets(st.integers(0, 5), max_size=3))
def test_it_does_not_matter_when_rows_are_imputed_nor_when_the_monitor_is_restarted(calls, alpha, restarts):
    query = query_of(alpha)
    lazy = drive(fl.Monitor(query, tiny()), calls)
    assert drive(fl.Monitor(query, tiny(), eager=True), calls) == lazy
    assert drive(fl.Monitor(query, tiny()), calls, sorted(restarts)) == lazy


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams(), st.sampled_from(ALPHAS))
def test_without_hindsight_nothing_is_revised(calls, alpha):
    query = query_of(alpha)
    monitor = fl.Monitor(query, tiny(), hindsight=False)
    plain = drive(monitor, calls)
    assert monitor.stats()["revised"] == monitor.stats()["revised_cells"] == 0
    assert monitor.intake is not None
    assert monitor.intake.state is not None
    assert monitor.intake.state.gaps is None
    blind = fl.Repository.fit(tiny().history, query, hindsight=False)
    assert drive(fl.Monitor(query, blind), calls) == plain


def stream_of(steps: int, gaps: float = 0.4) -> list[tuple[int, pa.Table]]:
    table = walks(steps=steps, begin=BEGIN, gaps=gaps)
    return [(t, table.filter(pa.compute.equal(table["t"], t))) for t in range(BEGIN, BEGIN + steps)]


@cache
def wandering() -> Repository:
    return Repository.fit(walks(), QUERY)


def test_the_cut_of_the_stream_does_not_matter():
    calls = stream_of(30)
    one, many = fl.Monitor(QUERY, wandering()), fl.Monitor(QUERY, wandering())
    singly = pa.concat_tables([one.advance(now, rows) for now, rows in calls])
    together = [
        many.advance(calls[k + 4][0], pa.concat_tables([rows for _, rows in calls[k : k + 5]])) for k in range(0, 30, 5)
    ]
    assert pa.concat_tables(together).equals(singly)
    assert one.stats()["revised_cells"] > 50
    assert one.stats()["revised_cells"] == many.stats()["revised_cells"]


def test_rows_of_a_count_window_are_revised_too():
    query = replace(QUERY, lifetime=None, last=60)
    with_, without = (fl.Monitor(query, wandering(), hindsight=each) for each in (None, False))
    for now, rows in stream_of(12):
        with_.advance(now, rows)
        without.advance(now, rows)
        with_.check()
    assert with_.stats()["revised_cells"] > 20
    assert not with_.answer().equals(without.answer())


def test_only_the_last_answer_is_looked_at_where_ticks_do_not_matter():
    calls = stream_of(12)
    one, other = fl.Monitor(QUERY, wandering()), fl.Monitor(QUERY, wandering())
    for now, rows in calls:
        one.advance(now, rows)
    other.advance(calls[-1][0], pa.concat_tables([rows for _, rows in calls]), every="batch")
    assert other.answer().equals(one.answer())


def test_a_gap_is_revised_by_the_next_reading_that_has_the_attribute():
    query = query_of()
    monitor = fl.Monitor(query, tiny())
    monitor.advance(BEGIN, [{"id": "s0", "t": BEGIN, "a": None, "b": 1.0}])
    first = monitor.explain("s0")[0].row.values["a"]
    monitor.advance(BEGIN + 1, [{"id": "s0", "t": BEGIN + 1, "a": None, "b": 3.0}])
    assert monitor.explain("s0")[0].row.values["a"] == first
    monitor.advance(BEGIN + 2, [{"id": "s0", "t": BEGIN + 2, "a": first[0][0], "b": 3.0}])
    revised = next(each for each in monitor.explain("s0") if each.arrived == BEGIN)
    assert revised.row.values["a"] != first


def test_explain_states_what_was_imputed_first_what_now_and_by_whom():
    query = query_of()
    monitor = fl.Monitor(query, tiny())
    own = [(0.0, 1.0), (3.0, 1.0)]
    rows = [
        {"id": "s0", "t": BEGIN, "a": None, "b": None},
        {"id": "new", "t": BEGIN, "a": None, "b": own},
    ]
    monitor.advance(BEGIN, rows)
    before = {each.attribute: each for each in monitor.explain("s0")[0].imputed}
    assert set(before) == {"a", "b"}
    assert all(each.open and each.first == each.now and each.now_by == "sensor's own past" for each in before.values())
    [stranger] = monitor.explain("new")[0].imputed
    assert stranger.first_by != "sensor's own past"
    assert "a is missing: " in str(monitor.explain("new")[0])
    assert "still open" in str(stranger)
    monitor.advance(
        BEGIN + 1,
        [{"id": "s0", "t": BEGIN + 1, "a": 0.0, "b": None}, {"id": "new", "t": BEGIN + 1, "a": 1.0, "b": 3.0}],
    )
    row = next(each for each in monitor.explain("s0") if each.arrived == BEGIN)
    a, b = row.imputed
    assert (a.attribute, a.open, a.first) == ("a", False, before["a"].first)
    assert b == before["b"]
    assert a.now == row.row.values["a"]
    [stranger] = next(each for each in monitor.explain("new") if each.arrived == BEGIN).imputed
    assert (stranger.now_by, stranger.open) == ("sensor's own past", False)
    assert "since its sensor has spoken again" in str(stranger)


def test_hindsight_where_there_is_none_is_an_error_with_the_way_out():
    query = query_of()
    blind = fl.Repository.fit(tiny().history, query, hindsight=False)
    for repository, remember, why in (
        (None, True, "there is no repository"),
        (tiny(), False, "are not remembered"),
        (blind, True, "fit it with hindsight"),
    ):
        with pytest.raises(fl.FoglineError, match=f"hindsight is on, and .*{why}.*leave hindsight out"):
            fl.Monitor(query, repository, remember=remember, hindsight=True)
    for monitor, there in ((fl.Monitor(query, tiny(), hindsight=True), True), (fl.Monitor(query, blind), False)):
        assert monitor.chain is not None
        assert monitor.chain.hindsight is there


def test_a_snapshot_is_restored_with_the_hindsight_it_was_taken_with(tmp_path):
    query = query_of()
    saved = fl.Monitor(query, tiny(), hindsight=False).snapshot()
    with pytest.raises(fl.errors.SnapshotError, match="taken without hindsight; restore it with hindsight=False"):
        fl.Monitor.restore(query, saved, tiny())
    fl.Monitor.restore(query, saved, tiny(), hindsight=False)
    blind = fl.Repository.fit(tiny().history, query, hindsight=False)
    assert blind.fingerprint != tiny().fingerprint
    blind.save(tmp_path / "blind")
    loaded = fl.Repository.load(tmp_path / "blind")
    assert loaded.sensors is not None
    assert not loaded.sensors.hindsight


def test_what_a_function_of_the_users_own_gives_at_once_is_never_revised():
    def half(rows: pa.RecordBatch) -> dict[str, Any]:
        return {"a": [[(0.0, 1), (3.0, 1)] if t == BEGIN else None for t in rows.column("t").to_pylist()]}

    query = query_of()
    monitor = fl.Monitor(query, tiny(), imputer=half)
    rows = [
        {"id": "s0", "t": BEGIN, "a": None, "b": 1.0},
        {"id": "s1", "t": BEGIN, "a": None, "b": None},
        {"id": "s0", "t": BEGIN + 1, "a": 2.0, "b": 1.0},
    ]
    monitor.advance(BEGIN + 1, rows)
    monitor.advance(BEGIN + 2, [{"id": "s1", "t": BEGIN + 2, "a": 2.0, "b": 2.0}])
    halves = ((0.0, 0.5), (3.0, 0.5))
    assert {each.row.values["a"] for name in ("s0", "s1") for each in monitor.explain(name)} >= {halves}
    for name in ("s0", "s1"):
        assert next(each for each in monitor.explain(name) if each.arrived == BEGIN).row.values["a"] == halves
