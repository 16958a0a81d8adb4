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
    typer.Option("--page-port", help="Port of the page (default: 8642, or any free port).", min=0, max=65535),
]
WithPage = Annotated[
    bool, typer.Option("--page", help="Also serve a local web page of the output while the run lasts.")
]


@app.command()
def serve(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Output folder of `fogline run`.", callback=plain)],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="Port of the page (default: 8642, or any free port).", min=0, max=65535)
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN, show_envvar=True, help="Secret that a browser must send to see the page."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File that holds the token, so that other users of this machine cannot see it.")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(help="Log requests and reads as JSON lines to this file; `-` is stderr (default: no log)."),
    ] = None,
) -> None:
    """Show a run's answer as a live web page: what is in, why, and what to measure next.

    It only reads OUTPUT, before, during or after a run. Why rows are in or out, and what to measure next, it shows for
    runs with --explain.

    Only this machine can open the page. With `--host 0.0.0.0` other machines can, with the token: open
    `http://HOST:PORT/?token=TOKEN` once. The connection is not encrypted; put a TLS proxy before it if that matters.
    `/metrics` is for Prometheus, `/healthz` for a supervisor. Ctrl-C ends it.
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
            remark(f"There is no run in {output!r} yet; the page waits for one.")
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
