"""fogline run, answer, check: a stream of files, and how the answer changes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.table import Table

from fogline.cli.terminal import (
    Ahead,
    Idle,
    Lateness,
    Master,
    MaybeRepository,
    Memory,
    QueryFile,
    app,
    helpful,
    in_process,
    must_be_there,
    number_or_text,
    on_spark,
    paper,
    reading,
)
from fogline.files.listing import must_exist
from fogline.files.options import Options
from fogline.flow.embedded import Embedded
from fogline.flow.holding import holding
from fogline.flow.output import EMBEDDED, RunConfig
from fogline.flow.starting import ready
from fogline.impute.chain import chain_of
from fogline.model import Query
from fogline.repository.repository import Repository

LOOK = 5.0  # seconds between looks for files that are not read
Clock = Annotated[
    str | None, typer.Option(help="What times that are texts mean: `number` or `timestamp`; without, rows show it.")
]


Hindsight = Annotated[
    bool | None,
    typer.Option(
        "--hindsight/--no-hindsight",
        help="Revise what a missing value may be when its sensor has spoken again; by default where that was learnt.",
    ),
]


@app.command()
def run(
    stream: Annotated[str, typer.Argument(help="Rows as they come, in files: parquet, csv, jsonl.")],
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
    engine: Annotated[
        str, typer.Option(help="What carries the rows: `spark`, or `embedded`: this process alone, without Java.")
    ] = "spark",
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
        known = None if repository is None else Repository.load(repository)
        asked = Query.load(query)
        if known is not None or hindsight:
            chain_of(known, asked, hindsight=hindsight)  # do they fit?
        must_exist(stream)
        clocks = number_or_text(lateness), number_or_text(ahead), number_or_text(idle)
        how: dict[str, Any] = {"moved": moved, "keep": keep, "hindsight": hindsight, "engine": engine}
        how["options"] = Options.load(query)
        config = RunConfig(stream, output, asked, known, every, *clocks, **how)
        ready(config, clock=clock)
        with holding(output, engine, remark), engine_of(config, master, memory) as (running, progress):
            if running.config.repository is not known:
                typer.echo("The repository is newer than the run, which goes on with the version it was begun with.")
            progress("reading the first files", 0, 0)
            there = running.start(files_per_batch=files_per_batch, clock=clock)
            if finish(there, running) and follow:
                finish(running.start(follow=True, files_per_batch=files_per_batch, clock=clock), running)
    status = running.status
    typer.echo(
        f"{status.total:,} rows, {status.changes:,} changes, {status.rejected:,} rejected, "
        f"{status.answer:,} in the answer, {perf_counter() - began:.0f} s: {output}"
    )
    if status.held:
        typer.echo(f"{status.held:,} rows are held: they run ahead of their groups; see rejects/ for each.")
    if status.expired:
        typer.echo(f"{status.expired:,} rows had expired before they could enter: they came too late for their groups.")
    if status.stale:
        typer.echo(f"{status.stale:,} rows were stale, and were ignored: something newer of their ids was there.")
    if status.waiting:
        typer.echo(f"{status.waiting:,} rows wait: they are not yet {lateness} behind the newest.")
    typer.echo(f"See the answer with: fogline answer {output}")


@app.command()
def answer(
    output: Annotated[str, typer.Argument(help="The folder that `fogline run` writes.")],
    at: Annotated[str | None, typer.Option(help="An instant of the stream: a number, or a timestamp.")] = None,
    most: Annotated[int, typer.Option("--most", help="Print so many rows; 0 prints all.", min=0)] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, all of them.")] = False,
) -> None:
    """Show the answer, now or at any past instant, rebuilt from the changes."""
    with helpful():
        from fogline.flow.answers import read_answer

        found = reading(output, lambda place: read_answer(place, output, at))
        if as_json:
            for row in found.to_pylist():
                typer.echo(json.dumps(row, default=str))
            return
        console = paper()
        table = Table(*found.schema.names, box=None, pad_edge=False, header_style="bold")
        shown = found.slice(0, most) if most else found
        for row in shown.to_pylist():
            table.add_row(*map(_cell, row.values()))
        console.print(table)
        more = found.num_rows - shown.num_rows
        console.print(f"{found.num_rows:,} rows{f', {more:,} of them not shown (--most 0)' if more else ''}")


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


@app.command()
def check(
    stream: Annotated[str, typer.Argument(help="Rows as they come, in files: parquet, csv, jsonl.")],
    query: QueryFile,
    repository: MaybeRepository = None,
    lateness: Lateness = "0",
    ahead: Ahead = "auto",
    clock: Clock = None,
    master: Master = "local[*]",
    memory: Memory = None,
) -> None:
    """A dry run: does everything fit, what is missing, and what would be rejected?"""
    with helpful():
        asked = Query.load(query)
        known = None if repository is None else Repository.load(repository)
        if known is not None:
            chain_of(known, asked)
        files = must_be_there(stream)
        with on_spark(master, memory) as (spark, progress):
            from fogline.spark.census import census
            from fogline.spark.progress import followed

            held = number_or_text(lateness)
            shape = files.shape_of(spark, stream, asked, clock=clock, lateness=held, remark=remark)
            rows = files.table(spark, stream, shape)
            with followed(spark, "reading", progress):
                beyond, meant = number_or_text(ahead), shape["clock"] or None
                found = census(rows, asked, known, lateness=held, ahead=beyond, clock=meant)
    print_census(found, asked, known)


def print_census(found: Any, query: Query, known: Repository | None) -> None:
    """What a dry run found, in words."""

    def share(n: int) -> str:
        return f"{n / max(found.rows, 1):.1%}"

    removals = f" {share(found.removals)} removals," if query.gone is not None else ""
    gaps, rejected = share(found.incomplete), share(found.rejected)
    typer.echo(f"{found.rows:,} rows:{removals} {gaps} with gaps, {rejected} would be rejected.")
    for name in query.names:
        rules = [] if known is None else [str(rule) for rule in known.lattices[name].rules]
        by = "" if known is None else f"; imputed by {', '.join(rules) if rules else 'the history as a whole'}"
        typer.echo(f"  {name}: {share(found.missing[name])} missing{by if found.missing[name] else ''}")
    for name in found.absent:
        typer.echo(f"  the rules ask for {name!r}, which the stream does not have: those rules are never used.")
    for reason, count in found.reasons.most_common(20):
        typer.echo(f"  rejected, {count:,}: {reason}\n    for instance {found.examples[reason]}")


@contextmanager
def engine_of(config: RunConfig, master: str, memory: str | None) -> Iterator[tuple[Any, Any]]:
    """A run on the engine that was asked for, and where to report what it does."""
    if config.engine == EMBEDDED:
        with in_process("starting") as progress:
            yield Embedded(config, lambda status: progress(status_line(status), 0, 0), remark), progress
        return
    with on_spark(master, memory) as (spark, progress):
        from fogline.spark.running import Run

        yield Run(spark, config, lambda status: progress(status_line(status), 0, 0), remark), progress


def finish(started: Any, running: Any) -> bool:
    """Wait until a run ends; the first Ctrl-C lets it finish its batch, the second one does not. So does SIGTERM.

    Returns whether it ended by itself.
    """
    asked_to_stop: list[int] = []

    def stop(*_: Any) -> None:
        if asked_to_stop:
            raise KeyboardInterrupt
        asked_to_stop.append(running.status.batch)
        typer.echo("\nfinishing the batch; Ctrl-C again stops at once.", err=True)

    both = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(each, stop) for each in both]  # Spark's own handler would cancel the batch
    try:
        with plain_errors(running.config.engine):
            looked = perf_counter()
            while not started.awaitTermination(0.2):
                if perf_counter() - looked > LOOK:
                    running.look()
                    looked = perf_counter()
                if asked_to_stop and (running.status.batch > asked_to_stop[0] or not started.status["isTriggerActive"]):
                    break
    finally:
        started.stop()
        for each, handler in zip(both, before, strict=True):
            signal.signal(each, handler)
    return not asked_to_stop


def plain_errors(engine: str) -> AbstractContextManager[None]:
    """What Spark raises becomes an error that a person can read."""
    if engine == EMBEDDED:
        return nullcontext()
    from fogline.spark.errors import plainly

    return plainly()


def remark(text: str) -> None:
    """Something that a person should know, though the run goes on."""
    typer.echo(text, err=True)


def status_line(status: Any) -> str:
    """How a run is doing, in one line."""
    rate = status.rows / status.seconds if status.seconds else 0.0
    return (
        f"batch {status.batch}: {status.rows:,} rows in {status.seconds:.1f} s ({rate:,.0f}/s), {status.live:,} live, "
        f"{status.answer:,} in the answer, {status.rejected:,} rejected"
        f"{f', {status.held:,} held' if status.held else ''}{f', {status.expired:,} expired' if status.expired else ''}"
    )
