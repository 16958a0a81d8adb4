"""Which process writes an output, so that a second one leaves it alone?

The one that holds the lock on a file of the folder. The operating system gives a lock back when its process ends,
however it ends, so the lock of a dead process is free. The file states who holds it, for a person to read.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from fogline.durable import make_folder
from fogline.errors import FoglineError
from fogline.files.listing import absolute, is_local
from fogline.pipeline.names import LOCK


@contextmanager
def holding(output: str, engine: str, remark: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Hold an output while something is written there; an error, if another process does.

    If nothing was written, the lock goes, and the folder that was made for it. Other file systems have no locks.
    """
    if not is_local(output):
        yield
        return
    folder = Path(absolute(output))
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    make_folder(folder)  # for good: what other places take over from this run, it must not forget
    opened = _locked(folder / LOCK, output, remark)
    try:
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "engine": engine, "since": _now()}
        os.ftruncate(opened, 0)
        os.pwrite(opened, json.dumps(holder).encode(), 0)
        yield
    finally:
        try:
            _leave(folder, made)
        finally:
            os.close(opened)


def _locked(path: Path, output: str, remark: Callable[[str], None]) -> int:
    """The file of the lock, held by this process."""
    while True:
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(opened, 10_000, 0)
            os.close(opened)
            raise FoglineError(_held(output, holder)) from None
        except OSError as error:  # a file system that has no locks
            remark(f"{output!r} cannot be held against other runs ({error.strerror}): see that there is only one.")
            return opened
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(opened), os.stat(path)):
                return opened
        os.close(opened)  # another process has removed the file meanwhile


def _held(output: str, content: bytes) -> str:
    try:
        known = json.loads(content)
        pid = known["pid"]
        by = f"process {pid} on {known['host']}, with the engine {known['engine']}, since {known['since']}"
        stop = f"stop it (kill {pid} lets it finish its batch)"
    except (ValueError, KeyError):  # it has just begun
        by, stop = "another process", "stop it"
    return f"{output!r} is being written by {by}. Wait until it ends, {stop}, or choose another output."


def _leave(folder: Path, made: list[Path]) -> None:
    """Where nothing but the lock was written, nothing is left."""
    with suppress(OSError):  # what went wrong before is what counts
        if any(each.name != LOCK for each in folder.iterdir()):
            return
        (folder / LOCK).unlink()
        for each in made:
            each.rmdir()


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
