"""Does a fault of the disk change what comes of a run? At a few of all operations; `make chaos` tries each."""

from __future__ import annotations

import os
import random
from contextlib import closing, suppress
from pathlib import Path

import pytest

from fogline.output.folder import LocalFolder
from fogline.runs.lock import holding
from fogline.state.sqlite import REACHED, Checkpoint
from tests.chaos.case import SAME
from tests.chaos.disk import CUT, ERROR, FULL, KINDS, SHORT, Disk, PowerCut
from tests.chaos.io import EVERY, scenarios, tried

SCENARIOS = {f"{each.name} {each.mode}": each for each in scenarios()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_fault_the_same_command_leaves_what_an_undisturbed_one_does(name):
    found = tried(SCENARIOS[name], KINDS, 0, few=1)
    assert found.end == SAME
    assert found.faults == len(KINDS)


def test_faults_while_a_run_recovers_from_faults_change_nothing_either():
    assert tried(SCENARIOS["run append"], (CUT,), 17, few=3).faults >= 3


def test_the_first_seeds_have_every_operation_once():
    rows = SCENARIOS["rows of impute"]
    assert [tried(rows, (ERROR,), seed).faults for seed in range(EVERY)] == [2, 2, 2, 2, 1, 1, 1, 1]


def rewritten(root: Path, *, synced: bool) -> None:
    """A file gets another content, by a draft and a rename."""
    draft = root / "draft"
    with draft.open("wb") as file:
        file.write(b"new" * 100)
        if synced:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(root / "file")


def left(root: Path, disk: Disk, *, synced: bool, seed: int) -> bytes:
    """What a reader finds after a power cut that comes after the rename, or wherever the disk fails."""
    (root / "file").write_bytes(b"old")
    with disk.on(), suppress(PowerCut, OSError):
        rewritten(root, synced=synced)
    if disk.kind == CUT:
        disk.unsynced.after_cut(random.Random(seed))
    return (root / "file").read_bytes()


def test_the_disk_loses_what_was_not_synced_and_nothing_else(tmp_path):
    after = {synced: {left(tmp_path, Disk(str(tmp_path), CUT, 99), synced=synced, seed=k) for k in range(40)}
             for synced in (True, False)}  # fmt: skip
    assert after[True] == {b"old", b"new" * 100}  # the rename may be lost, the content is not
    assert {b"", b"old", b"new" * 100, bytes(300)} < after[False]
    assert any(0 < len(each) < 300 and each != b"old" for each in after[False])


@pytest.mark.parametrize("seed", range(8))
def test_a_folder_that_a_run_holds_is_there_after_a_power_cut(seed, tmp_path):
    disk, out = Disk(str(tmp_path)), tmp_path / "new" / "out"
    with disk.on(), holding(str(out), "embedded"):
        LocalFolder(out).put("about.json", b"{}")
    disk.unsynced.after_cut(random.Random(seed))
    assert (out / "about.json").read_bytes() == b"{}"


@pytest.mark.parametrize("seed", range(20))
def test_what_lies_in_a_folder_goes_where_its_name_goes(seed, tmp_path):
    disk, here, there = Disk(str(tmp_path)), tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (here / "file").write_bytes(b"content")
    with disk.on():
        os.replace(here, there)
    disk.unsynced.after_cut(random.Random(seed))
    (place,) = tmp_path.iterdir()
    assert place in (here, there)
    assert (place / "file").read_bytes() == b"content"


def committed(folder: Path, *batches: int) -> None:
    """Batches of a run. When it ends, SQLite removes its log, and does not sync the folder."""
    with closing(Checkpoint(folder, "mark")) as kept:
        for k in batches:
            kept.begin({"batch": k})
            kept.put(("", "group", "key", 0), b"%d" % k)
            kept.commit()


@pytest.mark.parametrize("seed", range(8))
def test_the_log_of_a_state_that_was_removed_comes_back_as_it_was_last(seed, tmp_path):
    disk, folder = Disk(str(tmp_path)), tmp_path / "checkpoint"
    committed(folder, 0)
    (folder / REACHED).unlink()
    with disk.on():
        committed(folder, 1, 2)
    disk.unsynced.after_cut(random.Random(seed))
    with closing(Checkpoint(folder, "mark")) as found:
        assert found.batch == 2
        assert found.get(("", "group", "key", 0)) == b"2"


@pytest.mark.parametrize("kind", [ERROR, FULL, SHORT])
def test_every_step_of_a_write_fails_once_in_its_own_way(kind, tmp_path):
    failed, n = [], 0
    while True:
        disk = Disk(str(tmp_path), kind, n)
        content = left(tmp_path, disk, synced=True, seed=0)
        if not disk.failed:
            break
        assert content == b"old"
        failed.append(disk.failed.split()[0])
        n += 1
    assert content == b"new" * 100
    assert failed == {ERROR: ["open", "write", "sync", "move"], FULL: ["open", "write"], SHORT: ["write"]}[kind]
