"""fogline demo."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Annotated

import typer

from fogline.cli.terminal import app, helpful
from fogline.demo.options import DemoOptions

USUAL: SimpleNamespace = SimpleNamespace(**{each.name: each.default for each in fields(DemoOptions)})


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(help="How long to watch.")] = USUAL.seconds,
    sensors: Annotated[int, typer.Option(help="How many sensors the mine has.", min=20, max=100_000)] = USUAL.sensors,
    seed: Annotated[int, typer.Option(help="The same seed gives the same mine.", min=0)] = USUAL.seed,
    alpha: Annotated[float, typer.Option(help="Answer what is likelier than this, in [0, 1).")] = USUAL.alpha,
    speed: Annotated[float, typer.Option(help="Simulated seconds per second.")] = USUAL.speed,
    latest: Annotated[
        bool,
        typer.Option("--latest", help="Ask which sensors are worst now: the newest reading of each counts. No Spark."),
    ] = USUAL.latest,
    plain: Annotated[
        bool, typer.Option("--plain", help="No live screen and no waiting: a few lines. Chosen without a terminal.")
    ] = False,
) -> None:
    """Watch a simulated coal mine with failing sensors, live in the terminal.

    A fire and a gas leak creep from gallery to gallery. The answer is the most dangerous places: hottest, most gas,
    most dust, least oxygen. Sensors fail in bursts; what they do not send is imputed, as a distribution, by rules that
    were found in the readings of an earlier shift. It all runs on a Spark of its own, in this machine (with --latest,
    in this process). At the end the answer is held against what the simulation knows. Ctrl-C ends it early.
    """
    from rich.console import Console

    console = Console(highlight=False)
    with helpful():
        from fogline.demo.run import show

        options = DemoOptions(seconds=seconds, sensors=sensors, seed=seed, alpha=alpha, speed=speed, latest=latest)
        show(options, console, plain=plain or not console.file.isatty() or console.is_dumb_terminal)
