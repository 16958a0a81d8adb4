"""Which options do all commands have that read files?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from fogline.cli.options import Command, with_options

Stated = Callable[[], Any]  # gives `files.options.Options`, which is imported then
OPTIONS = {
    "separator": Annotated[
        str | None, typer.Option(help="Between cells: one character, or `tab`; without, each file shows it.")
    ],
    "decimal": Annotated[
        str | None, typer.Option(help="The mark in numbers, `.` or `,`; without, each file shows it.")
    ],
    "encoding": Annotated[
        str | None, typer.Option(help="Of text, such as utf-8 or cp1252; without, each file shows it.")
    ],
    "null": Annotated[
        list[str] | None,
        typer.Option(
            help="A word or number that stands for a missing value, may be repeated; `n/a`, `NULL`, `-`, `?`, `k.A.` "
            "and what else is usual are known."
        ),
    ],
    "header": Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns.")
    ],
    "time_format": Annotated[
        str | None,
        typer.Option(help="Of times that are not ISO 8601, such as '%d.%m.%Y %H:%M'; without, rows show it."),
    ],
    "zone": Annotated[str | None, typer.Option(help="Of times without one, such as Europe/Berlin; by default UTC.")],
}


def reads_files(command: Command) -> Command:
    """The command with these options; in their place it is passed one function, `stated`, that makes `Options` of them.

    That reads the query's file, where the command has one.
    """
    return with_options(command, OPTIONS, "stated", _stated)


def _stated(given: Mapping[str, Any], found: dict[str, Any]) -> Any:
    from fogline.cli.queries import options_of
    from fogline.files.options import Options

    named, files = dict(found), given.get("query")
    nulls = named.pop("null")
    options = Options() if files is None else options_of(files if isinstance(files, list) else [str(files)])
    return options.stated(**named, nulls=(*(options.nulls or ()), *nulls) if nulls else None)
