"""Are lines that are added to a file read on, each once, and is every other change named?"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.files.layout import layout_of
from fogline.files.mark import Span, added_to
from fogline.files.options import Options
from fogline.files.reading import batches
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.taken import CutFile, FileRows

QUERY = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime=1000)
NOT_READ = "changed after it was taken up; what was added is not read: a.csv. Write new files instead"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The one file of a stream."""
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "a.csv"


def line(k: int) -> str:
    return f"s{k},{k},{k * 7 % 11}\n"


def lines(begin: int, end: int) -> str:
    return "".join(map(line, range(begin, end)))


def add(file: Path, text: str, later: int = 1) -> None:
    with file.open("a") as opened:
        opened.write(text)
    when = file.stat().st_mtime + later  # as clocks of files may be coarse
    os.utime(file, (when, when))


def started(folder: Path, remarks: list[str], stream: str = "in", **sizes: Any) -> Any:
    config = RunConfig(str(folder / stream), str(folder / "out"), QUERY, engine=EMBEDDED, moved=stream != "in")
    return Embedded(config, remark=remarks.append).start(**sizes)


def run(folder: Path, **sizes: Any) -> list[str]:
    """All that is there; what was remarked."""
    remarks = list[str]()
    begun = started(folder, remarks, **sizes)
    assert begun.awaitTermination()
    begun.running.look()
    return remarks


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends just before its batch is committed."""
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedState, "commit", lambda self, **_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(folder)


def taken(folder: Path) -> int:
    """Rows that were read and not rejected; a row that is read again is a reject."""
    health = pq.read_table(folder / "out" / "health")
    return sum(health["rows"].to_pylist()) - sum(health["rejected"].to_pylist())


def rejects(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "out" / "rejects").to_pylist() if (folder / "out" / "rejects").is_dir() else []


@pytest.mark.parametrize("rows", [None, 1, 3, 7])
def test_lines_that_are_added_are_read_on_each_once_with_their_numbers(tmp_path, file, rows):
    file.write_text(f"sensor,t,heat\n{lines(0, 10)}")
    for begin, end in ((10, 11), (11, 20), (20, 33)):
        assert run(tmp_path, max_rows_per_batch=rows) == []
        add(file, f"torn {end}\n{lines(begin, end)}")
    assert run(tmp_path, max_rows_per_batch=rows) == []
    assert taken(tmp_path) == 33
    numbers = [k for k, text in enumerate(file.read_text().splitlines(), 1) if text.startswith("torn")]
    assert sorted(row["line"] for row in rejects(tmp_path)) == numbers
    assert run(tmp_path) == []
    assert taken(tmp_path) == 33


def test_json_lines_grow_as_well(tmp_path, file):
    there = file.with_name("a.jsonl")
    there.write_text('{"sensor": "a", "t": 1, "heat": 2}\n')
    run(tmp_path)
    add(there, '{torn\n{"sensor": "b", "t": 2, "heat": 3}\n')
    assert run(tmp_path) == []
    assert taken(tmp_path) == 2
    assert [row["line"] for row in rejects(tmp_path)] == [2]


def test_a_run_that_follows_reads_on_beside_new_files(tmp_path, file):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    remarks = list[str]()
    begun = started(tmp_path, remarks, follow=True)
    begun.awaitTermination(0)
    add(file, lines(5, 9))
    file.with_name("b.csv").write_text(f"sensor,t,heat\n{lines(9, 12)}")
    begun.awaitTermination(0)
    add(file, lines(12, 13))
    begun.awaitTermination(0)
    begun.running.look()
    assert remarks == []
    assert (taken(tmp_path), rejects(tmp_path)) == (13, [])


def test_what_a_batch_was_to_read_is_read_by_it_though_more_has_come_meanwhile(tmp_path, file, monkeypatch):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    run(tmp_path)
    add(file, lines(5, 9))
    interrupted(tmp_path, monkeypatch)
    add(file, lines(9, 16))
    assert run(tmp_path) == []
    assert pq.read_table(tmp_path / "out" / "health")["rows"].to_pylist() == [5, 4, 7]
    assert (taken(tmp_path), rejects(tmp_path)) == (16, [])


def test_a_file_that_is_another_one_when_it_is_to_be_read_on_is_an_error_until_it_is_back(tmp_path, file, monkeypatch):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    run(tmp_path)
    add(file, lines(5, 9))
    interrupted(tmp_path, monkeypatch)
    good = file.read_text()
    file.write_text(f"sensor,t,heat\n{lines(20, 40)}")
    with pytest.raises(FoglineError, match="is not what it was when a batch read it"):
        run(tmp_path)
    file.write_text(good)
    assert run(tmp_path) == []
    assert (taken(tmp_path), rejects(tmp_path)) == (9, [])


def test_what_is_added_while_a_file_is_read_is_read_by_the_next_batch(tmp_path, file, monkeypatch):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    take = FileRows.take

    def grows(self, *how):
        if not rejects(tmp_path) and file.read_text().endswith(line(4)):
            add(file, lines(5, 9))
        return take(self, *how)

    monkeypatch.setattr(FileRows, "take", grows)
    run(tmp_path)
    assert taken(tmp_path) == 5
    run(tmp_path)
    assert (taken(tmp_path), rejects(tmp_path)) == (9, [])


def test_a_line_that_is_not_finished_is_named_and_read_when_it_is(tmp_path, file):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    run(tmp_path)
    add(file, "s5,5")
    (remark,) = run(tmp_path)
    assert remark.startswith(NOT_READ)
    assert remark.endswith("Of csv and JSON lines, whole lines that are added behind whole lines are read.")
    assert taken(tmp_path) == 5
    add(file, "0,3\n")
    assert run(tmp_path) == []
    assert (taken(tmp_path), rejects(tmp_path)) == (6, [])


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text(file.read_text().replace("s0", "z0") + line(5)),
        lambda file: file.write_text(lines(0, 2)),
    ],
)
def test_a_file_that_was_changed_otherwise_is_named_and_not_read(tmp_path, file, change):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    run(tmp_path)
    change(file)
    add(file, "")
    (remark,) = run(tmp_path)
    assert remark.startswith(NOT_READ)
    assert taken(tmp_path) == 5


def test_what_was_read_up_to_a_line_that_was_not_finished_is_not_read_on(tmp_path, file):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}s5,5,1")
    run(tmp_path)
    add(file, f"1\n{line(6)}")
    (remark,) = run(tmp_path)
    assert remark.startswith(NOT_READ)
    assert taken(tmp_path) == 6


def test_a_packed_file_is_not_read_on(tmp_path, file):
    packed = file.with_name("a.csv.gz")
    packed.write_bytes(gzip.compress(f"sensor,t,heat\n{lines(0, 5)}".encode()))
    run(tmp_path)
    packed.write_bytes(packed.read_bytes() + gzip.compress(lines(5, 9).encode()) + b"\n")
    add(packed, "")
    (remark,) = run(tmp_path)
    assert "what was added is not read: a.csv.gz." in remark


def test_a_file_that_was_touched_alone_is_not_named(tmp_path, file):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    run(tmp_path)
    add(file, "")
    assert run(tmp_path) == []


def test_a_file_of_a_folder_that_was_moved_is_read_on(tmp_path, file):
    file.write_text(f"sensor,t,heat\n{lines(0, 5)}")
    run(tmp_path)
    where = file.parent
    for k, stream in enumerate(("there", "elsewhere", "at last", "there")):
        where = where.rename(tmp_path / stream)
        add(where / file.name, lines(5 + k, 6 + k))
        for _ in range(2):
            assert run(tmp_path, stream=stream) == []
            assert (taken(tmp_path), rejects(tmp_path)) == (6 + k, [])


def test_a_header_of_two_lines_that_was_seen_half_is_no_row(tmp_path, file):
    file.write_text("sep=;\n")
    first = added_to(str(file))
    add(file, f"sensor;t;heat\n{lines(0, 3).replace(',', ';')}")
    layout = layout_of(str(file.parent), QUERY, Options())
    read = batches(str(file), layout, span=added_to(str(file), first))
    assert [name for batch in read for name in batch.column("sensor").to_pylist()] == ["s0", "s1", "s2"]


def test_of_letters_of_two_bytes_it_is_not_known_where_lines_end(file):
    file.write_bytes("\ufeff温,t\n".encode("utf-16-be"))
    assert added_to(str(file)) is None


def test_a_cut_file_that_was_away_keeps_the_part_that_is_read():
    cut = CutFile("a.csv", 2, 5, 1, None, Span(13, 2, 25, 7))
    assert CutFile.from_json(cut.path, cut.to_json()) == cut
