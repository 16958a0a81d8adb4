"""Does a run with explanations report the same changes, and are these and near rows those of a monitor?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.errors import FoglineError
from fogline.output.folder import LocalFolder
from fogline.output.views import near_at, next_at
from fogline.pipeline import explain as explaining
from fogline.pipeline.names import CHANGES, NEAR, NEXT
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import make_plans
from fogline.pipeline.report import BatchResult
from fogline.runs import spill
from fogline.runs.start import as_begun
from tests import oracle
from tests.contracts import CLOSE, members
from tests.flow.driving import Engine, ShardEngine, changes_of, plan_of, rows_of
from tests.flow.embedding import CASES, Case, config_of, learnt, reported, run, write_stream
from tests.flow.test_many_queries import how, queries, reports, same, tables
from tests.flow.test_runner import drives
from tests.walks import QUERY, walks

EXPLAINED = {"explain": True, "views": True}


def without_why(journal: BatchResult) -> list[tuple[str, list[dict[str, Any]]]]:
    """What there is to report beside explanations."""
    return [
        (kind, (table.drop_columns(["why"]) if kind == CHANGES and "why" in table.schema.names else table).to_pylist())
        for kind, table in journal
        if kind not in (NEAR, NEXT)
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(drives(groups=1), drives(groups=1, lateness=True)),
    st.sampled_from([Engine, ShardEngine]),
    st.sampled_from(["tick", "batch"]),
)
def test_changes_and_states_are_the_same_and_near_rows_are_the_possible_ones_of_the_oracle(drive, kind, every):
    stream, pieces, hold, slice_rows, chunk_rows = drive
    plans = [plan_of(stream, pieces[0][0].schema, every=every, lateness=hold, **also) for also in ({}, EXPLAINED)]
    plain, engine = (kind(plan, slice_rows, chunk_rows) for plan in plans)
    seen: list[dict[str, Any]] = []
    for partitions in pieces:
        journal = engine.batch(partitions)
        assert without_why(journal) == without_why(plain.batch(partitions))
        assert engine.states == plain.states
        seen += [row for part in partitions for row in part.to_pylist()]
        clocks = [row["time"] for row in rows_of(journal, "health") if row["time"] is not None]
        near = [row for row in rows_of(journal, NEAR) if row["id"] is not None]
        if not clocks:
            assert not near
            continue
        came = [row for row in stream.rows if row["t"] <= clocks[-1] and named(row) in {named(r) for r in seen}]
        came.sort(key=lambda row: row["t"])
        ticks = list(oracle.replay([(clocks[-1], came)], stream.attributes, stream.by, **stream.window))
        agree_with_oracle(near, ticks[-1].probabilities if ticks else {}, stream)
        explained_last(changes_of(journal, plans[1]).to_pylist(), near)


def named(row: Any) -> tuple[Any, Any]:
    return row["id"], row["t"]


def agree_with_oracle(near: list[dict[str, Any]], truth: dict[Any, Any], stream: Any) -> None:
    """The rows that are in under some values, with their probabilities, and what becomes of them under all."""
    inside = members(truth, stream.alpha)
    assert {(row["id"], row["t"]) for row in near} == {name for name, p in truth.items() if p > 0}
    for row in near:
        p = truth[row["id"], row["t"]]
        assert abs(row["probability"] - float(p)) <= CLOSE
        assert row["inside"] == ((row["id"], row["t"]) in inside)
        assert row["certainty"] == ("certain" if p == 1 else "likely" if row["inside"] else "possible")
        why = json.loads(row["why"])
        assert (why["inside"], why["certainty"], why["id"]) == (row["inside"], row["certainty"], row["id"])
        assert abs(why["probability"] - row["probability"]) <= CLOSE
        for name in stream.attributes:
            assert row[f"{name}.low"] <= row[f"{name}.mean"] + CLOSE
            assert row[f"{name}.mean"] <= row[f"{name}.high"] + CLOSE
            if row[name] is not None:
                assert row[f"{name}.low"] == row[name] == row[f"{name}.high"]


def explained_last(changes: list[dict[str, Any]], near: list[dict[str, Any]]) -> None:
    """The last change of each row that is in at the end has the explanation of the end, and no other change has any."""
    inside = {(row["id"], row["t"]): row["why"] for row in near if row["inside"]}
    last = {(row["id"], row["t"]): k for k, row in enumerate(changes)}
    for k, row in enumerate(changes):
        name = row["id"], row["t"]
        expected = inside.get(name) if last[name] == k and row["change"] != "leave" else None
        assert row["why"] == expected


@settings(max_examples=30, deadline=None)
@given(queries(), tables(gaps=False), st.data(), how)
def test_each_of_several_queries_is_explained_as_it_would_be_alone(asked, table, data, how):
    plans = make_plans(asked, table.schema, **how, **EXPLAINED)
    ahead = "off" if plans.ahead == float("inf") else plans.ahead
    together = data.draw(st.sampled_from([Engine, ShardEngine]))(plans)
    alone = {
        name: Engine(replace(make_plan(query, table.schema, **how | {"ahead": ahead}, **EXPLAINED), kind=plans.kind))
        for name, query in asked.items()
    }
    cut = data.draw(st.integers(0, table.num_rows))
    for part in (table.slice(0, cut), table.slice(cut)):
        found = together.batch([part] if part.num_rows else [])
        for name, query in asked.items():
            one = alone[name].batch([part] if part.num_rows else [])
            for kind in (CHANGES, NEAR, NEXT):
                same(reports(found, kind, query.by, name), reports(one, kind, query.by))


CARRIED = fl.Query(
    attributes={"heat": "max", "damp": "min", "light": "max"}, id="sensor", time="t", latest=True, lifetime=30,
    carry=["damp"],
)  # fmt: skip
COUNTED = fl.Query(attributes={"heat": "max", "damp": "min", "light": "max"}, id="sensor", time="t", last=60)
GAPPY = {
    "hindsight": CASES["sensors, with hindsight"],
    "the newest, carried over": Case(CARRIED, lambda: walks(sensors=60, steps=8, gaps=0.6, begin=200), {}, learnt),
    "the last so many": Case(COUNTED, lambda: walks(steps=30, gaps=0.6, begin=200), {}, learnt),
}


@pytest.mark.parametrize("name", GAPPY)
def test_where_gaps_are_imputed_all_is_as_a_monitor_explains_it(name, tmp_path):
    case = GAPPY[name]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, "plain"))
    run(config_of(case, tmp_path, explain=True))
    for kind in ("rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "plain", kind)
    changes = pq.read_table(tmp_path / "out" / "changes")
    assert changes.drop_columns(["why"]).equals(pq.read_table(tmp_path / "plain" / "changes"))
    monitor, table = fl.Monitor(case.query, case.repository()), case.table()
    monitor.advance(max(table[case.query.time].to_pylist()), table)
    place = LocalFolder(tmp_path / "out")
    near, cells = near_at(place).to_pylist(), next_at(place)
    possible = monitor.answer(certainty="possible").select([case.query.id, "t", "certainty"]).to_pylist()
    assert {tuple(row.values()) for row in possible} == {
        (row[case.query.id], row["t"], row["certainty"]) for row in near
    }
    for row in near:
        (explained,) = (each for each in monitor.explain(row[case.query.id]) if each.arrived == row["t"])
        assert close(json.loads(row["why"]), explained.to_dict())
    asked = monitor.ask_next(20)
    assert cells["rank"].to_pylist() == list(range(asked.num_rows))
    assert close(cells.select(asked.schema.names).to_pylist(), asked.to_pylist())
    assert asked.num_rows
    assert any(json.loads(row["why"])["imputed"] for row in near)


def close(a: Any, b: Any) -> bool:
    """The same, but for rounding."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    return a == pytest.approx(b, abs=1e-9) if isinstance(a, float) else a == b


