"""What can be asked from a terminal?

Each command reads its options, calls one function of the package and prints what it says. Fogline's own errors are
written for the person at the keyboard: they are printed as they are, with exit code 2 and no traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import fogline
from fogline.demo import Plan, show
from fogline.errors import FoglineError
from fogline.impute.imputer import Imputer
from fogline.model import Query
from fogline.repository import rules as rule_files
from fogline.repository import store
from fogline.repository.discover import METHODS, check_method
from fogline.repository.repository import Repository

USUAL = Plan()

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


@contextmanager
def helpful() -> Iterator[None]:
    """Print what Fogline refuses, and why, instead of a traceback."""
    try:
        yield
    except FoglineError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(2) from None
    except ImportError as error:
        if error.name is not None and not error.name.startswith("pyspark"):
            raise
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("stopped.", err=True)
        raise typer.Exit(130) from None


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fogline {fogline.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Which objects of a stream are not beaten by any other, when some of their values are missing?

    Fogline keeps the skyline of a stream: every object for which no other is at least as good in all attributes and
    better in one. A missing value is a distribution of possible values, so each object has a probability of being in
    the skyline; the answer is all that lie above a threshold, alpha. It comes as changes: enter, leave, update.

    Begin with `fogline demo`; it needs no input.
    """


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(help="How long to watch.")] = USUAL.seconds,
    sensors: Annotated[int, typer.Option(help="How many sensors the mine has.", min=20, max=100_000)] = USUAL.sensors,
    seed: Annotated[int, typer.Option(help="The same seed gives the same mine.", min=0)] = USUAL.seed,
    alpha: Annotated[float, typer.Option(help="Answer what is likelier than this, in [0, 1).")] = USUAL.alpha,
    speed: Annotated[float, typer.Option(help="Simulated seconds per second.")] = USUAL.speed,
    plain: Annotated[
        bool, typer.Option("--plain", help="No live screen and no waiting: a few lines. Chosen without a terminal.")
    ] = False,
) -> None:
    """Watch a simulated coal mine with failing sensors, live in the terminal.

    A fire and a gas leak creep from gallery to gallery. The answer is the most dangerous places: hottest, most gas,
    most dust, least oxygen. Sensors fail in bursts; what they do not say is guessed from their neighbours, as a
    distribution. At the end the answer is held against what the simulation knows. Ctrl-C ends it early.
    """
    console = Console(highlight=False)
    with helpful():
        plan = Plan(seconds=seconds, sensors=sensors, seed=seed, alpha=alpha, speed=speed)
        show(plan, console, plain=plain or not console.file.isatty() or console.is_dumb_terminal)


QueryFile = Annotated[Path, typer.Option("--query", "-q", help="The question: a YAML file with the fields of Query.")]
RepositoryFolder = Annotated[Path, typer.Option("--repository", "-r", help="The folder that `fogline fit` made.")]
Master = Annotated[str, typer.Option(help="Where Spark runs: this machine, or the address of a cluster.")]
Memory = Annotated[str | None, typer.Option(help="Memory of the Spark driver, such as 8g.")]


@app.command()
def fit(
    history: Annotated[str, typer.Argument(help="Rows of the past, (nearly) complete: parquet, csv, jsonl.")],
    query: QueryFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write; a repository there is replaced.")
    ],
    rules: Annotated[Path | None, typer.Option(help="Rules of your own, as YAML, instead of discovered ones.")] = None,
    method: Annotated[str, typer.Option(help=f"How rules are discovered: {' or '.join(METHODS)}.")] = METHODS[0],
    master: Master = "local[*]",
    memory: Memory = None,
) -> None:
    """Learn from complete history what a missing value may be.

    Finds rules such as `voltage(0.01) -> temperature(0.5)` (rows close in voltage are close in temperature), and builds
    the indexes that answer them. A rule file is a list of such texts, or of `{given: {voltage: 0.01}, then:
    temperature, within: 0.5}`. See what was found with `fogline rules`.
    """
    began = perf_counter()
    with helpful():
        asked = Query.load(query)
        given = None if rules is None else rule_files.load(rules)
        check_method(method)
        store.check_folder(output)
        files = must_be_there(history)
        with on_spark(master, memory) as (spark, progress):
            rows = files.with_numbers(files.read(spark, history), asked)
            made = fogline.spark.fit(rows, asked, rules=given, method=method, folder=output, progress=progress)
    size = sum(each.stat().st_size for each in output.rglob("*") if each.is_file()) / 1e6
    typer.echo(
        f"{made.history.rows:,} rows, {len(made.rules)} rules, {size:,.0f} MB, {perf_counter() - began:.0f} s: {output}"
    )
    bare = [name for name, each in made.lattices.items() if not each.rules]
    if bare:
        typer.echo(f"Nothing explains {', '.join(bare)}: imputed from the whole history's distribution.")
    typer.echo(f"See the rules with: fogline rules {output}")


