"""fogline warm: machine code for workers that start without any."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console

from fogline.cli.terminal import app, helpful
from fogline.errors import FoglineError


@app.command()
def warm(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder or archive (.zip, .tar.gz) to write (default: this machine's cache)."
        ),
    ] = None,
) -> None:
    """Compile Fogline's machine code ahead of time, so that the first run starts fast.

    An installed wheel brings it along. Without OUTPUT it is kept for this machine. With OUTPUT it becomes a folder or
    an archive for the workers of a cluster, which find it by FOGLINE_CACHE:

    `fogline warm -o cache.zip`, then `--archives cache.zip#cache --conf spark.executorEnv.FOGLINE_CACHE=./cache`.

    It fits this version of Fogline, Numba and Python, and processors like this one. For workers with other processors
    set NUMBA_CPU_NAME=generic.
    """
    began = perf_counter()
    with helpful():
        kind = None if output is None else _kind(output)
        from fogline.pipeline.warm import warm as warm_up

        with TemporaryDirectory() as draft, Console(stderr=True).status("compiling") as status:
            folder = output if kind is None else Path(draft, "cache")
            files = warm_up(folder, lambda step: status.update(f"compiling: {step}"))
            if output is not None and kind is not None:
                shutil.move(shutil.make_archive(str(Path(draft, "packed")), kind, folder), output)
        if not files:
            raise FoglineError("compiled kernels can be kept nowhere on this machine; name a place with --output.")
    where = "kept for this machine" if output is None else f"in {output}"
    typer.echo(f"{files} files of machine code {where}, {perf_counter() - began:.0f} s")


def _kind(output: Path) -> str | None:
    """How shutil calls this kind of archive; None for a folder."""
    if output.is_dir():
        return None
    kinds = {".zip": "zip", ".tar.gz": "gztar", ".tgz": "gztar"}
    found = next((kind for ending, kind in kinds.items() if output.name.endswith(ending)), None)
    if found is None and output.suffix:
        raise FoglineError(
            f"{str(output)!r} is neither a folder nor an archive; name it such as 'cache' or 'cache.zip'."
        )
    return found
