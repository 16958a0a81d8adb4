"""What do all commands share? The application itself, errors for people, Spark for a while, and bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import fogline
from fogline.errors import FoglineError
from fogline.files.paths import absolute, is_local
from fogline.flow.folder import Folder, LocalFolder

Read = TypeVar("Read")

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")

QueryFile = Annotated[Path, typer.Option("--query", "-q", help="A YAML file with the fields of Query.")]
RepositoryFolder = Annotated[Path, typer.Option("--repository", "-r", help="The folder that `fogline fit` made.")]
MaybeRepository = Annotated[
    Path | None,
    typer.Option("--repository", "-r", help="What `fogline fit` made; without it, rows with gaps are rejected."),
]
Lateness = Annotated[str, typer.Option(help="How long to wait for rows on their way, such as '30 seconds'.")]
Ahead = Annotated[
    str,
    typer.Option(
        help="Hold rows whose time runs ahead of their group by more than this until other ids follow, so that one "
        "wrong clock does not end the answer: a length of time such as '1 hour', or `off`. By default ten "
        "lifetimes; without a lifetime a day for timestamps, and `off` for numbers."
    ),
]
Idle = Annotated[
    str,
    typer.Option(
        help="With --follow: how far the clock of a silent group stays behind the clock of all, so that its rows "
        "expire. Sites that report hours late need as many hours: '6 hours', or `never`. By default ten lifetimes. "
        "While files that are already there are read, other groups never move a group on."
    ),
]
Master = Annotated[str, typer.Option(help="Where Spark runs: this machine, or the address of a cluster.")]
Memory = Annotated[str | None, typer.Option(help="Memory of the Spark driver, such as 8g.")]


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


@contextmanager
def helpful() -> Iterator[None]:
    """Print what Fogline refuses, and why, instead of a traceback."""
    try:
        yield
    except FoglineError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        for note in getattr(error, "__notes__", ()):
            typer.echo(note, err=True)
        raise typer.Exit(2) from None
    except ImportError as error:
        if error.name is not None and not error.name.startswith("pyspark"):
            raise
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("stopped.", err=True)
        raise typer.Exit(130) from None


def must_be_there(path: str) -> Any:
    """Report what is wrong with a path before Spark, which takes seconds, is started. Returns what reads files."""
    from fogline.spark import files

    if is_local(path):  # others are looked at by Spark, once it is there
        files.kind_of(path, existing=True)
    return files


@contextmanager
def on_spark(master: str, memory: str | None) -> Iterator[tuple[Any, Any]]:
    """A session for one command, and a progress bar for its jobs."""
    with in_process("starting Spark") as report:
        from fogline.spark.session import for_a_while

        with for_a_while(master=master, memory=memory) as spark:
            yield spark, report


@contextmanager
def in_process(first: str) -> Iterator[Any]:
    """A progress bar for the steps of one command; `first`: what it shows until there is one."""
    with bars(Console(stderr=True)) as shown:
        bar = shown.add_task(first, total=None)

        def report(what: str, done: int, of: int) -> None:
            """The next step gets a bar of its own; what has no end (of 0) only changes its words."""
            nonlocal bar
            if of == 0 and shown.tasks[-1].total is None and shown.tasks[-1].description != first:
                shown.update(bar, description=what)
            elif shown.tasks[-1].description != what:
                shown.update(bar, total=1, completed=1)
                shown.stop_task(bar)
                bar = shown.add_task(what, total=None)
            shown.update(bar, total=of or None, completed=done)

        yield report


def bars(console: Console) -> Progress:
    """Bars for what takes long; their words may hold names from the data, which are no markup."""
    words = TextColumn("{task.description}", markup=False)
    return Progress(SpinnerColumn(), words, BarColumn(), TimeElapsedColumn(), console=console)


def reading(output: str, read: Callable[[Folder], Read]) -> Read:
    """Read an output folder; Spark is started only where nothing else reaches it."""
    if is_local(output):
        return read(LocalFolder(absolute(output)))
    from fogline.spark.hadoop import folder
    from fogline.spark.session import for_a_while

    with for_a_while() as spark:
        return read(folder(output, spark))


def paper() -> Console:
    """Where tables are printed; without a terminal they are as wide as they need to be.

    Without markup: names and values come from the data, and `pump[north]` is the name of a pump.
    """
    return Console(highlight=False, markup=False, emoji=False, width=None if Console().is_terminal else 160)


def number_or_text(given: str) -> float | str:
    """A number where it is one."""
    try:
        return float(given)
    except ValueError:
        return given
