"""Does a checkpoint give back what was put, after any crash, and nothing else after any damage?"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.errors import FoglineError, SnapshotError
from fogline.state import sqlite
from fogline.state.sqlite import FILE, REACHED, Checkpoint, FileTaken, file_system_of, refuse_network

SHARDS, SPACES, KEYS = ("", "7"), ("group", "cells"), ("", '["n"]', '["s", null]')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def filled(folder: Path, batches: int = 3) -> Checkpoint:
    """After so many batches, each of which changes half of what is there."""
    kept = Checkpoint(folder, "mark")
    for batch in range(kept.batch + 1, batches):
        kept.begin({"files": [f"{batch}.csv"]})
        for k in range(batch % 2, 60, 2):
            kept.shard(str(k % 3)).put("group", f"key {k}", k % 2, b"%d " % batch * 40 * (k + 1))
            kept.set_timer(str(k % 3), f"key {k}", 1000 * batch + k)
        kept.take_file(FileTaken(f"/in/{batch}.csv", batch, batch))
        kept.commit()
    return kept


def content(kept: Checkpoint) -> list[Any]:
    """All that it answers."""
    values = [kept.shard(str(k % 3)).get("group", f"key {k}", k % 2) for k in range(60)]
    files = sorted(kept.files(f"/in/{k}.csv" for k in range(9)).values())
    return [kept.batch, kept.intent, values, kept.due(10**9), files]


Step = tuple[str, str, str, str, int, bytes]
DONE = ("put", "put", "put", "delete", "timer", "commit", "anew", "flush")
steps = st.lists(
    st.tuples(st.sampled_from(DONE), st.sampled_from(SHARDS),
              st.sampled_from(SPACES), st.sampled_from(KEYS), st.integers(0, 2), st.binary(max_size=40)),
    max_size=60,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(steps)
def test_it_is_a_dict_that_forgets_what_was_not_committed(tmp_path_factory, made: list[Step]):
    folder = tmp_path_factory.mktemp("dict") / "checkpoint"
    kept = Checkpoint(folder)
    now, timers = dict[tuple[str, str, str, int], bytes](), dict[tuple[str, str], int]()
    before = dict(now), dict(timers)
    for what, shard, space, key, part, value in made:
        store = kept.shard(shard)
        match what:
            case "put":
                store.put(space, key, part, value)
                now[shard, space, key, part] = value
            case "delete":
                store.delete(space, key, part)
                now.pop((shard, space, key, part), None)
            case "timer":
                kept.set_timer(shard, key, part or None)
                timers.pop((shard, key), None)
                timers |= {(shard, key): part} if part else {}
            case "flush" if kept.db is not None:
                kept._flush()
            case "commit":
                kept.commit()
                before = dict(now), dict(timers)
            case "anew":
                kept.close()
                kept = Checkpoint(folder)
                now, timers = dict(before[0]), dict(before[1])
        assert kept.shard(shard).get(space, key, part) == now.get((shard, space, key, part))
        for until in range(3):
            assert kept.due(until) == sorted(name for name, due in timers.items() if due <= until)
            assert kept.is_due(until) == bool(kept.due(until))
        found = [
            ((shard, space, k, p), v) for shard in SHARDS for space in SPACES for k, p, v in kept.all(shard, space)
        ]
        assert sorted(found) == sorted(now.items())
    kept.close()


def test_what_was_begun_is_known_after_a_crash_and_what_it_changed_is_not(folder):
    kept = filled(folder)
    before = content(kept)
    intent = {"files": ["a.csv"], "now": 7}
    kept.begin(intent)
    kept.shard("0").put("group", "key 0", 0, b"new")
    kept._flush()
    kept.close()
    kept = Checkpoint(folder, "mark")
    assert content(kept) == [before[0], intent, *before[2:]]
    kept.shard("0").put("group", "key 0", 0, b"new")
    kept.commit()
    assert (kept.batch, kept.intent, kept.shard("0").get("group", "key 0")) == (3, None, b"new")


def test_an_empty_value_is_a_value_and_text_of_any_alphabet_is_a_key(folder):
    kept = Checkpoint(folder)
    kept.shard("").put("a", "Ω\0'\"", 3, b"")
    kept.commit()
    kept.close()
    assert Checkpoint(folder).shard("").get("a", "Ω\0'\"", 3) == b""


def test_nothing_is_written_before_the_first_batch_is_begun(folder):
    kept = Checkpoint(folder)
    kept.shard("").put("a", "b", 0, b"c")
    kept.set_timer("", "b", 5)
    assert (kept.shard("").get("a", "b"), kept.due(5), kept.files(["x"]), folder.exists()) == (
        b"c",
        [("", "b")],
        {},
        False,
    )
    kept.close()


def test_after_a_batch_one_file_holds_the_state_once_the_run_has_ended(folder):
    filled(folder).close()
    assert sorted(os.listdir(folder)) == [REACHED, FILE]


def test_of_two_files_of_one_name_the_one_that_was_taken_last_counts(folder):
    kept = Checkpoint(folder)
    for batch, path in enumerate(("/z/a.csv", "/b/a.csv", "/b/b.csv")):
        kept.take_file(FileTaken(path, 10 + batch, batch, "[1]"))
        kept.commit()
    assert kept.files_named(["a.csv", "c.csv"]) == {"a.csv": FileTaken("/b/a.csv", 11, 1, "[1]")}
    assert kept.files(["/z/a.csv", "/b/c.csv"]).keys() == {"/z/a.csv"}
    many = [f"/m/{k}" for k in range(1200)]
    for path in many:
        kept.take_file(FileTaken(path, 1, 3))
    kept.commit()
    assert sorted(kept.files(many)) == sorted(many)
    kept.close()


# --- Damage -----------------------------------------------------------------------------------------------------------


def is_refused_or_as_before(folder: Path, before: list[Any], what: str) -> bool:
    """Whether it is refused, in words with the way out; if it is not, nothing is another."""
    try:
        with closing(Checkpoint(folder, "mark")) as kept:
            found = content(kept)
    except FoglineError as error:
        stated = str(error)
    else:
        assert found == before, what
        return False
    assert "checkpoint" in stated, f"{what}: {stated}"
    assert "choose another output" in stated, f"{what}: {stated}"
    return True


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(folder, seed):
    kept = filled(folder)
    before = content(kept)
    kept.close()
    whole, chance, refused = (folder / FILE).read_bytes(), random.Random(seed), 0
    places = [*(range(100) if seed == 0 else ()), *(chance.randrange(len(whole)) for _ in range(150))]
    for place in places:
        (folder / FILE).write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
        refused += is_refused_or_as_before(folder, before, f"byte {place}")
        for each in folder.glob(f"{FILE}-*"):
            each.unlink()
    assert refused > len(places) / 3  # the rest lies where nothing is


def test_a_flipped_byte_in_a_value_is_named(folder):
    filled(folder).close()
    whole = (folder / FILE).read_bytes()
    place = whole.rindex(b"2 " * 200)
    (folder / FILE).write_bytes(whole[:place] + b"3" + whole[place + 1 :])
    named = pytest.raises(
        SnapshotError, match=r"'\d' / 'group' / 'key \d+' in 'checkpoint/state.sqlite' is damaged: it is not what"
    )
    with closing(Checkpoint(folder, "mark")) as kept, named:
        content(kept)


def test_a_value_under_another_name_is_refused(folder):
    filled(folder).close()
    with closing(sqlite3.connect(folder / FILE)) as db:
        (one, other) = (place for (place,) in db.execute("SELECT place FROM state LIMIT 2"))
        value = db.execute("SELECT value FROM bytes WHERE place = ?", (one,)).fetchone()
        db.execute("UPDATE bytes SET value = ? WHERE place = ?", (*value, other))
        db.commit()
    with closing(Checkpoint(folder, "mark")) as kept, pytest.raises(SnapshotError, match="is damaged"):
        content(kept)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM state WHERE key = 'key 4'",
        "UPDATE state SET key = 'key 99' WHERE key = 'key 4'",
        "UPDATE timers SET due = due + 1 WHERE key = 'key 4'",
        "DELETE FROM files WHERE batch = 1",
        "UPDATE files SET path = '/in/9.csv' WHERE batch = 1",
        "UPDATE head SET about = replace(about, '\"batch\": 2', '\"batch\": 1')",
        "DELETE FROM head",
        "CREATE TABLE more (a)",
        "DROP INDEX timers_due",
    ],
)
def test_whatever_was_changed_behind_its_back_is_refused(change, folder):
    filled(folder).close()
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute(change)
        db.commit()
    with pytest.raises(SnapshotError, match=r"'checkpoint/state.sqlite' is damaged"):
        Checkpoint(folder, "mark")


def lengths(size: int, page: int = 4096) -> list[int]:
    """Of a file that was cut: within its head, at and beside the ends of pages, in their midst."""
    ends = [end + by for end in range(0, size, page) for by in (-1, 0, 1, page // 2)]
    return sorted({0, 1, 15, 16, 50, 99, 100, 101, size - 1, *(each for each in ends if 0 <= each < size)})


def test_a_file_that_was_cut_anywhere_is_refused(folder):
    kept = filled(folder)
    before = content(kept)
    kept.close()
    whole = (folder / FILE).read_bytes()
    for size in lengths(len(whole)):
        (folder / FILE).write_bytes(whole[:size])
        assert is_refused_or_as_before(folder, before, f"cut to {size}")
        for each in folder.glob(f"{FILE}-*"):
            each.unlink()


def copied(folder: Path, to: Path) -> Path:
    """As a crash would leave it: the run goes on meanwhile."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to, ignore=lambda *_: [f"{FILE}-shm"])
    return to


