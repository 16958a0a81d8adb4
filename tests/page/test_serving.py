"""Is the page started and ended as it should be, by `serve`, beside a run, and with the demo?"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from fogline.cli import app
from fogline.cli.serve import token_of
from fogline.errors import FoglineError
from fogline.page.serving import beside, check, listen
from tests.page.writing import small

CODE = "from fogline.cli import app; app()"


def answered(address: str, path: str = "healthz", **given: Any) -> httpx.Response:
    """What the server answers, as soon as it does."""
    for _ in range(200):
        try:
            return httpx.get(address + path, **given)
        except httpx.TransportError:
            time.sleep(0.05)
    pytest.fail(f"no answer from {address}")


def test_serve_prints_its_address_logs_json_and_ends_by_a_signal(tmp_path: Path) -> None:
    small(tmp_path / "out")
    log = tmp_path / "log"
    words = ["serve", str(tmp_path / "out"), "--port", "0", "--log", str(log)]
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    address = line.split()[2]
    assert line == f"the page: {address}  (Ctrl-C ends it)\n"
    assert answered(address).text == "ok\n"
    with httpx.stream("GET", address + "api/events") as viewer:  # is let go
        assert next(viewer.iter_lines()) == "retry: 2000"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert errors == "the page has ended.\n"
    lines = [json.loads(each) for each in log.read_text().splitlines()]
    assert [each["event"] for each in lines if each["event"] != "update"] == ["start", "request", "request", "stop"]
    assert lines[0]["guarded"] is False


def test_beside_a_run_the_page_ends_with_it_and_hears_no_interrupt(tmp_path: Path) -> None:
    os.environ["FOGLINE_TOKEN"] = "of-another-page-altogether"
    try:
        with beside(str(tmp_path / "later"), port=0) as address:
            assert answered(address, "api/about").json()["trouble"] == "no run yet"
    finally:
        del os.environ["FOGLINE_TOKEN"]
    with pytest.raises(httpx.TransportError):
        httpx.get(address)


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.168.0.7", "::", "example.org"):
        with pytest.raises(FoglineError, match="give it a token"):
            check("out", host, None)
        check("out", host, "x" * 16)
    with pytest.raises(FoglineError, match="the token has 4 characters"):
        check("out", "127.0.0.1", "1234")
    with pytest.raises(FoglineError, match="does not lie on this machine"):
        check("hdfs://host/out", "127.0.0.1", None)
    refused = CliRunner().invoke(app, ["serve", str(tmp_path), "--host", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "--token-file" in refused.output


def test_a_token_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(FoglineError, match="cannot be read"):
        token_of(None, file)
    file.write_text("\n")
    with pytest.raises(FoglineError, match="is empty"):
        token_of(None, file)
    file.write_text("a-token-of-16-characters\n")
    assert token_of("another", file) == "a-token-of-16-characters"
    assert token_of("", None) is None


def test_a_port_that_is_taken_is_stated(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(FoglineError, match="Choose another with --port"):
            listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(FoglineError, match=r"cannot listen at 203\.0\.113\.7"):
        listen("203.0.113.7", None)


def test_without_its_libraries_the_page_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fogline.sinks.places.find_spec", lambda package: None)
    with pytest.raises(FoglineError, match=r"pip install 'fogline\[page\]'"):
        check("out", "127.0.0.1", None)


def test_the_page_needs_neither_a_compiler_nor_spark(tmp_path: Path) -> None:
    small(tmp_path)
    code = (
        "import sys; from fogline.page.app import page_of; store = page_of(sys.argv[1]).store; store.poll(); "
        "store.answer(), store.health(); print([name for name in ('numba', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_help_teaches() -> None:
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "120"}).output
    for word in ("--explain", "/metrics", "--token-file", "FOGLINE_TOKEN", "before, during or after"):
        assert word in shown


def test_a_run_shows_its_page_while_rows_come_and_both_end_by_a_signal(tmp_path: Path) -> None:
    rows, query = tmp_path / "in", tmp_path / "q.yaml"
    rows.mkdir()
    (rows / "1.csv").write_text("sensor,t,heat\nbad[/x],1,2\n")
    query.write_text("attributes: {heat: max}\nid: sensor\ntime: t\nlifetime: 5\n")
    words = [
        "run",
        str(rows),
        "-q",
        str(query),
        "-o",
        str(tmp_path / "out"),
        "--engine",
        "embedded",
        "--explain",
        "--follow",
    ]
    command = [sys.executable, "-c", CODE, *words, "--page", "--page-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().split()[2]
    assert members(address, 1) == ["bad[/x]"]
    (rows / "2.csv").write_text("sensor,t,heat\nb,2,2\n")
    assert sorted(members(address, 2)) == ["b", "bad[/x]"]
    assert "answer" in httpx.get(f"{address}api/explain?id=b").json()["why"]["sentence"]
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "or as a page: fogline serve" in printed
    with pytest.raises(httpx.TransportError):
        httpx.get(address)


def members(address: str, count: int) -> list[str]:
    """The ids of the answer, as soon as there are so many."""
    for _ in range(1200):
        found = [row[2] for row in answered(address, "api/answer").json()["members"]]
        if len(found) == count:
            return found
        time.sleep(0.1)
    pytest.fail(f"there are {found}")


def test_a_page_beside_batches_that_go_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.csv").write_text("sensor,t,heat\na,1,2\n")
    (tmp_path / "q.yaml").write_text("attributes: {heat: max}\nid: sensor\ntime: t\nlifetime: 5\n")
    words = ["run", str(tmp_path / "in"), "-q", str(tmp_path / "q.yaml"), "--to", str(tmp_path / "to"), "--checkpoint"]
    refused = CliRunner().invoke(app, [*words, str(tmp_path / "state"), "--engine", "embedded", "--page"])
    assert refused.exit_code == 2
    assert "add --output FOLDER" in refused.output
