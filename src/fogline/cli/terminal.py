"""What all commands share: the application, errors in one sentence, progress on a terminal and without one.

Fogline's own errors are sentences already. Those of the file system, of Arrow, of YAML and of Spark are not: they
become one sentence with the file's name, and, where the cause lies deeper, the path of a log with the whole traceback.
Nothing is imported here that takes long: `fogline --help` shows itself at once.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

import fogline
from fogline.cli.help import Command, Group
from fogline.cli.options import SPARK
from fogline.errors import FoglineError, HistoryWarning
from fogline.files.listing import plain
from fogline.show import printable

if TYPE_CHECKING:
    from rich.console import Console

    from fogline.output.answers import OutputReader
    from fogline.repository.repository import Repository


WORDS = {
    "FileNotFoundError": "is not there, or cannot be made there",
    "IsADirectoryError": "is a folder, where a file is needed",
    "NotADirectoryError": "is a file, where a folder is needed",
    "PermissionError": "may not be read or written by this user",
    "FileExistsError": "is there already",
}


OF_THE_DISK = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
MENDED = " When that is mended, run the same command again."


def in_words(error: BaseException) -> list[str]:
    """The lines to print for an error: a sentence, then notes."""
    notes = list(getattr(error, "__notes__", ()))
    if isinstance(error, FoglineError):
        return [f"{type(error).__name__}: {error}", *notes]
    if isinstance(error, OSError) and not _is_arrow(error):
        return [_of_files(error), *notes]
    if isinstance(error, UnicodeDecodeError):
        found = f"bytes that are no {error.encoding} text, such as {error.object[error.start : error.end]!r}"
        return [f"a file holds {found}: is it a binary file, or one of another encoding?", *_logged(error)]
    if isinstance(error, ImportError) and (error.name is None or error.name.startswith("pyspark")):
        return [str(error)]
    if isinstance(error, MemoryError):
        return ["there is not enough memory for this in one process; with --master 'local[*]' Spark does it in parts."]
    return [f"{_source(error)}: {_first_line(error)}", *notes, *_logged(error)]


def _of_files(error: OSError) -> str:
    if error.filename is None:
        return f"the file system reports: {error.strerror or error}."
    what = WORDS.get(type(error).__name__, "")
    name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
    if isinstance(error, NotADirectoryError):  # the file that is in the way
        name = next((str(each) for each in Path(name).parents if each.is_file()), name)
    reason = what or f"cannot be used: {(error.strerror or str(error)).lower()}"
    return f"{name!r} {reason}.{MENDED if error.errno in OF_THE_DISK else ''}"


def _source(error: BaseException) -> str:
    """Who reports it, for people."""
    room = type(error).__module__.partition(".")[0]
    known = {"pyspark": "Spark reports", "py4j": "Spark reports", "pyarrow": "Arrow reports", "yaml": "this is no YAML"}
    return known.get(room, f"something went wrong that Fogline did not foresee ({type(error).__name__})")


def _is_arrow(error: BaseException) -> bool:
    return type(error).__module__.startswith("pyarrow")


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _logged(error: BaseException) -> list[str]:
    """The whole traceback in a file; a line that states where. Nothing where no file can be written."""
    try:
        number, path = mkstemp(prefix="fogline-error-", suffix=".log")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return []
    return [f"The whole of it is in {Path(path)}"]


# --- How far it is ----------------------------------------------------------------------------------------------------
#
# On a terminal each stage is a line that fits its width: a spinner or a tick, what is being done, a bar where it is
# known how much there is to do, and the time it has taken. Without one there is a line of text for each stage and each
# batch.

Report = Callable[[str, int, int], None]  # what is being done, how much of it is done, and of how much; 0: not known
BAR = 20  # columns


@contextmanager
def stages(first: str) -> Iterator[Report]:
    """A function to report stages to; `first` is the one that begins now."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines(first)
        return
    with bars(console) as shown:
        bar = shown.add_task(first, total=None)

        def report(what: str, done: int, of: int) -> None:
            """The next stage gets a line of its own; what has no end (of 0) only changes its words."""
            nonlocal bar
            last = shown.tasks[-1]
            if last.description != what:
                if of == 0 and last.fields.get("endless"):
                    shown.update(bar, description=what)
                else:
                    shown.update(bar, total=1, completed=1)
                    shown.stop_task(bar)
                    bar = shown.add_task(what, total=None, endless=of == 0)
            shown.update(bar, total=of or None, completed=done)

        yield report
        shown.update(bar, total=1, completed=1)


