"""fogline serve: a local web page that shows an output, before, during or after its run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Annotated

import typer

from fogline.cli.terminal import app, helpful, remark
from fogline.files.listing import plain

TOKEN = "FOGLINE_TOKEN"  # of the environment
PagePort = Annotated[
    int | None,
    typer.Option("--page-port", help="The port of the page; by default 8642, or any that is free.", min=0, max=65535),
]
WithPage = Annotated[
    bool, typer.Option("--page", help="Also show OUTPUT as a web page of this machine, as long as the run lasts.")
]


@app.command()
def serve(
    output: Annotated[str, typer.Argument(help="The folder that `fogline run` writes.", callback=plain)],
    host: Annotated[
        str, typer.Option(help="The address to listen at; others than this machine's own need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="The port; by default 8642, or any that is free.", min=0, max=65535)
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN, show_envvar=True, help="What a browser must know to see the page."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="The file with the token: unlike an option, other users do not see it.")
    ] = None,
    log: Annotated[
        str | None, typer.Option(help="Write JSON lines of what is asked for and read to this file; `-` is stderr.")
    ] = None,
) -> None:
    """Show an output as a local web page, live: who is in the answer, how sure that is, why, and what to measure next.

    It reads OUTPUT alone, before, during or after a run, and writes nothing. `fogline run … --explain` writes what the
    page needs to show why a row is in or out, ranges of missing values, rows near the answer and what to measure next;
    without it, the page shows the answer, its changes and the health of the run.

    Only this machine reaches the page. With `--host 0.0.0.0` other machines do, and need the token: open
    `http://HOST:PORT/?token=TOKEN` once. The connection is not encrypted; put a proxy with TLS before it where that
    matters. `/metrics` is for Prometheus, `/healthz` for a supervisor. Ctrl-C ends it.
    """
    with helpful():
        from fogline.page.serving import serve as serving

        if token is not None and token != os.environ.get(TOKEN):
            remark(f"others see what is written behind --token; put it into {TOKEN}, or into a file: --token-file.")
        with _lines(log) as file:
            serving(output, host, port, token_of(token, token_file), log=file, ready=announced(output))
        typer.echo("the page has ended.", err=True)


def token_of(token: str | None, file: Path | None) -> str | None:
    """The token, from an option, the environment or a file."""
    from fogline.documents import read_small_text
    from fogline.errors import FoglineError

    if file is None:
        return token or None
    try:
        read = read_small_text(file).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FoglineError(f"the token file {str(file)!r} cannot be read: {error}.") from None
    if not read:
        raise FoglineError(f"the token file {str(file)!r} is empty; put a token there: openssl rand -hex 16.")
    return read


def announced(output: str) -> Callable[[str], None]:
    """A function that prints where the page is, and what is not there yet."""
    from fogline.files.listing import absolute

    def ready(address: str) -> None:
        if not (Path(absolute(output)) / "about.json").exists():
            remark(f"there is no run in {output!r} yet; the page waits for one.")
        typer.echo(f"the page: {address}  (Ctrl-C ends it)")

    return ready


@contextmanager
def _lines(log: str | None) -> Iterator[IO[str] | None]:
    """Where JSON lines go; None: nowhere."""
    if log is None or log == "-":
        yield None if log is None else sys.stderr
        return
    with open(log, "a", encoding="utf-8") as file:
        yield file


def page_for(wanted: bool, output: str, port: int | None) -> AbstractContextManager[str | None]:
    """The page of an output beside a run, if it is wanted."""
    if not wanted:
        return nullcontext()
    from fogline.page.serving import beside

    return beside(output, port=port)
