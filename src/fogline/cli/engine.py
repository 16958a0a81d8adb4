"""Does a command run in this process or on Spark, and what memory would a run take?

The line about memory is advice: if it cannot be given, a remark states so, and the command goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fogline.cli.options import spark_options
from fogline.cli.terminal import on_spark, remark
from fogline.errors import FoglineError, QueryError, did_you_mean
from fogline.show import size_text

if TYPE_CHECKING:
    from fogline.cli.terminal import Report
    from fogline.runs.estimate import Estimate


@contextmanager
def as_advice() -> Iterator[None]:
    """What is estimated here stops nothing."""
    try:
        yield
    except Exception as error:  # of whatever kind: the rows that cause it are met again where they count
        text = str(getattr(error, "strerror", None) or error)
        reason = next(iter(text.splitlines()), "").strip(" .") or type(error).__name__
        remark(f"The memory of a run could not be estimated ({reason}); it continues without an estimate.")


def state(found: Estimate, say: Any = typer.echo) -> None:
    """One line, and a warning where it would not fit."""
    say(f"{found.sentence()}.")
    if (text := too_much([found])) is not None:
        typer.secho(text, fg="yellow", bold=True, err=True)


def too_much(found: Sequence[Estimate]) -> str | None:
    """A sentence, if a process would need more memory than the machine has; None: it fits, or that is not known."""
    from fogline.runs.estimate import machine_memory
    from fogline.show import size_text

    needed, there = sum(each.process for each in found), machine_memory()
    if there is None or needed <= there:
        return None
    return (
        f"That is more than the {size_text(there)} of this machine: a shorter lifetime, more groups (by) on more "
        "machines, or fewer attributes make it smaller; --max-rows-per-batch bounds a batch, --max-state a group."
    )


# --- In this process, or on Spark -------------------------------------------------------------------------------------
#
# A command needs no JVM for files that lie on this machine, up to 2 GB: it reads them itself, with the same result.
# Beyond that, elsewhere, or where a master is named, Spark does. A run goes on where its output was begun. One line
# states which it is, and why.

AUTO = "auto"
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
        say_which(path, why)
        return cls(None if why is None else master or LOCAL, memory, settings)

    @classmethod
    def of_history(
        cls, path: str, sql: str | None, master: str | None, memory: str | None, settings: Mapping[str, str]
    ) -> Where:
        """For these files or this table; a database is asked by Spark."""
        from fogline.cli.terminal import must_be_there
        from fogline.files.reading import JDBC, is_table
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
        remark("Runs in this process (a Delta table)." if why is None else f"Runs on Spark: {why}.")
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


def engine_for(
    asked: str, stream: str, output: str, master: str | None, memory: str | None, settings: Mapping[str, str]
) -> str:
    """The engine of a run; where none is named, a line states which it is, and why."""
    from fogline.files.listing import is_local
    from fogline.kafka.client import is_topic
    from fogline.runs.config import EMBEDDED, ENGINES, SPARK

    if asked in ENGINES:
        return asked
    if asked != AUTO:
        near = did_you_mean(asked, (AUTO, *ENGINES))
        raise QueryError(f"there is no engine {asked!r}; it may be {AUTO}, {' or '.join(ENGINES)}.{near}")
    begun = begun_by(output)
    if begun is not None:
        remark(
            f"Runs {'on Spark' if begun == SPARK else 'in this process'}: {output!r} was begun with --engine {begun}."
        )
        return begun
    if is_topic(stream):
        why: str | None = "a topic is read"
    elif not is_local(output):
        why = f"{output!r} is not on this machine"
    else:
        why = why_spark(stream, master, memory, settings)
    say_which(stream, why)
    return EMBEDDED if why is None else SPARK


def begun_by(output: str) -> str | None:
    """The engine that has begun a folder of this machine; None: none has."""
    from fogline.files.listing import absolute
    from fogline.output.about import read_about
    from fogline.output.folder import LocalFolder
    from fogline.runs.config import SPARK, has_batches

    place = LocalFolder(absolute(output))
    about = read_about(place) if Path(absolute(output)).is_dir() and has_batches(place) else None
    return None if about is None else str(about.get("engine", SPARK))


def say_which(path: str, why: str | None) -> None:
    """A line: where these files are read, and why."""
    remark(f"Runs in this process ({size_text(size_of(path))} of files)." if why is None else f"Runs on Spark: {why}.")


def why_spark(path: str, master: str | None, memory: str | None, settings: Mapping[str, str]) -> str | None:
    """Why these files are read by Spark; None: this process reads them."""
    from fogline.files.listing import is_local

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
        raise FoglineError(f"{path!r} has no parquet, csv or jsonl files to read.")
    return sum(size * (PACKED if each.suffix.lstrip(".").lower() in ENDS else 1) for each, size in sizes)
