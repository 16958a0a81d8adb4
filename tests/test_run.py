"""Does `fogline.run` do in this process what the command does, into folders and into sinks?"""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.output import folder
from fogline.output.answers import OutputReader
from fogline.pipeline.names import KINDS
from fogline.runs import start
from fogline.runs.embedded import Embedded, EmbeddedBatches
from tests.flow.embedding import CASES, config_of, reported, write_stream
from tests.flow.test_sinks import Keeping

NAME = "sensors, with hindsight"
CASE = CASES[NAME]


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch):
    """Disks are slow."""
    monkeypatch.setattr(folder, "to_disk", lambda path: None)


def ran(root: Path, **how: Any) -> fl.types.RunSummary:
    return fl.run(root / "in", CASE.query, CASE.repository(), **{"files_per_batch": 2, **CASE.how, **how})


@pytest.mark.parametrize("name", CASES)
def test_it_writes_what_the_engine_of_the_command_line_writes(tmp_path, name):
    case = CASES[name]
    write_stream(case, tmp_path / "in")
    true = Embedded(config_of(case, tmp_path, "true"))
    assert true.start(files_per_batch=2).awaitTermination()
    seen: list[fl.types.RunSummary] = []
    how = {"output": tmp_path / "out", "files_per_batch": 2, "report": seen.append}
    done = fl.run(tmp_path / "in", case.query, case.repository(), **case.how, **how)
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "true", kind)
    assert (done.batch, done.rows, done.changes) == (true.status.batch, true.status.total, true.status.changes)
    assert done.batches == len(seen) == true.status.batch + 1
    assert seen[-1] == done
    assert sum(done.reasons.values()) == done.rejected == len(reported(tmp_path / "out", "rejects"))
    assert ran_again(tmp_path, case) == fl.types.RunSummary(output=str(tmp_path / "out"))


def ran_again(root: Path, case: Any) -> fl.types.RunSummary:
    return fl.run(root / "in", case.query, case.repository(), **case.how, output=root / "out")


def test_sinks_get_every_batch_once_with_an_output_or_a_checkpoint_alone(tmp_path):
    write_stream(CASE, tmp_path / "in")
    failing, kept = Keeping(fails=1), Keeping()
    with pytest.raises(FoglineError, match="Keeping could not take batch 1"):
        ran(tmp_path, sinks=[kept, failing, str(tmp_path / "other")], checkpoint=tmp_path / "run")
    ran(tmp_path, sinks=[kept, failing, str(tmp_path / "other")], checkpoint=tmp_path / "run")
    assert kept.came == [0, 1, 1, 2]
    assert not (tmp_path / "run" / "changes").exists()
    ran(tmp_path, output=tmp_path / "out")
    assert reported(tmp_path / "other") == reported(tmp_path / "out")


def test_where_the_answer_goes_must_be_stated_and_places_must_be_apart(tmp_path):
    write_stream(CASE, tmp_path / "in")
    with pytest.raises(FoglineError, match="where shall the answer go"):
        ran(tmp_path)
    with pytest.raises(FoglineError, match="leave checkpoint out"):
        ran(tmp_path, output=tmp_path / "out", checkpoint=tmp_path / "run")
    with pytest.raises(FoglineError, match="name an output, or sinks"):
        ran(tmp_path, checkpoint=tmp_path / "run")
    with pytest.raises(FoglineError, match="a sink is an object with put"):
        ran(tmp_path, output=tmp_path / "out", sinks=[3])
    with pytest.raises(FoglineError, match="one lies in the other"):
        ran(tmp_path, output=tmp_path / "out", sinks=[str(tmp_path / "out" / "more")])
    with pytest.raises(FoglineError, match="there is no file"):
        fl.run(tmp_path / "no", CASE.query, output=tmp_path / "out")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("name", ["files_per_batch", "max_rows_per_batch", "keep_batches", "max_live"])
@pytest.mark.parametrize("wrong", [0, -5, 2.5, "3", True])
def test_a_number_that_is_none_is_refused_before_anything_is_written(tmp_path, name, wrong):
    write_stream(CASE, tmp_path / "in")
    with pytest.raises(fl.errors.QueryError, match=rf"^{name} is {wrong!r}; it is a whole number, from 1 on"):
        ran(tmp_path, output=tmp_path / "out", **{name: wrong})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in"]


