"""What can be asked from a terminal?

Each command reads its options, calls one function of the package and prints what it says. Fogline's own errors are
written for the person at the keyboard: they are printed as they are, with exit code 2 and no traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

import fogline
from fogline.demo import Plan, show
from fogline.errors import FoglineError

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
