"""Does a run that moves to another repository keep what was imputed, and impute what comes by the new one?"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.engine import live
from fogline.engine import revise as revision
from fogline.errors import FoglineError
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.pipeline import changelog as log
from fogline.pipeline import loaded
from fogline.pipeline import loaded as waiting
from fogline.pipeline import sensor_state as readings
from fogline.pipeline.names import HEALTH
from fogline.pipeline.plan import Plan, make_plan
from fogline.repository import cache
from fogline.runs.embedded import Embedded
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.start import ready
from tests.flow.driving import Engine, rows_of
from tests.flow.embedding import reported, run
from tests.flow.moving import (
    BORDER,
    FILES,
    GROUPED,
    MOVES,
    Move,
    as_expected,
    by_rules,
    config_of,
    rows_with_gaps,
    write_part,
)
from tests.walks import QUERY, walks


class Plug(BaseException):
    """Pulled."""


class Steps:
    """Each write to disk, rename and removal is a step; the process ends before one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last = 0, -1
        monkeypatch.setattr(os, "fsync", lambda opened: None)  # disks are slow; that they are waited for is a step
        for name in ("fsync", "replace", "unlink", "mkdir", "rmdir"):
            monkeypatch.setattr(os, name, self.step(getattr(os, name)))

    def step(self, do):
        def done(*given, **named):
            if self.count == self.last:
                raise Plug
            self.count += 1
            return do(*given, **named)

        return done

    def plugged(self, n: int) -> None:
        self.count, self.last = 0, n


def moved(move: Move, root, output: str = "out", files_per_batch: int | None = 1) -> pa.Table:
    """A run that moves after some of the files, without a kill: its changes."""
    write_part(move, root / "in", range(BORDER))
    run(config_of(move, root, "before", output), files_per_batch)
    write_part(move, root / "in", range(BORDER, FILES))
    run(config_of(move, root, "after", output, accepts=True), files_per_batch)
    return pq.read_table(root / output / "changes")


@pytest.fixture
def small(monkeypatch):
    """All that lies apart where there is much of it does so here; groups come and go."""
    monkeypatch.setattr(waiting, "FEW", 5)
    monkeypatch.setattr(log, "FEW", 20)
    monkeypatch.setattr(readings, "SMALL", 2)
    monkeypatch.setattr(readings, "PART", 1)
    monkeypatch.setattr(loaded, "MOST", 0)


EXACT = [name for name in MOVES if "hindsight" not in name]


@pytest.mark.parametrize("name", EXACT)
def test_what_was_imputed_stays_and_what_comes_is_imputed_by_the_new_one(name, tmp_path):
    move = MOVES[name]
    assert as_expected(moved(move, tmp_path), move) > 30


@pytest.mark.parametrize("name", EXACT)
def test_so_it_is_where_rows_readings_and_groups_lie_in_cells(name, tmp_path, small):
    move = MOVES[name]
    assert as_expected(moved(move, tmp_path), move) > 30


def test_rows_that_were_imputed_before_are_revised_no_more(tmp_path, monkeypatch):
    move = MOVES["sensors, with hindsight"]
    write_part(move, tmp_path / "in", range(BORDER))
    run(config_of(move, tmp_path, "before", "out"), 1)
    shutil.copytree(tmp_path / "out", tmp_path / "stays")
    write_part(move, tmp_path / "in", range(BORDER, FILES))
    last = pq.read_table(tmp_path / "in" / f"{BORDER - 1:03}.parquet")["t"].to_pylist()[-1]
    targets: list[float] = []
    really = revision.revise

    def revise(slots, now, rows, events, fill, note):
        targets.extend(events.target)
        return really(slots, now, rows, events, fill, note)

    monkeypatch.setattr(live, "revise", revise)
    run(config_of(move, tmp_path, "before", "stays"), 1)
    assert min(targets) <= last  # without a move some are
    targets.clear()
    run(config_of(move, tmp_path, "after", "out", accepts=True), 1)
    assert min(targets) > last
    for kind in ("changes", "health"):
        assert reported(tmp_path / "out", kind) != reported(tmp_path / "stays", kind)


def test_a_copy_of_a_row_that_was_imputed_before_revises_nothing(tmp_path):
    """Its gap is open anew, but the row that is there is settled."""
    move, answers = MOVES["sensors, with hindsight"], []
    for root in (tmp_path / "copies", tmp_path / "none"):
        root.mkdir()
        write_part(move, root / "in", range(BORDER))
        none = pa.nulls(12, pa.float64())  # rows without a reading: that they came is known by their gaps alone
        end = pa.table({"sensor": [f"s{k}" for k in range(12)], "t": [218] * 12, "heat": none, "damp": none,
                        "light": none})  # fmt: skip
        pq.write_table(end, root / "in" / "end.parquet")
        run(config_of(move, root, "before", "out"), 1)
        if root.name == "copies":
            pq.write_table(end, root / "in" / "more.parquet")
        run(config_of(move, root, "after", "out", accepts=True), 1)
        values = [pa.array([float(k + sign) for k in range(12)]) for sign in (-20, 20, -20)]
        last = pa.table([end["sensor"], pa.array([219] * 12), *values], names=end.schema.names)
        pq.write_table(last, root / "in" / "next.parquet")
        run(config_of(move, root, "after", "out"), 1)
        answers.append(read_answer(LocalFolder(root / "out"), "out").drop_columns(["probability_error"]).to_pylist())
    assert answers[0] == answers[1]
    assert len(answers[0]) > 3


