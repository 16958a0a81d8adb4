"""Is what comes from the data printed as it is?"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.output.folder import LocalFolder
from fogline.runs.config import Output, RunConfig

QUERY = fl.Query(attributes={"heat[C]": "max"}, id="sensor", time="t", lifetime=9)
NAMES = ["pump[north]", "[/x]", "[bold]b[/bold]", ":smile:", "a\x1b[2Jb"]


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path):
    output = Output(LocalFolder(tmp_path), RunConfig("in", str(tmp_path), QUERY))
    output.begin({})
    row = {"time": 1, "t": 1, "change": "enter", "probability": 0.9, "probability_error": 0.0, "heat[C]": 1.0}
    output.folder.write(0, {"changes": pa.Table.from_pylist([{**row, "sensor": name} for name in NAMES])})
    assert len(pq.read_table(tmp_path / "changes")) == len(NAMES)
    printed = CliRunner().invoke(app, ["answer", str(tmp_path)])
    assert printed.exit_code == 0, printed.output
    assert "heat[C]" in printed.output
    for name in NAMES[:-1]:
        assert name in printed.output
    assert r"a\x1b[2Jb" in printed.output
    lines = CliRunner().invoke(app, ["answer", str(tmp_path), "--json"]).stdout.splitlines()
    assert {json.loads(line)["sensor"] for line in lines} == set(NAMES)


def test_what_a_bar_describes_may_look_like_markup(capsys):
    from rich.console import Console

    from fogline.cli import terminal as progress

    with progress.bars(Console(force_terminal=True, width=100)) as bars:
        bars.add_task("reading [/x] of pump[north]", total=None)
    assert "[/x] of pump[north]" in capsys.readouterr().out
