"""Is everything measured once, kept, and found again?"""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fogline.cli import app as fogline_app
from lab import bench, experiments
from lab.__main__ import app
from lab.case import LabError
from lab.experiment import Knobs, Scope
from lab.results import Results, flat, key, origin
from tests.lab.fakes import Fake

QUIET = Console(file=io.StringIO())


def run(fake, folder, *, quick=False):
    """What the command does, without the command."""
    scope, results = Scope(quick=quick), Results(folder, quick=quick)
    todo = [each for each in bench.trials([fake.experiment()], scope) if not results.done(fake.name, each.knobs)]
    return results, bench.run(todo, scope, results, QUIET)


def test_rows_come_back_with_their_knobs(tmp_path):
    results, failures = run(Fake(), tmp_path)
    rows = results.rows("sizes")
    assert not failures
    assert list(rows.columns) == ["size", "protocol", "seed", "system", "seconds"]
    assert list(rows["size"]) == [10] * 4 + [20] * 4 + [40] * 4
    assert rows.iloc[-1].to_dict() == {
        "size": 40, "protocol": "paper", "seed": 7, "system": "DD+skyline", "seconds": 0.4,
    }  # fmt: skip


def test_every_file_states_where_it_comes_from(tmp_path):
    results, _ = run(Fake(), tmp_path)
    origins = results.origins("sizes")
    assert len(origins) == 6
    for each in origins:
        assert each.machine.cores >= 1
        assert each.machine.memory > 0
        assert {"python", "fogline", "numpy", "numba", "pyarrow"} <= set(each.versions)
        assert each.source
        assert each.date.startswith("20")
        assert (each.quick, each.seed) == (False, 7)
        assert each.seconds >= 0


def test_trials_can_be_restricted_by_any_of_their_knobs():
    fake = Fake().experiment()
    asked = bench.trials([fake], Scope(), {"size": ["10", "40"], "protocol": ["paper"], "set": ["intel"]})
    assert [trial.knobs for trial in asked] == [{"size": size, "protocol": "paper", "seed": 7} for size in (10, 40)]
    bench.check_knobs([fake], Scope(), ["size"])
    with pytest.raises(LabError, match="no trial has a knob 'sise'; there are size, protocol, seed"):
        bench.check_knobs([fake], Scope(), ["sise"])


def test_what_is_done_is_not_measured_again(tmp_path):
    run(first := Fake(), tmp_path)
    run(second := Fake(), tmp_path)
    assert (len(first.measured), len(second.measured)) == (6, 0)


def test_an_interrupted_run_keeps_what_was_finished_and_goes_on_from_there(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(Fake(trouble=KeyboardInterrupt()), tmp_path)
    assert set(Results(tmp_path).rows("sizes")["size"]) == {10}
    results, _ = run(again := Fake(), tmp_path)
    assert {each["size"] for each in again.measured} == {20, 40}
    assert len(results.rows("sizes")) == 12


def test_a_trial_that_fails_writes_nothing_and_the_others_go_on(tmp_path):
    results, failures = run(Fake(trouble=ZeroDivisionError("by nought")), tmp_path)
    assert set(results.rows("sizes")["size"]) == {10, 40}
    assert [each.trial.knobs["size"] for each in failures] == [20, 20]
    assert "size=20" in str(failures[0])
    assert "ZeroDivisionError: by nought" in str(failures[0])
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".parquet"]


def test_quick_and_full_are_never_mixed(tmp_path):
    quick, _ = run(Fake(), tmp_path, quick=True)
    full, _ = run(fake := Fake(), tmp_path)
    assert len(fake.measured) == 6  # the quick ones do not count as done
    assert (len(quick.rows("sizes")), len(full.rows("sizes"))) == (8, 12)
    strayed = next((tmp_path / "quick" / "sizes").iterdir())
    strayed.rename(tmp_path / "full" / "sizes" / strayed.name)
    with pytest.raises(LabError, match="holds a quick trial"):
        full.rows("sizes")


def test_a_file_that_was_half_written_is_no_result(tmp_path, monkeypatch):
    def torn(table, path):
        Path(path).write_bytes(b"PAR1")
        raise OSError("disk full")

    monkeypatch.setattr("lab.results.pq.write_table", torn)
    results, failures = run(Fake(), tmp_path)
    assert len(failures) == 6
    assert results.rows("sizes").empty
    assert not list((tmp_path / "full" / "sizes").iterdir())


def test_trials_have_files_of_their_own():
    knobs: list[Knobs] = [{"a": 1, "b": "x/y"}, {"a": 1, "b": "x_y"}, {"a": 1}, {"a": "1"}, {"a": None}, {"a": True}]
    assert len({key(each) for each in knobs}) == len(knobs)
    assert key({"a": 1, "b": 2}).split("-")[1] == key({"b": 2, "a": 1}).split("-")[1]


def test_a_row_may_lack_what_another_has_but_not_repeat_a_knob():
    assert flat({"k": 1}, [{"x": 1}, {"y": 0.5}]).to_pylist() == [
        {"k": 1, "x": 1, "y": None},
        {"k": 1, "x": None, "y": 0.5},
    ]
    with pytest.raises(LabError, match="k: measured, and also a knob"):
        flat({"k": 1}, [{"k": 2}])


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """The command with two fake experiments."""
    fakes = {"sizes": Fake(), "sorts": Fake("sorts", trouble=ValueError("no sort"))}
    made = {name: fake.experiment() for name, fake in fakes.items()}
    monkeypatch.setattr(experiments, "EXPERIMENTS", made, raising=False)

    def call(*words):
        out = () if words[0] == "--help" else ("--out", str(tmp_path))
        return CliRunner().invoke(app, [*words, *out], env={"COLUMNS": "160"})

    call.fakes = fakes  # type: ignore[attr-defined]
    return call


