"""Is a repository that came from elsewhere kept once, whole, and as the one that was asked for?"""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

import pytest

import fogline as fl
from fogline.errors import HistoryError
from fogline.repository import cache

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=9)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A cache of its own, a repository in a folder with an older version, and one version of it, packed."""
    monkeypatch.setenv(cache.PLACE, str(tmp_path / "cache"))
    for scale in (2.0, 3.0):
        rows = [{"id": str(k), "t": k, "a": float(k), "b": k * scale} for k in range(20)]
        fl.Repository.fit(rows, QUERY, method="mean").save(tmp_path / "r")
    loaded = fl.Repository.load(tmp_path / "r")
    cache.pack(tmp_path / "r", loaded.fingerprint, tmp_path / "packed.tar")
    return tmp_path


def unpack(folder: Path, mark: str) -> str:
    return str(cache.unpacked(mark, lambda: folder / "packed.tar"))


def test_it_is_unpacked_once_by_its_fingerprint_and_loaded_from_there(place):
    known = fl.Repository.load(place / "r")
    folder = cache.unpacked(known.fingerprint, lambda: place / "packed.tar")
    assert folder == place / "cache" / known.fingerprint
    assert cache.holds(folder)
    assert not cache.holds(place / "r")
    assert fl.Repository.load(folder, known.fingerprint).history.rows == 20

    def no_file() -> Path:
        raise AssertionError("it is there already")

    assert cache.unpacked(known.fingerprint, no_file) == folder
    assert [each.name for each in (place / "cache").iterdir() if not each.name.endswith(".lock")] == [folder.name]


@pytest.mark.slow
def test_processes_that_need_it_at_once_wait_for_the_one_that_unpacks(place):
    mark = fl.Repository.load(place / "r").fingerprint
    with get_context("fork").Pool(4) as pool:
        found = pool.starmap(unpack, [(place, mark)] * 4)
    assert set(found) == {str(place / "cache" / mark)}
    assert fl.Repository.load(found[0]).fingerprint == mark


def test_another_one_than_was_asked_for_is_refused_and_leaves_nothing(place):
    with pytest.raises(HistoryError, match="is no longer the one that is asked for"):
        cache.unpacked("0" * 64, lambda: place / "packed.tar")
    assert [each.name for each in (place / "cache").iterdir() if not each.name.endswith(".lock")] == []


def test_half_of_one_is_never_taken_for_it(place):
    mark = fl.Repository.load(place / "r").fingerprint
    whole = (place / "packed.tar").read_bytes()
    (place / "torn.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Exception, match=r"."):
        cache.unpacked(mark, lambda: place / "torn.tar")
    assert not (place / "cache" / mark).exists()
    assert cache.unpacked(mark, lambda: place / "packed.tar").exists()


def test_where_no_folder_can_be_written_the_way_out_is_named(place, monkeypatch):
    (place / "file").write_text("")
    monkeypatch.setenv(cache.PLACE, str(place / "file" / "cache"))
    with pytest.raises(HistoryError, match="set FOGLINE_REPOSITORIES to a folder"):
        cache.root()