def test_of_very_many_rows_the_first_are_explained_and_no_run_is_stopped(tmp_path, monkeypatch):
    for name, few in {"CHANGED": 3, "SHOWN": 4, "MEMBERS": 6, "OUTSIDE": 2, "CELLS": 1}.items():
        monkeypatch.setattr(explaining, name, few)
    case = GAPPY["hindsight"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, explain=True), files_per_batch=None)
    changes, near = pq.read_table(tmp_path / "out" / "changes"), pq.read_table(tmp_path / "out" / "near")
    assert changes.num_rows - changes["why"].null_count == 3
    assert near["inside"].to_pylist() == [True] * 6 + [False] * 2
    known = set(changes["why"].drop_null().to_pylist())
    texts = near["why"].drop_null().to_pylist()
    assert len(texts) == 4 + sum(why in known for why in texts) < 8
    inside = near["probability"].to_pylist()[:6]
    assert inside == sorted(inside, reverse=True)
    assert all(each is not None for each in near["why"].to_pylist()[6:])
    assert pq.read_table(tmp_path / "out" / "next").num_rows == 1


def test_what_is_too_much_to_be_carried_is_written_by_the_worker_and_shown_all_the_same(tmp_path, monkeypatch):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, "calm", explain=True))
    monkeypatch.setattr("fogline.runs.embedded.COLLECTED", 3_000)
    monkeypatch.setattr(spill, "PIECE", 1_000)
    spilled, spilled_to = set[str](), spill.Carrier._spilled

    def noted(self: Any, where: Any, kind: str, table: pa.Table) -> Any:
        spilled.add(kind)
        return spilled_to(self, where, kind, table)

    monkeypatch.setattr(spill.Carrier, "_spilled", noted)
    run(config_of(case, tmp_path, explain=True))
    assert {"changes", "near", "next"} <= spilled
    for kind in ("changes", "near", "next"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
    shown = [in_order(near_at(LocalFolder(tmp_path / name))) for name in ("out", "calm")]
    assert shown[0] == shown[1] != []


def in_order(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def test_a_run_goes_on_with_explanations_if_it_was_begun_with_them(tmp_path):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, "with", explain=True))
    run(config_of(case, tmp_path, "without"))
    with pytest.raises(FoglineError, match=r"'.*with' was begun with --explain, which adds a column .* add it again"):
        run(config_of(case, tmp_path, "with"))
    with pytest.raises(FoglineError, match=r"without' was begun without --explain, .*: leave it out .*, or choose"):
        run(config_of(case, tmp_path, "without", explain=True))
    about = json.loads((tmp_path / "with" / "about.json").read_text())
    assert about["explain"] is True
    assert run(config_of(case, tmp_path, "with", explain=True)).status.total == 0
    path = tmp_path / "without" / "about.json"
    new = ("explain", "checksum")
    earlier = {name: each for name, each in json.loads(path.read_text()).items() if name not in new}
    path.write_text(json.dumps(earlier))  # as an earlier version has written it
    assert run(config_of(case, tmp_path, "without")).status.total == 0


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.changes: list[pa.RecordBatch] = []
        self.schema: pa.Schema | None = None

    def begin(self, run: Any) -> None:
        self.schema = run.schemas["changes"]

    def put(self, number: int, changes: Any, rejects: Any, health: Any) -> None:
        self.changes += list(changes)