def lines(first: str) -> Report:
    """Stages as lines on stderr, each once."""
    print(first, file=sys.stderr, flush=True)
    last = first

    def report(what: str, done: int, of: int) -> None:
        nonlocal last
        if what != last:
            print(what, file=sys.stderr, flush=True)
            last = what

    return report


class Stage(ProgressColumn):
    """What is being done, as far as there is room, and a bar while it is known how much there is to do.

    The words may hold names from the data, which are no markup.
    """

    def __init__(self) -> None:
        super().__init__(Column(ratio=1, no_wrap=True))
        self.bar = BarColumn(bar_width=BAR)

    def render(self, task: Task) -> RenderableType:
        words = Text(task.description, no_wrap=True, overflow="ellipsis")
        if not task.total or task.finished:
            return words
        both = Table.grid(Column(ratio=1), Column(width=BAR), padding=(0, 1), expand=True)
        both.add_row(words, self.bar.render(task))
        return both


def bars(console: Console) -> Progress:
    """Lines for what takes long."""
    return Progress(SpinnerColumn(finished_text="✓"), Stage(), TimeElapsedColumn(), console=console, expand=True)


# --- What all commands share ------------------------------------------------------------------------------------------

Read = TypeVar("Read")
Each = TypeVar("Each", bound=Callable[..., Any])

MOSTLY_REJECTED = 3  # the exit status where more than half of the rows are rejected


class App(typer.Typer):
    """Commands whose help `cli.help` prints."""

    def command(self, name: str | None = None, **how: Any) -> Callable[[Each], Each]:
        """Add a command."""
        return super().command(name, cls=Command, **how)


app = App(no_args_is_help=True, add_completion=False, rich_markup_mode=None, cls=Group)

QueryFile = Annotated[
    list[str], typer.Option("--query", "-q", metavar="PATH", help="Query file (YAML), as `fogline init` writes it.")
]  # a list, so that a second one is refused instead of taking the place of the first
QueryFiles = Annotated[
    list[str],
    typer.Option(
        "--query",
        "-q",
        metavar="[NAME=]PATH",
        help="Query file (YAML), as `fogline init` writes it. Repeat it to answer several queries over the same rows. "
        "Each is called NAME, else as `name:` in the file, else as the file.",
    ),
]
StreamFiles = Annotated[
    str,
    typer.Argument(
        metavar="STREAM", help="Incoming rows: files of parquet, csv or jsonl, or a folder.", callback=plain
    ),
]
RepositoryFolder = Annotated[str, typer.Option("--repository", "-r", help="Folder made by `fogline fit`.")]
MaybeRepository = Annotated[
    str | None,
    typer.Option(
        "--repository",
        "-r",
        help="Folder made by `fogline fit`; fills missing values (default: rows with missing values are rejected).",
    ),
]
Lateness = Annotated[str, typer.Option(help="How long to wait for late rows, e.g. '30 seconds'.")]
Ahead = Annotated[
    str,
    typer.Option(
        help="Quarantine rows dated this far ahead of the other sensors until others catch up; guards against one "
        "wrong clock. Give a length of time, e.g. '1 hour', or `off`. `auto` is ten lifetimes; without a "
        "lifetime, one day for timestamps and `off` for numbers."
    ),
]
Idle = Annotated[
    str,
    typer.Option(
        help="With --follow: let rows of a silent group expire once the group is this far behind the others. Give "
        "'6 hours' if a site may report six hours late, or `never`. `auto` is ten lifetimes."
    ),
]
Clock = Annotated[
    str | None, typer.Option(help="How to read times stored as text: number or timestamp (default: detected).")
]
MaybeMaster = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=SPARK,
        help="Run on Spark: `local[*]` is this machine, else a cluster's address (default: no Spark for up to 2 GB of "
        "local files).",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(rich_help_panel=SPARK, help="Memory of the Spark driver, e.g. 8g (default: by machine)."),
]


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
    """Find the rows of a stream that no other row beats on all measures at once.

    For example: the sensors that are worst in heat, gas and dust together, live. Missing readings are filled with what
    past rows make likely. So each row of the answer has a probability.

    Try `fogline demo`. With a file of your own, begin with `fogline init FILE`.
    """


