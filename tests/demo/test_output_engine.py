"""Does the demo with a page answer as it does without, and write what the page shows?"""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fogline.cli import app
from fogline.demo import DemoOptions, run, show
from fogline.demo.control_room import earlier_shift
from fogline.demo.display import frame
from fogline.demo.output_engine import into_folder
from fogline.demo.run import embedded
from fogline.demo.view import MineView
from fogline.output.answers import OutputReader
from fogline.output.folder import LocalFolder
from fogline.output.views import near_at
from fogline.page.follower import Follower

OPTIONS = DemoOptions(seconds=3, sensors=60, seed=3)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are there, and the shift before was a short one."""
    monkeypatch.setattr(run, "warm_up", lambda query: None)
    monkeypatch.setattr(run, "earlier_shift", partial(earlier_shift, readings=3_000))


def test_the_output_answers_as_a_monitor_does_and_explains_its_rows(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    seen = show(OPTIONS, console, plain=True, opened=partial(into_folder, tmp_path / "mine"))
    other = show(OPTIONS, console, plain=True, opened=embedded)
    assert seen.members.keys() == other.members.keys()
    assert list(seen.members.values()) == pytest.approx(list(other.members.values()))
    assert seen.recent == other.recent
    place = LocalFolder(tmp_path / "mine")
    follower = Follower(OutputReader(place, "mine"))
    follower.poll()
    assert follower.state is not None
    members = {(row["sensor"], row["ts"]) for row in follower.state.members[None].to_pylist()}
    assert members == seen.members.keys()
    inside = [row for row in near_at(place).to_pylist() if row["inside"]]
    assert {(row["sensor"], row["ts"]) for row in inside} == members
    assert all(row["why"] for row in inside)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine"]  # what it read is gone


def test_the_demo_prints_where_its_page_is() -> None:
    words = ["demo", "--page", "--page-port", "0", "--plain", "--seconds", "1", "--sensors", "40"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("the page: http://127.0.0.1:")
    assert "held against the true skyline" in done.output


def test_the_screen_names_the_page() -> None:
    console = Console(file=io.StringIO(), width=100, height=30)
    console.print(frame(MineView(60, 0.5), 100, 30, "http://127.0.0.1:1/"))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) < 30
    assert "http://127.0.0.1:1/" in lines[1]
