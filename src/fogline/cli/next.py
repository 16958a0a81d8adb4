"""fogline next: which missing values should be measured first?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fogline.cli.options import Settings, starts_spark
from fogline.cli.terminal import app, echo, helpful, paper, reading
from fogline.files.listing import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from fogline.output.answers import OutputReader


@app.command("next")
@starts_spark
def ask(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Folder of `fogline run --explain`.", callback=plain)],
    top: Annotated[
        int, typer.Option(help="Show at most this many values; a run keeps up to 20 per group.", min=1)
    ] = 10,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Only the query of this name (default: all queries of the run).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    *,
    settings: Settings,
) -> None:
    """Show which missing values to measure first: those that would change the answer most.

    `changes` is how many rows are expected to enter or leave the answer once this value is known. Only the newest row
    of an id is asked for: what was missing before cannot be measured any more.
    """
    with helpful():
        from fogline.cli.answer import as_text, table_of
        from fogline.queries import QUERY, each_of
        from fogline.rows.clock import all_in_zone
        from fogline.show import quoted

        rows, asked = reading(
            output,
            settings(),
            lambda found: (all_in_zone(cells(found, query).slice(0, top), found.zone), found.asked()),
        )
        if as_json:
            typer.echo(as_text(rows, "json"), nl=False)
            return
        if not rows.num_rows:
            echo("no missing value would change the answer.")
            return
        console = paper()
        shown = [name for name in rows.schema.names if name not in ("time", "rank", "sentence")]
        console.print(table_of(rows.select(shown), {each.arrived for each in each_of(asked).values()}))
        first = rows.slice(0, 1).to_pylist()[0]
        own = each_of(asked)[first.get(QUERY)]
        console.print(
            f"Measure {first['attribute']} of {quoted(first[own.id])} (arrived {first[own.arrived]}) first: about "
            f"{first['changes']:.2g} rows would enter or leave the answer.",
            soft_wrap=True,
        )


def cells(output: OutputReader, query: str | None) -> pa.Table:
    """The cells of all groups, those first that would change their answers most."""
    from fogline.cli.answer import chosen_queries
    from fogline.errors import FoglineError
    from fogline.queries import each_of
    from fogline.rows.changes import of_query as rows_of

    asked = chosen_queries(each_of(output.asked()), query, output.name)
    if asked and all(each.skyband > 1 for each in asked.values()):
        k = max(each.skyband for each in asked.values())
        raise FoglineError(
            f"what to measure next is worked out in skylines, and this run asks for a skyband of {k}; "
            "begin one without."
        )
    rows = output.next()
    if query is not None and rows.num_rows:
        rows = rows_of(rows, query)
    return rows.sort_by([("changes", "descending")]) if rows.num_rows else rows
