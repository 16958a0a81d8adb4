"""fogline explain: why is a row in the answer, or why did it leave?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fogline.cli.reading import Stated, reads_files
from fogline.cli.terminal import MaybeRepository, QueryFiles, StreamFiles, app, helpful, must_be_there, remark

if TYPE_CHECKING:
    from fogline.model import Change
    from fogline.replay import RowStory

MOST = 20  # changes of a row that are printed


@app.command()
@reads_files
def explain(
    stream: StreamFiles,
    query: QueryFiles,
    id: Annotated[str, typer.Option("--id", help="Which rows: those of this id.")],
    repository: MaybeRepository = None,
    at: Annotated[
        str | None, typer.Option(help="Up to which instant: a number, or a timestamp; without, the last row's.")
    ] = None,
    *,
    stated: Stated,
) -> None:
    """Why is it in the answer, or why and when did it leave?

    Plays the stream again, in this process, with all rows in the order of their times. For each row of the id, the
    newest first: whether it is in, its probability, which rows may beat it, and what was reported of it.
    """
    with helpful():
        must_be_there(stream)
        from fogline.cli.engine import LIMIT, size_of, size_text
        from fogline.cli.queries import one_of
        from fogline.errors import FoglineError
        from fogline.files.reading import table
        from fogline.replay import replay
        from fogline.repository.repository import Repository

        if size_of(stream) > LIMIT:
            raise FoglineError(
                f"{stream!r} holds {size_text(size_of(stream))} of files, and explain plays up to {size_text(LIMIT)} "
                "again in this process; give it the files around the instant that you ask about."
            )
        asked, options = one_of(query, "explain"), stated()
        known = None if repository is None else Repository.load(repository)
        story = replay(table(stream, asked, options, remark), asked, known, id, at)
        typer.echo(f"{id} at {story.at}:")
        if not story.rows and story.taken:
            typer.echo("  none of its rows is live, and none was in the answer: others beat them from the start.")
        elif not story.rows:
            typer.echo("  none of its rows could be taken.")
        for row in story.rows:
            for line in lines_of(row):
                typer.echo(f"  {line}")
        for reason in story.rejected[:MOST]:
            typer.echo(f"  rejected: {reason}")


def lines_of(row: RowStory) -> list[str]:
    """What became of a row, in words."""
    group = f" of {', '.join(map(str, row.by))}" if row.by else ""
    gone = f"{row.id!r} (arrived {row.arrived}) is out: {_why(row.changes[-1])}" if row.changes else ""
    first, *rest = (gone if row.now is None else str(row.now)).splitlines()
    lines = [f"{first}{group}", *rest]
    if len(row.changes) > MOST:
        lines.append(f"  … {len(row.changes) - MOST} changes before")
    return lines + [f"  {change.time}: {_what(change)}" for change in row.changes[-MOST:]]


def _what(change: Change) -> str:
    if change.change == "leave":
        return f"left: {_why(change)}"
    within = f" ± {change.within:.2g}" if change.within else ""
    return f"{'entered' if change.change == 'enter' else 'still in'}, P = {change.probability:.6g}{within}"


def _why(change: Change) -> str:
    if change.rival is None:
        return change.reason or "not known"
    return f"{change.reason} by {change.rival[0]!r} (arrived {change.rival[1]})"
