"""Is a checkpoint on disk before a batch is, and does a run go on from what a power cut leaves?"""

from __future__ import annotations

from pathlib import Path

import pytest

from fogline.errors import FoglineError
from fogline.output.folder import LocalFolder
from fogline.runs import checkpoint
from fogline.runs.checkpoint import Synced, mend, note_reported, reported_by_spark


def written(root: Path, **files: str) -> None:
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_what_is_new_is_synced_once_and_its_folder_with_it(tmp_path, monkeypatch):
    seen: list[str] = []
    monkeypatch.setattr(checkpoint, "to_disk", lambda path: seen.append(str(path.relative_to(tmp_path))))
    synced = Synced(tmp_path)
    written(tmp_path, offsets__0="v1", state__0__1__1="state")
    synced.sync()
    assert sorted(seen) == [".", "offsets", "offsets/0", "state", "state/0", "state/0/1", "state/0/1/1"]
    seen.clear()
    synced.sync()
    assert seen == []
    written(tmp_path, commits__0="v1", offsets__0="longer")
    synced.sync()
    assert sorted(seen) == [".", "commits", "commits/0", "offsets", "offsets/0"]


def test_the_newest_files_without_content_are_removed_and_no_others(tmp_path):
    written(tmp_path, offsets__3="v1", offsets__4="", commits__2="", commits__3="v1", sources__0__4="", metadata="")
    written(tmp_path, **{"offsets__.4.crc": "crc", "state__0__1__1": ""})
    (tmp_path / "offsets/3").write_text('v1\n{}\n{"logOffset":3}')
    gone = [str(path.relative_to(tmp_path)) for path in mend(tmp_path)]
    assert gone == ["sources/0/4", "offsets/4"]
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["commits/2", "commits/3", "metadata", "offsets/3", "state/0/1/1"]


def test_a_batch_whose_files_are_not_known_any_more_is_forgotten(tmp_path):
    written(tmp_path, **{"sources__0__8": "v1", "sources__0__9.compact": "", "commits__8": "v1", "commits__9": "v1"})
    written(tmp_path, offsets__8='v1\n{}\n{"logOffset":8}', offsets__9='v1\n{}\n{"logOffset":9}')
    gone = [str(path.relative_to(tmp_path)) for path in mend(tmp_path)]
    assert gone == ["sources/0/9.compact", "offsets/9", "commits/9"]
    assert not mend(tmp_path)


def test_the_first_batch_of_a_topic_whose_beginning_is_not_known_any_more_is_forgotten(tmp_path):
    written(tmp_path, sources__0__0="", offsets__0='v1\n{}\n{"readings":{"0":12}}')
    assert [str(path.relative_to(tmp_path)) for path in mend(tmp_path)] == ["sources/0/0", "offsets/0"]
    written(tmp_path, sources__0__0="", offsets__7='v1\n{}\n{"readings":{"0":99}}', commits__6="v1")
    assert [str(path.relative_to(tmp_path)) for path in mend(tmp_path)] == ["sources/0/0"]


def test_the_beginning_of_a_topic_is_whole_with_the_zero_that_the_engine_writes_before_it(tmp_path):
    begin = '\0v1\n{"readings":{"0":0}}'
    written(tmp_path, sources__0__0=begin, offsets__0='v1\n{}\n{"readings":{"0":12}}', commits__0="v1\n{}")
    assert mend(tmp_path) == []
    for torn in ("\0", "\0\0\0", begin[:-3], begin[:-3] + "\0\0\0"):
        written(tmp_path, sources__0__0=torn)
        assert tmp_path / "sources/0/0" in mend(tmp_path)


def test_where_there_is_no_checkpoint_there_is_nothing_to_mend(tmp_path):
    assert mend(tmp_path / "not there") == []


def test_the_last_batch_that_reported_counts_once_spark_has_committed_it(tmp_path):
    place = LocalFolder(tmp_path)
    assert reported_by_spark(place) == -1
    for number in (0, 3, 3, 4):
        note_reported(place, number)
        for done in (*range(number), number):  # batches between had nothing to report
            written(tmp_path, **{f"checkpoint__commits__{done}": "v1"})
        assert reported_by_spark(place) == number
    note_reported(place, 7)
    assert reported_by_spark(place) == 4
    note_reported(place, 7)  # done again after a crash
    assert reported_by_spark(place) == 4
    written(tmp_path, checkpoint__commits__7="v1", **{"checkpoint__commits__.7.crc": "crc"})
    assert reported_by_spark(place) == 7
    written(tmp_path, **{"checkpoint__reported.json": "{"})
    with pytest.raises(FoglineError, match=r"'checkpoint/reported\.json' of the output is damaged"):
        reported_by_spark(place)
