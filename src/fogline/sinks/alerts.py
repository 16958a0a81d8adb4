"""How does a program or a web address learn of each row that enters the answer?

At least once: alerts of a batch that is put again after a crash are sent again, since no one can know whether they
arrived. Each carries its batch and position, which together name the change for good: a receiver that remembers them
recognises repeats. An alert that fails is tried again after a pause; then the run stops, or goes on without it.
"""

from __future__ import annotations

import os
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.client import responses as reasons
from tempfile import TemporaryFile
from threading import Thread
from time import sleep
from typing import IO, Any, Protocol
from urllib.parse import SplitResult, quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import CHANGES as WORDS
from fogline.errors import QueryError, SinkError
from fogline.output.sink import BATCH, POSITION, Batches, RunInfo
from fogline.pipeline.rejects import as_json
from fogline.show import count_of
from fogline.sinks.places import shown

ENTER = "enter"
STOP, SKIP = FAILURES = ("stop", "skip")
LAST = 4096  # bytes that are kept of what a program writes to its standard error
_IN_PATH = "/?%:@!$&'()*+,;=~[]"  # what a path and what follows it may have, beside letters, digits and -._


class Sends(Protocol):
    """One alert on its way; raises what went wrong."""

    def __call__(self, alert: bytes) -> None: ...


class Alerts:
    """Sends a JSON object for each change of the answer that is asked for: its columns, its batch and position.

    `changes`: which changes; by default rows that enter. `tries`: how often an alert is tried, with a pause that begins
    with `pause` seconds and doubles. `on_failure`: then "stop" the run, or "skip" the alert, which is remarked and
    counted (`skipped`).
    """

    def __init__(
        self,
        name: str,
        send: Sends,
        *,
        changes: Iterable[str] = (ENTER,),
        tries: int = 5,
        pause: float = 0.5,
        on_failure: str = STOP,
    ) -> None:
        self.name, self.send, self.changes = name, send, tuple(changes)
        self.tries, self.pause, self.on_failure, self.skipped = tries, pause, on_failure, 0
        self.remark: Callable[[str], None] = lambda text: None
        unknown = [each for each in self.changes if each not in WORDS]
        if unknown or on_failure not in FAILURES or tries < 1:
            raise QueryError(
                f"changes is {list(self.changes)!r}, tries {tries!r}, on_failure {on_failure!r}; changes are "
                f"among {', '.join(WORDS)}, tries is 1 or more, and on_failure is {' or '.join(FAILURES)}."
            )

    def begin(self, run: RunInfo) -> None:
        """Remarks go to the user."""
        self.remark = run.remark

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        """Send what is asked for, one after the other, in the order of the changes."""
        position = 0
        for batch in changes:
            wanted = pc.is_in(batch.column("change"), value_set=pa.array(self.changes, pa.string()))
            places = pc.add(pc.indices_nonzero(wanted), position).to_pylist()
            for place, row in zip(places, batch.filter(wanted).to_pylist(), strict=True):
                self._alert(number, place, row)
            position += batch.num_rows

    def _alert(self, number: int, position: int, row: Mapping[str, Any]) -> None:
        alert = as_json({BATCH: number, POSITION: position, "change": row["change"], "row": _plain(row)}).encode()
        pause = self.pause
        for left in range(self.tries - 1, -1, -1):
            try:
                return self.send(alert)
            except (OSError, HTTPException, SinkError) as error:
                if left:
                    sleep(pause)
                    pause *= 2
                    continue
                self._failed(number, position, error)

    def _failed(self, number: int, position: int, error: Exception) -> None:
        why = f"the alert of batch {number}, position {position} failed {self.tries} times, the last time with: {error}"
        if self.on_failure == STOP:
            raise SinkError(
                f"{why}. Mend it, then run the same command again: it sends the alerts of this batch once more."
            )
        self.skipped += 1
        self.remark(f"{self.name}: {why}. It was skipped; {count_of(self.skipped, 'alert')} so far in this run.")


