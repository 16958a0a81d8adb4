"""Do the tests of `watch` pass through a Spark Connect session?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.components.connect import ROOTS, connect_server

CASES = Path(__file__).with_name("through_connect.py")
FEW = "garbage or far_behind or not_fit or jvm or settings or rocksdb or each_batch"
COUNT = 23  # all of them, none skipped


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with connect_server(tmp_path_factory.mktemp("connect")) as server:
        yield server


def through(server, *words: str) -> str:
    """The last line of pytest over the cases, in a process of its own."""
    paths = os.pathsep.join([*map(str, ROOTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = os.environ | {"FOGLINE_CONNECT": server.url, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(CASES), *words]
    done = subprocess.run(command, cwd=ROOTS[0], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_tables_streams_and_refusals_go_through_a_connect_session(server):
    last = through(server, "-k", FEW)
    assert re.match(r"\d+ passed, \d+ deselected in", last), last


@pytest.mark.whole
def test_all_tests_of_watch_go_through_a_connect_session(server):
    assert through(server).startswith(f"{COUNT} passed in")


def test_the_command_line_names_the_way_out(server, tmp_path):
    (tmp_path / "query.yaml").write_text("attributes: {a: max}\nid: id\ntime: t\nlifetime: 5\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.csv").write_text("id,t,a\nx,1,2\n")
    command = [sys.executable, "-c", "from fogline.cli import app; app()", "run", "in", "--query", "query.yaml"]
    paths = os.pathsep.join(map(str, ROOTS))
    command += ["--output", "out", "--master", server.url]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot be reached through Spark Connect; run it with the master of the cluster itself" in done.stderr
    assert not (tmp_path / "out").exists()
