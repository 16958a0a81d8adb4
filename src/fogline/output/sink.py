"""What does it take to be a place where the batches of a run go?

An object with `put`. It is called for each batch that has something to report, after the batch was evaluated and before
the engine commits it: so a batch may be put again after a crash, with the same number and the same rows in the same
order. A sink that has the number already ignores it; then every change is there exactly once. What is reported comes
as iterators of record batches, which read one after another what lies in files: no batch has to fit into memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from fogline.errors import FoglineError, SinkError
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.queries import Asked

Batches = Iterator[pa.RecordBatch]
BATCH, POSITION = "batch", "position"  # columns that sinks put beside changes: together they name one change


class Sink(Protocol):
    """Takes what a run reports, batch by batch.

    Three more names are looked for, and may be missing: `begin(run: RunInfo)` is called before the first batch of a
    process (again, if the process starts a run again), and refuses what cannot go well; `close()` is called at the end;
    `place`, a text without secrets, names what is written to: a run that was begun with a place goes on only with it,
    while objects without may come and go.

    Threads: a run calls its sinks one after the other, from one thread at a time. So a sink needs no lock, as long as
    each run has sinks of its own.
    """

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        """Take a batch, or ignore it, if it was taken before. Numbers rise; those of empty batches are left out."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a sink may know of a run before the first batch."""

    mark: str  # names the checkpoint by which batches are numbered: what knows another one refuses
    query: Asked  # or several by their names: their changes have the name in the column `query`
    schemas: Mapping[str, pa.Schema]  # of what is put, by kind: "changes", "rejects", "health"
    key: tuple[str, ...]  # the columns of changes that name a member of the answer: its last change decides
    last: int | None = None  # the last batch that the engine has committed; None: the run begins
    remark: Callable[[str], None] = field(default_factory=lambda: _silent)  # what the user should read
    new: bool = False  # this very start has made the mark: no place can hold a batch of the run
    reported: int = -1  # the last batch that was put into all places and committed; -1: none


def _silent(text: str) -> None:
    """No one reads it."""


def name_of(sink: Sink) -> str:
    """What errors call it."""
    return str(getattr(sink, "place", None) or getattr(sink, "name", None) or type(sink).__name__)


def places_of(sinks: Sequence[Sink]) -> list[str]:
    """The places that a run must go on with."""
    return sorted(str(place) for sink in sinks if (place := getattr(sink, "place", None)) is not None)


def begin_all(sinks: Sequence[Sink], run: RunInfo) -> None:
    """Every sink learns what comes; the first that cannot take it stops the start."""
    for sink in sinks:
        begin = getattr(sink, "begin", None)
        if begin is not None:
            _in_words(sink, "cannot be begun with", partial(begin, run))


def put_all(sinks: Sequence[Sink], number: int, reported: Callable[[str], Batches]) -> None:
    """A batch goes to every sink, in their order, each with iterators of its own."""
    for sink in sinks:
        kinds = (reported(CHANGES), reported(REJECTS), reported(HEALTH))
        _in_words(sink, f"could not take batch {number}", partial(sink.put, number, *kinds))


def close_all(sinks: Sequence[Sink]) -> None:
    """No more batches come from this process; every sink is closed, whatever becomes of the others."""
    with ExitStack() as closing:
        for sink in sinks:
            closing.callback(getattr(sink, "close", lambda: None))


def refuse_gap(run: RunInfo, there: int | None, *, known: bool) -> None:
    """A place whose last batch is `there` takes the next one of this run; `known`: the run has begun with it."""
    if run.last is not None and not known:
        raise FoglineError(
            f"the run has done its batches up to {run.last} without it, so they would be missing there. Begin a "
            "new run, with an output or checkpoint of its own."
        )
    reached = -1 if run.last is None else run.last
    if there is not None and there > reached + 1:
        raise FoglineError(
            f"it has batch {there}, but the checkpoint knows of batches up to {reached} only: it is an old copy. "
            "Put back the one that belongs to it, or begin a new run with a place of its own."
        )


def refuse_loss(run: RunInfo, there: int | None) -> None:
    """A place that notes every batch has the last one; `there`: the last that it has, None: none."""
    if (-1 if there is None else there) < run.reported:
        has = "no batch" if there is None else f"batches up to {there} only"
        raise FoglineError(
            f"it has {has}, and the run has put batch {run.reported} there: it is an old copy, or has lost what came "
            "last. Put back the newest copy, or begin a new run with a place of its own."
        )


def again(batches: Batches) -> Batches | None:
    """The same record batches from their beginning; None: they can be read only once."""
    once_more = getattr(batches, "again", None)
    return None if once_more is None else once_more()


def _in_words(sink: Sink, what: str, do: Callable[[], None]) -> None:
    """Any error names the sink: a run that stops must show which of its places it was."""
    try:
        do()
    except FoglineError as error:
        raise SinkError(f"{name_of(sink)} {what}: {error}") from None
    except OSError as error:
        raise SinkError(f"{name_of(sink)} {what}: {_of_files(error)}") from error
    except Exception as error:
        raise SinkError(f"{name_of(sink)} {what}: {type(error).__name__}: {_line(error)}") from error


def _of_files(error: OSError) -> str:
    """What the file system reports, and the way out."""
    if error.filename is None or error.strerror is None:
        return f"{type(error).__name__}: {_line(error)}"
    place = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
    return f"{place!r}: {error.strerror.lower()}. When that is mended, the same command goes on where it stopped."


def _line(error: BaseException) -> str:
    """What an error of others reads, on one line."""
    return " ".join(str(error).split()) or "no reason given"


def numbered_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of changes with batch and position before them."""
    head = [pa.field(name, pa.int64(), False) for name in (BATCH, POSITION)]
    return pa.schema([*head, *schema])


def numbered(number: int, changes: Batches, schema: pa.Schema) -> Batches:
    """Changes with their batch and position, which together name a change: time and id do not."""
    wide, position = numbered_schema(schema), 0
    for each in changes:
        batch = pa.repeat(pa.scalar(number, pa.int64()), each.num_rows)
        place = pa.array(np.arange(position, position + each.num_rows))
        position += each.num_rows
        yield pa.record_batch([batch, place, *each.columns], schema=wide)
