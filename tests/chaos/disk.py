"""What if the n-th operation on files fails, or the power is cut there?

`Disk` stands between Python and one folder: while it is on, each operation below the folder is a step (open, write,
sync, rename, remove, make, list), and one of them fails, in one of four ways (`KINDS`). It sits at the lowest place
that Python has: `os`, `open`, and where Arrow opens files by itself. SQLite's own
operations are not seen; its transactions are steps. Nothing in the source knows of it.

After a power cut the process does nothing more, and `unsynced.after_cut` takes away what was not synced.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sqlite3
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from tests.chaos.lost import Unsynced

ERROR, FULL, SHORT, CUT = KINDS = ("error", "full", "short", "cut")
OPEN, WRITE, SYNC, MOVE, REMOVE, MAKE, READ, LIST = "open", "write", "sync", "move", "remove", "make", "read", "list"
CHANGING = (OPEN, WRITE, SYNC, MOVE, REMOVE, MAKE)
STEPS = {ERROR: (*CHANGING, READ, LIST), FULL: (OPEN, WRITE, MAKE), SHORT: (WRITE,), CUT: CHANGING}
BUFFER = 65_536  # bytes
_real = {name: getattr(os, name) for name in ("open", "replace", "unlink", "mkdir", "rmdir", "scandir", "listdir")}
_real_open, _real_pwrite = open, os.pwrite


class PowerCut(BaseException):
    """No code catches it."""


@dataclass
class Disk:
    """A folder whose n-th step fails; `kind` is one of `KINDS`, None: none does."""

    root: str
    kind: str | None = None
    at: int = -1
    count: int = 0  # steps that could fail in this way
    steps: Counter[str] = field(default_factory=Counter)  # all, by what is done
    failed: str = ""  # the step that did
    dead: bool = False
    unsynced: Unsynced = field(default_factory=Unsynced)

    @contextmanager
    def on(self) -> Iterator[Disk]:
        """Between Python and the folder."""
        functions: list[tuple[Any, str, Any]] = [
            (builtins, "open", self._open),
            (io, "open", self._open),
            (tarfile, "bltn_open", self._open),
            (os, "open", self._open_number),
            (os, "pwrite", self._pwrite),
            (os, "fsync", self._sync),
            (os, "replace", self._move),
            (os, "rename", self._move),
            (os, "unlink", self._remove(_real["unlink"])),
            (os, "remove", self._remove(_real["unlink"])),
            (os, "rmdir", self._remove(_real["rmdir"])),
            (os, "mkdir", self._make),
            (os, "scandir", self._list(_real["scandir"])),
            (os, "listdir", self._list(_real["listdir"])),
            (pa, "OSFile", _reading(self)),
            (sqlite3, "connect", self._connect(sqlite3.connect)),
            (pq.ParquetWriter, "__init__", self._writer(pq.ParquetWriter.__init__)),
            (pq.ParquetFile, "__init__", self._parquet(pq.ParquetFile.__init__)),
        ]
        patches = [patch.object(*each) for each in functions]
        for each in patches:
            each.start()
        try:
            yield self
        finally:
            for each in patches:
                each.stop()

    def step(self, what: str, path: str) -> bool:
        """One operation; an error, if it is the one. Returns whether half of it shall be done before the error."""
        if self.dead:
            raise PowerCut
        self.steps[what] += 1
        if self.kind is None or what not in STEPS[self.kind] or (self.failed and self.kind != FULL):
            return False
        self.count += 1
        if self.count <= self.at:
            return False
        self.failed = self.failed or f"{what} {os.path.relpath(path, self.root)}"
        if what == WRITE and self.kind in (SHORT, CUT):
            return True
        raise self.error(path)

    def error(self, path: str) -> BaseException:
        """What the step fails with."""
        if self.kind == CUT:
            self.dead = True
            return PowerCut()
        number = errno.EIO if self.kind == ERROR else errno.ENOSPC
        return OSError(number, os.strerror(number), path)

    def path_of(self, given: Any, dir_fd: int | None = None) -> str | None:
        """The path of the folder, or below it; None: it is elsewhere."""
        if isinstance(given, int):
            path = os.readlink(f"/proc/self/fd/{given}")
        elif isinstance(given, str | bytes | os.PathLike):
            path = os.fsdecode(given)
            if dir_fd is not None:
                path = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
            path = os.path.abspath(path)
        else:
            return None
        return path if f"{path}/".startswith(f"{self.root}/") else None

    def _open(self, given: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        path = None if isinstance(given, int) else self.path_of(given)
        if path is None:
            return _real_open(given, mode, *rest, **named)
        if not set(mode) & set("wax+"):
            self.step(READ, path)
            return _real_open(given, mode, *rest, **named)
        self.step(OPEN, path)
        self.unsynced.touched(path)
        file = _Writing(self, path, _real_open(path, mode.replace("t", "").replace("b", "") + "b", buffering=0))
        return file if "b" in mode else io.TextIOWrapper(file, encoding=named.get("encoding"))

    def _open_number(self, given: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = self.path_of(given, dir_fd)
        if path is not None and flags & (os.O_WRONLY | os.O_RDWR):
            self.step(OPEN, path)
            self.unsynced.touched(path)
        return int(_real["open"](given, flags, mode, dir_fd=dir_fd))

    def _pwrite(self, opened: int, content: bytes, place: int) -> int:
        path = self.path_of(opened)
        if path is not None and self.step(WRITE, path):
            _real_pwrite(opened, content[: len(content) // 2], place)
            raise self.error(path)
        return _real_pwrite(opened, content, place)

    def _sync(self, opened: Any) -> None:
        path = self.path_of(opened if isinstance(opened, int) else opened.fileno())
        if path is None:
            return
        self.step(SYNC, path)
        self.unsynced.synced(path)

    def _move(self, given: Any, to: Any, **named: Any) -> None:
        source, target = self.path_of(given), self.path_of(to)
        if source is None or target is None:
            _real["replace"](given, to, **named)
            return
        self.step(MOVE, source)
        self.unsynced.moved(source, target)
        _real["replace"](source, target)

    def _remove(self, real: Callable[..., None]) -> Callable[..., None]:
        def remove(given: Any, *, dir_fd: int | None = None) -> None:
            path = self.path_of(given, dir_fd)
            if path is None or not os.path.lexists(path):
                return real(given, dir_fd=dir_fd)
            self.step(REMOVE, path)
            if real is _real["unlink"]:
                self.unsynced.removed(path)
            elif not _real["listdir"](path):
                self.unsynced.removed_folder(path)
            return real(given, dir_fd=dir_fd)

        return remove

    def _make(self, given: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        path = self.path_of(given, dir_fd)
        if path is not None and not os.path.lexists(path) and os.path.isdir(os.path.dirname(path)):
            self.step(MAKE, path)
            self.unsynced.made(path)
        _real["mkdir"](given, mode, dir_fd=dir_fd)

    def _list(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def listed(given: Any = ".") -> Any:
            path = self.path_of(given)
            if path is not None and os.path.isdir(path):
                self.step(LIST, path)
            return real(given)

        return listed

    def _connect(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """SQLite works on its file by itself; what can fail is a transaction as a whole."""

        def connect(where: Any, *rest: Any, **named: Any) -> Any:
            if self.path_of(where) is None:
                return real(where, *rest, **named)
            opened = real(where, *rest, factory=_Statements, **named)
            opened.disk, opened.path = self, self.path_of(where)
            return opened

        return connect

    def _writer(self, real: Callable[..., None]) -> Callable[..., None]:
        """Arrow would open the file by itself."""

        def begin(writer: Any, where: Any, *rest: Any, **named: Any) -> None:
            path = self.path_of(where)
            if path is None:
                return real(writer, where, *rest, **named)
            file = self._open(path, "wb")
            real(writer, file, *rest, **named)
            writer.file_handle = file
            return None

        return begin

    def _parquet(self, real: Callable[..., None]) -> Callable[..., None]:
        def begin(file: Any, source: Any, *rest: Any, **named: Any) -> None:
            if (path := self.path_of(source)) is not None:
                self.step(READ, path)
            real(file, source, *rest, **named)

        return begin


class _Statements(sqlite3.Connection):
    """A transaction that begins and one that is committed are a step each; after a commit there is one more."""

    disk: Disk
    path: str

    def execute(self, sql: str, *rest: Any) -> Any:
        if sql not in ("COMMIT", "BEGIN IMMEDIATE"):
            return super().execute(sql, *rest)
        self._step(WRITE)
        found = super().execute(sql, *rest)
        self.disk.unsynced.committed(self.path)
        self._step(SYNC)
        return found

    def _step(self, what: str) -> None:
        try:
            if self.disk.step(what, self.path):
                raise self.disk.error(self.path)
        except OSError as error:
            code = sqlite3.SQLITE_IOERR if error.errno == errno.EIO else sqlite3.SQLITE_FULL
            reported = sqlite3.OperationalError(error.strerror)
            reported.sqlite_errorcode = code
            raise reported from None


class _Writing(io.BufferedIOBase):
    """A file being written to: each time its buffer goes to the disk is a step."""

    def __init__(self, disk: Disk, path: str, raw: Any) -> None:
        self.disk, self.path, self.raw_file, self.waiting = disk, path, raw, bytearray()

    def write(self, data: Any) -> int:
        content = memoryview(data).cast("B")
        self.waiting += content
        if len(self.waiting) > BUFFER:
            self.flush()
        return len(content)

    def flush(self) -> None:
        content, self.waiting = bytes(self.waiting), bytearray()
        if not content or self.disk.dead:  # of a process that is no more
            return
        if self.disk.step(WRITE, self.path):
            self.raw_file.write(content[: len(content) // 2])
            raise self.disk.error(self.path)
        self.raw_file.write(content)

    def fileno(self) -> int:
        self.flush()
        return int(self.raw_file.fileno())

    def writable(self) -> bool:
        return True

    def __del__(self) -> None:
        """A file that a run has left open, when it failed, is not written to any more."""
        self.raw_file.close()
        self.waiting.clear()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self.raw_file.close()
            super().close()


def _reading(disk: Disk) -> type:
    """What Arrow opens by itself."""

    def begin(file: Any, path: Any, *rest: Any, **named: Any) -> None:
        if (known := disk.path_of(path)) is not None:
            disk.step(READ, known)

    return type("OSFile", (pa.OSFile,), {"__init__": begin})
