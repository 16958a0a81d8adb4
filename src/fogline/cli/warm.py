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
        Path | None, typer.Option("--output", "-o", help="A folder, or a .zip or .tar.gz; without it, this machine's.")
    ] = None,
) -> None:
    """Compile all kernels of a pipeline now, for workers that could not keep what they compile.

    Without OUTPUT, machine code is kept where this machine looks for it. With OUTPUT it becomes a folder or an archive
    that an image or `--archives` carries to the workers, which find it by FOGLINE_CACHE:

    `fogline warm -o cache.zip`, then `--archives cache.zip#cache --conf spark.executorEnv.FOGLINE_CACHE=./cache`.

    It is good for this version of Fogline, Numba and Python, wherever the package lies, and for processors like this
    one; for workers of several kinds set NUMBA_CPU_NAME=generic here. An installed wheel brings machine code along.
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
