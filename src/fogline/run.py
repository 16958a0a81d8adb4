"""`fogline.run`: a stream of files, watched in this process, without Spark and without a command line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

import pyarrow as pa

from fogline.errors import FoglineError
from fogline.files.listing import absolute, must_exist
from fogline.impute.own import ImputeFunction
from fogline.impute.protocol import Imputer
from fogline.output.answers import OutputReader
from fogline.output.sink import Sink
from fogline.pipeline.limits import STOP, GroupLimits
from fogline.queries import asked_of
from fogline.query import Query, count_in
from fogline.repository.repository import Repository
from fogline.runs.config import EMBEDDED, RunConfig, RunStatus
from fogline.runs.embedded import Embedded
from fogline.runs.lock import holding
from fogline.runs.start import ready, wait_for_files
from fogline.sinks.places import sinks_of

Path = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a call of `fogline.run` has done, over all its batches.

    Several queries see the same rows: what was done with them is counted once, for the query that has most of it.
    """

    batch: int = -1
    """The number of the last batch; -1: no file was new."""
    batches: int = 0
    """How many batches had something to report."""
    rows: int = 0
    """Rows that were read."""
    changes: int = 0
    """Changes that were reported."""
    rejected: int = 0
    """Rows that were rejected."""
    late: int = 0
    """Rows behind the clock of their group, which entered there."""
    expired: int = 0
    """Rows that had expired before they could enter."""
    held: int = 0
    """Rows that ran ahead of their group, and have not entered."""
    waiting: int = 0
    """Rows that are not yet `lateness` behind the newest."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many rows were rejected, by the kind of reason."""
    alarms: tuple[str, ...] = ()
    """A sentence for each group that is near a limit, or beyond it."""
    output: str | None = None
    """The folder with the changes; None: they went into sinks alone."""

    def answer(self, at: str | None = None) -> pa.Table:
        """The answer in the output, now or at an instant, as `fogline answer` reads it."""
        return self._reader().answer(at)

    def _reader(self) -> OutputReader:
        if self.output is None:
            raise FoglineError("the changes went into sinks alone; give an output, and the answer is there.")
        return OutputReader(self.output)

    def _repr_html_(self) -> str:
        """In a notebook: the answer of each query, as it is now."""
        return repr(self) if self.output is None else self._reader()._repr_html_()


def run(
    stream: Path,
    query: Query | Mapping[str, Query],
    repository: Repository | None = None,
    *,
    output: Path | None = None,
    sinks: Sequence[Sink | str] = (),
    checkpoint: Path | None = None,
    follow: bool = False,
    every: str = "tick",
    lateness: Any = 0,
    imputer: Imputer | ImputeFunction | None = None,
    ahead: Any = "auto",
    idle: Any = "auto",
    clock: str | None = None,
    hindsight: bool | None = None,
    explain: bool = False,
    files_per_batch: int | None = None,
    max_rows_per_batch: int | None = None,
    keep_batches: int | None = None,
    max_live: int | None = None,
    max_state: int | str | None = None,
    when_full: str = STOP,
    report: Callable[[RunSummary], None] | None = None,
    remark: Callable[[str], None] | None = None,
) -> RunSummary:
    """Watch a stream of files, and write how the answer changes into a folder, into sinks, or into both.

    It does in this process what `fogline run --engine embedded` does. `stream`: a file, a folder or a pattern, of files
    as `fogline run` reads them. `output`: the folder for changes, rejects and health, which `fogline answer` and the
    page read. `sinks`: objects with `put` (see `fogline.Sink`), or texts as for `fogline run --to`; with sinks alone,
    `checkpoint` is the folder for what a run needs to go on. The same call with the same folder goes on where it
    stopped, also after a crash: every sink has each batch exactly once, if it ignores numbers that it knows.

    Without `follow` it returns when all files are read. With it, it waits for new ones until it is interrupted.
    KeyboardInterrupt (Ctrl-C) lets it finish its batch and return; a second one stops it at once, and the batch is done
    again by the next call.

    `max_live`, `max_state`: how many live rows one group may have, and how many bytes ("2GB"); `when_full`: "stop" or
    "warn". `keep_batches`: changes, rejects and health older than so many batches are removed. `report` is called after
    each batch with what was done so far, `remark` with what the user should read; by default that is logged, as a
    warning of the logger "fogline". The other options are those of `fogline.spark.run`.

    >>> import tempfile, pathlib, fogline as fl
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "gas.csv").write_text("sensor,t,gas\\na,1,5\\nb,2,9\\nc,3,oops\\n")
    >>> query = fl.Query(attributes={"gas": "max"}, id="sensor", time="t", lifetime=60)
    >>> done = fl.run(folder / "gas.csv", query, output=folder / "out")
    >>> done.rows, done.rejected, done.reasons
    (3, 1, {"'gas' is …, which is not a number": 1})
    >>> done.answer()["sensor"].to_pylist()
    ['b']
    >>> fl.run(folder / "gas.csv", query, output=folder / "out").rows  # all was read before
    0
    """
    remark = logging.getLogger("fogline").warning if remark is None else remark
    given = {"files_per_batch": files_per_batch, "max_rows_per_batch": max_rows_per_batch, "keep_batches": keep_batches}
    how: dict[str, Any] = {name: None if each is None else count_in(each, name) for name, each in given.items()}
    keep_batches = how.pop("keep_batches")
    root, source = _folder(output, checkpoint), fspath(stream)
    places = sinks_of(sinks, root, source)
    if output is None and not places:
        raise FoglineError("checkpoint keeps no changes: name an output, or sinks.")
    config = RunConfig(
        source,
        root,
        asked_of(query),
        repository,
        every,
        lateness,
        ahead,
        idle,
        keep_batches=keep_batches,
        hindsight=hindsight,
        engine=EMBEDDED,
        sinks=places,
        keeps=output is not None,
        explain=explain,
        limits=GroupLimits.of(max_live, max_state, when_full),
        imputer=imputer,
    )
    done = _Counting(report, root if output is not None else None)
    try:
        if follow:
            wait_for_files(source, remark)
        must_exist(source)
        ready(config, clock=clock)
        with holding(root, EMBEDDED, remark), closing(Embedded(config, done.add, remark)) as running:
            running.to_the_end(follow=follow, clock=clock, **how)
    except KeyboardInterrupt:
        remark("stopped at once: a batch that was not finished is done again by the next call.")
    return done.summary


def _folder(output: Path | None, checkpoint: Path | None) -> str:
    """The run's own folder."""
    if output is not None and checkpoint is not None:
        raise FoglineError("an output has the checkpoint in it; leave checkpoint out.")
    folder = checkpoint if output is None else output
    if folder is None:
        raise FoglineError(
            "where shall the answer go? Name an output, or sinks and a checkpoint: the folder for what a run needs to "
            "go on after a crash."
        )
    return absolute(fspath(folder))


class _Counting:
    """What was done so far."""

    def __init__(self, report: Callable[[RunSummary], None] | None, output: str | None) -> None:
        self.report, self.summary = report, RunSummary(output=output)

    def add(self, status: RunStatus) -> None:
        """One more batch is done."""
        self.summary = RunSummary(
            status.batch,
            self.summary.batches + 1,
            status.total,
            status.changes,
            status.rejected,
            status.late,
            status.expired,
            status.held,
            status.waiting,
            dict(status.reasons),
            tuple(each.sentence() for each in status.alarms),
            self.summary.output,
        )
        if self.report is not None:
            self.report(self.summary)
