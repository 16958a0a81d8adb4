"""Which options do all commands have that read files?"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

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
        list[str] | None, typer.Option(help="A cell that is missing, may be repeated; without: `null`, `N/A`, `-`.")
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


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options; it gets one function in their place, `stated`, which makes `Options` of them.

    That reads the query's file, and so belongs where errors are printed.
    """
    own = [each for name, each in signature(command, eval_str=True).parameters.items() if name != "stated"]
    added = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in OPTIONS.items()]

    @wraps(command)
    def with_options(*args: Any, **given: Any) -> None:
        found = {name: given.pop(name, None) for name in OPTIONS}
        nulls = found.pop("null")

        def stated() -> Any:
            from fogline.cli.queries import options_of

            files = given["query"]
            return options_of(files if isinstance(files, list) else [str(files)]).stated(
                **found, nulls=tuple(nulls) if nulls else None
            )

        command(*args, **given, stated=stated)

    both = [*own, *added]
    with_options.__dict__["__signature__"] = signature(command).replace(parameters=both)
    with_options.__annotations__ = {each.name: each.annotation for each in both}
    return with_options
