"""What memory will a run take, in a line, and does the machine have it?

That is advice: if it cannot be given, for whatever reason, a remark states so, and the command goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from fogline.cli.terminal import remark

if TYPE_CHECKING:
    from fogline.flow.estimate import Estimate
    from fogline.flow.output import RunConfig


def expect_run(config: RunConfig, clock: str | None, max_rows: int | None) -> None:
    """State what a run that begins will take; where kernels would have to be compiled for it, nothing is stated."""
    from fogline.kernels.compile import is_cold

    if config.engine != "embedded" and is_cold():
        return
    from fogline.flow.embedded_files import ROWS
    from fogline.flow.starting import expected

    with as_advice():
        for each in expected(config, clock=clock, batch=max_rows or ROWS):
            state(each, remark)


@contextmanager
def as_advice() -> Iterator[None]:
    """What is estimated here stops nothing."""
    try:
        yield
    except Exception as error:  # of whatever kind: the rows that cause it are met again where they count
        text = str(getattr(error, "strerror", None) or error)
        reason = next(iter(text.splitlines()), "").strip(" .") or type(error).__name__
        remark(f"what memory a run takes could not be estimated, and it goes on without that: {reason}.")


def state(found: Estimate, say: Any = typer.echo) -> None:
    """One line, and a warning where it would not fit."""
    say(f"{found.sentence()}.")
    if (text := too_much([found])) is not None:
        typer.secho(text, fg="yellow", bold=True, err=True)


def too_much(found: Sequence[Estimate]) -> str | None:
    """A sentence, if a process would need more memory than the machine has; None: it fits, or that is not known."""
    from fogline.flow.memory import machine_memory
    from fogline.show import size_text

    needed, there = sum(each.process for each in found), machine_memory()
    if there is None or needed <= there:
        return None
    return (
        f"That is more than the {size_text(there)} of this machine: a shorter lifetime, more groups (by) on more "
        "machines, or fewer attributes make it smaller; --max-rows-per-batch bounds a batch, --max-state a group."
    )