def test_a_call_that_cannot_go_on_is_answered_with_what_a_caller_of_python_can_do(tmp_path):
    write_stream(CASE, tmp_path / "in")
    (tmp_path / "in").rename(tmp_path / "there")
    fl.run(tmp_path / "there", CASE.query, output=tmp_path / "out")
    with pytest.raises(FoglineError, match=r"add it again|leave it out \(in Python explain=\)"):
        fl.run(tmp_path / "there", CASE.query, output=tmp_path / "out", explain=True)
    history = [{name: float(k) for name in CASE.query.names} for k in range(3)]
    with pytest.raises(FoglineError, match=r"goes on with another one by `fogline run … --accept-repository`"):
        fl.run(tmp_path / "there", CASE.query, fl.Repository.fit(history, CASE.query), output=tmp_path / "out")
    (tmp_path / "there").rename(tmp_path / "in")
    with pytest.raises(FoglineError, match=r"add --moved to `fogline run`"):
        fl.run(tmp_path / "in", CASE.query, output=tmp_path / "out")
    with pytest.raises(FoglineError, match=r"use `fogline run --engine spark`"):
        fl.run("s3://bucket/in", CASE.query, output=tmp_path / "out")


def interrupted(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """In the second batch Ctrl-C is pressed so often."""
    do = EmbeddedBatches._do

    def pressed(self: Any, *how: Any) -> None:
        if self.running.status.batch == 0:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        do(self, *how)

    monkeypatch.setattr(EmbeddedBatches, "_do", pressed)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("follow", [False, True])
def test_an_interrupt_ends_it_cleanly_and_the_same_call_goes_on(tmp_path, monkeypatch, caplog, times, follow):
    write_stream(CASE, tmp_path / "in")
    ran(tmp_path, output=tmp_path / "true")
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "fogline"):
        interrupted(patch, times)
        done = ran(tmp_path, output=tmp_path / "out", follow=follow)
    assert signal.getsignal(signal.SIGINT) is before
    assert done.batches == (2 if times == 1 else 1)
    assert ("stopped at once" in caplog.text) == (times == 2)
    ran(tmp_path, output=tmp_path / "out")
    assert reported(tmp_path / "out") == reported(tmp_path / "true")


def test_one_that_follows_waits_for_files(tmp_path, monkeypatch):
    remarks: list[str] = []
    monkeypatch.setattr(start, "sleep", lambda seconds: write_stream(CASE, tmp_path / "in"))
    interrupted(monkeypatch, 1)
    done = ran(tmp_path, output=tmp_path / "out", follow=True, remark=remarks.append)
    assert done.batches == 2
    assert any("Waiting for the first file" in each for each in remarks)


def test_it_runs_in_any_thread(tmp_path):
    write_stream(CASE, tmp_path / "in")
    found: list[fl.types.RunSummary] = []
    thread = threading.Thread(target=lambda: found.append(ran(tmp_path, output=tmp_path / "out")))
    thread.start()
    thread.join()
    assert found[0].rows > 0


def guessed(rows: Any) -> dict[str, Any]:
    return {name: [3.0] * rows.num_rows for name in CASE.query.names}


def test_an_imputer_of_the_users_own_and_several_queries(tmp_path):
    write_stream(CASE, tmp_path / "in")
    done = fl.run(tmp_path / "in", CASE.query, output=tmp_path / "none")
    assert done.rejected > 0
    done = fl.run(tmp_path / "in", CASE.query, imputer=guessed, output=tmp_path / "own")
    assert done.rejected == 0
    fl.run(tmp_path / "in", {"a": CASE.query, "b": CASE.query}, CASE.repository(), output=tmp_path / "two")
    assert set(pq.read_table(tmp_path / "two" / "changes")["query"].to_pylist()) == {"a", "b"}
    done = fl.run(tmp_path / "in", {"a": CASE.query, "b": CASE.query}, CASE.repository(), output=tmp_path / "two")
    assert set(done.answer()["query"].to_pylist()) == {"a", "b"}
    assert fl.show(done)._repr_html_().count("in the answer") == 2
    assert "a:\n" in repr(OutputReader(tmp_path / "two"))
    with pytest.raises(FoglineError, match="went into sinks alone"):
        fl.types.RunSummary().answer()


def test_a_group_that_is_called_as_a_column_of_rejects_or_health_has_an_underscore_there(tmp_path):
    query = fl.Query(attributes={"gas": "max"}, id="sensor", time="t", lifetime=9, by=["line", "late"])
    (tmp_path / "in.csv").write_text("sensor,t,gas,line,late\na,1,5,upper,x\nb,1,oops,upper,x\n")
    fl.run(tmp_path / "in.csv", query, output=tmp_path / "out")
    changes, rejects, health = (pq.read_table(tmp_path / "out" / kind).to_pylist()[0] for kind in KINDS)
    assert (changes["line"], changes["late"]) == ("upper", "x")
    assert (rejects["line_"], rejects["line"], rejects["late"]) == ("upper", 3, "x")
    assert (health["line"], health["late_"], health["late"]) == ("upper", "x", 0)