@pytest.mark.parametrize("name", ["rules", "sensors, with hindsight"])
def test_a_kill_at_any_step_of_the_move_changes_nothing(name, tmp_path, monkeypatch):
    move = MOVES[name]
    write_part(move, tmp_path / "in", range(BORDER))
    run(config_of(move, tmp_path, "before", "begun"), 1)
    write_part(move, tmp_path / "in", range(BORDER, FILES))
    accepting = config_of(move, tmp_path, "after", "out", accepts=True)
    shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    run(config_of(move, tmp_path, "after", "whole", accepts=True), 1)
    about = json.loads((tmp_path / "whole" / "about.json").read_bytes())
    steps, killed = Steps(monkeypatch), 0
    for step in range(12):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.copytree(tmp_path / "begun", tmp_path / "out")
        steps.plugged(step)
        try:
            Embedded(accepting).start(files_per_batch=1).awaitTermination(0)
        except Plug:
            killed += 1
        steps.plugged(-1)
        run(accepting if step % 2 else config_of(move, tmp_path, "after", "out", accepts=_still(tmp_path)), 1)
        for kind in ("changes", "rejects"):
            assert reported(tmp_path / "out", kind) == reported(tmp_path / "whole", kind), step
        now = json.loads((tmp_path / "out" / "about.json").read_bytes())
        assert now["repositories"] == about["repositories"], step
    assert killed == 12
    assert [each["since"] for each in about["repositories"]] == [0, BORDER]


def _still(root) -> bool:
    """Whether the run has yet to move: afterwards it goes on without being asked to."""
    return len(json.loads((root / "out" / "about.json").read_bytes())["repositories"]) == 1


def test_a_batch_that_was_begun_is_finished_as_it_was_begun(tmp_path, monkeypatch):
    move = MOVES["rules"]
    write_part(move, tmp_path / "in", range(FILES))
    began = Embedded(config_of(move, tmp_path, "before", "out")).start(files_per_batch=1)
    for _ in range(BORDER - 1):
        began.awaitTermination(0)
    monkeypatch.setattr(EmbeddedState, "commit", _pulled)
    with pytest.raises(Plug):
        began.awaitTermination(0)  # its files are there, and it does not count
    monkeypatch.undo()
    assert len(list((tmp_path / "out" / "health").glob("*.parquet"))) == BORDER
    run(config_of(move, tmp_path, "after", "out", accepts=True), 1)
    assert as_expected(pq.read_table(tmp_path / "out" / "changes"), move) > 30
    about = json.loads((tmp_path / "out" / "about.json").read_bytes())
    assert [each["since"] for each in about["repositories"]] == [0, BORDER]


def _pulled(state, **_) -> None:
    raise Plug


def test_groups_that_were_silent_during_moves_go_on_by_what_imputed_them(tmp_path):
    """There and back: two moves, and a group that hears of none of them."""
    move = MOVES["rules"]
    table = rows_with_gaps(720)
    quiet = table.filter(pc.equal(table["site"], "n"))
    third = quiet.num_rows // 2
    loud = pa.table({"id": [f"x{k}" for k in range(6)], "site": ["s"] * 6, "t": range(6), "a": [1.0] * 6,
                     "b": [1.0] * 6, "hall": ["x"] * 6})  # fmt: skip
    parts = [quiet.slice(0, third), loud.slice(0, 2), loud.slice(2, 2), quiet.slice(third)]
    stayed = Move(move.query, move.table, move.before, move.before)
    for k, (part, repository) in enumerate(zip(parts, ("before", "after", "before", "before"), strict=True)):
        for output, name in (("out", repository), ("stayed", "before")):
            (tmp_path / output).mkdir(exist_ok=True)
            (tmp_path / output / "in").mkdir(exist_ok=True)
            pq.write_table(part, tmp_path / output / "in" / f"{k}.parquet")
            run(config_of(stayed if output == "stayed" else move, tmp_path / output, name, "run", accepts=True), 1)
    found = [[row for row in reported(tmp_path / each / "run") if "n" in row] for each in ("out", "stayed")]
    assert found[0] == found[1]
    about = json.loads((tmp_path / "out" / "run" / "about.json").read_bytes())
    marks = [each["fingerprint"] for each in about["repositories"]]
    assert marks[0] == marks[2] != marks[1]


def test_a_run_that_was_begun_without_a_repository_gets_one(tmp_path):
    move = MOVES["rules"]
    write_part(move, tmp_path / "in", range(BORDER))
    none = replace(config_of(move, tmp_path, "before", "out"), repository=None)
    run(none, 1)
    gaps = len(reported(tmp_path / "out", "rejects"))
    assert gaps > 50
    write_part(move, tmp_path / "in", range(BORDER, FILES))
    run(config_of(move, tmp_path, "after", "out", accepts=True), 1)
    assert len(reported(tmp_path / "out", "rejects")) == gaps


