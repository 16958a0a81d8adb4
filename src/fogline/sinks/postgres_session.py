"""How is a database reached, and what if it is away for a while?

A connection that is lost is made again, and what was to be done in one transaction is done again from its beginning,
for as long as the caller is patient. What the database refuses, or the caller gets wrong, is an error at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fogline.errors import SinkError
from fogline.sinks.places import joined, needs

Done = TypeVar("Done")
_FIRST, _LONGEST = 0.1, 5.0  # seconds between tries
_AWAY = ("57P01", "57P02", "57P03", "53300", "40001", "40P01")  # it stops, starts, is full, or two were in the way
_SETTINGS = {"connect_timeout": "10", "keepalives_idle": "30", "tcp_user_timeout": "60000"}
_STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting")


class TakenError(SinkError):
    """Another connection holds what this one needs; of one that was lost, the database may not know it yet."""


class Session:
    """A connection that comes back."""

    def __init__(self, url: str, patience: float) -> None:
        self.url, self.patience = with_settings(url), patience
        self.connection: Any = None
        self.on_connect: Callable[[Any], None] = lambda cursor: None  # what a new connection needs before its first use

    def transaction(
        self, do: Callable[[Any], Done], *, starting: bool = False, remark: Callable[[str], None] = lambda text: None
    ) -> Done:
        """Do something in one transaction; where the database is away, again. `do` must bear to be called again.

        `starting`: a database that is not there is an error at once, only one that is just starting is waited for.
        """
        began, pause = monotonic(), _FIRST
        while True:
            try:
                return self._once(do)
            except Exception as error:
                self.close()
                if not is_away(error, starting):
                    raise in_words(error) from None
                if monotonic() - began + pause > self.patience:
                    raise SinkError(
                        f"the database was away for {self.patience:g} seconds, and is not waited for any longer "
                        f"({line_of(error)}). Run the same command again when it is back: it goes on from there."
                    ) from None
                if pause == _FIRST:
                    remark(f"the database is away ({line_of(error)}): waiting up to {self.patience:g} seconds for it.")
                sleep(pause)
                pause = min(pause * 2, _LONGEST)

    def _once(self, do: Callable[[Any], Done]) -> Done:
        if self.connection is None:
            self._connect()
        with self.connection.cursor() as cursor:
            done = do(cursor)
        self.connection.commit()
        return done

    def _connect(self) -> None:
        needs("adbc_driver_postgresql", "postgres", "PostgreSQL as a sink")
        from adbc_driver_postgresql import dbapi

        self.connection = dbapi.connect(self.url)
        with self.connection.cursor() as cursor:
            cursor.execute("SET client_encoding TO 'UTF8'")
            self.on_connect(cursor)
        self.connection.commit()

    def close(self) -> None:
        """What was not committed is undone."""
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(Exception):  # it may be lost already
                connection.rollback()
            with suppress(Exception):
                connection.close()


def with_settings(url: str) -> str:
    """The address with settings by which a dead connection is noticed, where it states none."""
    parts = urlsplit(url)
    stated = dict(parse_qsl(parts.query))
    return joined(parts._replace(query=urlencode(_SETTINGS | stated, quote_via=quote)))


def is_away(error: Exception, starting: bool) -> bool:
    """Whether the database cannot be reached just now."""
    from adbc_driver_manager import AdbcStatusCode, Error

    if not isinstance(error, Error):
        return isinstance(error, TakenError) and not starting
    state = error.sqlstate or ""
    if starting:
        return state == "57P03" or any(words in str(error) for words in _STARTING)
    if state:
        return state.startswith("08") or state in _AWAY
    return bool(error.status_code == AdbcStatusCode.IO) and "authentication failed" not in str(error)


def in_words(error: Exception) -> Exception:
    """What the database has refused, on one line; errors of others stay as they are."""
    from adbc_driver_manager import Error

    return SinkError(line_of(error)) if isinstance(error, Error) else error


def line_of(error: Exception) -> str:
    """The words of the database alone: not the driver's, and no statement."""
    text = str(error).split("\nQuery was:")[0].split("ERROR:")[-1].split("FATAL:")[-1]
    return " ".join(text.split()).removeprefix("IO: ")
