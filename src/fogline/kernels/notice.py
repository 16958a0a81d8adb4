"""Why does the first call take a minute?

Because kernels are being compiled, once for this machine. Where that takes longer than a moment, a line on stderr
states it, once per process; a kernel or two that are compiled in between pass without a word. Workers of an engine are
`quiet`: there are many of them, and what they print is not for a terminal.
"""

from __future__ import annotations

import sys
from threading import Lock, Timer
from time import monotonic

LONG = 2.0  # seconds of compiling that pass without a word
TEXT = "fogline: compiling kernels, once for this machine (about a minute) …"


class Notice:
    """Counts what is being compiled. A thread looks, `long` seconds after the first kernel, whether it goes on."""

    def __init__(self, long: float = LONG) -> None:
        self.long = long
        self.silent = False  # nothing is to be stated, or it has been
        self._open = 0
        self._ended = 0.0
        self._timer: Timer | None = None
        self._lock = Lock()

    def begin(self) -> None:
        """A kernel is about to be compiled."""
        with self._lock:
            self._open += 1
            if self._timer is None and not self.silent:
                self._timer = Timer(self.long, self._look)
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """A kernel has been compiled."""
        with self._lock:
            self._open, self._ended = max(self._open - 1, 0), monotonic()

    def quiet(self) -> None:
        """State nothing in this process."""
        self.silent = True

    def _look(self) -> None:
        with self._lock:
            self._timer = None
            goes_on = self._open > 0 or monotonic() - self._ended < self.long / 4
            if not goes_on or self.silent:
                return
            self.silent = True
        print(TEXT, file=sys.stderr, flush=True)


notice = Notice()
