"""Which files of a folder are read, and is each of the others named, once?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fogline.errors import FoglineError
from fogline.files.listing import entries, files_of, kind_of, kind_of_name, pattern_of, stamp
from fogline.files.unread import Unread, not_read
from fogline.output.folder import LocalFolder
from fogline.runs.checkpoint import SourceLog


def put(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def taken(output: Path, number: str, *paths: Path, batch: int = 0) -> None:
    """What Spark writes when it takes up files."""
    entries = [
        {
            "path": f"file://{str(path).replace(' ', '%20')}",
            "timestamp": int(path.stat().st_mtime * 1000),
            "batchId": batch,
        }
        for path in paths
    ]
    put(output / "checkpoint" / "sources" / "0" / number, "\n".join(["v1", *map(json.dumps, entries)]))


def test_the_kind_is_shown_by_the_end_of_a_name():
    shown = {"a.CSV": "csv", "a.tsv.gz": "tsv", "x.y.ndjson": "json", "a.csv.tmp": None, "csv": None, "a.part": None}
    shown |= {"a.csv.snappy": None, "a.parquet.gz": None, "a.snappy.parquet": "parquet", "a.jsonl.zst": "json"}
    assert {name: kind_of_name(name) for name in shown} == shown


def test_what_a_folder_holds_is_shown_by_its_files(tmp_path):
    folder = tmp_path / "data"
    put(folder / "README.txt")
    with pytest.raises(FoglineError, match="does not show what it holds"):
        kind_of(str(folder), existing=True)
    put(folder / "day=1" / "part-0.snappy.parquet")
    assert kind_of(str(folder), existing=True) == "parquet"
    put(folder / "b.jsonl")
    assert kind_of(str(folder), existing=True) == "mixed"
    assert kind_of(f"{folder}/*.jsonl", existing=True) == "json"
    assert pattern_of(str(folder)).startswith("*.{[pP][aA]")
    bare = tmp_path / "x.csv"
    part, read = put(bare / "part-00000"), put(bare / "more" / "part-00001.csv")
    put(bare / "README.txt")
    assert files_of(str(bare)) == [read, part]
    assert pattern_of(str(bare)) == ""


def test_each_file_that_is_not_read_is_named_once_as_it_appears(tmp_path):
    inbox, output = tmp_path / "in box", tmp_path / "out"
    first = put(inbox / "a b.csv")
    taken(output, "0", first)
    unread = Unread(str(inbox), SourceLog(LocalFolder(output)))
    assert unread.begin() == []
    for name in ("n.txt", "b.csv.tmp", "c.json", ".d.csv", "_SUCCESS", "day=1/e.csv", "day=1/f.txt"):
        put(inbox / name)
    put(inbox / "old" / "g.xlsx")
    put(inbox / "p.csv.snappy")
    put(inbox / ".git" / "h.txt")
    [others] = unread.look()
    assert others.startswith("not read, since their names end in none of csv,")
    assert others.endswith(": b.csv.tmp, n.txt, p.csv.snappy, old/g.xlsx, day=1/f.txt.")
    assert unread.look() == []
    os.utime(first, (9e9, 9e9))
    [changed] = unread.look()
    assert changed.startswith("changed after it was taken up; what was added is not read: a b.csv.")
    assert unread.look() == []


def test_files_that_were_to_be_read_and_are_gone_are_named(tmp_path):
    inbox, output = tmp_path / "in", tmp_path / "out"
    files = [put(inbox / f"{k}.csv") for k in range(4)]
    taken(output, "0.compact", *files[:2], batch=0)
    taken(output, "1", *files[2:], batch=1)
    put(output / "checkpoint" / "offsets" / "0", 'v1\n{}\n{"logOffset":0}')
    put(output / "checkpoint" / "commits" / "0", "v1\n{}")
    log = SourceLog(LocalFolder(output))
    assert log.gone() == []
    for k in (0, 3):  # the first is read already: it may go
        files[k].unlink()
    assert [Path(each).name for each in log.gone()] == ["3.csv"]
    [text] = Unread(str(inbox), log).begin()
    assert text == "3.csv was to be read next when this run stopped, and is gone: its rows are lost."


def test_links_that_lead_nowhere_are_named_and_links_to_their_own_folder_are_not_followed(tmp_path):
    folder = tmp_path / "in"
    real = put(folder / "deep" / "a.csv", "s,t,x\n")
    other = put(tmp_path / "elsewhere" / "b.csv", "s,t,x\n")
    (folder / "gone.csv").symlink_to(tmp_path / "none.csv")
    (folder / "deep" / "again").symlink_to(folder)
    (folder / "beside").symlink_to(other.parent)
    assert files_of(str(folder)) == [folder / "beside" / "b.csv", real]
    sentence = "not read, since they are links that lead nowhere: gone.csv."
    assert not_read(str(folder)) == [sentence]
    unread = Unread(str(folder), SourceLog(LocalFolder(str(tmp_path / "out"))))
    assert (unread.look(), unread.look()) == ([sentence], [])


def test_a_pipe_among_the_files_is_named_and_not_read(tmp_path):
    put(tmp_path / "a.csv", "id,t\n")
    os.mkfifo(tmp_path / "pipe.csv")
    assert files_of(str(tmp_path)) == [tmp_path / "a.csv"]
    (shown,) = not_read(str(tmp_path))
    assert "pipes, sockets or devices" in shown
    assert "pipe.csv" in shown


def test_links_that_lead_to_each_other_s_folders_are_followed_once(tmp_path):
    files = [put(tmp_path / "a" / "x.csv"), put(tmp_path / "b" / "y.csv")]
    (tmp_path / "a" / "there").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "back").symlink_to(tmp_path / "a")
    assert files_of(str(tmp_path / "a")) == [tmp_path / "a" / "there" / "y.csv", files[0]]


def test_a_subfolder_that_goes_while_files_are_listed_does_not_matter(tmp_path):
    there = [put(tmp_path / name) for name in ("a.csv", "b/gone.csv", "c.csv")]
    listing = entries(str(tmp_path))
    assert [next(listing), next(listing)] == [there[0], there[2]]
    there[1].unlink()
    there[1].parent.rmdir()
    assert list(listing) == []


def test_files_whose_names_are_no_text_are_named_and_not_read(tmp_path):
    put(tmp_path / "a.csv")
    put(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")))
    assert files_of(str(tmp_path)) == [tmp_path / "a.csv"]
    (sentence,) = not_read(str(tmp_path))
    assert "no UTF-8 text; rename them: caf" in sentence
    unread = Unread(str(tmp_path), SourceLog(LocalFolder(tmp_path / "out")))
    assert unread.look() == [sentence]
    assert unread.look() == []


def test_the_stamp_of_a_stream_shows_what_is_done_to_its_files_and_nothing_else(tmp_path):
    put(tmp_path / "in" / "a.csv", "id,t\n")
    (tmp_path / "in" / "far.csv").symlink_to(tmp_path / "later.csv")
    (tmp_path / "in" / "itself").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "loop.csv").symlink_to(tmp_path / "in" / "loop.csv")
    before = {stamp(str(tmp_path / "in"))}
    put(tmp_path / "in" / "_hidden" / "x.csv")
    put(tmp_path / "beside.csv")
    assert before == {stamp(str(tmp_path / "in"))}
    steps = (
        lambda: put(tmp_path / "in" / "sub" / "b.csv", "id,t\n"),
        lambda: put(tmp_path / "in" / "sub" / "b.csv", "id,t\na,1\n"),
        lambda: put(tmp_path / "later.csv"),
        lambda: (tmp_path / "in" / "a.csv").rename(tmp_path / "in" / "c.csv"),
        lambda: (tmp_path / "in" / "c.csv").unlink(),
    )
    for number, step in enumerate(steps, 2):
        step()
        before |= {stamp(str(tmp_path / "in"))}
        assert len(before) == number
    pattern, file = str(tmp_path / "in" / "*" / "b.csv"), str(tmp_path / "in" / "sub" / "b.csv")
    assert stamp(pattern) == stamp(file)
    put(tmp_path / "in" / "sub" / "b.csv", "id,t\n")
    assert stamp(file) not in before
