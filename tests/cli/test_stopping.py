"""What does a run do that is asked to stop: at the terminal by Ctrl-C, by a service with SIGTERM?"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fogline.cli import app
from fogline.runs import start
from fogline.runs.embedded import EmbeddedBatches
from fogline.runs.start import StreamRun

QUERY = "attributes: {heat: max, gas: max}\nid: sensor\ntime: t\nlifetime: 50\n"
RUN = ("run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded", "--files-per-batch", "1")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A query, and a stream of three files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    (tmp_path / "in").mkdir()
    for part in range(3):
        lines = [f"s{k % 7},{k},{k * 7 % 11},{k * 5 % 13}\n" for k in range(part * 20, part * 20 + 20)]
        (tmp_path / "in" / f"{part}.csv").write_text("".join(["sensor,t,heat,gas\n", *lines]))
    return tmp_path


def run(*words: str, code: int) -> str:
    result = CliRunner().invoke(app, [*RUN, *words], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def asked(monkeypatch: pytest.MonkeyPatch, which: signal.Signals, times: int) -> None:
    """While the second batch is done, the process is asked to stop."""
    do = EmbeddedBatches._do

    def stopped(self, intent, evaluation):
        if self.state.batch == 0:
            for _ in range(times):
                os.kill(os.getpid(), which)
        do(self, intent, evaluation)

    monkeypatch.setattr(EmbeddedBatches, "_do", stopped)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_the_batch_is_finished_and_the_same_command_goes_on(place, monkeypatch, which, follow):
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        asked(patch, which, 1)
        printed = run(*follow, code=0)
    assert "finishing the batch" in printed
    assert "40 rows" in printed
    assert pq.read_table("out/health")["rows"].to_pylist() == [20, 20]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert "20 rows" in run(code=0)


def test_asked_twice_it_stops_at_once_and_the_batch_is_done_again(place, monkeypatch):
    with monkeypatch.context() as patch:
        asked(patch, signal.SIGINT, 2)
        assert "stopped." in run(code=130)
    assert pq.read_table("out/health")["rows"].to_pylist() == [20]
    assert "40 rows" in run(code=0)
    assert pq.read_table("out/health")["rows"].to_pylist() == [20, 20, 20]


def test_one_process_without_java_imports_no_spark(place):
    code = "import sys; from fogline.cli import app; app(sys.argv[1:], standalone_mode=False)"
    shown = f"{code}; print('spark' in ''.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", shown, *RUN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "60 rows" in done.stdout
    assert done.stdout.endswith("False\n")


def test_late_and_expired_rows_stand_in_the_summary(place):
    (place / "in" / "3.csv").write_text("sensor,t,heat,gas\ns1,55,1,1\ns2,57,1,1\ns3,5,1,1\n")
    printed = run(code=0)
    assert "Late: 3 rows; they count from when they came. --lateness waits for such rows." in printed
    assert "Expired before they came: 1 row." in printed
    assert re.search(r"batch 3: .* 3 late, 1 expired", printed)


def meanwhile(monkeypatch, *steps):
    """While a run waits for a first file, one step at each look."""
    left = iter(steps)
    monkeypatch.setattr(start, "sleep", lambda seconds: next(left)())


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (False, "there is no file 'new'. Waiting for the first file; Ctrl-C ends it."),
        (True, "'new' holds no rows yet. Waiting for the first file; Ctrl-C ends it."),
    ],
)
def test_a_run_that_follows_waits_for_its_folder_and_for_the_first_file(place, monkeypatch, there, words):
    def come(name, text):
        def write():
            (place / "new").mkdir(exist_ok=True)
            (place / "new" / name).write_text(text)

        return write

    if there:
        (place / "new").mkdir()
    rows = "sensor,t,heat,gas\na,1,1,1\n"
    looks = come("a.txt", rows), come("a.csv", ""), lambda: None, come("a.csv", rows)
    with monkeypatch.context() as patch:
        meanwhile(patch, *looks)
        patch.setattr(StreamRun, "_waited_for", lambda self, started, *how: started.awaitTermination() and False)
        result = CliRunner().invoke(app, ["run", "new", *RUN[2:], "--follow"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert result.output.count(words) == 1
    waiting = result.output.partition("starting\n")[0]
    assert waiting.count("names end in none of csv, tsv, json, jsonl, parquet: a.txt.") == 1
    assert "1 row" in result.output


def test_a_run_that_waits_for_a_first_file_is_ended_by_ctrl_c_and_leaves_nothing(place, monkeypatch):
    meanwhile(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT))
    result = CliRunner().invoke(app, ["run", "new", *RUN[2:], "--follow"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert result.output.endswith("stopped; no file had come, and nothing was written.\n")
    assert not (place / "out").exists()


def test_without_following_a_folder_that_is_not_there_is_an_error(place):
    result = CliRunner().invoke(app, ["run", "new", *RUN[2:]], env={"COLUMNS": "160"})
    assert result.exit_code == 2
    assert "there is no file 'new'." in result.output