def test_sinks_get_the_column_and_a_checkpoint_alone_holds_nothing_to_show(tmp_path):
    case, sink = CASES["timestamps"], Kept()
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, explain=True, sinks=(sink,), keeps=False))
    whole = pa.Table.from_batches(sink.changes)
    assert sink.schema is not None
    assert whole.schema.equals(sink.schema)
    assert whole["why"].null_count < whole.num_rows
    assert not (tmp_path / "out" / "near").exists()


def test_a_run_that_moves_to_another_repository_explains_what_it_can(tmp_path):
    case = CASES["sensors, with hindsight"]
    old, new = (fl.Repository.fit(walks(steps=steps), QUERY) for steps in (200, 150))
    for name, each in (("old", old), ("new", new)):
        each.save(tmp_path / name)
    write_stream(case, tmp_path / "in")
    later = tmp_path / "in" / "004.parquet"
    later.rename(tmp_path / "later.parquet")
    first = config_of(case, tmp_path, explain=True)
    where = first.stream, first.output, case.query
    run(type(first)(*where, fl.Repository.load(tmp_path / "old"), engine="embedded", explain=True))
    (tmp_path / "later.parquet").rename(later)
    config = type(first)(*where, fl.Repository.load(tmp_path / "new"), engine="embedded", explain=True, accepts=True)
    assert as_begun(config, LocalFolder(first.output)).successor is not None
    run(config)
    near = near_at(LocalFolder(first.output)).to_pylist()
    assert len(near) > 5
    assert all(row["why"] is not None for row in near)


def test_names_that_mean_something_elsewhere_stay_texts(tmp_path):
    query = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=9, by=["g"])
    ids = ["<img src=x onerror=alert(1)>", "[/x]", "two\nlines", '"quoted" \'']
    rows = pa.table({"id": ids, "g": ids, "t": [1] * 4, "a": [1.0, 2.0, 3.0, 4.0], "b": [1.0] * 4})
    case = Case(query, lambda: rows, files=1)
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, explain=True))
    near = near_at(LocalFolder(tmp_path / "out")).to_pylist()
    assert sorted(row["id"] for row in near) == sorted(ids)
    for row in near:
        assert json.loads(row["why"])["id"] == row["id"] == row["g"]
        assert json.loads(row["why"])["by"] == [row["g"]]


def test_a_group_with_very_many_open_rows_shows_its_members_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(explaining, "OPEN", 2)
    case = GAPPY["hindsight"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, explain=True))
    near = near_at(LocalFolder(tmp_path / "out"))
    assert set(near["inside"].to_pylist()) == {True}
    assert next_at(LocalFolder(tmp_path / "out")).num_rows == 0
