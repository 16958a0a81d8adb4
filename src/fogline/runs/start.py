"""How does a run begin, or go on, whatever carries its rows?

`StreamRun` is what every engine begins, goes on and ends a run by. Before it, `ready` looks at all that can be wrong
with a command, before a folder is made and before an engine is started, which takes seconds: so a start that fails
leaves nothing behind that would refuse the command that was meant.

A run goes on with the version of the repository that it was begun with, also when the repository's folder has a newer
one by now: its state was made with that, and the folder keeps it. Unless the caller accepts another one: then what was
imputed stays, and what comes from the next batch on is imputed by that one. A batch that was begun and not finished is
finished as it was begun, since parts of it may have been written. A run that has moved needs all repositories that it
had: a group that has been silent since is still as one of them left it. The output's `about.json` knows them, where
they lay, and from which batch on each was the run's.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread
from time import perf_counter, sleep, thread_time
from typing import Any, Protocol

from fogline.durable import must_be_writable
from fogline.errors import FoglineError, HistoryError
from fogline.files.layout import layout_of
from fogline.files.listing import absolute, files_of, is_local, must_be_apart, must_exist, size_of
from fogline.files.settled import Layout
from fogline.files.unread import not_read
from fogline.output.about import read_about
from fogline.output.folder import Folder, LocalFolder
from fogline.output.sink import begin_all
from fogline.pipeline.names import REPOSITORIES
from fogline.pipeline.plan import BUCKETS
from fogline.pipeline.plans import Plans, plans_of
from fogline.repository import cache
from fogline.repository.repository import Repository
from fogline.runs.config import PLANNED, Output, RunConfig, RunStatus, has_batches
from fogline.show import count_of

LEFT = "{} of the stream. What came while it went on, the same command reads."
LOOK = 5.0  # seconds between looks for files that are not read, at least
SHARE = 20  # looks at a stream take one part in so many of a core, at most
PAUSE = 0.5  # seconds between looks for a first file


class Started(Protocol):
    """The batches of a run, one after another, as a streaming query of Spark gives them."""

    @property
    def status(self) -> Mapping[str, Any]:
        """Whether a batch is under way: "isTriggerActive"."""

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait so many seconds, and do what is to be done; whether that was the end."""

    def stop(self) -> None:
        """Do no more."""


