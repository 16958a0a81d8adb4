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
from fogline.flow.embedded import EmbeddedRun

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
    do = EmbeddedRun._do

    def stopped(self, intent, evaluation):
        if self.state.batch == 0:
            for _ in range(times):
                os.kill(os.getpid(), which)
        do(self, intent, evaluation)

    monkeypatch.setattr(EmbeddedRun, "_do", stopped)


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
    assert "3 rows were late: they came behind the clocks of their groups; --lateness waits for such." in printed
    assert "1 rows had expired before they could enter" in printed
    assert re.search(r"batch 3: .* 3 late, 1 expired", printed)
