"""What a process of Fogline may leave on disk, and which threads it may have: of the driver and of each worker.

Temporary files lie in one folder that only this user may enter. It goes when the process ends; what a process that was
killed left behind is removed by the next one. A process that lives is known by a lock on its folder, not by its number:
numbers come again, and containers that share a temporary folder do not share them. Without locks, folders of killed
processes stay.

Settings (`QUIET`) keep libraries from starting threads when they are imported: OpenBLAS, in NumPy, starts one for
every core but one; the jemalloc in Arrow starts one that cleans up. Neither is missed: Spark runs as many workers as
there are cores, and Arrow's memory comes from another allocator.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import threading
from pathlib import Path
from tempfile import gettempdir, mkdtemp

QUIET = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}

PREFIX = "fogline-"
LOCK = "lock"
LONGEST = 107  # bytes in the name of a Unix socket
NAME = len("/.00000000-0000-0000-0000-000000000000.sock")  # what Spark appends to the folder of its sockets

_made: dict[tuple[int, str], Path] = {}  # process and temporary folder -> our folder in it


def scratch(base: str | None = None) -> Path:
    """The folder of this process; made, with mode 0700, when it is first asked for."""
    base = base or gettempdir()
    key = (os.getpid(), base)
    if key not in _made:
        _remove_left_over(Path(base))
        _made[key] = _locked(Path(base))
        atexit.register(_remove, *key)
    return _made[key]


def socket_folder() -> Path:
    """Where Unix sockets of this process lie. Their names may not be long, so it is not always the temporary folder."""
    base = gettempdir()
    fits = len(os.fsencode(base)) + len(f"/{PREFIX}12345678/sockets") + NAME <= LONGEST
    folder = scratch(base if fits else "/tmp") / "sockets"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _locked(base: Path) -> Path:
    """A new folder that is locked before others can see it under its name."""
    draft = Path(mkdtemp(prefix=f".{PREFIX}", dir=base))
    try:
        lock = os.open(draft / LOCK, os.O_RDWR | os.O_CREAT, 0o600)  # open until the process ends
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        (draft / LOCK).unlink(missing_ok=True)  # no lock, no removal by others
    return draft.rename(base / draft.name[1:])


def _remove_left_over(base: Path) -> None:
    for path in base.glob(f"{PREFIX}*/{LOCK}"):
        try:
            if path.stat().st_uid != os.getuid():
                continue
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:  # in use, or gone meanwhile
            continue


def _remove(process: int, base: str) -> None:
    if process == os.getpid():  # and not a fork of it that ends
        shutil.rmtree(_made.pop((process, base)), ignore_errors=True)


def threads() -> list[str]:
    """The names of all threads, those that Python does not know included where the system lists them."""
    try:
        return sorted(each.joinpath("comm").read_text().strip() for each in Path("/proc/self/task").iterdir())
    except OSError:  # not Linux
        return sorted(each.name for each in threading.enumerate())


def allow_threads() -> None:
    """In a task: large groups may use as many threads as Spark has given it cores, by `spark.task.cpus`."""
    from pyspark import TaskContext

    from fogline.engine.bulk import allow

    context = TaskContext.get()
    allow(1 if context is None else context.cpus())
