"""A small form of `benchmarks/garbage.py`: is every hostile line rejected, and the answer that of the others?"""

from __future__ import annotations

import inspect
import json

from typer.testing import CliRunner

from benchmarks.garbage import expected, judged, prepare
from fogline.cli import app
from fogline.pipeline.plan import make_plan

HELD = "ahead" in inspect.signature(make_plan).parameters  # whether rows that run ahead are held


def test_a_stream_with_hostile_lines_ends_well_and_each_is_in_the_rejects(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    sent, query, repository = prepare(tmp_path, 4500, () if HELD else ("far",), files=3)
    assert sent.reasons.total() > 40
    words = ["run", "in", "-q", "q.yaml", "-r", "repo", "-o", "out", "--engine", "spark", "--files-per-batch", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    lines = CliRunner().invoke(app, ["answer", "out", "--json"]).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    parts = list(judged(tmp_path / "out", sent, expected(sent, query, repository), found))
    assert [text for holds, text in parts if not holds] == []
