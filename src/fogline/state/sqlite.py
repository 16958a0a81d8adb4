"""What does a run in one process keep between its batches, and is it what was written?

One SQLite file, `checkpoint/state.sqlite`: values of shards, timers, the files that were taken, and a head (which run,
which batch, what the batch under way shall do). What a batch changes is committed as one transaction; before it changes
anything, its intent is. After a crash the state is that before the batch or that after it.

**Why a write-ahead log** (`journal_mode=WAL`, `synchronous=FULL`). A commit is one append and one sync, a third of the
time of a rollback journal. A person's look into the file never blocks the run. A log that was cut leaves the state of
an earlier commit, where a journal that was cut leaves a mixture. At the end of a run the log is merged into the file,
so that one file is all there is. Copy the folder while no run writes to it: a copy of the file without its log is
older.

**Why that is noticed.** An older state is well-formed. So the number of each batch is also written to a small file,
`checkpoint/reached`, after its commit: state that has not come so far is refused. The small file is not synced: it may
lag behind the state, and is never ahead of it.

**Why a damaged byte is noticed.** SQLite has no checksums. Each value has one, over its name and its bytes, which is
compared whenever it is read. The head has one, and sums of checksums over all rows of the other tables, which are
compared when the file is opened: so a name that was changed is an error, never a value that is "not there". Values lie
in a table of their own: comparing all names does not read them.

Memory: the page cache (`CACHED`) and what the batch has changed, up to `WAITING` bytes; beyond them changes go into the
open transaction.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fogline.durable import make_folder, sync
from fogline.errors import FoglineError, SnapshotError, other_format

FILE, REACHED = "state.sqlite", "reached"
APPLICATION, FORMAT = 0x464F474C, 2  # "FOGL"; format 1 were files of changes
CACHED = 32 * 2**20  # bytes of pages in memory
WAITING = 64 * 2**20  # bytes of changed values in memory
LOGGED = 64 * 2**20  # bytes that the write-ahead log keeps on disk between commits, at most
CHECKED = 2**30  # bytes of a file whose structure is checked as a whole when it is opened: in half a second
LARGEST = 10**9  # bytes of one value, as SQLite is built
SOME = 500  # names in one statement
PATIENCE = 5.0  # seconds to wait for another process that looks into the file
WAY_OUT = "Put back a good copy of the whole folder, or choose another output."

_SCHEMA = (
    "CREATE TABLE head (one INTEGER PRIMARY KEY, about TEXT NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE state (shard TEXT, namespace TEXT, key TEXT, part INTEGER, crc INTEGER NOT NULL, "
    "place INTEGER NOT NULL, PRIMARY KEY (shard, namespace, key, part)) WITHOUT ROWID",
    "CREATE TABLE bytes (place INTEGER PRIMARY KEY, value BLOB NOT NULL)",
    "CREATE TABLE timers (shard TEXT, key TEXT, due INTEGER NOT NULL, PRIMARY KEY (shard, key)) WITHOUT ROWID",
    "CREATE INDEX timers_due ON timers (due)",
    "CREATE TABLE files (path TEXT PRIMARY KEY, name TEXT NOT NULL, taken INTEGER NOT NULL, batch INTEGER NOT NULL, "
    "span TEXT) WITHOUT ROWID",
    "CREATE INDEX files_name ON files (name)",
)
_SUMMED = ("state", "timers", "files")  # tables of which the head has a sum

Name = tuple[str, str, str, int]  # shard, namespace, key, part


class FileTaken(NamedTuple):
    """A file that a batch has read."""

    path: str
    when: int  # it was last changed, in milliseconds
    batch: int
    span: str = ""  # the part of it that was read, as its reader writes it; empty: all of it


class Checkpoint:
    """The state after the last batch that was committed, and what the batch under way changes.

    The file is made when the first batch is begun. `mark` names the run that it belongs to.
    """

    def __init__(self, folder: Path, mark: str = "") -> None:
        self.db: sqlite3.Connection | None = None  # None: not made yet, or closed
        self.closed = False
        self._reached: int | None = None  # the small file, opened
        self.folder, self.path, self.mark = folder, folder / FILE, mark
        self.batch = -1  # the last one that is committed
        self.reported = -1  # the last one of them that had something to report
        self.intent: dict[str, Any] | None = None  # what the next one shall do, once it was begun
        self.changed: dict[Name, bytes | None] = {}  # not yet in the file
        self.timers: dict[tuple[str, str], int | None] = {}  # likewise
        self.waiting = 0  # bytes of them
        self.sums = dict.fromkeys(_SUMMED, 0)
        self._whole = False  # whether the file was opened, and is what was written
        self._version = 0  # of the file's content, as far as other processes change it
        _refuse_former(folder)
        if self.path.exists():
            refuse_network(folder)
            with self._guarded():
                self._open()
        else:
            self._must_have_reached()

    # --- values -------------------------------------------------------------------------------------------------------

    def shard(self, name: str) -> ShardStore:
        """The values of one shard, as a `StateStore`."""
        return ShardStore(self, name)

    def get(self, name: Name) -> bytes | None:
        """What was put there; None: nothing."""
        if name in self.changed:
            return self.changed[name]
        if (db := self._reading()) is None:
            return None
        with self._guarded():
            found = db.execute(
                "SELECT crc, value FROM state LEFT JOIN bytes USING (place) "
                "WHERE shard = ? AND namespace = ? AND key = ? AND part = ?",
                name,
            ).fetchone()
        return None if found is None else self._checked(name, *found)

    def put(self, name: Name, value: bytes) -> None:
        """Keep it, instead of what is there."""
        if len(value) > LARGEST:
            raise FoglineError(
                f"the state of one group takes {len(value):,} bytes, and the embedded engine keeps at most {LARGEST:,} "
                "in one piece: divide the stream into more groups (by), or use `fogline run --engine spark`."
            )
        self._change(name, value)

    def delete(self, name: Name) -> None:
        """Forget what is there, if anything is."""
        self._change(name, None)

    def all(self, shard: str, namespace: str) -> Iterator[tuple[str, int, bytes]]:
        """Keys and parts of a namespace, in their order, with what is kept for each."""
        found = {(key, part) for (*of, key, part), value in self.changed.items() if of == [shard, namespace]}
        if (db := self._reading()) is not None:
            with self._guarded():
                where = "shard = ? AND namespace = ?"
                found |= {*db.execute(f"SELECT key, part FROM state WHERE {where}", (shard, namespace))}
        for key, part in sorted(found):
            if (value := self.get((shard, namespace, key, part))) is not None:
                yield key, part, value

    def _change(self, name: Name, value: bytes | None) -> None:
        self.waiting += (0 if value is None else len(value)) - len(self.changed.get(name) or b"")
        self.changed[name] = value
        if self.waiting > WAITING and self.db is not None:
            self._flush()

    def _checked(self, name: Name, crc: int, value: bytes | None) -> bytes:
        if not isinstance(value, bytes) or _crc(name, value) != crc:
            what = " / ".join(repr(each) for each in name if each not in ("", 0)) or "a value"
            raise SnapshotError(f"{what} in {self._named} is damaged: it is not what was written. {WAY_OUT}")
        return value

    # --- timers -------------------------------------------------------------------------------------------------------

    def set_timer(self, shard: str, key: str, due: int | None) -> None:
        """From this watermark on (an event time in milliseconds) time alone changes the key; None: it never does."""
        self.timers[shard, key] = due

    def due(self, until: int) -> list[tuple[str, str]]:
        """Shards and keys whose timers are due at this watermark, in the order of their names. O(those that are)."""
        found = {name for name, due in self.timers.items() if due is not None and due <= until}
        if (db := self._reading()) is not None:
            with self._guarded():
                rows = db.execute("SELECT shard, key FROM timers WHERE due <= ?", (until,)).fetchall()
            found |= {(shard, key) for shard, key in rows if (shard, key) not in self.timers}
        return sorted(found)

    def is_due(self, until: int) -> bool:
        """Whether any timer is. O(1) between batches."""
        if any(due is not None and due <= until for due in self.timers.values()):
            return True
        if (db := self._reading()) is None:
            return False
        with self._guarded():
            rows = db.execute("SELECT shard, key FROM timers WHERE due <= ? ORDER BY due", (until,))
            return any((shard, key) not in self.timers for shard, key in rows)

    # --- files --------------------------------------------------------------------------------------------------------

    def take_file(self, file: FileTaken) -> None:
        """The batch under way reads this file."""
        db = self._writing()
        with self._guarded():
            before = db.execute("SELECT path, name, taken, batch, span FROM files WHERE path = ?", (file.path,))
            self._count("files", before.fetchone(), -1)
            row = (file.path, _last(file.path), file.when, file.batch, file.span)
            db.execute("INSERT OR REPLACE INTO files (path, name, taken, batch, span) VALUES (?, ?, ?, ?, ?)", row)
            self._count("files", row, 1)

    def files(self, paths: Iterable[str]) -> dict[str, FileTaken]:
        """What is known of those of these files that were taken, by their paths."""
        return {each.path: each for each in self._files("path", paths)}

    def files_named(self, names: Iterable[str]) -> dict[str, FileTaken]:
        """The same by the names of files, in whichever folders they lay. Of two of one name the last one counts."""
        return {_last(each.path): each for each in sorted(self._files("name", names), key=lambda each: each.batch)}

    def _files(self, column: str, wanted: Iterable[str]) -> Iterator[FileTaken]:
        if (db := self._reading()) is None:
            return
        names = list(dict.fromkeys(wanted))
        for begin in range(0, len(names), SOME):
            some = names[begin : begin + SOME]
            with self._guarded():
                rows = db.execute(
                    f"SELECT path, taken, batch, span FROM files WHERE {column} IN ({', '.join('?' * len(some))})", some
                ).fetchall()
            yield from (FileTaken(*row) for row in rows)

    # --- batches ------------------------------------------------------------------------------------------------------

    def begin(self, intent: dict[str, Any] | None) -> None:
        """The next batch will do this, however often it has to be begun: that is on disk when this returns.

        None: it is not known yet what it will do.
        """
        db = self._writing()
        with self._finishing():
            self.intent = intent
            self._write_head(db)
            db.execute("COMMIT")
        self._writing()

    def commit(self, *, reported: bool = False) -> None:
        """The batch is done: what it changed counts from now on, and is on disk when this returns.

        `reported`: whether it had something to report, which lies in all its places by now.
        """
        db = self._writing()
        with self._finishing():
            self._flush()
            self.batch, self.intent = self.batch + 1, None
            self.reported = self.batch if reported else self.reported
            self._write_head(db)
            db.execute("COMMIT")
        self._note_reached()

    @contextmanager
    def _finishing(self) -> Iterator[None]:
        """What fails here leaves the file as it was, and nothing more is read or written by this process."""
        try:
            with self._guarded():
                yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Nothing more comes of this process. What was not committed is forgotten."""
        db, self.db, self.closed = self.db, None, True
        if db is not None:
            with suppress(sqlite3.Error):  # what was committed is on disk
                if db.in_transaction:
                    db.execute("ROLLBACK")
            with suppress(sqlite3.Error):
                db.close()
        if self._reached is not None:
            os.close(self._reached)
            self._reached = None

    def __del__(self) -> None:
        self.close()

    def _reading(self) -> sqlite3.Connection | None:
        """The file; None: it is not made yet."""
        if self.closed:
            raise FoglineError(f"{self._named} is closed: this run has ended. The same command goes on.")
        return self.db

    def _writing(self) -> sqlite3.Connection:
        """The file, with a transaction to write to; another process cannot have one as long as it lasts."""
        if self._reading() is None:
            self._create()
        assert self.db is not None
        if not self.db.in_transaction:
            with self._guarded():
                self.db.execute("BEGIN IMMEDIATE")
                if self._version_now(self.db) != self._version:
                    raise FoglineError(f"{self._named} was written by another process meanwhile: let one run write it.")
        return self.db

    def _version_now(self, db: sqlite3.Connection) -> int:
        return int(db.execute("PRAGMA data_version").fetchone()[0])

    def _flush(self) -> None:
        """What has changed goes into the open transaction."""
        db = self._writing()
        with self._guarded():
            for name, value in self.changed.items():
                self._write(db, name, value)
            for timer, due in self.timers.items():
                self._write_timer(db, timer, due)
        self.changed, self.timers, self.waiting = {}, {}, 0

    def _write(self, db: sqlite3.Connection, name: Name, value: bytes | None) -> None:
        where = "WHERE shard = ? AND namespace = ? AND key = ? AND part = ?"
        before = db.execute(f"SELECT crc, place FROM state {where}", name).fetchone()
        if before is not None:
            self._count("state", (*name, *before), -1)
        if value is None:
            if before is not None:
                db.execute(f"DELETE FROM state {where}", name)
                db.execute("DELETE FROM bytes WHERE place = ?", before[1:])
            return
        crc = _crc(name, value)
        if before is None:
            place = db.execute("INSERT INTO bytes (value) VALUES (?)", (value,)).lastrowid
            db.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)", (*name, crc, place))
        else:
            place = before[1]
            db.execute("UPDATE bytes SET value = ? WHERE place = ?", (value, place))
            db.execute(f"UPDATE state SET crc = ? {where}", (crc, *name))
        self._count("state", (*name, crc, place), 1)

    def _write_timer(self, db: sqlite3.Connection, timer: tuple[str, str], due: int | None) -> None:
        before = db.execute("SELECT shard, key, due FROM timers WHERE shard = ? AND key = ?", timer).fetchone()
        self._count("timers", before, -1)
        if due is None:
            db.execute("DELETE FROM timers WHERE shard = ? AND key = ?", timer)
            return
        db.execute("INSERT OR REPLACE INTO timers (shard, key, due) VALUES (?, ?, ?)", (*timer, due))
        self._count("timers", (*timer, due), 1)

    def _count(self, table: str, row: tuple[Any, ...] | None, by: int) -> None:
        if row is not None:
            self.sums[table] += by * _row(row)

    # --- the file as a whole ------------------------------------------------------------------------------------------

    def _create(self) -> None:
        """An empty state, whole or not there."""
        refuse_network(self.folder)
        make_folder(self.folder)
        fresh = self.folder / f".{FILE}.new"
        with self._guarded():
            fresh.unlink(missing_ok=True)
            with _connected(fresh) as db:
                db.execute("PRAGMA journal_mode = OFF")  # it counts once it has its name
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {FORMAT}")
                db.execute("BEGIN")
                for each in _SCHEMA:
                    db.execute(each)
                self._write_head(db)
                db.execute("COMMIT")
                db.execute("PRAGMA journal_mode = WAL")
            sync(fresh)
            fresh.replace(self.path)
            sync(self.folder)
            self._open()

    def _open(self) -> None:
        self._must_be_ours()
        db = self.db = sqlite3.connect(self.path, PATIENCE, isolation_level=None, check_same_thread=False)
        for each in (
            "synchronous = FULL",
            "secure_delete = OFF",
            "trusted_schema = OFF",
            f"cache_size = {-CACHED // 1024}",
            f"journal_size_limit = {LOGGED}",
        ):
            db.execute(f"PRAGMA {each}")
        if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise FoglineError(
                f"{str(self.folder)!r} lies on a file system that cannot hold a checkpoint of the embedded engine "
                "(SQLite finds no shared memory there). Choose an output on a disk of this machine."
            )
        found = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
        if [sql for (sql,) in found] != list(_SCHEMA):
            raise self._damaged("its tables are not those that were made")
        head = self._head(db)
        if head["mark"] != self.mark:
            raise SnapshotError(f"{self._named} belongs to another run than this output. {WAY_OUT}")
        self.batch, self.reported = head["batch"], head.get("reported", -1)  # not known: earlier versions kept none
        self.intent, self.sums = head["intent"], head["sums"]
        self._must_be_whole(db)
        self._must_have_reached()
        if self.batch >= 0 and _reached(self.folder / REACHED) != self.batch:
            self._note_reached()  # a power cut took the last note
        self._version, self._whole = self._version_now(db), True

    def _must_be_ours(self) -> None:
        """The first bytes of a file of this format."""
        first = _first(self.path, 100)
        if len(first) < 100 or not first.startswith(b"SQLite format 3\0"):
            raise self._damaged("it does not begin as it was written")
        if int.from_bytes(first[68:72], "big") != APPLICATION:
            raise SnapshotError(f"{self._named} is not a checkpoint of Fogline, or is damaged. {WAY_OUT}")
        if (version := int.from_bytes(first[60:64], "big")) != FORMAT:
            raise SnapshotError(other_format(self._named, version, FORMAT, "choose another output"))

    def _head(self, db: sqlite3.Connection) -> dict[str, Any]:
        rows = db.execute("SELECT about, crc FROM head").fetchall()
        if len(rows) != 1 or not isinstance(rows[0][0], str) or zlib.crc32(rows[0][0].encode()) != rows[0][1]:
            raise self._damaged("its head is not what was written")
        found: dict[str, Any] = json.loads(rows[0][0])
        return found

    def _write_head(self, db: sqlite3.Connection) -> None:
        known = {"mark": self.mark, "batch": self.batch, "reported": self.reported}
        about = json.dumps({**known, "sums": self.sums, "intent": self.intent})
        db.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (about, zlib.crc32(about.encode())))

    def _must_be_whole(self, db: sqlite3.Connection) -> None:
        """All names are those that were written, and indexes fit them; of a small file also all pages fit together."""
        size = os.path.getsize(self.path)
        checks = [f"integrity_check({table})" for table in ("timers", "files")]
        for each in [*checks, *(["quick_check(1)"] if size <= CHECKED else [])]:
            found = db.execute(f"PRAGMA {each}").fetchall()
            if found != [("ok",)]:
                raise self._damaged(str(found[0][0]).splitlines()[0])
        for table in _SUMMED:
            if sum(map(_row, db.execute(f"SELECT * FROM {table}"))) != self.sums[table]:
                raise self._damaged(f"what its table {table!r} holds is not what was written")

    def _must_have_reached(self) -> None:
        """The state has come as far as it had come once."""
        if (reached := _reached(self.folder / REACHED)) is not None and reached > self.batch:
            raise SnapshotError(
                f"the checkpoint knows that batch {reached} was done, but its state "
                f"{f'ends with batch {self.batch}' if self.batch >= 0 else 'is not there'}: {self._named} is an old "
                f"copy, is cut short, or was copied without its log ({FILE}-wal). {WAY_OUT}"
            )

    def _note_reached(self) -> None:
        """After the commit, without waiting for the disk: what is noted there is surely committed."""
        if self._reached is None:
            self._reached = os.open(self.folder / REACHED, os.O_RDWR | os.O_CREAT, 0o644)
        number = f"{self.batch:>12}"
        os.pwrite(self._reached, f"{number} {zlib.crc32(number.encode()):08x}\n".encode(), 0)

    @property
    def _named(self) -> str:
        return f"'{self.folder.name}/{FILE}'"

    def _damaged(self, what: str) -> SnapshotError:
        return SnapshotError(f"{self._named} is damaged: {what}. {WAY_OUT}")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """What SQLite reports becomes an error in words, or that of the file system behind it."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._in_words(error) from error

    def _in_words(self, error: sqlite3.Error) -> Exception:
        code, path = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF, str(self.path)
        if code in _OF_FILES:
            number = _OF_FILES[code]
            if number in (errno.EIO, errno.EACCES) and _is_full(self.folder):
                number = errno.ENOSPC  # SQLite has other words where its log, or the log's index, cannot grow
            return OSError(number, os.strerror(number), path)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return FoglineError(f"{path!r} is being used by another process. Stop it, or choose another output.")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or not self._whole:
            return self._damaged(str(error))
        return error


_OF_FILES = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}


class ShardStore:
    """What a run keeps of one shard, or of one bucket of sensors, between batches: a `StateStore`."""

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self.checkpoint, self.name = checkpoint, name

    def get(self, namespace: str, key: str = "", part: int = 0) -> bytes | None:
        """What was put there; None: nothing. O(log values)."""
        return self.checkpoint.get((self.name, namespace, key, part))

    def put(self, namespace: str, key: str, part: int, value: bytes) -> None:
        """Keep it, instead of what is there."""
        self.checkpoint.put((self.name, namespace, key, part), value)

    def delete(self, namespace: str, key: str, part: int) -> None:
        """Forget what is there, if anything is."""
        self.checkpoint.delete((self.name, namespace, key, part))


# --- Where no checkpoint can lie, and what lay there before -----------------------------------------------------------

NETWORK = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
))  # fmt: skip
MOUNTS = Path("/proc/mounts")


def refuse_network(folder: Path) -> None:
    """An error where a folder lies on a network file system: locks and shared memory cannot be relied on there.

    Where it is not known what lies where (only Linux knows), nothing is refused.
    """
    found = file_system_of(folder)
    if found in NETWORK:
        raise FoglineError(
            f"{str(folder)!r} lies on a network file system ({found}), where the embedded engine cannot keep its state "
            "safely: choose an output on a disk of this machine, or `fogline run --engine spark`."
        )


def file_system_of(folder: Path) -> str | None:
    """The type of the file system that a folder lies on, or would; None: it is not known."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place, found, longest = Path(os.path.realpath(folder)), None, -1
    for line in lines:
        _, mounted, kind, *_ = [*line.split(" "), "", "", ""]
        root = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mounted))
        if place.is_relative_to(root) and len(root.parts) >= longest:  # of two on one place the later one is seen
            found, longest = kind, len(root.parts)
    return found


