"""Does every mistake become one sentence with the file's name, and no traceback?"""

from __future__ import annotations

import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.cli.terminal import in_words
from fogline.errors import FoglineError

QUERY = "attributes: {heat: max, gas: max}\nid: sensor\ntime: t\nlifetime: 100\n"


def readings(rows: int) -> pa.Table:
    heat = np.random.default_rng(1).random(rows)
    return pa.table({"sensor": [f"s{k % 5}" for k in range(rows)], "t": np.arange(rows), "heat": heat, "gas": 2 * heat})


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    pq.write_table(readings(60), "history.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.yaml").write_bytes(bytes(range(128, 256)) * 4)
    (tmp_path / "broken.yaml").write_text("attributes: {heat: max\nid: sensor\n")
    (tmp_path / "text.yaml").write_text("just words")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    return tmp_path


def run(*words: str, code: int = 2) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return str(result.output)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("folder", "'folder' is a folder, where a file is needed."),
        ("binary.yaml", "QueryError: 'binary.yaml' is not YAML: it holds bytes that are no text; is it a binary file?"),
        ("broken.yaml", "QueryError: 'broken.yaml' is not YAML: line 2, column 3: expected ',' or '}', but got ':'."),
        ("text.yaml", "QueryError: a query is a mapping of fields, not str."),
        ("history.parquet", "'history.parquet' is not YAML"),
        ("none.yaml", "QueryError: there is no query file 'none.yaml'."),
    ],
)
@pytest.mark.parametrize("command", ["fit", "check", "run"])
def test_what_is_no_query_is_named(place, command, query, sentence):
    more = [] if command == "check" else ["-o", "out"]
    printed = run(command, "history.parquet", "-q", query, *more)
    assert sentence in printed
    assert not (place / "out").exists()


def test_places_that_cannot_be_written_are_found_before_any_work(place, monkeypatch):
    fitting = ("fit", "history.parquet", "-q", "q.yaml", "-o")
    assert "'q.yaml' is a file; a repository is a folder." in run(*fitting, "q.yaml")
    assert re.search(r"'q.yaml/x' cannot be written: '.*/q.yaml' is a file, where a folder", run(*fitting, "q.yaml/x"))
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    for command in (fitting, ("run", *fitting[1:])):
        assert re.search(r"'new/out' cannot be written: this user may not write to '.*'\.", run(*command, "new/out"))
    assert not (place / "new").exists()


def test_what_is_no_repository_and_no_output_is_named(place):
    assert "there is no repository in 'folder'" in run("rules", "folder")
    assert "'q.yaml' is a file, where a folder is needed." in run("rules", "q.yaml")
    for name in ("folder", "nothing"):
        assert f"'{name}' is not an output folder of `fogline run`" in run("answer", name)
    assert "q.yaml' is a file, where a folder is needed." in run("answer", "q.yaml")
    assert "there is no repository in 'folder'" in run("check", "history.parquet", "-q", "q.yaml", "-r", "folder")


def test_a_torn_file_is_named(place):
    assert "torn.parquet" in run("fit", "torn.parquet", "-q", "q.yaml", "-o", "repo")
    assert not (place / "repo").exists()


def test_what_was_not_foreseen_is_a_sentence_with_a_log(place, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug\nof two lines")

    monkeypatch.setattr(fl.Query, "load", fail)
    printed = run("check", "history.parquet", "-q", "q.yaml")
    assert "something went wrong that Fogline did not foresee (ZeroDivisionError): a bug\n" in printed
    (log,) = re.findall(r"The whole of it is in (\S+)", printed)
    with open(log, encoding="utf-8") as file:
        assert "of two lines" in file.read()
    os.unlink(log)


def test_errors_in_words():
    assert in_words(FoglineError("no")) == ["FoglineError: no"]
    assert (
        in_words(PermissionError(13, "Permission denied", "/x"))[0] == "'/x' may not be read or written by this user."
    )
    assert in_words(OSError(28, "No space left on device", "/x"))[0] == (
        "'/x' cannot be used: no space left on device. When that is mended, run the same command again."
    )
    assert in_words(OSError(5, "Input/output error"))[0] == "the file system reports: Input/output error."
    decode = in_words(UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "invalid start byte"))
    assert decode[0].startswith(r"a file holds bytes that are no utf-8 text, such as b'\xff'")
    arrow = in_words(pa.ArrowInvalid("Could not open\nmore"))
    assert arrow[0] == "Arrow reports: Could not open"
    assert "there is not enough memory" in in_words(MemoryError())[0]
    for lines in (decode, arrow):
        os.unlink(lines[1].split()[-1])
