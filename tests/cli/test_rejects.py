"""Does `fogline rejects` show what was not taken, and why?"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogline.cli import app

QUERY = "attributes: {gas: max}\nid: sensor\ntime: t\nlifetime: 100\n"
HEAD = "sensor,t,heat,gas\n"
SHOWN = ["batch", "reason", "row", "where"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY)
    Path("in").mkdir()
    Path("in", "1.csv").write_text(HEAD + "a,1,1,5\nb,1,1,\nc,2,1,nix\nd,3,1,7\n")
    Path("in", "2.csv").write_text(HEAD + "e,4,1,5\nf,4,1,oops\ng,4,1,\n[bold]h,5,1,\x1b[2J\n")
    return tmp_path


def run(*words: str, code: int = 0):
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return done


def watched(*more: str) -> None:
    run("run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded", "--files-per-batch", "1", *more, code=3)


def test_counts_come_first_then_the_newest_rows_as_they_came(place):
    watched()
    lines = run("rejects", "out", "-n", "4").stdout.splitlines()
    assert lines[0] == "5 rows rejected:"
    counts = dict(reversed(line.strip().split("  ", 1)) for line in lines[1:3])
    assert counts == {
        "'gas' is …, which is not a number": "3",
        "'gas' is missing, and there is no repository to impute it from": "2",
    }
    assert lines[4].split() == SHOWN
    rows = lines[5:9]
    assert [line.split()[0] for line in rows] == ["1", "1", "1", "0"]
    assert '"sensor": "[bold]h"' in rows[0]
    assert "\x1b" not in run("rejects", "out").stdout
    assert '"gas": "nix"' in rows[3]
    assert "1.csv" in rows[3]
    assert lines[9] == "1 older row not shown (-n 0 shows all)."
    assert "not shown" not in run("rejects", "out", "-n", "0").stdout


def test_a_reason_chooses_and_programs_read_json_and_csv(place):
    watched()
    done = run("rejects", "out", "--reason", "NOT A number", "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["row"]["sensor"] for row in rows] == ["[bold]h", "f", "c"]
    assert rows[2]["batch"] == 0
    assert rows[2]["reason"] == "'gas' is 'nix', which is not a number"
    assert done.stderr.startswith("3 rows rejected:")
    found = list(csv.DictReader(io.StringIO(run("rejects", "out", "--format", "csv", "-n", "2").stdout)))
    assert [json.loads(row["row"])["sensor"] for row in found] == ["[bold]h", "g"]
    none = run("rejects", "out", "--reason", "nothing like it")
    assert none.stdout == "no row was rejected for a reason with 'nothing like it'.\n"


def test_of_several_queries_one_may_be_asked_for(place):
    Path("other.yaml").write_text(QUERY.replace("gas", "heat"))
    watched("-q", "other.yaml")
    assert '"query": "q"' in run("rejects", "out", "--format", "json").stdout
    assert run("rejects", "out", "-q", "other").stdout == "no row was rejected.\n"
    assert "it has q, other" in run("rejects", "out", "-q", "x", code=2).stderr


def test_a_run_without_rejects_and_a_folder_without_a_run_are_named_so(place):
    for each in Path("in").iterdir():
        each.write_text(HEAD + f"a{each.stem},1,1,5\n")
    run("run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded")
    assert run("rejects", "out").stdout == "no row was rejected.\n"
    assert run("rejects", "out", "--format", "csv").stdout == ""
    assert "is not an output folder of `fogline run`" in run("rejects", "in", code=2).stderr
    assert "it may be table, json, csv" in run("rejects", "out", "--format", "jason", code=2).stderr


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_may_leave_early(place, form):
    Path("in", "3.csv").write_text(HEAD + "".join(f"row{k},9,1,no\n" for k in range(20_000)))
    watched()
    fogline = [sys.executable, "-c", "from fogline.cli import app; app()"]
    words = [*fogline, "rejects", "out", "-n", "0", "--format", form]
    script = "import sys; sys.stdin.readline()"
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        subprocess.run([sys.executable, "-c", script], stdin=first.stdout, check=True)
        assert first.stdout is not None
        assert first.stderr is not None
        first.stdout.close()
        stated = first.stderr.read().decode()
        assert "reports" not in stated, stated
        assert first.wait() == 0
