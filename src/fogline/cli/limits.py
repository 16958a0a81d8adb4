"""How large may a batch and a group of a run become, as a command states it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.options import Command, with_options
from fogline.errors import FoglineError

if TYPE_CHECKING:
    from fogline.flow.limits import GroupLimits

StatedLimits = Callable[[], Any]  # gives `flow.limits.GroupLimits`, which is imported then
MaxRows = Annotated[
    int | None,
    typer.Option(
        help="Take at most so many rows at once: by default 1,000,000 of files, 500,000 messages of a topic. The "
        "embedded engine cuts a file that has more; Spark takes whole files, by their bytes, and at least one. The "
        "answer is the same for any number; a smaller one takes less memory, and more time.",
        min=1,
    ),
]
OPTIONS = {
    "max_live": Annotated[
        int | None,
        typer.Option(
            help="How many rows of one group may be live, that is, can still matter; by default there is no limit. "
            "From 80 % on there is an alarm.",
            min=1,
        ),
    ],
    "max_state": Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="How large one group may become, such as 500MB or 2GB; by default half of this machine's memory, if "
            "that is where it runs. From 80 % on there is an alarm.",
        ),
    ],
    "when_full": Annotated[
        str | None,
        typer.Option(
            metavar="stop|warn",
            help="What happens when a group is larger: `stop` (by default): the run ends before its batch is written, "
            "and the same command with a higher limit goes on, nothing is lost; `warn`: it goes on, with an alarm. "
            "Rows are never dropped.",
        ),
    ],
}


def limits_groups(command: Command) -> Command:
    """The command with these options; in their place it is passed one function, `limits`."""
    return with_options(command, OPTIONS, "limits", _limits)


def _limits(given: Mapping[str, Any], found: dict[str, Any]) -> GroupLimits:
    return group_limits(given["engine"], given["master"], **found)


def group_limits(
    engine: str, master: str | None, max_live: int | None, max_state: str | None, when_full: str | None
) -> GroupLimits:
    """The limits that were stated, and the usual ones."""
    from fogline.flow.limits import STOP, GroupLimits
    from fogline.flow.memory import machine_memory

    here = engine == "embedded" or master is None or master.startswith("local")
    known = machine_memory() if here and max_state is None else None
    usual = None if known is None else known // 2
    return GroupLimits.of(max_live, usual if max_state is None else max_state, when_full or STOP)


def must_be_one_limit(engine: str, files: int | None, rows: int | None) -> None:
    """On Spark a batch is limited by files or by rows."""
    if engine != "embedded" and files is not None and rows is not None:
        raise FoglineError(
            "--files-per-batch and --max-rows-per-batch: Spark takes one of the two; leave one out, or use --engine "
            "embedded, which keeps to both."
        )
