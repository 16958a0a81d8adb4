"""Does a repository outlive copies, crashes, other writers and its own successors?"""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline import durable
from fogline.cli import app
from fogline.repository import store
from fogline.repository.store import Draft

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", last=10)


def fitted(seed: int = 0, rows: int = 200) -> fl.Repository:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.random(rows), "b": rng.random(rows), "site": rng.choice(["x", "y"], rows)})
    return fl.Repository.fit(frame, QUERY, rules=["site, a(0.1) -> b(1)"])


def imputed(repository: fl.Repository) -> list[float]:
    return list(repository.search("b", {"a": np.array([0.5]), "site": np.array([1.0])}, 1).value)


def test_a_newer_version_leaves_the_older_one_as_it_was(tmp_path):
    first, second = fitted(1), fitted(2)
    first.save(tmp_path / "r")
    loaded = fl.Repository.load(tmp_path / "r")
    second.save(tmp_path / "r")
    assert fl.Repository.load(tmp_path / "r").fingerprint == second.fingerprint
    again = fl.Repository.load(tmp_path / "r", first.fingerprint)  # a worker that is started anew
    assert imputed(again) == imputed(loaded) == imputed(first) != imputed(second)
    assert [each.fingerprint for each in store.versions(tmp_path / "r")] == [second.fingerprint, first.fingerprint]


def test_pruning_removes_all_but_the_newest_and_names_what_is_missing_then(tmp_path):
    made = [fitted(seed) for seed in range(4)]
    for each in made:
        each.save(tmp_path / "r")
    assert len(store.prune(tmp_path / "r", keep=2)) == 2
    assert fl.Repository.load(tmp_path / "r", made[2].fingerprint).fingerprint == made[2].fingerprint
    with pytest.raises(fl.errors.HistoryError, match=r"no longer the one that is asked for.*fogline prune"):
        fl.Repository.load(tmp_path / "r", made[1].fingerprint)
    assert fl.Repository.load(tmp_path / "r").fingerprint == made[3].fingerprint
    assert len(list((tmp_path / "r").glob("version-*"))) == 2


def test_pruning_leaves_alone_what_is_being_written_and_removes_what_was_given_up(tmp_path):
    fitted().save(tmp_path / "r")
    begun, given_up = Draft(tmp_path / "r"), Draft(tmp_path / "r")
    os.utime(given_up.arrays, (0, 0))
    assert store.prune(tmp_path / "r") == [given_up.arrays.name]
    assert begun.arrays.exists()


def test_two_that_are_saved_into_one_folder_at_once_are_both_complete(tmp_path):
    made = [fitted(seed) for seed in range(4)]
    writers = [threading.Thread(target=each.save, args=(tmp_path / "r",)) for each in made]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for each in made:
        assert imputed(fl.Repository.load(tmp_path / "r", each.fingerprint)) == imputed(each)
    assert fl.Repository.load(tmp_path / "r").fingerprint in {each.fingerprint for each in made}


def test_two_that_begin_at_the_same_instant_write_into_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr("fogline.repository.store.time.time", lambda: 1e9)
    assert Draft(tmp_path / "r").arrays != Draft(tmp_path / "r").arrays


def test_a_fit_may_begin_while_the_first_one_of_the_folder_is_not_finished(tmp_path):
    first = Draft(tmp_path / "r")
    fitted(1).save(tmp_path / "r")
    first.discard()
    assert fl.Repository.load(tmp_path / "r").fingerprint == fitted(1).fingerprint


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-8]), "bytes where .* were written"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8] + bytes(8)), "but not the same ones"),
        (lambda path: path.unlink(), "is not there"),
    ],
)
def test_a_torn_copy_is_an_error_that_names_the_file(tmp_path, harm, what):
    fitted().save(tmp_path / "r")
    shutil.copytree(tmp_path / "r", tmp_path / "copy")
    assert fl.Repository.load(tmp_path / "copy").fingerprint == fitted().fingerprint
    arrays = sorted((tmp_path / "copy").glob("version-*/*.npy"))
    for path in (arrays[0], arrays[-1]):
        kept = path.read_bytes()
        harm(path)
        with pytest.raises(fl.errors.HistoryError, match=rf"damaged: .*{path.name}.*{what}.*Copy its folder again"):
            fl.Repository.load(tmp_path / "copy")
        path.write_bytes(kept)


def test_a_torn_manifest_is_an_error_that_names_it(tmp_path):
    fitted().save(tmp_path / "r")
    [version] = (tmp_path / "r").glob("version-*")
    for manifest in (version / "manifest.json", tmp_path / "r" / "manifest.json"):
        kept = manifest.read_text()
        manifest.write_text(kept[: len(kept) // 2])
        with pytest.raises(fl.errors.HistoryError, match=f"damaged: .*{manifest.parent.name}.*cannot be read"):
            fl.Repository.load(tmp_path / "r")
        manifest.write_text(kept)
    (version / "manifest.json").unlink()
    with pytest.raises(fl.errors.HistoryError, match=r"damaged: .*is not there"):
        fl.Repository.load(tmp_path / "r")


def test_of_a_large_file_both_ends_and_pieces_between_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "PIECES", 4)
    monkeypatch.setattr(durable, "PIECE", 100)
    content = bytearray(range(256)) * 8
    path = tmp_path / "large"
    path.write_bytes(content)
    before = durable.checksum(path)
    for at in (0, len(content) // 3, len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert durable.checksum(path) != before


def test_everything_is_on_the_disk_before_the_manifest_names_it(tmp_path, monkeypatch):
    synced: list[str] = []
    real = os.fsync

    def fsync(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    place = tmp_path / "of" / "mine" / "r"
    fitted().save(place)
    [version] = place.glob("version-*")
    arrays = {str(each) for each in version.glob("*.npy")}
    exchanged = next(
        k for k, name in enumerate(synced) if Path(name).name.startswith(".manifest") and version != Path(name).parent
    )
    assert arrays <= set(synced[:exchanged])
    assert {str(each) for each in (version, place, *place.parents[:3])} <= set(synced[:exchanged])
    assert str(place) in synced[exchanged:]


def test_a_format_of_another_version_is_refused_by_name(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 4, "arrays": "arrays-0"}))
    with pytest.raises(fl.errors.HistoryError, match="has format 4; this version of Fogline reads 9"):
        fl.Repository.load(tmp_path)


@pytest.mark.parametrize("folder", ["hdfs://plant/r.repo", "s3a://bucket/r.repo", Path("hdfs://plant/r.repo")])
def test_a_folder_that_cannot_be_mapped_is_refused_with_the_way_out(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    for do in (fitted().save, fl.Repository.load, Draft):
        with pytest.raises(fl.errors.HistoryError, match="a folder that every machine sees under one path"):
            do(folder)
    assert not list(tmp_path.iterdir())


def test_the_command_refuses_such_a_folder_before_any_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text("attributes: {a: max}\nid: id\ntime: t\nlifetime: 12\n")
    result = CliRunner().invoke(app, ["fit", "h.csv", "-q", "q.yaml", "-o", "hdfs://plant/r.repo"])
    assert result.exit_code == 2
    assert "lies in hdfs" in result.output
    assert [each.name for each in tmp_path.iterdir()] == ["q.yaml"]


def test_a_file_url_is_the_folder_that_it_names(tmp_path):
    fitted().save(f"file://{tmp_path}/r")
    assert fl.Repository.load(tmp_path / "r").fingerprint == fitted().fingerprint
    assert fl.Repository.load(Path(f"file://{tmp_path}/r")).folder == tmp_path / "r"
