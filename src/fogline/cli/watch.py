"""fogline run: a stream of files, and how the answer changes."""

from __future__ import annotations

import signal
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.terminal import (
    Ahead,
    Clock,
    Idle,
    Lateness,
    Master,
    MaybeRepository,
    Memory,
    QueryFile,
    StreamFiles,
    app,
    helpful,
    number_or_text,
    on_spark,
    remark,
)

if TYPE_CHECKING:
    from fogline.flow.folder import Folder
    from fogline.flow.output import RunStatus

LOOK = 5.0  # seconds between looks for files that are not read
Hindsight = Annotated[
    bool | None,
    typer.Option(
        "--hindsight/--no-hindsight",
        help="Revise what a missing value may be when its sensor has spoken again; by default where that was learnt.",
    ),
]


@app.command()
def run(
    stream: StreamFiles,
    query: QueryFile,
    output: Annotated[str, typer.Option("--output", "-o", help="The folder for changes, rejects, health, checkpoint.")],
    repository: MaybeRepository = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on watching the folder for new files.")] = False,
    every: Annotated[str, typer.Option(help="Report the answer of every `tick`, or of every `batch` only.")] = "tick",
    lateness: Lateness = "0",
    ahead: Ahead = "auto",
    idle: Idle = "auto",
    files_per_batch: Annotated[int | None, typer.Option(help="Take so many files at once.", min=1)] = None,
    keep: Annotated[
        int | None, typer.Option(help="Remove changes, rejects and health older than so many batches.", min=1)
    ] = None,
    moved: Annotated[
        bool, typer.Option("--moved", help="Go on though the stream's folder has another path than before.")
    ] = False,
    clock: Clock = None,
    hindsight: Hindsight = None,
    master: Master = "local[*]",
    memory: Memory = None,
) -> None:
    """Watch a stream of files, and write how the answer changes.

    OUTPUT becomes a folder of Parquet files: `changes/`, `rejects/` (rows that could not be taken, with the reason) and
    `health/` (rows, times, sizes per batch). Ctrl-C finishes the batch; the same command then goes on where it stopped,
    and so it does after a crash. See the answer with `fogline answer`.
    """
    began = perf_counter()
    with helpful():
        from fogline.files.listing import must_exist
        from fogline.impute.chain import chain_of
        from fogline.model import Query
        from fogline.repository.repository import Repository

        known = None if repository is None else Repository.load(repository)
        asked = Query.load(query)
        if known is not None or hindsight:
            chain_of(known, asked, hindsight=hindsight)  # do they fit?
        must_exist(stream)
        with on_spark(master, memory) as (spark, progress):
            from fogline.flow.output import RunConfig
            from fogline.spark.running import Run

            clocks = number_or_text(lateness), number_or_text(ahead), number_or_text(idle)
            config = RunConfig(
                stream, output, asked, known, every, *clocks, moved=moved, keep=keep, hindsight=hindsight
            )
            running = Run(spark, config, lambda status: progress(status_line(status), 0, 0), remark)
            if running.config.repository is not known:
                typer.echo("The repository is newer than the run, which goes on with the version it was begun with.")
            progress("reading the first files", 0, 0)
            there = running.start(files_per_batch=files_per_batch, clock=clock)
            if finish(there, running) and follow:
                finish(running.start(follow=True, files_per_batch=files_per_batch, clock=clock), running)
        sum_up(running.status, running.output.place, output, lateness, perf_counter() - began)


def sum_up(status: RunStatus, place: Folder, output: str, lateness: str, seconds: float) -> None:
    """What a run has done; how many are in the answer, the output itself knows, also when no file is new."""
    from fogline.flow.answers import read_answer

    there = read_answer(place, output).num_rows
    done = (
        f"{status.total:,} rows, {status.changes:,} changes, {status.rejected:,} rejected"
        if status.batch >= 0
        else "no new files"
    )
    typer.echo(f"{done}, {there:,} in the answer, {seconds:.0f} s: {output}")
    if status.held:
        typer.echo(f"{status.held:,} rows are held: they run ahead of their groups; see rejects/ for each.")
    if status.expired:
        typer.echo(f"{status.expired:,} rows had expired before they could enter: they came too late for their groups.")
    if status.stale:
        typer.echo(f"{status.stale:,} rows were stale, and were ignored: something newer of their ids was there.")
    if status.waiting:
        typer.echo(f"{status.waiting:,} rows wait: they are not yet {lateness} behind the newest.")
    typer.echo(f"See the answer with: fogline answer {output}")


def finish(started: Any, running: Any) -> bool:
    """Wait until a run ends; the first Ctrl-C lets it finish its batch, the second one does not.

    Returns whether it ended by itself.
    """
    asked_to_stop: list[int] = []

    def stop(*_: Any) -> None:
        if asked_to_stop:
            raise KeyboardInterrupt
        asked_to_stop.append(running.status.batch)
        typer.echo("\nfinishing the batch; Ctrl-C again stops at once.", err=True)

    before = signal.signal(signal.SIGINT, stop)  # Spark's own handler would cancel the batch
    try:
        from fogline.spark.errors import plainly

        with plainly():
            looked = perf_counter()
            while not started.awaitTermination(0.2):
                if perf_counter() - looked > LOOK:
                    running.look()
                    looked = perf_counter()
                if asked_to_stop and (running.status.batch > asked_to_stop[0] or not started.status["isTriggerActive"]):
                    break
    finally:
        started.stop()
        signal.signal(signal.SIGINT, before)
    return not asked_to_stop


def status_line(status: RunStatus) -> str:
    """How a run is doing, in one line that leaves room for a spinner and a clock in 80 columns."""
    rate = status.rows / status.seconds if status.seconds else 0.0
    counts = ((status.held, "held"), (status.expired, "expired"))
    rare = "".join(f", {short(count)} {what}" for count, what in counts if count)
    return (
        f"batch {status.batch}: {short(status.rows)} rows, {short(rate)}/s, {short(status.answer)} in the answer, "
        f"{short(status.rejected)} rejected{rare}"
    )


def short(count: float) -> str:
    """A count in few columns.

    >>> short(0), short(950), short(12_345), short(2_500_000)
    ('0', '950', '12k', '2.5M')
    """
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if count >= size:
            each = size if unit != "k" else 1e3
            return f"{count / each:.1f}{unit}" if count < 10 * each else f"{count / each:.0f}{unit}"
    return f"{count:,.0f}"
