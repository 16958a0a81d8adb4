"""What do all commands share? The application itself, its options, errors for people, and Spark for a while.

Nothing is imported here that takes long: `fogline --help` shows itself at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import fogline
from fogline.errors import HistoryWarning
from fogline.files.paths import plain
from fogline.show import printable

if TYPE_CHECKING:
    from rich.console import Console

    from fogline.cli.progress import Report
    from fogline.flow.folder import Folder
    from fogline.repository.repository import Repository

Read = TypeVar("Read")

MOSTLY_REJECTED = 3  # the exit status where more than half of the rows are rejected

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")

QueryFile = Annotated[
    list[str], typer.Option("--query", "-q", metavar="PATH", help="A YAML file with the fields of Query.")
]  # a list, so that a second one is refused instead of taking the place of the first
QueryFiles = Annotated[
    list[str],
    typer.Option(
        "--query",
        "-q",
        metavar="[NAME=]PATH",
        help="A YAML file with the fields of Query. May be given several times: each is answered over the same rows, "
        "under the NAME, the `name:` in the file, or else the name of the file.",
    ),
]
StreamFiles = Annotated[str, typer.Argument(help="Rows as they come, in files: parquet, csv, jsonl.", callback=plain)]
RepositoryFolder = Annotated[str, typer.Option("--repository", "-r", help="The folder that `fogline fit` made.")]
MaybeRepository = Annotated[
    str | None,
    typer.Option("--repository", "-r", help="What `fogline fit` made; without it, a row with a gap is rejected."),
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
Clock = Annotated[
    str | None, typer.Option(help="What times that are texts mean: `number` or `timestamp`; without, rows show it.")
]
Master = Annotated[str, typer.Option(help="Where Spark runs: this machine, or the address of a cluster.")]
MaybeMaster = Annotated[
    str | None,
    typer.Option(
        help="Do it on Spark: `local[*]`, this machine, or the address of a cluster. Without it, in this process, "
        "where the files lie here and have less than 2 GB together."
    ),
]
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
    except Exception as error:
        from fogline.cli.trouble import in_words

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
    from fogline.files.listing import kind_of
    from fogline.files.paths import is_local

    if is_local(path):
        kind_of(path, existing=True)


def repository_at(path: str, settings: Mapping[str, str], memory: str | None = None) -> Repository:
    """The repository of a folder; one in another file system is fetched, by a Spark of this machine."""
    from fogline.files.paths import is_local
    from fogline.repository.repository import Repository

    if is_local(path):
        return Repository.load(path)
    from fogline.spark.fetching import repository
    from fogline.spark.session import for_a_while

    with for_a_while(master="local[1]", memory=memory, settings=settings) as spark:
        return repository(path, spark)


@contextmanager
def on_spark(
    master: str, memory: str | None, settings: Mapping[str, str], *, brisk: bool = False
) -> Iterator[tuple[Any, Report]]:
    """A session for one command, and a function to report its stages to. `brisk`: it lasts less than a minute."""
    from fogline.cli.progress import stages
    from fogline.spark.session import BRISK_JVM, for_a_while

    chosen = {**(BRISK_JVM if brisk else {}), **settings}
    with stages("starting Spark") as report, for_a_while(master=master, memory=memory, settings=chosen) as spark:
        yield spark, report


def reading(output: str, settings: Mapping[str, str], read: Callable[[Folder], Read]) -> Read:
    """Read an output folder; Spark is started only where nothing else reaches it."""
    from fogline.files.paths import absolute, is_local
    from fogline.flow.folder import LocalFolder

    if is_local(output):
        return read(LocalFolder(absolute(output)))
    from fogline.spark.hadoop import folder
    from fogline.spark.session import for_a_while

    with for_a_while(settings=settings) as spark:
        return read(folder(output, spark))


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
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Paper(Console):
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
