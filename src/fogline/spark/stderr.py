"""What of all that a JVM writes to stderr reaches ours?

Whole lines, without the chatter. The JVM copies there what its Python helpers print, and the helper that prepares a
stateful query prints five paragraphs about itself, to stdout even. When a process ends while its output is copied,
half a line is left. So the JVM gets a pipe for its stderr, and a thread of this process forwards what is complete; what
the JVM writes after this process has ended is lost, and nothing waits for it. Log messages and tracebacks pass, but for
those of PySpark's own helpers (daemons of workers, what runs a Python data source) about a socket that was closed.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread

CHATTER = (  # of pyspark.sql.streaming.transform_with_state_driver_worker; an empty line follows each
    b"Starting Streaming TransformWithStateInPandas Python worker",
    b"Streaming TransformWithStateInPandas Python worker ",
)
HELPERS = (b"/daemon.py", b"pyspark/sql/streaming/python_streaming_source_runner.py")  # processes that PySpark starts
ENDING = (  # where they end
    *HELPERS, b"pyspark/serializers.py", b"pyspark/worker_util.py", b"/socket.py", b"/contextlib.py", b"<frozen runpy>",
)  # fmt: skip
CHAIN = (b"", b"During handling of the above exception, another exception occurred:")
PATIENCE = 1.0  # seconds at exit for lines that are on their way


@contextmanager
def stderr_to(log: Path | None) -> Iterator[None]:
    """A process that is started meanwhile writes its stderr to `log`, or without one through the filter to ours."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        end = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if log is not None else _filtered()
        os.dup2(end, 2)
        os.close(end)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _filtered() -> int:
    """The end of a new pipe to write to; a thread reads the other for as long as there is a writer."""
    source, end = os.pipe()
    forwarding = Lock()  # free: what was read has been written
    Thread(target=_forward, args=(source, forwarding), name="fogline-stderr", daemon=True).start()
    atexit.register(_drain, source, forwarding)
    return end


def _forward(source: int, forwarding: Lock) -> None:
    lines, waiting = Lines(), select.poll()
    waiting.register(source, select.POLLIN)
    while waiting.poll():
        with forwarding:
            chunk = os.read(source, 1 << 16)
            if shown := lines.add(chunk):
                os.write(2, shown)
        if not chunk:
            return


def _drain(source: int, forwarding: Lock) -> None:
    """Give the thread time to forward what was written before the end."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with forwarding:
            if not int.from_bytes(fcntl.ioctl(source, termios.FIONREAD, bytes(4)), sys.byteorder):
                return
        time.sleep(0.01)


class Lines:
    """Pieces of text as they come, made into whole lines without the chatter.

    >>> lines = Lines()
    >>> lines.add(b"a task failed\\nStarting Streaming TransformWithState")
    b'a task failed\\n'
    >>> lines.add(b"InPandas Python worker.\\n\\nTraceback\\n  File")
    b'Traceback\\n'
    """

    def __init__(self) -> None:
        self._rest = b""
        self._blank = False  # an empty line that belongs to the chatter comes next
        self._traceback: list[bytes] = []  # the lines of one that has not ended yet
        self._gone = False  # a traceback has just been left out; one that it led to may follow

    def add(self, chunk: bytes) -> bytes:
        """The lines that this piece completes, as far as they are shown."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        return b"".join(line + b"\n" for each in whole for line in self._held(each) if self._shown(line))

    def _held(self, line: bytes) -> list[bytes]:
        """The line; one of a traceback only with all of it, if it is to be shown."""
        if line.startswith(b"Traceback (") or (self._traceback and line.startswith(b"  ")):
            self._traceback.append(line)
            return []
        if self._gone and line in CHAIN:
            return []
        lines, self._traceback = [*self._traceback, line], []
        self._gone = len(lines) > 1 and _is_goodbye(lines)
        return [] if self._gone else lines

    def _shown(self, line: bytes) -> bool:
        chatter = line.startswith(CHATTER)
        blank, self._blank = self._blank and not line, chatter
        return not (chatter or blank)


def _is_goodbye(traceback: list[bytes]) -> bool:
    """Is it that of a helper of PySpark's whose socket was closed?"""
    frames = [line for line in traceback if line.startswith(b"  File ")]
    helpers = any(each in line for line in frames for each in HELPERS)
    return (
        helpers
        and all(any(each in line for each in ENDING) for line in frames)
        and traceback[-1].startswith((b"BrokenPipeError", b"ConnectionResetError"))
    )