def test_a_log_that_was_cut_anywhere_leaves_a_batch_as_a_whole_or_is_refused(folder, tmp_path):
    kept = filled(folder, 2)
    whole = content(kept)
    kept.begin({"files": ["a.csv"]})
    begun = content(kept)
    kept.shard("0").put("group", "key 0", 0, os.urandom(50_000))
    kept.commit()
    done = content(kept)
    crashed = copied(folder, tmp_path / "crashed" / "checkpoint")
    kept.close()
    (crashed / REACHED).unlink()  # as if it had not come to the disk; else what was cut is refused
    log, seen = (crashed / f"{FILE}-wal").read_bytes(), list[int]()
    for size in (*lengths(len(log), 4096 + 24), len(log)):
        (crashed / f"{FILE}-wal").write_bytes(log[:size])
        trial = copied(crashed, tmp_path / "trial" / "checkpoint")
        if is_refused_or_as_before(trial, done, f"log cut to {size}") if size == len(log) else False:
            raise AssertionError("the whole log is refused")
        with closing(Checkpoint(copied(crashed, tmp_path / "trial" / "checkpoint"), "mark")) as found:
            assert content(found)[0] <= 2
            seen.append(content(found)[0] * 2 + (found.intent is not None))
            if found.batch == 1:
                assert content(found) in (whole, begun), f"log cut to {size}"
    assert seen == sorted(seen), "what is cut shorter knows less"
    assert {2, 3, 4} <= {*seen}


