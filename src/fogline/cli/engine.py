"""In this process, or on Spark?

A command that reads files once needs no JVM where they lie on this machine and fit into its memory: up to 2 GB it reads
them itself, with the same result. Beyond that, elsewhere, or where a master is named, Spark does. One line states which
it is, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fogline.cli.settings import spark_options
from fogline.cli.terminal import on_spark, remark
from fogline.errors import FoglineError
from fogline.shown import size_text

if TYPE_CHECKING:
    from fogline.cli.progress import Report

LOCAL = "local[*]"
LIMIT = 2 * 10**9  # bytes of files, …
PACKED = 5  # … those of packed files counted so many times


@dataclass(frozen=True, slots=True)
class Where:
    """Where a command does its work."""

    master: str | None  # of Spark; None: in this process
    memory: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # of Spark

    @classmethod
    def chosen(cls, path: str, master: str | None, memory: str | None, settings: Mapping[str, str]) -> Where:
        """For these files; a line states what was chosen, and why."""
        why = why_spark(path, master, memory, settings)
        remark(f"in this process: {size_text(size_of(path))} of files" if why is None else f"on Spark: {why}")
        return cls(None if why is None else master or LOCAL, memory, settings)

    @classmethod
    def of_history(
        cls, path: str, sql: str | None, master: str | None, memory: str | None, settings: Mapping[str, str]
    ) -> Where:
        """For these files or this table; a database is asked by Spark."""
        from fogline.cli.terminal import must_be_there
        from fogline.files.tables import JDBC, is_table
        from fogline.sinks.places import refuse_secret, shown

        if (sql is not None) != path.startswith(JDBC):
            what = "needs --sql, what to ask it" if sql is None else "is none; write jdbc:postgresql://host/database"
            raise FoglineError(f"--sql and a database belong together: {shown(path)!r} {what}.")
        if not is_table(path):
            must_be_there(path)
            return cls.chosen(path, master, memory, settings)
        refuse_secret(path)
        named = spark_options(master, memory, settings)
        why = "a database is asked" if sql is not None else None if named is None else f"{named} given"
        remark("in this process: a Delta table" if why is None else f"on Spark: {why}")
        return cls(None if why is None else master or LOCAL, memory, settings)

    @property
    def here(self) -> bool:
        """Whether it is this process."""
        return self.master is None

    @contextmanager
    def spark(self) -> Iterator[tuple[Any, Report]]:
        """A session for one command, and a function to report its stages to."""
        with on_spark(self.master or LOCAL, self.memory, self.settings) as both:
            yield both


def why_spark(path: str, master: str | None, memory: str | None, settings: Mapping[str, str]) -> str | None:
    """Why these files are read by Spark; None: this process reads them."""
    from fogline.files.paths import is_local

    if (named := spark_options(master, memory, settings)) is not None:
        return f"{named} given"
    if not is_local(path):
        return f"{path!r} is not on this machine"
    size = size_of(path)
    return None if size <= LIMIT else f"{size_text(size)} of files, more than {size_text(LIMIT)}"


def size_of(path: str) -> int:
    """How many bytes these files have, about as they are read."""
    from fogline.files.listing import PACKED as ENDS
    from fogline.files.listing import files_of
    from fogline.files.listing import size_of as bytes_of

    sizes = [(each, bytes_of(each)) for each in files_of(path)]
    if not sizes:
        raise FoglineError(f"{path!r} holds no files that can be read.")
    return sum(size * (PACKED if each.suffix.lstrip(".").lower() in ENDS else 1) for each, size in sizes)