def _is_full(folder: Path) -> bool:
    """Whether the disk has no room for a few pages."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize < 2**17


def _refuse_former(folder: Path) -> None:
    """The checkpoint of a version that wrote files of changes."""
    for name in ("state", "offsets"):
        for each in sorted((folder / name).glob("*")) if (folder / name).is_dir() else ():
            if each.is_file() and _first(each, 8) == b"FOGEMBED":
                raise SnapshotError(other_format(f"the checkpoint {str(folder)!r}", 1, FORMAT, "choose another output"))


def _first(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)


def _reached(path: Path) -> int | None:
    """The batch that a small file knows of; None: it is not legible (it may not have come to the disk)."""
    try:
        number, _, crc = path.read_text(encoding="ascii", errors="replace").rpartition(" ")
        return int(number) if int(crc, 16) == zlib.crc32(number.encode()) else None
    except (FileNotFoundError, ValueError):
        return None


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        yield db
    finally:
        db.close()


def _crc(name: Name, value: bytes) -> int:
    """Of a value and its name: a value under another name is another."""
    return zlib.crc32(value, _row(name))


def _row(values: Iterable[Any]) -> int:
    """Of a row."""
    return zlib.crc32("\0".join(map(str, values)).encode("utf-8", "surrogatepass"))


def _last(path: str) -> str:
    return path.rpartition("/")[2]
