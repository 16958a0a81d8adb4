"""fogline run: a stream of files, and how the answer changes."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.engine import AUTO, LOCAL, begun_by, engine_for
from fogline.cli.options import (
    SPARK,
    KafkaConfig,
    MaxRows,
    Settings,
    Stated,
    StatedLimits,
    Topics,
    limits_groups,
    must_be_one_limit,
    reads_files,
    reads_topics,
    spark_options,
    starts_spark,
)
from fogline.cli.serve import PagePort, WithPage, page_for
from fogline.cli.terminal import (
    MOSTLY_REJECTED,
    Ahead,
    Clock,
    Idle,
    Lateness,
    MaybeRepository,
    Memory,
    QueryFiles,
    StreamFiles,
    app,
    echo,
    helpful,
    number_or_text,
    on_spark,
    remark,
    repository_at,
)
from fogline.errors import FoglineError

if TYPE_CHECKING:
    from fogline.cli.terminal import Report
    from fogline.runs.config import RunConfig, RunStatus


ALARMS = 10  # that are printed while a run goes on; all are in alarms.json
STOPS = signal.SIGINT, signal.SIGTERM  # both let a run finish its batch
SMALL = 100 * 10**6  # bytes of files that are soon read
Hindsight = Annotated[
    bool | None,
    typer.Option(
        "--hindsight/--no-hindsight",
        help="Improve a filled value when the sensor's next reading arrives (default: as `fogline fit` was set).",
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", help="Folder for the answer's changes, rejected rows, and what a restart needs."),
]
To = Annotated[
    list[str] | None,
    typer.Option(
        help="Also deliver each batch, exactly once, to `postgresql://user@host/database?table=NAME`, `delta:FOLDER`, "
        "`kafka://host:port/topic`, `webhook+https://host/path`, or a folder. May be repeated."
    ),
]
Checkpoint = Annotated[
    str | None, typer.Option(help="With --to and without --output: folder for what a restart needs.")
]


@app.command()
@reads_files
@reads_topics
@limits_groups
@starts_spark
def run(
    stream: StreamFiles,
    query: QueryFiles,
    output: Output = None,
    to: To = None,
    checkpoint: Checkpoint = None,
    repository: MaybeRepository = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep running and wait for new files, also for the first one.")
    ] = False,
    every: Annotated[
        str,
        typer.Option(help="Report changes after each `tick` (each point in time) or only after each `batch` of files."),
    ] = "tick",
    lateness: Lateness = "0",
    ahead: Ahead = "auto",
    idle: Idle = "auto",
    files_per_batch: Annotated[
        int | None,
        typer.Option(help="Read at most this many files per batch (default: as many as the rows allow).", min=1),
    ] = None,
    max_rows_per_batch: MaxRows = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Also write this column of each row, e.g. room. May be repeated; `all` writes every column.",
        ),
    ] = None,
    skyband: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Rows that fewer than K others beat, in place of the query's own (default: 1).", min=1
        ),
    ] = None,
    keep_batches: Annotated[
        int | None,
        typer.Option(
            help="Delete changes, rejects and health older than this many batches (default: keep all).", min=1
        ),
    ] = None,
    moved: Annotated[
        bool, typer.Option("--moved", help="Continue although the stream's folder has another path than before.")
    ] = False,
    clock: Clock = None,
    hindsight: Hindsight = None,
    accept_repository: Annotated[
        bool,
        typer.Option(
            "--accept-repository",
            help="Continue with another repository. Values already filled stay as they are.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Also write why rows are in or out, and what to measure next. `fogline explain`, `fogline next` and "
            "the page need it. The run takes longer.",
        ),
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            help="`embedded` runs in this process, without Java; `spark` runs on Spark. `auto` is embedded for up to "
            "2 GB of local files, else Spark. An output keeps the engine it was begun with."
        ),
    ] = AUTO,
    master: Annotated[
        str | None,
        typer.Option(rich_help_panel=SPARK, help="Where Spark runs: a cluster's address (default: this machine)."),
    ] = None,
    memory: Memory = None,
    page: WithPage = False,
    page_port: PagePort = None,
    *,
    kafka_config: KafkaConfig = None,
    stated: Stated,
    topic: Topics,
    limits: StatedLimits,
    settings: Settings,
) -> None:
    """Watch files or a Kafka topic (kafka://host:port/topic), and write how the answer changes.

    See the answer with `fogline answer OUTPUT`, or live in a browser with `fogline serve OUTPUT`.

    Ctrl-C finishes the batch. The same command continues where it stopped, also after a crash.

    Missing values are filled from the repository. Without one, rows with missing values are rejected. If more than half
    of the rows are rejected, the exit status is 3.

    OUTPUT is a folder of Parquet files: `changes/`, `rejects/` (rows that could not be used, and why) and `health/`
    (counts per batch).
    """
    began = perf_counter()
    with helpful():
        from fogline.cli.options import named, queries_of
        from fogline.cli.places import where_to
        from fogline.files.listing import must_exist
        from fogline.impute.chain import chain_of
        from fogline.output.answers import OutputReader
        from fogline.queries import each_of
        from fogline.runs.config import RunConfig
        from fogline.runs.lock import holding
        from fogline.runs.start import ready, wait_for_files

        known = None if repository is None else repository_at(repository, settings(), memory)
        asked, options = queries_of(query, keep or (), skyband), stated()
        output, sinks = where_to(stream, output, to or [], checkpoint, kafka_config)
        if known is not None or hindsight:
            for name, one in each_of(asked).items():
                with named(name):
                    chain_of(known, one, hindsight=hindsight)  # do they fit?
        asked_topic = topic()
        if follow and begun_by(output) is None:
            try:
                wait_for_files(stream, remark)
            except KeyboardInterrupt:
                echo("stopped; no file had come, and nothing was written.", err=True)
                raise typer.Exit from None
        must_exist(stream)
        engine = engine_for(engine, stream, output, master, memory, settings())
        clocks = number_or_text(lateness), number_or_text(ahead), number_or_text(idle)
        about: dict[str, Any] = {
            "moved": moved,
            "keep_batches": keep_batches,
            "hindsight": hindsight,
            "options": options,
        }
        about |= {"sinks": sinks, "keeps": checkpoint is None, "accepts": accept_repository}
        about |= {"explain": explain, "limits": limits()}
        must_be_one_limit(engine, files_per_batch, max_rows_per_batch)
        sizes = {"files_per_batch": files_per_batch, "max_rows_per_batch": max_rows_per_batch}
        config = RunConfig(stream, output, asked, known, every, *clocks, **about, topic=asked_topic, engine=engine)
        ready(config, clock=clock)
        start = Start(master, memory, settings(), brisk=not follow and is_small(stream))
        with (
            holding(output, engine, remark),
            page_beside(page, config, page_port),
            on_engine(config, start) as (running, progress),
            closing(running),
        ):
            if running.config.successor is not None:
                echo("The run continues with another repository; values already filled stay.")
            elif running.config.repository is not known:
                echo(
                    "The repository is newer than the run, which continues with the version it was begun with; "
                    "--accept-repository takes the newer one."
                )
            progress("reading the first files", 0, 0)
            with plain_errors(engine):
                running.to_the_end(follow=follow, stopping=stopping, signals=STOPS, **sizes, clock=clock)
            members = OutputReader(running.output.place, output).answer().num_rows if config.keeps else None
        sum_up(running.status, members, config, perf_counter() - began)
        warn_of_rejects(running.status)


@contextmanager
def page_beside(wanted: bool, config: RunConfig, port: int | None) -> Iterator[None]:
    """The page as long as the run lasts, if it is wanted."""
    if wanted and not config.keeps:
        raise FoglineError("--page shows an output folder, and with --to alone there is none; add --output FOLDER.")
    with page_for(wanted, config.output, port) as address:
        if address is not None:
            echo(f"the page: {address}{'' if config.explain else '  (with --explain it also shows why)'}")
        yield


def warn_of_rejects(status: RunStatus) -> None:
    """If most rows were rejected that comes last, in red, and the exit status shows it."""
    from fogline.pipeline.rejects import mostly_rejected

    texts = {
        name: text
        for name, one in (status.each or {"": status}).items()
        if (text := mostly_rejected(one.total, one.rejected, one.reasons)) is not None
    }
    for name, text in texts.items():
        echo(f"{name}{': ' if name else ''}{text}", fg="red", bold=True, err=True)
    if texts:
        echo(
            "The answer is that of the other rows. `fogline rejects` lists these. When the cause is mended, run again "
            "into another output: a run takes no row twice.",
            err=True,
        )
        raise typer.Exit(MOSTLY_REJECTED)


def is_small(stream: str) -> bool:
    """Whether what is there is soon read."""
    from fogline.files.listing import files_of, is_local, size_of

    return is_local(stream) and sum(map(size_of, files_of(stream))) <= SMALL


def sum_up(status: RunStatus, members: int | None, config: RunConfig, seconds: float) -> None:
    """What a run has done; how many are in the answer, its output knows, also when no file is new."""
    from fogline.kafka.client import is_topic
    from fogline.output.sink import name_of
    from fogline.show import count_of

    done = (
        f"{count_of(status.total, 'row')}, {count_of(status.changes, 'change')}, {status.rejected:,} rejected"
        if status.batch >= 0
        else f"no new {'messages' if is_topic(config.stream) else 'files'}"
    )
    if status.each:
        done = f"{count_of(status.total, 'row')} for {len(status.each)} queries, {count_of(status.changes, 'change')}"
    answer = "" if members is None else f", {members:,} in the answer"
    where = [config.output] if config.keeps else []
    echo(f"{done}{answer}, {seconds:.0f} s: {', '.join([*where, *map(name_of, config.sinks)])}")
    for name, one in status.each.items():
        echo(
            f"  {name}: {count_of(one.changes, 'change')}, {one.rejected:,} rejected, {one.answer:,} in the answer"
            f"{f', {one.held:,} held' if one.held else ''}{f', {one.expired:,} expired' if one.expired else ''}"
        )
    if status.held:
        echo(f"In quarantine, dated ahead of the other sensors: {count_of(status.held, 'row')}; see `fogline rejects`.")
    if status.late:
        echo(f"Late: {count_of(status.late, 'row')}; they count from when they came. --lateness waits for such rows.")
    if status.expired:
        echo(f"Expired before they came: {count_of(status.expired, 'row')}.")
    if status.stale:
        echo(f"Ignored, since a newer row of the same id was there: {count_of(status.stale, 'row')}.")
    if status.sensors_forgotten:
        echo(f"Sensors forgotten, since there are more than the query's max_sensors: {status.sensors_forgotten:,}.")
    if status.waiting:
        echo(f"Waiting for late rows (--lateness {config.lateness}): {count_of(status.waiting, 'row')}.")
    if status.alarms:
        echo(f"{count_of(len(status.alarms), 'alarm')}; {status.alarms[0].sentence()}. See docs/howto/limits.md.")
    if config.keeps:
        echo(f"See the answer with: fogline answer {config.output}, or as a page: fogline serve {config.output}")


@dataclass(frozen=True, slots=True)
class Start:
    """What Spark is started with."""

    master: str | None
    memory: str | None
    settings: Mapping[str, str]
    brisk: bool


@contextmanager
def on_engine(config: RunConfig, start: Start) -> Iterator[tuple[Any, Report]]:
    """A run on the engine that was asked for, and a function to report its stages to."""

    known: set[tuple[str, str]] = set()  # alarms that were printed

    def shown(status: RunStatus) -> None:
        progress(status_line(status), 0, 0)
        for each in status.alarms:
            if (each.group, each.limit) not in known and len(known) < ALARMS:
                known.add((each.group, each.limit))
                remark(f"alarm: {each.sentence()}")

    if config.engine == "embedded":
        from fogline.cli.terminal import stages
        from fogline.runs.embedded import Embedded

        if (named := spark_options(start.master, start.memory, start.settings)) is not None:
            remark(f"{named} for Spark, and without effect here: the engine is embedded.")
        with stages("starting") as progress:
            yield Embedded(config, shown, remark), progress
        return
    from fogline.kernels.compile import TEXT, is_cold

    if is_cold():  # workers compile, and cannot state it
        remark(TEXT)
    with on_spark(start.master or LOCAL, start.memory, start.settings, brisk=start.brisk) as (spark, progress):
        from fogline.spark.partitions import wake
        from fogline.spark.running import Run

        wake(spark)
        yield Run(spark, config, shown, remark), progress


def stopping() -> None:
    """A run was asked to stop."""
    echo("\nfinishing the batch; Ctrl-C again stops at once.", err=True)


def plain_errors(engine: str) -> AbstractContextManager[None]:
    """What Spark raises becomes an error that a person can read."""
    if engine == "embedded":
        return nullcontext()
    from fogline.spark.errors import plainly

    return plainly()


def status_line(status: RunStatus) -> str:
    """How a run is doing, in one line that leaves room for a spinner and a clock in 80 columns."""
    rate = status.rows / status.seconds if status.seconds else 0.0
    counts = ((status.held, "held"), (status.late, "late"), (status.expired, "expired"))
    behind = f", {short(status.behind)} file{'s'[: status.behind > 1]} to go" if status.behind else ""
    rare = "".join(f", {short(count)} {what}" for count, what in counts if count)
    return (
        f"batch {status.batch}: {short(status.rows)} rows, {short(rate)}/s, {short(status.answer)} in the answer, "
        f"{short(status.rejected)} rejected{rare}{behind}"
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
