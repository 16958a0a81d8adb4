"""Do Delta tables hold the changes and the answer, exactly once, and can others read them?"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.output.folder_sink import schemas_of
from fogline.output.sink import RunInfo
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.rows.changes import member_key
from fogline.sinks.delta import DeltaSink
from tests.sinks.monitored import Batch, batches, begin, put, rows_of

deltalake = pytest.importorskip("deltalake", reason="pip install 'fogline[delta]'")


def table(root: Path, kind: str) -> pa.Table:
    return pa.table(deltalake.DeltaTable(root / kind).to_pyarrow_table())


def answer_in(root: Path) -> list[tuple[Any, ...]]:
    return rows_of(table(root, "answer"), MEMBER)


MEMBER = ["g", "i", "t", "probability", "x", "y"]
CHANGE = ["time", *MEMBER, "change"]


def test_after_every_batch_the_tables_hold_the_answer_and_the_changes(tmp_path):
    sink, made = DeltaSink(tmp_path), batches()
    begin(sink, made)
    for number, batch in enumerate(made):
        put(sink, number, batch)
        assert answer_in(tmp_path) == rows_of(batch.answer, MEMBER)
    changes = table(tmp_path, "changes").sort_by([("batch", "ascending"), ("position", "ascending")])
    assert changes.select(CHANGE).to_pylist() == [
        row for batch in made for row in batch.changes.select(CHANGE).to_pylist()
    ]
    assert table(tmp_path, "rejects").num_rows == sum(batch.rejects.num_rows for batch in made)


def test_a_batch_that_comes_again_changes_nothing_whichever_tables_have_it(tmp_path, monkeypatch):
    made = batches()
    write = DeltaSink._write
    for left in range(1, 5):  # a crash after so many tables of batch 2
        root = tmp_path / str(left)
        sink = DeltaSink(root)
        begin(sink, made)
        for number in range(2):
            put(sink, number, made[number])
        count = [left]

        def torn(self: DeltaSink, *given: Any, count: list[int] = count) -> None:
            if not count[0]:
                raise KeyboardInterrupt
            count[0] -= 1
            write(self, *given)

        with monkeypatch.context() as patched:
            patched.setattr(DeltaSink, "_write", torn)
            try:
                put(sink, 2, made[2])
            except KeyboardInterrupt:
                assert left < 4
        again = DeltaSink(root)
        begin(again, made, last=1)
        for number in range(1, len(made)):
            put(again, number, made[number])
        assert answer_in(root) == rows_of(made[-1].answer, MEMBER)
        assert table(root, "changes").num_rows == sum(batch.changes.num_rows for batch in made)
        assert table(root, "health").num_rows == sum(batch.health.num_rows for batch in made)


def test_duckdb_and_polars_read_the_tables(tmp_path):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    sink, made = DeltaSink(tmp_path), batches()
    begin(sink, made)
    for number, batch in enumerate(made):
        put(sink, number, batch)
    members = made[-1].answer.num_rows
    assert polars.read_delta(str(tmp_path / "answer")).height == members
    there = deltalake.DeltaTable(tmp_path / "answer").to_pyarrow_dataset()
    found = duckdb.connect().from_arrow(there).aggregate("count(*) as n, count(distinct i) as ids").fetchall()
    assert found == [(members, len(set(made[-1].answer["i"].to_pylist())))]


def test_small_files_are_joined_and_the_answer_stays(tmp_path):
    sink, made = DeltaSink(tmp_path, every=4), batches()
    begin(sink, made)
    for number, batch in enumerate(made):
        put(sink, number, batch)
    assert len(deltalake.DeltaTable(tmp_path / "changes").file_uris()) == 1
    assert answer_in(tmp_path) == rows_of(made[-1].answer, MEMBER)
    assert table(tmp_path, "changes").num_rows == sum(batch.changes.num_rows for batch in made)


def test_tables_of_others_are_refused_in_a_sentence(tmp_path):
    made = batches()
    sink = DeltaSink(tmp_path / "a")
    begin(sink, made)
    begin(DeltaSink(tmp_path / "a"), made, mark="another")  # no batch was written: it is taken over
    put(sink, 0, made[0])
    put(sink, 3, made[3])
    with pytest.raises(FoglineError, match="it holds the tables of another run; choose another folder"):
        begin(DeltaSink(tmp_path / "a"), made, mark="third")
    with pytest.raises(FoglineError, match="it has batch 3, but the checkpoint knows of batches up to 1 only"):
        begin(DeltaSink(tmp_path / "a"), made, last=1)
    with pytest.raises(FoglineError, match="the run has done its batches up to 1 without it"):
        begin(DeltaSink(tmp_path / "b"), made, last=1)
    (tmp_path / "c" / "changes").mkdir(parents=True)
    (tmp_path / "c" / "changes" / "x.txt").touch()
    with pytest.raises(FoglineError, match="holds files that are no Delta table"):
        begin(DeltaSink(tmp_path / "c"), made)
    deltalake.write_deltalake(tmp_path / "d" / "changes", pa.table({"x": [1]}))
    with pytest.raises(FoglineError, match="the table 'changes' in it is not one of Fogline's"):
        begin(DeltaSink(tmp_path / "d"), made)
    shape = made[0].changes.schema
    deltalake.DeltaTable.create(tmp_path / "e" / "changes", shape, description="fogline 9: changes")
    with pytest.raises(FoglineError, match="of the format 'fogline 9', and this version of Fogline writes 'fogline 2'"):
        begin(DeltaSink(tmp_path / "e"), made)
    deltalake.DeltaTable.create(tmp_path / "f" / "answer", shape.remove(0), description="fogline 2: answer")
    with pytest.raises(FoglineError, match=r"the table 'answer' in it has other columns \(time\)"):
        begin(DeltaSink(tmp_path / "f"), made)
    with pytest.raises(FoglineError, match="names no folder; write delta:PATH"):
        DeltaSink.from_url("delta:")


@pytest.mark.parametrize("name", ["p%20q", "a[1]", "a^b", "a|b", "a\\b"])
def test_a_folder_that_the_library_would_not_find_again_is_refused_before_it_is_made(tmp_path, name):
    with pytest.raises(FoglineError, match="Delta tables cannot lie in"):
        begin(DeltaSink(tmp_path / name), batches())
    assert list(tmp_path.iterdir()) == []


def test_other_odd_letters_in_the_folder_of_tables_are_fine(tmp_path):
    root, made = tmp_path / "50% of {Halle} #1?", batches()
    sink = DeltaSink(root)
    begin(sink, made)
    put(sink, 0, made[0])
    assert answer_in(root) == rows_of(made[0].answer, MEMBER)


def test_odd_names_and_types_are_stored_without_loss(tmp_path):
    stamps = pa.timestamp("us", "UTC")
    kinds = {
        "large (n)": (pa.uint64(), 2**64 - 1), "word": (pa.large_string(), "ü"), "missing": (pa.string(), None),
        "day": (pa.date64(), dt.date(2024, 5, 1)), "hour": (pa.time64("us"), dt.time(7, 30)),
    }  # fmt: skip
    query = fl.Query(attributes={"a b": "max", "A_B": "max"}, id="id", time="t", latest=True, by=list(kinds))
    by = [(name, kind) for name, (kind, _) in kinds.items()]
    plan = make_plan(
        query, pa.schema([("id", pa.int64()), ("t", stamps), *((n, pa.float64()) for n in query.names), *by])
    )
    run = RunInfo("m", query, schemas_of(Plans.alone(plan)), tuple(member_key(query)))
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    row = {name: value for name, (_, value) in kinds.items()}
    row |= {"time": noon, "id": 7, "t": noon, "change": "enter", "probability": 1.0, "probability_error": 0.0}
    for _ in range(2):
        sink = DeltaSink(tmp_path)
        sink.begin(run)
        changes = pa.Table.from_pylist([row | {"a b": np.nan, "A_B": 2.0}], schema=run.schemas["changes"])
        sink.put(0, iter(changes.to_batches()), iter(()), iter(()))
    assert table(tmp_path, "changes")["position"].to_pylist() == [0]  # the second time it is known
    (found,) = table(tmp_path, "answer").to_pylist()
    names = ("time", "large__n_", "word", "missing", "day", "hour", "id", "A_B_")
    shown = (noon, 2**64 - 1, "ü", None, dt.date(2024, 5, 1), "07:30:00.000000", 7, 2.0)
    assert tuple(found[name] for name in names) == shown
    assert np.isnan(found["a_b"])


def test_batches_that_can_be_read_only_once_will_do(tmp_path):
    made: list[Batch] = batches()
    sink = DeltaSink(tmp_path)
    begin(sink, made)
    for number, batch in enumerate(made):
        sink.put(number, *(iter(each.to_batches()) for each in (batch.changes, batch.rejects, batch.health)))
    assert answer_in(tmp_path) == rows_of(made[-1].answer, MEMBER)
