"""Which options do all commands share that read files?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fogline.files.options import Options

Separator = Annotated[str | None, typer.Option(help="Between cells: one character, or `tab`; without, files show it.")]
Decimal = Annotated[str | None, typer.Option(help="The mark in numbers, `.` or `,`; without, files show it.")]
Encoding = Annotated[str | None, typer.Option(help="Of text, such as utf-8 or cp1252; without, files show it.")]
Nulls = Annotated[
    list[str] | None, typer.Option("--null", help="A cell that is missing; may be repeated. [default: null, N/A, -]")
]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns; by default so.")
]
TimeFormat = Annotated[
    str | None, typer.Option(help="Of times that are not ISO 8601, such as '%d.%m.%Y %H:%M:%S'; without, rows show it.")
]
Zone = Annotated[str | None, typer.Option(help="Of times without one, such as Europe/Berlin; by default UTC.")]


def reading_options(
    query: Path,
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    null: list[str] | None,
    header: bool | None,
    time_format: str | None,
    zone: str | None,
) -> Options:
    """How files are read: as the command line states it, else as the query's `source:` does."""
    nulls = tuple(null) if null else None
    given = {"separator": separator, "decimal": decimal, "encoding": encoding, "nulls": nulls}
    return Options.load(query).stated(**given, header=header, time_format=time_format, zone=zone)