class Webhook(Alerts):
    """Sends each alert to a web address: POST, JSON. Any answer of 200 to 299 will do.

    `headers`: more headers, such as a key. `timeout`: seconds for one alert. The others are those of `Alerts`.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 10.0, **how: Any
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
            raise QueryError(f"{shown(url)!r} is no web address; write http://host:port/path or https://host/path.")
        self.parts, self.timeout = parts, timeout
        self.headers = {"Content-Type": "application/json", "User-Agent": "fogline", **(headers or {})}
        if parts.username is not None:
            both = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers.setdefault("Authorization", f"Basic {b64encode(both.encode()).decode()}")
        for name, value in self.headers.items():
            if not value.isprintable() or max(map(ord, value), default=0) > 255:  # the library's error would show it
                raise QueryError(
                    f"the header {name!r} has a value with characters that no header may have, such as a line break; "
                    "the value is not shown."
                )
        super().__init__(shown(f"webhook+{url}"), self._post, **how)

    @classmethod
    def from_url(cls, url: str) -> Webhook:
        """As in `--to webhook+https://host/path`."""
        return cls(url.partition("+")[2])

    def _post(self, alert: bytes) -> None:
        kind = HTTPSConnection if self.parts.scheme == "https" else HTTPConnection
        path = (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")
        path = quote(path, safe=_IN_PATH)  # of one with a space, the library's error would show it
        with closing(kind(self.parts.hostname or "", self.parts.port, timeout=self.timeout)) as connection:
            connection.request("POST", path, alert, self.headers)
            answer = connection.getresponse()
            answer.read()
            if not 200 <= answer.status < 300:
                raise SinkError(f"it answered {answer.status} {reasons.get(answer.status, '')}".rstrip())


class Command(Alerts):
    """Runs a program for each alert, which is a line of JSON on its standard input; it must end with the status 0.

    `words`: the program and its arguments, without a shell. `timeout`: seconds for one alert. The others are those of
    `Alerts`.
    """

    def __init__(self, words: Sequence[str], *, timeout: float = 30.0, **how: Any) -> None:
        if isinstance(words, str) or not words:
            raise QueryError(f'a command is a list of words, such as ["logger", "-t", "fogline"], not {words!r}.')
        self.words, self.timeout = list(words), timeout
        super().__init__(f"the command {self.words[0]!r}", self._run, **how)

    def _run(self, alert: bytes) -> None:
        status, words = _run_program(self.words, alert + b"\n", self.timeout)
        if status:
            why = " ".join(words.decode(errors="replace").split())[-200:]
            raise SinkError(f"it ended with the status {status}{f': {why}' if why else ''}")


def _run_program(words: Sequence[str], given: bytes, timeout: float) -> tuple[int, bytes]:
    """Run a program; returns its status, and the last that it wrote to its standard error.

    It never waits for us: its input is a file, its output goes nowhere, and its errors are read as they come.
    """
    with TemporaryFile(prefix="fogline-alert-") as file:
        file.write(given)
        file.seek(0)
        process = subprocess.Popen(words, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    last = bytearray()
    reader = Thread(target=_keep_last, args=(process.stderr, last), daemon=True)
    reader.start()
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:  # whose text has all words of the command, of which one may be a secret
        raise SinkError(f"it timed out: it did not end within {timeout:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    if status:
        reader.join(1.0)  # not for ever: a program that it started may still hold its standard error
    return status, bytes(last)


def _keep_last(stream: IO[bytes], last: bytearray) -> None:
    """Read all that comes, and keep the end of it."""
    with stream:
        while more := os.read(stream.fileno(), LAST):
            last += more
            del last[:-LAST]


def _has_port(parts: SplitResult) -> bool:
    """Whether what stands for a port is one."""
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a change, but those that are missing."""
    return {name: value for name, value in row.items() if value is not None and name != "change"}
