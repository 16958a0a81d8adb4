"""How is help printed: in what order are commands listed, and under which headings the options of one?

Plain text, since it must be readable in 80 columns: options with long names get a line of their own. What belongs to
files, limits, Kafka or Spark stands behind the command's own options.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

ORDER = ("demo", "init", "fit", "check", "run", "answer", "explain", "next", "rejects", "serve")  # as they are used
TYPES = {"str": "TEXT", "list[str]": "TEXT", "path": "PATH", "int": "N", "int range": "N", "float": "NUMBER"}


class Command(TyperCommand):
    """A command whose options are listed under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Its arguments, its own options, then those of each heading."""
        parts: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if each.param_type_name == "argument" else "Options"
                parts.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(in_plain(*record))
        for heading, rows in parts.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Group(TyperGroup):
    """All commands, those first that a person needs first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        known = super().list_commands(ctx)
        return [*(name for name in ORDER if name in known), *sorted(name for name in known if name not in ORDER)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each with the whole first line of its help."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(200)) for name, each in found if each and not each.hidden]
            )


def in_plain(name: str, text: str) -> tuple[str, str]:
    """An option's name and its help, with types and ranges as a person reads them.

    >>> in_plain("-n, --most <int range>", "At most so many.  [default: 20; x>=0]")
    ('-n, --most N', 'At most so many.  [default: 20]')
    """
    name = re.sub(r" ?<([^>]*)>", lambda found: f" {TYPES.get(found[1], found[1].upper())}", name)
    if not name.startswith("-"):
        name = name.split()[0]
    text = re.sub(r";? ?(-?\d+<=)?x[<>]=?-?\d+(?=\])", "", text).replace("  []", "")
    return name, text
