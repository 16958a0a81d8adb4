"""What does the embedded engine keep on disk between batches, and is it what was written?

All that it knows is a map from entries (state of a group or of a bucket of sensors, cells beside it, timers, files that
were taken) to bytes. After batch n its changes are written as one file, the *delta* of n; that file's rename is what
commits the batch: what is there after a crash is the state before the batch, or after it. When deltas have grown beyond
it, the whole map is written as a *base*, and what it stands for goes.

Before a batch is evaluated its *intent* is written: the files that it reads, and the machine's clock. A batch that is
done again reads the same files, from the state before it.

Every file has a checksum of all that is in it, knows its own name, and the checksum of the file that it builds on. One
that is damaged, missing, exchanged or of another time is an error, never another answer.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from fogline.errors import SnapshotError, other_format
from fogline.files.mark import Span
from fogline.output.folder import Folder, draft_of
from fogline.pipeline.names import CHECKPOINT

MAGIC = b"FOGEMBED\x02"  # the last byte is the version of the format
MANY = 500  # deltas behind a base, at most
ALL = 2**62  # rows: as many as there are
SMALL = 2**20  # bytes of deltas for which no base is written

STATE, INTENTS = f"{CHECKPOINT}/state", f"{CHECKPOINT}/offsets"
_WAY_OUT = "Put back a good copy of the whole folder, or choose another output."
_SCHEMA = pa.schema(
    [("what", pa.string()), ("key", pa.large_string()), ("number", pa.int64()), ("saved", pa.large_binary())]
)
_NAME, _AFTER = b"name", b"after"  # beside the columns: the file's own name, and the checksum of the one before
_CHECKED = slice(len(MAGIC), len(MAGIC) + 4)


class Entry(NamedTuple):
    """A name for what is kept."""

    what: str
    key: str = ""
    number: int = 0


class Intent(NamedTuple):
    """What a batch shall do, written before it is begun."""

    files: list[tuple[str, int]]  # paths, and when each was changed, in milliseconds
    now: int  # the machine's clock, in microseconds
    follows: bool  # whether silent groups are moved on
    skip: int = 0  # rows of the first file that were taken before
    most: int = ALL  # rows that it reads
    spans: Sequence[Span] = ()  # the part of each file that it reads; none are known: all of each


class EmbeddedState:
    """The state of all stages after the last batch that was committed, and what the next one changes."""

    def __init__(self, place: Folder) -> None:
        self.place = place
        self.kept: dict[Entry, bytes] = {}
        self.changed: set[Entry] = set()
        self.batch = -1  # the last one that is committed
        self.sizes: dict[int, int] = {}  # batch -> bytes of its delta, of those behind the base
        self.base = 0  # bytes
        self.last = b""  # the checksum of the newest file: the next one builds on it
        self._load()

    def get(self, entry: Entry) -> bytes | None:
        """What was put there; None: nothing."""
        return self.kept.get(entry)

    def put(self, entry: Entry, saved: bytes) -> None:
        """Keep it, instead of what is there."""
        self.kept[entry] = saved
        self.changed.add(entry)

    def remove(self, entry: Entry) -> None:
        """Forget what is there, if anything is."""
        if self.kept.pop(entry, None) is not None:
            self.changed.add(entry)

    def all(self, what: str) -> Iterator[tuple[str, bytes]]:
        """The keys of one sort, and what is kept for each."""
        return ((entry.key, saved) for entry, saved in self.kept.items() if entry.what == what)

    def cells(self, what: str, key: str) -> StateCells:
        """Numbered cells of one group or bucket."""
        return StateCells(self, what, key)

    def intent(self) -> Intent | None:
        """What the batch after the last committed one was to do; None: it was never begun."""
        known = self.place.get(f"{INTENTS}/{self.batch + 1}")
        if known is None:
            return None
        plain = json.loads(_checked(known, f"{INTENTS}/{self.batch + 1}"))
        if plain.pop("batch", self.batch + 1) != self.batch + 1:
            raise SnapshotError(_exchanged(f"{INTENTS}/{self.batch + 1}"))
        spans = [Span(*each) for each in plain.get("spans", ())]
        return Intent(**{**plain, "files": [(path, when) for path, when in plain["files"]], "spans": spans})

    def begin(self, intent: Intent) -> None:
        """The next batch will do this, however often it has to be begun."""
        plain = {**intent._asdict(), "batch": self.batch + 1}
        self.place.put(f"{INTENTS}/{self.batch + 1}", _sealed(json.dumps(plain).encode()))

    def commit(self) -> None:
        """The batch is done: what it changed counts from now on."""
        number = self.batch + 1
        self.sizes[number] = self._write(f"{STATE}/{number:09}.delta", sorted(self.changed))
        self.changed.clear()
        self.batch = number
        grown = sum(self.sizes.values())
        if grown > max(self.base, SMALL) or len(self.sizes) >= MANY:
            self.base, self.sizes = self._write(f"{STATE}/{number:09}.base", sorted(self.kept)), {}
            self.place.delete([name for name, of, end in self._files() if (of, end) != (number, "base")])
        self._forget_intents()

    def _forget_intents(self) -> None:
        """What batches before the last one were to do; also of a process that ended before it could do so."""
        self.place.delete([f"{INTENTS}/{number}" for number in self._begun() if number < self.batch])

    def _begun(self) -> list[int]:
        """The batches of which it is known what they were to do."""
        return [int(last) for name in self.place.listing(INTENTS) if (last := name.rsplit("/", 1)[1]).isdecimal()]

    def _write(self, name: str, entries: list[Entry]) -> int:
        columns = [pa.array([each[k] for each in entries], _SCHEMA.types[k]) for k in range(3)]
        saved = pa.array([self.kept.get(each) for each in entries], pa.large_binary())
        schema = _SCHEMA.with_metadata({_NAME: name, _AFTER: self.last})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pa.record_batch([*columns, saved], schema=schema))
        content = sink.getvalue()
        mark = zlib.crc32(content).to_bytes(4, "little")
        with self.place.filling(name) as path, path.open("wb") as file:
            file.write(MAGIC + mark)
            file.write(content)
        self.last = mark  # not before it is there: what is not, nothing builds on
        return int(content.size)

    def _files(self) -> list[tuple[str, int, str]]:
        """The files of the state: name, batch, and whether it is a delta or a base."""
        found = []
        for name in self.place.listing(STATE):
            number, _, end = name.rsplit("/", 1)[1].partition(".")
            if not number.isdecimal() or end not in ("delta", "base"):
                raise SnapshotError(f"{name!r} is no file of a checkpoint, and lies among them; remove it. {_WAY_OUT}")
            found.append((name, int(number), end))
        return found

    def _load(self) -> None:
        files = self._files()
        self.batch = max((number for _, number, end in files if end == "base"), default=-1)
        newest = max((number for _, number, _ in files), default=-1)
        if self.batch >= 0:
            self.base = self._read(f"{STATE}/{self.batch:09}.base")
        while self.batch < newest:
            self.batch += 1
            self.sizes[self.batch] = self._read(f"{STATE}/{self.batch:09}.delta")
        begun = self._begun()
        if begun and max(begun) > self.batch + 1:
            raise SnapshotError(
                f"the checkpoint knows that batch {max(begun) - 1} was done, but its state ends with batch "
                f"{self.batch}: a part of it is an old copy. {_WAY_OUT}"
            )
        self._forget_intents()
        self.place.delete([draft_of(f"{STATE}/{self.batch:09}.base")])  # the next one will have another name

    def _read(self, name: str) -> int:
        saved = self.place.get(name)
        if saved is None:
            raise SnapshotError(f"{name!r} of the checkpoint is missing, and later files build on it. {_WAY_OUT}")
        content = _checked(saved, name)
        table = pa.ipc.open_stream(pa.py_buffer(content)).read_all()
        self._must_follow(name, table.schema.metadata or {})
        self.last = saved[_CHECKED]
        names = zip(*(table.column(k).to_pylist() for k in range(3)), strict=True)
        for each, value in zip(names, table.column("saved").to_pylist(), strict=True):
            if value is None:
                self.kept.pop(Entry(*each), None)
            else:
                self.kept[Entry(*each)] = value
        return len(content)

    def _must_follow(self, name: str, about: dict[bytes, bytes]) -> None:
        """Is this the file that was written there, after the one before? (Earlier versions did not note it.)"""
        if about.get(_NAME, name.encode()) != name.encode():
            raise SnapshotError(_exchanged(name))
        if self.last and about.get(_AFTER, self.last) != self.last:
            raise SnapshotError(
                f"{name!r} of the checkpoint was not written after the file before it: one of them is a copy of "
                f"another time. {_WAY_OUT}"
            )


class StateCells:
    """Cells beside the state of one group or bucket."""

    def __init__(self, state: EmbeddedState, what: str, key: str) -> None:
        self.state, self.what, self.key = state, what, key

    def get(self, number: int) -> bytes:
        return self.state.kept[Entry(self.what, self.key, number)]

    def put(self, number: int, saved: bytes) -> None:
        self.state.put(Entry(self.what, self.key, number), saved)

    def remove(self, number: int) -> None:
        self.state.remove(Entry(self.what, self.key, number))


def _exchanged(name: str) -> str:
    return f"{name!r} of the checkpoint is another file of it, under this name. {_WAY_OUT}"


def _sealed(content: bytes) -> bytes:
    return MAGIC + zlib.crc32(content).to_bytes(4, "little") + content


def _checked(saved: bytes, name: str) -> Any:
    """What was written, if it is that."""
    if saved[: len(MAGIC) - 1] != MAGIC[:-1]:
        raise SnapshotError(f"{name!r} of the checkpoint is damaged: it does not begin as it was written. {_WAY_OUT}")
    if saved[: len(MAGIC)] != MAGIC:
        other = (saved[len(MAGIC) - 1 : len(MAGIC)] or b"\0")[0]
        raise SnapshotError(other_format(f"{name!r} of the checkpoint", other, MAGIC[-1], "choose another output"))
    content = memoryview(saved)[_CHECKED.stop :]
    if zlib.crc32(content).to_bytes(4, "little") != saved[_CHECKED]:
        raise SnapshotError(f"{name!r} of the checkpoint is damaged: it is not what was written. {_WAY_OUT}")
    return content.tobytes()
