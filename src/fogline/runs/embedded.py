"""How does a stream of files become a folder of changes in one process, without an engine beside it?

`Embedded` is the run, as `spark.running.Run` is on Spark: the same stages, the same output folder. For each batch: its
rows are read, and from which files is written down; it is evaluated, its files are put into the output, and then its
state is committed (`state.sqlite`). A batch that was interrupted is done again, from the state before it and the same
files, and replaces what is there of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter, sleep, thread_time, time_ns

import pyarrow as pa

from fogline.errors import FoglineError
from fogline.files.listing import absolute, files_of, is_local, stamp
from fogline.files.settled import Layout
from fogline.files.unread import Unread
from fogline.output.folder import LocalFolder
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import BatchResult
from fogline.runs.batch import from_packed, write_batch
from fogline.runs.config import RunConfig, RunStatus, refuse_lost_batches, refuse_old_checkpoint
from fogline.runs.embedded_state import EmbeddedState, Intent
from fogline.runs.evaluation import Evaluation
from fogline.runs.spill import COLLECTED, Carrier, Spill
from fogline.runs.start import SHARE, StreamRun, layout_for, plan_for_files
from fogline.runs.taken import ROWS, FileRows, FoundFile, TakenFiles, batch_of
from fogline.state.sqlite import refuse_network

PAUSE = 0.2  # seconds between looks for new files
_PACKED = pa.schema([("kind", pa.string()), ("part", pa.binary())])


class Embedded(StreamRun):
    """One stream being watched into a folder, by this process."""

    def __init__(
        self,
        config: RunConfig,
        report: Callable[[RunStatus], None] = lambda status: None,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        for path in (config.stream, config.output):
            if not is_local(path):
                raise FoglineError(
                    f"{path!r} does not lie on this machine, where the embedded engine works; "
                    "use `fogline run --engine spark`, or files of this machine."
                )
        self.place = LocalFolder(absolute(config.output))
        refuse_network(self.place.root)
        super().__init__(config, self.place, report, remark)
        self.unread: Unread | None = None
        self.state: EmbeddedState | None = None

    def start(
        self,
        *,
        follow: bool = False,
        files_per_batch: int | None = None,
        max_rows_per_batch: int | None = None,
        clock: str | None = None,
    ) -> EmbeddedBatches:
        """Begin, or go on where an earlier run stopped. Without `follow` it ends when all files are read.

        A batch has at most so many files and rows; a file that has more goes on in the next one.
        """
        self.layout, new = layout_for(self.output, clock, self.remark)
        self.sizes = files_per_batch, max_rows_per_batch or ROWS

        def planned(config: RunConfig) -> Plans:
            return plan_for_files(config, self.layout, follow=follow, buckets=self.output.buckets)

        plan = self.begin(self.layout.to_dict() if new else None, planned)
        self.unread = Unread(self.config.stream, self.log, by_name=self.log.by_name)
        for text in self.unread.begin():
            self.remark(text)
        return EmbeddedBatches(self, self.layout, plan, self._opened, self.log, *self.sizes)

    def open(self) -> None:
        """The state of all stages, and the files that were taken."""
        self._close_state()
        state = self.state = EmbeddedState(self.place, self.output.mark)
        refuse_old_checkpoint(self.place, state.batch + (state.intent() is not None), self.config.output)
        if self.config.keeps:
            refuse_lost_batches(self.place, self.reported(), self.config.output)
        self.log = TakenFiles(state, self.config.stream, by_name=self.output.by_name)

    def close(self) -> None:
        """No more batches come from this process."""
        self._close_state()
        super().close()

    def _close_state(self) -> None:
        if self.state is not None:
            self.state.close()

    def last(self) -> int | None:
        """The last batch that is committed; None: none."""
        return None if self._opened.batch < 0 else self._opened.batch

    def reported(self) -> int:
        """The last committed batch that had something to report; -1: none."""
        return self._opened.checkpoint.reported

    def finish(self, plan: Plans) -> None:
        """Do the batch that was begun and not finished, if there is one."""
        EmbeddedBatches(self, self.layout, plan, self._opened, self.log, *self.sizes).finish()

    @property
    def _opened(self) -> EmbeddedState:
        assert self.state is not None
        return self.state

    def look(self) -> None:
        """Remark on files that are not read, each once."""
        for text in [] if self.unread is None else self.unread.look():
            self.remark(text)


class EmbeddedBatches:
    """The batches of a run, one after another; called as a query of Spark's is."""

    def __init__(
        self,
        running: Embedded,
        layout: Layout,
        plan: Plans,
        state: EmbeddedState,
        log: TakenFiles,
        files_per_batch: int | None,
        max_rows_per_batch: int,
    ) -> None:
        self.running, self.plan, self.state, self.log = running, plan, state, log
        self.files_per_batch, self.max_rows_per_batch = files_per_batch, max_rows_per_batch
        self.reading = FileRows(layout)
        self.evaluation = Evaluation(plan, state)
        self.interrupted = log.interrupted()  # what a batch that was not finished was to do
        self.left: list[FoundFile] | None = None  # without following: files that were there at the start
        self.unchanged: int | None = None  # the stamp of the stream when nothing in it was new
        self.next_look = 0.0  # not before then, so that looking takes one part in SHARE of a core at most
        self.failed: BaseException | None = None  # what ended the run in the midst of a batch

    @property
    def status(self) -> dict[str, bool]:
        """Between calls nothing is under way."""
        return {"isTriggerActive": False}

    def stop(self) -> None:
        """Nothing is under way."""

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Do the next batch, or all of them without a timeout; if there is none, wait. Is that the end?"""
        while True:
            if self._did_one():
                pass
            elif not self.plan.moves_idle:
                return True
            else:
                sleep(PAUSE if timeout is None else timeout)
            if timeout is not None:
                return False

    def finish(self) -> None:
        """Do the batch that was begun and not finished, if there is one."""
        with self._alive():
            if self.interrupted is not None:
                self._again(self.interrupted)

    def _did_one(self) -> bool:
        """Do the next batch; False: there is none."""
        with self._alive():
            if self.interrupted is not None:
                self._again(self.interrupted)
            elif (intent := self._next()) is not None:
                self._do(intent, self.evaluation)
            else:
                return False
            return True

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """What fails here ends the run: what it holds in memory is of a batch that was not committed."""
        if self.failed is not None:
            what = " ".join(str(self.failed).split()).rstrip(".") or type(self.failed).__name__
            raise FoglineError(
                f"this run has failed, and does nothing more: {what}. Started again, the same command goes on from "
                "the checkpoint."
            )
        try:
            yield
        except BaseException as error:
            self.failed = error
            self.state.close()
            raise

    def _again(self, intent: Intent) -> None:
        """Do a batch that was interrupted, as it was meant to be done."""
        if intent.follows == self.plan.moves_idle:
            self._do(intent, self.evaluation)
        else:
            self._do(intent, Evaluation(self.plan.following(intent.follows), self.state))
            self.evaluation = Evaluation(self.plan, self.state)
        self.interrupted = None

    def _next(self) -> Intent | None:
        """What the next batch shall do; None: there is nothing to do."""
        if self.left is None or self.plan.moves_idle:
            self.left = self._look()
        chosen = self.left[: batch_of(self.left, self.files_per_batch)]
        if not chosen and not self.evaluation.moves:
            return None
        skip = 0 if self.log.cut is None else self.log.cut.rows
        how = time_ns() // 1000, self.plan.moves_idle, skip, self.max_rows_per_batch
        return Intent([(each.path, each.when) for each in chosen], *how, self.log.spans_of(chosen))

    def _look(self) -> list[FoundFile]:
        """The files to be read. Listing them is left out while the stream is as it was when nothing was new."""
        if perf_counter() < self.next_look:
            return []
        began, stream = thread_time(), self.running.config.stream
        there = stamp(stream)
        found = [] if there == self.unchanged else self.log.new_files(map(str, files_of(stream)))
        self.unchanged, cost = None if found else there, thread_time() - began
        self.next_look = perf_counter() + SHARE * cost if SHARE * cost > PAUSE and not found else 0.0
        return found

    def _do(self, intent: Intent, evaluation: Evaluation) -> None:
        """One batch, from the files to the commit."""
        began, output, status = perf_counter(), self.running.output, self.running.status
        try:
            found = from_packed(output.place, list(self._carried(evaluation.take(self._rows(intent), intent.now))))
        except Exception:  # such as a limit that is reached: nothing was put anywhere by this process
            if self.interrupted is None:
                with suppress(FoglineError, OSError):  # then its files must be as they are; what has failed counts
                    self.state.withdraw()
            raise
        number = self.state.batch + 1
        done = self.log.take(intent.files, number, self.reading.cut, intent.spans)
        self.left = None if self.left is None else self.left[done:]
        status.behind = 0 if self.left is None else len(self.left)
        if found:
            write_batch(output, status, found, number, perf_counter() - began, self.running.remark)
        self.state.commit(reported=bool(found))
        if found:
            self.running.report(status)

    def _rows(self, intent: Intent) -> Iterator[pa.RecordBatch]:
        """The rows of a batch. When they are read, and nothing of it was put anywhere, what it does is written down."""
        paths, mark = [path for path, _ in intent.files], None if self.log.cut is None else self.log.cut.mark
        yield from self.reading.take(paths, intent.skip, intent.most, mark, intent.spans, intent.marks)
        if self.interrupted is None:
            self.state.begin(intent._replace(marks=self.reading.marks))

    def _carried(self, results: Iterable[BatchResult]) -> Iterator[pa.RecordBatch]:
        """Packed results; what is too much to be held lies in files."""
        carrier = Carrier(Spill(absolute(self.running.config.output), COLLECTED))
        for result in results:
            for frame in carrier.carry(result):
                yield pa.record_batch(frame, schema=_PACKED)
        carrier.close()
