"""fogline demo."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer

from fogline.cli.serve import PagePort, page_for
from fogline.cli.terminal import app, helpful
from fogline.demo.options import DemoOptions

if TYPE_CHECKING:
    from rich.console import Console


USUAL: SimpleNamespace = SimpleNamespace(**{each.name: each.default for each in fields(DemoOptions)})


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(help="How many seconds to watch.")] = USUAL.seconds,
    sensors: Annotated[int, typer.Option(help="How many sensors the mine has.", min=20, max=100_000)] = USUAL.sensors,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same mine.", min=0)] = USUAL.seed,
    alpha: Annotated[
        float, typer.Option(help="Show places more likely than this to be among the most dangerous, from 0 to below 1.")
    ] = USUAL.alpha,
    speed: Annotated[float, typer.Option(help="Simulated seconds per real second.")] = USUAL.speed,
    latest: Annotated[
        bool,
        typer.Option(
            "--latest", help="Show which sensors are worst now, by the newest reading of each. Runs without Spark."
        ),
    ] = USUAL.latest,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print a few lines instead of a live screen (default: without a terminal).")
    ] = False,
    page: Annotated[
        bool,
        typer.Option(
            "--page", help="Also serve a local web page that shows why, and what to measure next. Runs without Spark."
        ),
    ] = False,
    page_port: PagePort = None,
) -> None:
    """Watch a simulated coal mine with failing sensors, live in the terminal.

    A fire and a gas leak creep from gallery to gallery. The answer is the most dangerous places: hottest, most gas,
    most dust, least oxygen. Sensors fail in bursts. Their missing readings are filled by rules found in an earlier
    shift, each with its probabilities.

    It runs on a local Spark. With --latest, with --page or without PySpark it needs none. At the end the answer is
    compared with the truth. Ctrl-C ends it early; the page stays until Ctrl-C.
    """
    from rich.console import Console

    console = Console(highlight=False)
    with helpful():
        from fogline.demo.run import show

        options = DemoOptions(seconds=seconds, sensors=sensors, seed=seed, alpha=alpha, speed=speed, latest=latest)
        dull = not console.file.isatty() or console.is_dumb_terminal
        if not page:
            show(options, console, plain=plain or dull)
            return
        with TemporaryDirectory(prefix="fogline-demo-") as folder:
            with_page(options, console, Path(folder) / "mine", plain=plain or dull, port=page_port, stays=not dull)


def with_page(
    options: DemoOptions, console: Console, output: Path, *, plain: bool, port: int | None, stays: bool
) -> None:
    """The demo and its page; if it stays, until Ctrl-C."""
    from functools import partial

    from fogline.demo.output_engine import into_folder
    from fogline.demo.run import show

    with page_for(True, str(output), port) as address:
        console.print(f"the page: {address}", markup=False)
        show(options, console, plain=plain, opened=partial(into_folder, output), page=address)
        if stays:
            console.print(f"\nthe page is still at {address}; Ctrl-C ends it.", markup=False)
            with suppress(KeyboardInterrupt):
                Event().wait()
