"""Every command of the tutorial works, in its order, in an empty folder, and prints what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from fogline.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
NAME = re.compile(r"`(\w+\.yaml)`:")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial(tmp_path, monkeypatch, spark, capsys):
    monkeypatch.chdir(tmp_path)
    known: dict[str, object] = {}
    printed, page = "", PAGE.read_text(encoding="utf-8")
    names = iter(NAME.findall(page))
    for kind, text in BLOCK.findall(page):
        if kind == "yaml":
            (tmp_path / next(names)).write_text(text)
        elif kind == "python":
            here = text.replace('csv("incoming"', f'csv("{tmp_path}/incoming"')  # the JVM of the tests began elsewhere
            exec(compile(here, "tutorial", "exec"), known)
            printed += capsys.readouterr().out
        elif kind == "sh":
            printed = ""
            for line in text.splitlines():
                result = CliRunner().invoke(app, shlex.split(line)[1:], env={"COLUMNS": "160"})
                assert result.exit_code == 0, f"{line}\n{result.output}"
                printed += result.stdout
        else:  # what the last commands printed
            for line in text.splitlines():
                assert " ".join(line.split()) in " ".join(printed.split()), f"{line!r} is not in\n{printed}"
    assert "r02" in printed
