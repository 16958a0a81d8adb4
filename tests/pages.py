"""Does what a page shows?  Its blocks are run as a reader would run them: in order, in one empty folder.

The fence of a block states what it is:

    python, sh                      is run; Python in one namespace for the page, of sh the commands of fogline
    python that begins with >>>     is a session: what is shown behind each line was its answer
    python title="needs Spark"      is run where Spark is asked for; else its syntax is checked
    sh title="needs …"              is not run: the options of its commands are parsed. Spark: run where it is asked for
    yaml title="query.yaml"         is written to that file; so is any block whose title is the name of a file
    text                            was printed by the block before it
    console, json, sql, …           is not looked at

Commands run without --follow and --page, which would not end. Of `pip install` the extras must exist, of `make` the
targets. Any other program stands in a block that is not run.

    python -m tests.pages docs/howto/spark.md     runs a page here, in the present folder, Spark included
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from fogline.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]*)\")?[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"[\w./-]+\.\w+")
ENDLESS = ("--follow", "--page")
SPARK = "needs Spark"
RUN = ("python", "sh", "yaml", "text")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page."""

    language: str
    title: str
    text: str

    @property
    def needs(self) -> str:
        """What must be there before it can be run; empty if nothing must."""
        return self.title if self.title.startswith("needs ") else ""


def blocks(path: Path) -> list[Block]:
    """The blocks of a page, in order."""
    found = BLOCK.findall(path.read_text(encoding="utf-8"))
    return [Block(language, title, _unindented(text, indent)) for indent, language, title, text in found]


def _unindented(text: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a block of sh, as words; a line that ends with a backslash goes on."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def check_options(words: list[str]) -> None:
    """Has this command of fogline such options?"""
    group: Any = typer.main.get_command(app)
    if words[1:2] in (["--help"], ["--version"]):
        return
    assert set(words[1:2]) & set(group.commands), f"fogline has no such command: {shlex.join(words)}"
    command = group.commands[words[1]]
    command.make_parser(command.context_class(command, info_name=words[1])).parse_args(list(words[2:]))


def check_other(words: list[str]) -> None:
    """Does what another program is given exist here?"""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if words[:2] == ["pip", "install"]:
        for extra in re.findall(r"fogline\[([^\]]*)\]", " ".join(words)):
            assert set(extra.split(",")) <= set(project["optional-dependencies"]), extra
    elif words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert all(word in targets for word in words[1:] if "=" not in word), shlex.join(words)
    elif words[:2] == ["python", "-m"]:
        path = ROOT.joinpath(*words[2].split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), words[2]
    else:
        raise AssertionError(f"{words[0]} is no command that can be looked at; write the block as console")


def run_page(path: Path, *, spark: bool = False) -> int:
    """Runs the page in the present folder; how many blocks were run."""
    known: dict[str, object] = {}
    printed: str | None = None  # by the block before; None: it was not run
    ran = 0
    for block in blocks(path):
        runs = not block.needs or (spark and block.needs == SPARK)
        if FILE.fullmatch(block.title):
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.text.startswith(">>>"):
            _run_session(block.text, path, known)
            ran += 1
        elif block.language == "python":
            code, printed = compile(block.text, str(path), "exec"), None
            if runs:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(code, known)
                printed, ran = out.getvalue(), ran + 1
        elif block.language == "sh":
            shown = "".join([_command(words, runs) for words in commands(block.text)])
            printed, ran = (shown, ran + 1) if runs else (None, ran)
        elif block.language == "text" and printed is not None:
            _check_printed(block.text, printed)
        else:
            assert block.language, f"{path.name}: a block without a language:\n{block.text}"
    return ran


def _run_session(text: str, path: Path, known: dict[str, object]) -> None:
    """A session with its prompts: each answer is as it is shown."""
    session = doctest.DocTestParser().get_doctest(text, known, path.name, str(path), 0)
    found = io.StringIO()
    outcome = doctest.DocTestRunner(verbose=False).run(session, out=found.write, clear_globs=False)
    known.update(session.globs)  # a session runs in a copy
    assert outcome.failed == 0, found.getvalue()


def _command(words: list[str], runs: bool) -> str:
    """What the command prints; nothing, if it is not run."""
    if words[0] != "fogline":
        check_other(words)
        return ""
    check_options(words)
    if not runs:
        return ""
    result = CliRunner().invoke(app, [word for word in words[1:] if word not in ENDLESS], env={"COLUMNS": "160"})
    assert result.exit_code == 0, f"{shlex.join(words)}\n{result.output}"
    return result.output


def _check_printed(text: str, printed: str) -> None:
    """Each line that is shown was printed, spaces aside; … stands for anything."""
    have = " ".join(printed.split())
    for line in text.splitlines():
        wanted = ".*?".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        assert re.search(wanted, have), f"{line!r} is not in\n{printed}"


if __name__ == "__main__":
    run_page(Path(sys.argv[1]), spark=True)