def test_what_does_not_fit_is_refused_before_anything_changes(tmp_path):
    move = MOVES["rules"]
    write_part(move, tmp_path / "in", range(BORDER))
    run(config_of(move, tmp_path, "before", "out"), 1)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with pytest.raises(FoglineError, match=r"begun with another repository(?s:.*)--accept-repository"):
        ready(config_of(move, tmp_path, "after", "out"))
    other = fl.Repository.fit([{"b": 1.0, "c": 2.0}, {"b": 2.0, "c": 3.0}], ATTRIBUTES_OF_ANOTHER)
    other.save(tmp_path / "other.repo")
    accepting = config_of(move, tmp_path, "after", "out", accepts=True)
    wrong = replace(accepting, repository=fl.Repository.load(tmp_path / "other.repo"))
    with pytest.raises(FoglineError, match="it imputes b, c, not a"):
        ready(wrong)
    history = rows_with_gaps(600, lacks_b=0, ids=20).filter(pc.is_valid(pc.field("a")))
    fl.Repository.fit(history, GROUPED, method="last").save(tmp_path / "remembers.repo")
    remembers = replace(wrong, repository=fl.Repository.load(tmp_path / "remembers.repo"))
    assert remembers.repository is not None
    assert remembers.repository.sensors is not None
    for start in (ready, lambda config: Embedded(config).start()):
        with pytest.raises(FoglineError, match="does not remember what sensors have read, and the new repository does"):
            start(remembers)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    with pytest.raises(FoglineError, match="name it with --repository"):
        ready(replace(wrong, repository=None))
    with pytest.raises(FoglineError, match="save it first"):
        ready(replace(wrong, repository=by_rules(2, GROUPED)))


ATTRIBUTES_OF_ANOTHER = fl.Query(attributes={"b": "min", "c": "max"}, id="id", time="t", lifetime=25)


def test_a_repository_that_the_run_had_must_stay(tmp_path):
    move = MOVES["rules"]
    moved(move, tmp_path)
    shutil.rmtree(tmp_path / "before.repo")
    config = config_of(move, tmp_path, "after", "out")
    with pytest.raises(FoglineError, match=r"has imputed values by the repository \w{12}…, and needs it (?s:.*)Put it"):
        ready(config)
    by_rules(1, GROUPED).save(tmp_path / "after.repo")  # an older version may lie beside the newer one
    assert config.repository is not None
    ready(replace(config, repository=fl.Repository.load(tmp_path / "after.repo", config.repository.fingerprint)))


def test_a_run_goes_on_with_its_version_also_where_a_machine_can_keep_no_repository(tmp_path, monkeypatch):
    move = MOVES["rules"]
    write_part(move, tmp_path / "in", range(1))
    config = config_of(move, tmp_path, "before", "out")
    assert Embedded(config).start().awaitTermination()
    move.after().save(tmp_path / "before.repo")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.PLACE, str(tmp_path / "file" / "cache"))
    newer = config_of(move, tmp_path, "before", "out")
    marks = [each.about()["repository"] for each in (config, newer, Embedded(newer).config)]
    assert marks[0] == marks[2] != marks[1]


@pytest.mark.parametrize("buckets", [1, 64])
def test_a_run_that_comes_back_revises_nothing_of_the_time_before_it_left(buckets):
    query = fl.Query(**QUERY.to_dict() | {"by": ["site"], "lifetime": 50, "alpha": 0.01})

    def placed(table: pa.Table) -> pa.Table:
        return table.append_column("site", pa.array([f"g{int(name[1:]) % 3}" for name in table["sensor"].to_pylist()]))

    schema = placed(walks(steps=1)).schema

    def plan(repository: fl.Repository, *formers: fl.Repository) -> Plan:
        before = [lambda each=each: each for each in formers]
        return make_plan(query, schema, opened=lambda: repository, formers=before, buckets=buckets)

    def rows(t: int, *sensors: int, heat: float | None = None) -> pa.Table:
        found = [
            {"sensor": f"s{k}", "site": f"g{k % 3}", "t": t, "heat": heat, "damp": 1.0, "light": 2.0} for k in sensors
        ]
        return pa.Table.from_pylist(found, schema)

    one, other = (fl.Repository.fit(placed(walks(seed=seed)), query, hindsight=True) for seed in (1, 2))
    engine, revised = Engine(plan(one), at_hand=False), []
    for use, table in [
        (plan(one), rows(300, *range(6), heat=1.0)),
        (plan(one), rows(301, *range(6))),
        (plan(other, one), rows(302, 0, heat=1.0)),  # only the first sensor speaks meanwhile
        (plan(one, one, other), rows(303, *range(6), heat=3.0)),
        (plan(one, one, other), rows(304, *range(6))),
        (plan(one, one, other), rows(305, *range(6), heat=3.0)),
    ]:
        engine.plan = use
        revised.append(sum(row["revised"] for row in rows_of(engine.batch([table]), HEALTH)))
    assert revised[3] == 0
    assert revised[5] == 6