class StreamRun:
    """One stream on its way into an output folder and sinks.

    What engines differ in: where their state lies (`open`), which batch they have committed last (`last`, and with
    something to report: `reported`), and how a batch is finished that was begun (`finish`).
    """

    def __init__(
        self,
        config: RunConfig,
        place: Folder,
        report: Callable[[RunStatus], None] = lambda status: None,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.config, self.report, self.remark = as_begun(config, place), report, remark
        self.output = Output(place, self.config)
        self.status = RunStatus()

    def start(
        self,
        *,
        follow: bool = False,
        files_per_batch: int | None = None,
        max_rows_per_batch: int | None = None,
        clock: str | None = None,
    ) -> Started:
        """Begin, or go on where an earlier run stopped. Without `follow` it ends when all files are read."""
        raise NotImplementedError

    def to_the_end(
        self,
        *,
        follow: bool = False,
        stopping: Callable[[], None] = lambda: None,
        signals: Sequence[signal.Signals] = (signal.SIGINT,),
        **how: Any,
    ) -> None:
        """Read all files that are there, then follow those that come, if that is wanted; until the end or a signal.

        The first signal calls `stopping`, and the batch is finished; a second one is a KeyboardInterrupt, which leaves
        the batch to the next start. `how`: as `start` takes it.
        """
        ended = self._waited_for(self.start(**how), stopping, signals)
        if ended and follow:
            self._waited_for(self.start(follow=True, **how), stopping, signals)
        self.look()
        if ended and not follow and self.status.behind:
            self.remark(f"not read by this run: {LEFT.format(count_of(self.status.behind, 'file'))}")

    def _waited_for(self, started: Started, stopping: Callable[[], None], signals: Sequence[signal.Signals]) -> bool:
        """Wait until it ends; whether it ended by itself."""
        asked: list[int] = []

        def stop(*_: Any) -> None:
            if asked:
                raise KeyboardInterrupt
            asked.append(self.status.batch)
            stopping()

        here = signals if current_thread() is main_thread() else ()  # in other threads Python hears of no signals
        before = [signal.signal(each, stop) for each in here]  # Spark's own handler would cancel the batch
        try:
            looked, pause = perf_counter(), LOOK
            while not started.awaitTermination(0.2):
                if perf_counter() - looked > pause:
                    began = thread_time()
                    self.look()
                    looked, pause = perf_counter(), max(LOOK, SHARE * (thread_time() - began))
                if asked and (self.status.batch > asked[0] or not started.status["isTriggerActive"]):
                    break
        finally:
            try:
                started.stop()
            finally:
                for each, handler in zip(here, before, strict=True):
                    signal.signal(each, handler)
        return not asked

    def look(self) -> None:
        """Remark on what is new around the stream, such as files that are not read, each once."""

    def begin(self, shape: dict[str, Any] | None, planned: Callable[[RunConfig], Plans]) -> Plans:
        """The plan of the next batch; the folder and all sinks are ready for it.

        `shape`: what the folder is to know of the columns of a run that begins now; None: it goes on. `planned` makes
        the plan of a config. Where the run goes on with another repository, what was begun with the one before is
        finished first.
        """
        plan, after = planned(self.config), None
        if self.config.successor is not None:
            after = planned(moved(self.config))
            must_fit(plan, after)
        if shape is not None:
            self.output.begin(shape, plan.buckets, plan.asked)
        self.open()
        self.output.closed = False
        begin_all(self.config.sinks, self.output.info(plan, self.last(), self.reported(), self.remark))
        if after is None:
            return plan
        self.finish(plan)
        self.config, last = moved(self.config), self.last()
        self.output.move(self.config, 0 if last is None else last + 1)
        return after

    def open(self) -> None:
        """The engine's own state is there from now on."""

    def last(self) -> int | None:
        """The last batch that the engine has committed; None: none."""
        raise NotImplementedError

    def reported(self) -> int:
        """The last batch that the engine has committed and that had something to report; -1: none."""
        raise NotImplementedError

    def finish(self, plan: Plans) -> None:
        """Finish the batch that was begun, if there is one, by this plan."""
        raise NotImplementedError

    def close(self) -> None:
        """No more batches come from this process."""
        self.output.close()


def as_begun(config: RunConfig, place: Folder) -> RunConfig:
    """The same run with the version that it was begun with, where that is still there, and with those before it.

    Where another one is accepted, that is the config's `successor`.
    """
    known, about = config.repository, read_about(place)
    if known is None or known.folder is None or about is None or not has_batches(place):
        return _refuse_to_move(config, about)
    mark = about.get("repository")
    there, had = str(known.folder), about.get(REPOSITORIES, [])
    earlier = (_earlier(each["fingerprint"], [each["folder"], there], config.output) for each in had[:-1])
    config = replace(config, formers=tuple(earlier))
    if mark == known.fingerprint:
        return config
    if config.accepts:
        folder = had[-1]["folder"] if had else None
        return replace(config, repository=_earlier(mark, [folder, there], config.output), successor=known)
    if mark is None:
        return config
    try:
        return replace(config, repository=Repository.load(cache.beside(known.folder, mark) or known.folder, mark))
    except HistoryError:  # the output refuses the run, and names both
        return config


def moved(config: RunConfig) -> RunConfig:
    """The run with its successor, from the next batch on."""
    before = (*config.formers, config.repository)
    return replace(config, repository=config.successor, successor=None, formers=before)


def must_fit(before: Plans, after: Plans) -> None:
    """An error, if what was kept under one plan cannot go on under the other; nothing has changed yet."""
    if before.first.remembers == after.first.remembers:
        return
    first, then = ("remembers", "does not") if before.first.remembers else ("does not remember", "does")
    raise FoglineError(
        f"the run {first} what sensors have read, and the new repository {then}: what the run keeps does not fit "
        "it. Fit a repository that names sensors and times as the old one did, or choose another output."
    )


def _refuse_to_move(config: RunConfig, about: dict[str, Any] | None) -> RunConfig:
    """The config as it is; refused, if it is to move to a repository that has no name."""
    known = config.repository
    if config.accepts and about is not None:
        if known is None:
            raise FoglineError("--accept-repository goes on with another repository: name it with --repository.")
        if known.folder is None:
            raise FoglineError("a run goes on with a repository that lies in a folder: save it first.")
    return config


def _earlier(mark: str | None, folders: list[str | None], output: str) -> Repository | None:
    """A repository that a run has had; None: it had none."""
    if mark is None:
        return None
    places = list(dict.fromkeys(each for each in folders if each is not None))
    places += [str(other) for each in places if (other := cache.beside(Path(each), mark)) is not None]
    for each in places:
        try:
            return Repository.load(each, mark)
        except HistoryError:
            continue
    raise FoglineError(
        f"the run in {output!r} has imputed values by the repository {mark[:12]}…, and needs it for what it keeps of "
        f"them, but {' and '.join(map(repr, places))} {'holds' if len(places) == 1 else 'hold'} no such version. "
        "Put it back, or choose another output."
    )


def begun_with(place: Folder, output: str, known: Repository) -> Repository:
    """The version of a repository that the run in a folder was begun with; refused, where it was another repository."""
    mark = (read_about(place) or {}).get("repository")
    if mark == known.fingerprint:
        return known
    here = "" if known.folder is None else f" in {str(known.folder)!r}"
    if mark is None:
        raise FoglineError(f"the run in {output!r} was begun without a repository: no rule has filled a gap there.")
    try:
        return Repository.load(known.folder or "", mark)
    except HistoryError:
        raise FoglineError(
            f"the run in {output!r} was begun with another repository ({mark[:12]}…) than the one{here} "
            f"({known.fingerprint[:12]}…), nor is that an older version of it; name the folder that the run was given."
        ) from None


def ready(config: RunConfig, *, clock: str | None = None, remark: Callable[[str], None] = lambda text: None) -> None:
    """An error, if this run can neither begin nor go on; nothing is written.

    Of a stream or an output in another file system only the engine can know more.
    """
    must_be_apart(config.stream, config.output)
    if is_local(config.output):
        must_be_writable(config.output)
        if Path(config.output).exists() and not Path(config.output).is_dir():
            raise FoglineError(
                f"the output {config.output!r} is a file, where a folder is needed; choose another place."
            )
    if is_local(config.stream) and is_local(config.output):
        place = LocalFolder(absolute(config.output))
        output = Output(place, as_begun(config, place))
        plans_for_files(output, _layout_for(output, output.begun(), clock, remark)[0], follow=True)


def wait_for_files(stream: str, remark: Callable[[str], None]) -> None:
    """Until there is a file with anything in it."""
    if not is_local(stream) or any(map(size_of, files_of(stream))):
        return
    why = f"{stream!r} holds no rows yet."
    try:
        must_exist(stream)
    except FoglineError as error:
        why = " ".join(str(error).split())
    remark(f"{why} Waiting for the first file; Ctrl-C ends it.")
    named = set[str]()
    while not any(map(size_of, files_of(stream))):
        new = [text for text in not_read(stream) if text not in named]
        for text in new:
            remark(text)
        named.update(new)
        sleep(PAUSE)


def layout_for(
    output: Output, clock: str | None, remark: Callable[[str], None] = lambda text: None
) -> tuple[Layout, bool]:
    """How the files of a run are read, and whether it begins now; one that goes on is made ready for it."""
    return _layout_for(output, output.shape(), clock, remark)


def _layout_for(
    output: Output, shape: dict[str, Any] | None, clock: str | None, remark: Callable[[str], None]
) -> tuple[Layout, bool]:
    config = output.config
    if shape is None:
        how: dict[str, Any] = {"clock": clock, "lateness": config.lateness, "remark": remark}
        return layout_of(config.stream, config.query, config.options, **how), True
    layout = Layout.from_dict(shape, config.stream)
    layout.check(config.options, clock, config.output)
    return layout, False


def plans_for_files(output: Output, layout: Layout, *, follow: bool) -> tuple[Plans, Plans | None]:
    """The plan of a run, and that of its next batches, if it is to go on with another repository."""
    config, buckets = output.config, output.buckets
    plan = plan_for_files(config, layout, follow=follow, buckets=buckets)
    if config.successor is None:
        return plan, None
    after = plan_for_files(moved(config), layout, follow=follow, buckets=buckets)
    must_fit(plan, after)
    return plan, after


def plan_for_files(config: RunConfig, layout: Layout, *, follow: bool, buckets: int | None) -> Plans:
    """The plan of a run over files; errors name what does not fit."""
    repository = config.repository
    how = {name: getattr(config, name) for name in PLANNED}
    how |= {"clock": layout.clock or None, "versions": layout.versions or None, "moves_idle": follow}
    how |= {"formers": [_giving(each) for each in config.formers]}
    return plans_of(config.query, layout.schema, opened=_giving(repository), buckets=buckets or BUCKETS, **how)


def _giving(repository: Repository | None) -> Callable[[], Repository] | None:
    return None if repository is None else lambda: repository
