"""Does `fogline check` state the plan as it is, and count each row once?"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.cli.learn import unexplained
from tests.walks import walks

QUERY = "attributes: {heat: max, damp: min, light: max}\nid: sensor\ntime: t\nlifetime: 40\nlimits: {damp: [-50, 50]}\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["check", *words], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def rows(*lines: str) -> str:
    return "\n".join(["sensor,t,heat,damp,light", *lines]) + "\n"


def test_each_row_is_counted_once_and_gaps_only_of_rows_that_are_taken(place):
    fl.Repository.fit(walks(sensors=4, steps=40), fl.Query.load("q.yaml"), retention=0).save("repo")
    lines = [f"s{k % 4},{k},1.0,2.0,3.0" for k in range(6)]
    lines += ["s1,7,,2.0,3.0", "s2,8,,99.0,3.0", "s3,9,,2.0,broken", "s1,10,1.0,2.0", ",11,1.0,2.0,3.0"]
    (place / "in.csv").write_text(rows(*lines))
    printed = run("in.csv", "-q", "q.yaml", "-r", "repo")
    counts = {name: int(n) for name, n in re.findall(r"^  (complete|with gaps|rejected) +(\d+)", printed, re.MULTILINE)}
    assert sum(counts.values()) == 11
    assert "11 rows\n" in printed
    assert re.search(r"heat: 2 missing", printed)
    assert "damp: 1 outside its limits" in printed
    assert "'light' is …, which is not a number" in printed
    assert "add --null TEXT, or `nulls` in the query's `source`" in printed
    assert "the id 'sensor' is missing" in printed


def test_the_plan_names_imputers_in_their_order_with_the_sensors_past(place):
    repository = fl.Repository.fit(walks(), fl.Query.load("q.yaml"))
    assert repository.sensors is not None
    assert "heat" in repository.sensors.transitions
    repository.save("repo")
    (place / "in.csv").write_text(rows("s1,300,,2.0,3.0", "s2,301,1.0,2.0,3.0"))
    printed = run("in.csv", "-q", "q.yaml", "-r", "repo")
    plan = next(line for line in printed.splitlines() if line.strip().startswith("filled by"))
    assert plan.strip().startswith("filled by the sensor's own past, revised by its next reading, else by ")
    assert plan.endswith("else by the whole history's distribution")
    (place / "now.yaml").write_text(QUERY + "latest: true\n")
    now = run("in.csv", "-q", "now.yaml", "-r", "repo")
    assert "filled by the sensor's own past, else by" in now  # the next reading replaces the row


def test_what_rejects_most_rows_comes_first_and_is_a_failure(place):
    bad = [f"s{k},{k},warm,2.0,3.0" for k in range(8)]
    (place / "in.csv").write_text(rows(*bad, "s9,9,1.0,2.0,3.0"))
    first = next(line for line in run("in.csv", "-q", "q.yaml", code=3).splitlines() if "would" in line)
    assert first == "8 of 9 rows would be rejected, 8 of them because: 'heat' is …, which is not a number."
    (place / "in.csv").write_text(rows(*bad))
    assert "all 8 rows would be rejected, 8 of them because: 'heat' is" in run("in.csv", "-q", "q.yaml", code=3)


def test_a_stream_without_gaps_has_none(place):
    (place / "in.csv").write_text(rows(*(f"s{k},{k},{k},2.0,3.0" for k in np.arange(3))))
    printed = run("in.csv", "-q", "q.yaml")
    assert "complete            3  100.0%" in printed
    assert "Runs in this process (1 KB of files)." in printed


def test_what_is_learnt_of_sensors_or_other_attributes_does_not_count_as_unexplained(place):
    repository = fl.Repository.fit(walks(), fl.Query.load("q.yaml"))
    assert repository.sensors is not None
    explained = {*repository.sensors.transitions, *repository.others}
    assert explained
    bare = {name: replace(lattice, rules=()) for name, lattice in repository.lattices.items()}
    assert unexplained(replace(repository, lattices=bare)) == [name for name in bare if name not in explained]


def test_imputed_rows_are_not_written_into_what_is_read(place):
    fl.Repository.fit(walks(sensors=4, steps=40), fl.Query.load("q.yaml"), retention=0).save("repo")
    (place / "in").mkdir()
    (place / "in" / "a.csv").write_text(rows("s1,1,1.0,2.0,"))
    for output in ("in/b.csv", "in/a.csv"):
        words = ["impute", "in", "-q", "q.yaml", "-r", "repo", "-o", output, "--overwrite", "--fill"]
        result = CliRunner().invoke(app, words, env={"COLUMNS": "160"})
        assert (result.exit_code, f"the output '{output}' lies in 'in', which is read" in result.output) == (2, True)
    assert [each.name for each in (place / "in").iterdir()] == ["a.csv"]