@app.command(name="rules")
def show_rules(
    repository: Annotated[Path, typer.Argument(help="The folder that `fogline fit` made.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Also what is tried in which order, and by which way rows are found.")
    ] = False,
) -> None:
    """Show the rules of a repository, and how good they are.

    Each rule alone imputes the newest tenth of the history from the rest. *Rows* is how many match on average, *finds*
    for how many rows any does. *Error* is how far its distributions lie from the truth (CRPS, in the attribute's own
    unit), and *gain* how much of the error of knowing nothing it takes away: 0 none, 100 % all.
    """
    with helpful():
        loaded = Repository.load(repository)
        console = Console(highlight=False, width=None if Console().is_terminal else 160)
        table = Table("rule", box=None, pad_edge=False, header_style="bold")
        for name in ("rows", "finds", "error", "gain"):
            table.add_column(name, justify="right")
        for each in loaded.quality():
            table.add_row(
                str(each.rule),
                f"{each.matches:,.0f}" if each.matches >= 10 else f"{each.matches:.2g}",
                f"{each.support:.0%}",
                f"{each.error:.3g}",
                f"{each.gain:.0%}",
            )
        console.print(table)
        for name, lattice in loaded.lattices.items():
            if not lattice.rules:
                console.print(f"{name}: no rule; imputed from the whole history's distribution.", markup=False)
        console.print(f"{loaded.history.rows:,} rows of history")
        for step in loaded.explain() if explain else ():
            console.print(f"  {step}", markup=False, soft_wrap=True)


@app.command()
def impute(
    stream: Annotated[str, typer.Argument(help="Rows with gaps: parquet, csv, jsonl.")],
    repository: RepositoryFolder,
    query: QueryFile,
    output: Annotated[str, typer.Option("--output", "-o", help="A folder of files; its suffix says which kind.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    master: Master = "local[*]",
    memory: Memory = None,
) -> None:
    """Write out what each missing value may be, one row per possible value.

    Columns: id, time, attribute, value, probability, and the rule that says so.
    """
    began = perf_counter()
    with helpful():
        asked, known = Query.load(query), Repository.load(repository)
        Imputer(known, asked)  # do they fit?
        files = must_be_there(stream)
        files.check_output(output, overwrite=overwrite)
        with on_spark(master, memory) as (spark, progress):
            from fogline.spark.progress import followed

            filled = fogline.spark.impute(files.read(spark, stream), asked, known)
            with followed(spark, "imputing", progress):
                files.write(filled, output, overwrite=overwrite)
    typer.echo(f"Written in {perf_counter() - began:.0f} s: {output}")


def must_be_there(path: str) -> Any:
    """Say what is wrong with a path before Spark, which takes seconds, is started. Returns what reads files."""
    from fogline.spark import files

    files.kind_of(path, existing=True)
    return files


@contextmanager
def on_spark(master: str, memory: str | None) -> Iterator[tuple[Any, Any]]:
    """A session for one command, and a progress bar for its jobs."""
    console = Console(stderr=True)
    looks = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*looks, console=console) as bars:
        bar = bars.add_task("starting Spark", total=None)

        def report(what: str, done: int, of: int) -> None:
            nonlocal bar
            if bars.tasks[-1].description != what:
                bars.update(bar, total=1, completed=1)
                bars.stop_task(bar)
                bar = bars.add_task(what, total=None)
            bars.update(bar, total=of, completed=done)

        from fogline.spark.session import for_a_while

        with for_a_while(master=master, memory=memory) as spark:
            yield spark, report