@app.command(
    hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
)
def lab() -> None:
    """State where the lab went."""
    typer.echo("the lab is no part of the package any more: run `python -m lab` from the root of a checkout.", err=True)
    raise typer.Exit(2)


@contextmanager
def helpful() -> Iterator[None]:
    """Print what went wrong, in a sentence, instead of a traceback; warnings of Fogline as sentences, too."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show(warnings.showwarning)
            warnings.filterwarnings("always", category=HistoryWarning)
            yield
    except KeyboardInterrupt:
        typer.echo("stopped.", err=True)
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:  # who reads has seen enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still held goes nowhere
        raise typer.Exit from None
    except Exception as error:
        for line in in_words(error):
            echo(line, err=True)
        raise typer.Exit(2) from None


def _show(before: Callable[..., None]) -> Callable[..., None]:
    """What shows warnings: those of Fogline in their own words alone."""

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if category.__module__.startswith("fogline."):
            remark(str(message))
        else:
            before(message, category, *rest)

    return show


def must_be_there(path: str) -> None:
    """Report what is wrong with a path before anything that takes long; of other machines' paths Spark does."""
    from fogline.files.listing import is_local, kind_of

    if is_local(path):
        kind_of(path, existing=True)


def repository_at(path: str, settings: Mapping[str, str], memory: str | None = None) -> Repository:
    """The repository of a folder; one in another file system is fetched, by a Spark of this machine."""
    from fogline.files.listing import is_local
    from fogline.repository.repository import Repository

    if is_local(path):
        return Repository.load(path)
    from fogline.spark.session import for_a_while
    from fogline.spark.share import repository

    with for_a_while(master="local[1]", memory=memory, settings=settings) as spark:
        return repository(path, spark)


@contextmanager
def on_spark(
    master: str, memory: str | None, settings: Mapping[str, str], *, brisk: bool = False
) -> Iterator[tuple[Any, Report]]:
    """A session for one command, and a function to report its stages to. `brisk`: it lasts less than a minute."""
    from fogline.spark.session import BRISK_JVM, for_a_while

    chosen = {**(BRISK_JVM if brisk else {}), **settings}
    with stages("starting Spark") as report, for_a_while(master=master, memory=memory, settings=chosen) as spark:
        yield spark, report


def reading(output: str, settings: Mapping[str, str], read: Callable[[OutputReader], Read]) -> Read:
    """Read an output folder; Spark is started only where nothing else reaches it."""
    from fogline.files.listing import is_local
    from fogline.output.answers import OutputReader

    if is_local(output):
        return read(OutputReader(output))
    from fogline.spark.hadoop import folder
    from fogline.spark.session import for_a_while

    with for_a_while(settings=settings) as spark:
        return read(OutputReader(folder(output, spark), output))


def remark(text: str) -> None:
    """Something that a person should know, though the command goes on."""
    echo(text, err=True)


def echo(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print a text. What it quotes comes from rows: nothing of it moves the cursor or changes a colour."""
    typer.secho(printable(text, "\n\t"), err=err, nl=nl, **style)


def paper() -> Console:
    """Where tables are printed; without a terminal they are as wide as they need to be.

    Without markup: names and values come from the data, and `pump[north]` is the name of a pump. For the same reason
    letters that would move the cursor or change a colour are shown as what they are.
    """
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    class Paper(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # `helpful` knows what to do

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for each in super().render(renderable, options):
                yield each if each.control else Segment(printable(each.text), each.style)

    return Paper(highlight=False, markup=False, emoji=False, width=None if Console().is_terminal else 160)


def number_or_text(given: str) -> float | str:
    """A number where it is one."""
    try:
        return float(given)
    except ValueError:
        return given