def test_a_log_that_was_cut_or_left_behind_is_refused_where_the_batch_is_known_to_be_done(folder, tmp_path):
    kept = filled(folder, 3)
    crashed = copied(folder, tmp_path / "crashed" / "checkpoint")
    kept.close()
    log = crashed / f"{FILE}-wal"
    whole = log.read_bytes()
    for cut in (whole[: len(whole) // 2], whole[:-1], b"", None):
        trial = copied(crashed, tmp_path / "trial" / "checkpoint")
        (trial / log.name).unlink()
        if cut is not None:
            (trial / log.name).write_bytes(cut)
        with pytest.raises(SnapshotError, match=r"batch 2 was done.* was copied without its log \(state.sqlite-wal\)"):
            Checkpoint(trial, "mark")


@pytest.mark.parametrize("content_", [b"", b"\0" * 22, b"           9 00000000\n", b"nonsense", "π".encode("utf-16")])
def test_a_number_of_batches_that_has_not_come_to_the_disk_is_ignored_and_written_again(content_, folder):
    filled(folder).close()
    noted = (folder / REACHED).read_bytes()
    (folder / REACHED).write_bytes(content_)
    with closing(Checkpoint(folder, "mark")) as kept:
        assert kept.batch == 2
    assert (folder / REACHED).read_bytes() == noted  # it protects from an old copy again


# --- What is refused --------------------------------------------------------------------------------------------------


def test_another_run_another_version_and_what_is_no_checkpoint_are_refused_by_name(folder):
    filled(folder).close()
    with pytest.raises(SnapshotError, match=r"'checkpoint/state.sqlite' belongs to another run"):
        Checkpoint(folder, "another")
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("PRAGMA user_version = 3")
    with pytest.raises(SnapshotError, match=r"has format 3; .* reads 2. It was written by a newer Fogline"):
        Checkpoint(folder, "mark")
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("PRAGMA application_id = 1")
    with pytest.raises(SnapshotError, match="is not a checkpoint of Fogline"):
        Checkpoint(folder, "mark")
    (folder / FILE).write_bytes(b"PAR1" * 1000)
    with pytest.raises(
        SnapshotError, match=r"'checkpoint/state.sqlite' is damaged: it does not begin as it was written"
    ):
        Checkpoint(folder, "mark")


@pytest.mark.parametrize("name", ["state/000000000.delta", "state/000000004.base", "offsets/0"])
def test_a_checkpoint_of_files_of_changes_is_refused_by_name(name, folder):
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(b"FOGEMBED\x01 and so on")
    with pytest.raises(
        SnapshotError, match=r"checkpoint' has format 1; .* reads 2. .*an older Fogline: .* another output"
    ):
        Checkpoint(folder)


def test_a_second_process_cannot_write_while_a_batch_is_under_way(folder, monkeypatch):
    monkeypatch.setattr(sqlite, "PATIENCE", 0.1)
    first = filled(folder)
    second = Checkpoint(folder, "mark")
    first.begin({})
    with pytest.raises(FoglineError, match="is being used by another process"):
        second.begin({})
    first.commit()
    first.close()
    third = Checkpoint(folder, "mark")
    with pytest.raises(FoglineError, match="was written by another process meanwhile"):
        second = filled_but_late(folder, third)
    third.close()
    second.close()


def filled_but_late(folder: Path, late: Checkpoint) -> Checkpoint:
    """Another process does a batch, and then this one begins its own."""
    other = Checkpoint(folder, "mark")
    other.begin({})
    other.commit()
    other.close()
    late.begin({})
    return late


def test_what_failed_is_closed_and_the_file_is_as_it_was(folder, monkeypatch):
    kept = filled(folder)
    before = content(kept)
    kept.shard("0").put("group", "key 0", 0, b"new")
    monkeypatch.setattr(kept, "_write_head", lambda db: (_ for _ in ()).throw(OSError(28, "no space left")))
    with pytest.raises(OSError, match="no space left"):
        kept.commit()
    with pytest.raises(FoglineError, match="is closed: this run has ended"):
        kept.get(("0", "group", "key 0", 0))
    with closing(Checkpoint(folder, "mark")) as again:
        assert content(again) == before


@pytest.mark.parametrize(
    ("full", "code", "number"),
    [
        (True, sqlite3.SQLITE_IOERR, errno.ENOSPC),
        (True, sqlite3.SQLITE_CANTOPEN, errno.ENOSPC),
        (False, sqlite3.SQLITE_IOERR, errno.EIO),
        (False, sqlite3.SQLITE_CANTOPEN, errno.EACCES),
    ],
)
def test_what_fails_on_a_full_disk_names_the_full_disk(full, code, number, folder, monkeypatch):
    kept = filled(folder)
    monkeypatch.setattr(sqlite, "_is_full", lambda _: full)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    monkeypatch.setattr(kept, "_write_head", lambda db: (_ for _ in ()).throw(error))
    with pytest.raises(OSError, match=r"state\.sqlite") as found:
        kept.commit()
    assert found.value.errno == number


def test_a_full_disk_and_a_folder_that_cannot_be_written_are_errors_of_the_file_system(folder):
    kept = filled(folder)
    with closing(sqlite3.connect(folder / FILE)) as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
    assert kept.db is not None
    kept.db.execute(f"PRAGMA max_page_count = {pages + 3}")
    kept.shard("0").put("group", "large", 0, bytes(10**6))
    with pytest.raises(OSError, match="No space left") as found:
        kept.commit()
    assert found.value.filename == str(folder / FILE)


def test_a_value_that_is_larger_than_sqlite_takes_is_refused_with_the_way_out(folder, monkeypatch):
    monkeypatch.setattr(sqlite, "LARGEST", 10)
    with pytest.raises(FoglineError, match=r"takes 11 bytes.*--engine spark"):
        Checkpoint(folder).shard("").put("group", "k", 0, bytes(11))


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre"])
def test_network_file_systems_are_refused_in_a_sentence(kind, tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/sda / ext4 rw 0 0\nx {tmp_path}/a\\040b {kind} rw 0 0\ny {tmp_path}/a\\040b/c xfs rw 0 0\n"
    )
    monkeypatch.setattr(sqlite, "MOUNTS", mounts)
    for name in ("a b", "a b/d/e"):
        with pytest.raises(
            FoglineError, match=rf"network file system \({kind}\).*a disk of this machine, or .*--engine"
        ):
            refuse_network(tmp_path / name)
    for name in ("a", "a b/c", "a b/c/d", "a bc"):
        refuse_network(tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / "a b")
    with pytest.raises(FoglineError, match="network"):
        Checkpoint(tmp_path / "link" / "checkpoint").begin({})
    Checkpoint(tmp_path / "link" / "checkpoint").put(("", "state", "", 0), b"in memory")  # as where memory is estimated
    monkeypatch.setattr(sqlite, "MOUNTS", tmp_path / "not there")
    assert file_system_of(tmp_path) is None
    refuse_network(tmp_path / "a b")


# --- Kills, and memory ------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
from typing import Any
from fogline.state import sqlite
sqlite.WAITING = 20_000
kept = sqlite.Checkpoint(Path(sys.argv[1]))
print("ready", flush=True)
for batch in range(kept.batch + 1, 10**6):
    kept.begin({"number": batch})
    for k in range(40):
        kept.shard(str(k % 3)).put("n", str(k), 0, b"%d." % batch * (1 + 97 * k % 1000))
        kept.set_timer("", str(k), batch)
    kept.commit()
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_process_that_is_killed_leaves_one_batch_as_a_whole(folder, seed):
    chance, last = random.Random(seed), -1
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(chance.random() ** 2)
        child.kill()
        child.wait()
        child.stdout.close()
        with closing(Checkpoint(folder)) as kept:
            assert kept.batch >= last
            last = kept.batch
            assert kept.intent in (None, {"number": last + 1})
            expected = [b"%d." % last * (1 + 97 * k % 1000) if last >= 0 else None for k in range(40)]
            assert [kept.shard(str(k % 3)).get("n", str(k)) for k in range(40)] == expected
            assert (last < 0) or (kept.due(last) != [] and not kept.is_due(last - 1))
    assert last > 0


def test_memory_is_bounded_by_what_is_cached_whatever_is_kept(folder, monkeypatch):
    monkeypatch.setattr(sqlite, "WAITING", 2**20)
    monkeypatch.setattr(sqlite, "CACHED", 2**20)
    kept, peaks = Checkpoint(folder), list[int]()
    for batch in range(8):
        kept.begin({})
        for k in range(10_000):
            kept.shard(str(k % 16)).put("group", f"{batch} {k}", 0, k.to_bytes(4, "big") * 250)
            assert sum(len(value or b"") for value in kept.changed.values()) <= 2**20 if k % 1000 == 0 else True
        kept.commit()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[-1] - peaks[1] < 8_000, f"{peaks} kB"
    kept.close()
    with closing(Checkpoint(folder)) as kept:
        assert kept.shard("3").get("group", "7 3") == (3).to_bytes(4, "big") * 250
