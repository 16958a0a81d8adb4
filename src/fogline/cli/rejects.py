"""fogline rejects: which rows were not taken, and why?"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.options import Settings, starts_spark
from fogline.cli.terminal import app, echo, helpful, paper, reading, remark
from fogline.errors import FoglineError, did_you_mean
from fogline.files.listing import plain
from fogline.show import count_of

if TYPE_CHECKING:
    from collections import Counter

    import pyarrow as pa

    from fogline.output.answers import OutputReader

FORMATS = ("table", "json", "csv")


@app.command()
@starts_spark
def rejects(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Output folder of `fogline run`.", callback=plain)],
    most: Annotated[
        int, typer.Option("--most", "-n", help="Show at most this many rows, newest first; 0 shows all.", min=0)
    ] = 20,
    reason: Annotated[
        str | None,
        typer.Option(
            help="Only rows whose reason contains this text, e.g. missing; case does not matter (default: all)."
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Only the query of this name (default: all queries of the run).")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help=f"Write {', '.join(FORMATS)}; json is one object per line.")
    ] = "table",
    *,
    settings: Settings,
) -> None:
    """Show the rows that a run could not use, and why.

    First how many for each reason, then the newest rows as they came, with file and line where known. As JSON or CSV
    the rows go to stdout, the counts to stderr:

        fogline rejects OUT -n 0 --reason "not a number" --format json | jq .row
    """
    with helpful():
        if form not in FORMATS:
            raise FoglineError(f"the format is {form!r}; it may be {', '.join(FORMATS)}.{did_you_mean(form, FORMATS)}")

        def read(folder: OutputReader) -> tuple[Counter[str], pa.Table]:
            from fogline.cli.answer import chosen_queries
            from fogline.queries import each_of

            chosen_queries(each_of(folder.asked()), query, folder.name)  # is there such a query?
            return folder.rejected(reason, query), folder.rejects(most or None, reason, query)

        counts, rows = reading(output, settings(), read)
        for line in summary(counts, reason):
            (echo if form == "table" else remark)(line)
        if not rows.num_rows:
            return
        if form != "table":
            text = as_lines(rows, form)
            echo(text, nl=False) if sys.stdout.isatty() else typer.echo(text, nl=False)
            return
        echo()
        paper().print(table_of(rows))
        more = counts.total() - rows.num_rows
        if more > 0:
            echo(f"{count_of(more, 'older row')} not shown (-n 0 shows all).")


def summary(counts: Counter[str], reason: str | None) -> list[str]:
    """How many rows were rejected, and how many for each kind of reason, the commonest first."""
    if not counts:
        return ["no row was rejected." if reason is None else f"no row was rejected for a reason with {reason!r}."]
    return [
        f"{count_of(counts.total(), 'row')} rejected:",
        *(f"{count:>9,}  {kind}" for kind, count in counts.most_common()),
    ]


def table_of(rows: pa.Table) -> Any:
    """Rows as a table for people; file and line as one, where they are known."""
    from fogline.cli.answer import table_of as printed

    at = zip(rows["file"].to_pylist(), rows["line"].to_pylist(), strict=True)
    where = [f"{file or ''}{'' if line is None else f':{line}'}" for file, line in at]
    groups = [name for name in rows.schema.names if name not in ("batch", "reason", "row", "file", "line")]
    shown = rows.select(["batch", *groups, "reason", "row"])
    return printed(shown.append_column("where", [where]) if any(where) else shown)


def as_lines(rows: pa.Table, form: str) -> str:
    """Rows as JSON lines, each row as it came an object in its line, or as CSV."""
    from fogline.cli.answer import as_text

    if form == "csv":
        return as_text(rows, form)
    return "".join(
        f"{json.dumps({**each, 'row': as_it_came(each['row'])}, default=str, ensure_ascii=False)}\n"
        for each in rows.to_pylist()
    )


def as_it_came(text: str | None) -> Any:
    """The row that the text holds; of what is no JSON, such as a line that could not be read, the text itself."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