def test_list_shows_what_is_there_and_what_is_done(lab):
    lab("run", "sizes", "--protocol", "paper")
    shown = lab("list")
    assert shown.exit_code == 0
    lines = {line.split()[0]: line.split() for line in shown.stdout.splitlines() if line}
    assert lines["sizes"][-2:] == ["6", "3"]
    assert lines["sorts"][-2:] == ["6", "0"]
    assert "How long?" in shown.stdout
    assert shown.stderr.count("real sets are left out") == 1


def test_run_without_names_runs_everything_and_fails_if_one_did(lab):
    done = lab("run", "--quick")
    assert done.exit_code == 1
    assert "6 trials measured, 2 failed" in done.stdout
    assert "ValueError: no sort" in done.stderr
    assert len(lab.fakes["sizes"].measured) == 4


def test_run_again_measures_again(lab):
    for words in (["sizes"], ["sizes"], ["sizes", "--again"]):
        assert lab("run", *words).exit_code == 0
    assert len(lab.fakes["sizes"].measured) == 12


def test_only_one_protocol_if_asked(lab):
    assert lab("run", "sizes", "--protocol", "honest").exit_code == 0
    assert {each["protocol"] for each in lab.fakes["sizes"].measured} == {"honest"}
    wrong = lab("run", "sizes", "--protocol", "honset")
    assert wrong.exit_code == 2
    assert "honest or paper" in wrong.stderr


def test_ctrl_c_shows_how_to_go_on(lab):
    lab.fakes["sizes"].trouble = KeyboardInterrupt()
    stopped = lab("run", "sizes")
    assert stopped.exit_code == 130
    assert "The same command goes on from there" in stopped.stderr


def test_an_unknown_name_is_refused_with_a_guess(lab):
    wrong = lab("run", "size")
    assert wrong.exit_code == 2
    assert "there is no experiment 'size'" in wrong.stderr
    assert "Did you mean 'sizes'?" in wrong.stderr


def test_a_folder_of_real_sets_that_is_not_there_is_refused(lab, tmp_path):
    wrong = lab("run", "--data", str(tmp_path / "nowhere"))
    assert wrong.exit_code == 2
    assert "there is no folder" in wrong.stderr


def test_a_file_where_a_folder_should_be_is_refused_before_anything_is_measured(lab, tmp_path):
    (tmp_path / "taken").write_text("")
    refused = CliRunner().invoke(app, ["run", "--out", str(tmp_path / "taken")])
    assert refused.exit_code == 2
    assert "is a file; name a folder" in refused.stderr
    assert not lab.fakes["sizes"].measured


def test_no_experiment_is_imported_before_it_is_asked_for():
    heavy = "{'lab.experiments', 'matplotlib', 'pandas', 'sklearn'}"
    code = f"import sys, fogline.cli, lab.__main__; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("words", [[], ["run", "--quick"], ["report", "--help"]])
def test_the_package_states_where_its_lab_went(words):
    asked = CliRunner().invoke(fogline_app, ["lab", *words])
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.splitlines() == [
        "the lab is no part of the package any more: run `python -m lab` from the root of a checkout."
    ]
    assert " lab " not in CliRunner().invoke(fogline_app, ["--help"]).stdout


def test_without_its_packages_the_lab_shows_how_to_get_them(lab, monkeypatch):
    def missing(*_):
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")

    monkeypatch.setattr("lab.__main__.known", missing)
    wrong = lab("list")
    assert wrong.exit_code == 2
    assert "the lab needs sklearn" in wrong.stderr
    assert "pip install -e '.[lab]'" in wrong.stderr


# --- Several processes, and how long it takes -------------------------------------------------------------------------


def test_what_is_not_timed_is_spread_over_processes_and_the_rest_runs_after_it_here(tmp_path):
    fake = Fake()
    untimed = experiments.EXPERIMENTS["nan"]
    assert not untimed.timed
    scope, results = Scope(), Results(tmp_path)
    todo = bench.trials([fake.experiment(), untimed], scope)
    assert bench.run(todo, scope, results, QUIET, jobs=2) == []
    assert len(fake.measured) == 6, "in this process"
    assert all(results.done(each.experiment.name, each.knobs) for each in todo)


def test_how_long_it_takes_is_estimated_by_trials_that_are_done_or_else_by_quick_ones(tmp_path):
    scope, results, quick = Scope(), Results(tmp_path), Results(tmp_path, quick=True)
    todo = bench.trials([Fake().experiment(), experiments.EXPERIMENTS["nan"]], scope)
    assert [each.by for each in bench.expected(todo, results, quick)] == ["nothing", "nothing"]
    measured = origin({"seed": 1}, scope, 10.0)
    quick.keep("sizes", {"size": 1}, [{"seconds": 1.0}], replace(measured, quick=True))
    one = bench.expected(todo, results, quick)[0]
    assert (one.trials, one.seconds, one.by) == (6, 6 * 10.0 * bench.FACTOR, "quick trials")
    results.keep("sizes", {"size": 1}, [{"seconds": 1.0}], measured)
    results.keep("nan", {"library": "x"}, [{"seconds": 1.0}], origin({}, scope, 30.0))
    found = bench.expected(todo, results, quick)
    assert [each.seconds for each in found] == [60.0, 30.0 * found[1].trials]
    first, *rest = bench.forecast(found, 2)
    assert first.startswith(f"about {bench.length(60 + 15.0 * found[1].trials)} on a quiet machine with 2 cores")
    assert len(rest) == 2
