"""fogline explain: why is a row in the answer, or why did it leave?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fogline.cli.options import Stated, reads_files
from fogline.cli.terminal import MaybeRepository, QueryFiles, StreamFiles, app, echo, helpful, must_be_there, remark

if TYPE_CHECKING:
    from fogline.replay import RowStory
    from fogline.results import Change

MOST = 20  # changes of a row that are printed


@app.command()
@reads_files
def explain(
    stream: StreamFiles,
    query: QueryFiles,
    id: Annotated[str, typer.Option("--id", help="Explain the rows of this id.")],
    repository: MaybeRepository = None,
    at: Annotated[
        str | None, typer.Option(help="Explain it as of this time, e.g. 530 or '2024-05-01 14:00' (default: now).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    *,
    stated: Stated,
) -> None:
    """Show why a row is in the answer, or why and when it left.

    Reads the stream once more, with all rows in the order of their times. Newest rows first: why each is
    in or out, what was imputed, what would change that, and its history.
    """
    with helpful():
        must_be_there(stream)
        from fogline.cli.engine import LIMIT, size_of
        from fogline.cli.options import one_of
        from fogline.errors import FoglineError
        from fogline.files.reading import table
        from fogline.replay import replay
        from fogline.repository.repository import Repository
        from fogline.show import quoted, size_text

        if size_of(stream) > LIMIT:
            raise FoglineError(
                f"{stream!r} holds {size_text(size_of(stream))} of files, and explain plays up to {size_text(LIMIT)} "
                "again in this process; give it the files around the instant that you ask about."
            )
        asked, options = one_of(query, "explain"), stated()
        known = None if repository is None else Repository.load(repository)
        story = replay(table(stream, asked, options, remark, zoned=True), asked, known, id, at)
        if as_json:
            typer.echo(json.dumps(story.to_dict(), indent=2))
            return
        echo(f"{quoted(id)} at {story.at}:")
        if not story.rows:
            echo(f"  none of its rows {'is in the window any more' if story.taken else 'could be taken'}.")
        for row in story.rows:
            for line in lines_of(row):
                echo(f"  {line}")
        for reason in story.rejected[:MOST]:
            echo(f"  rejected: {reason}")


def lines_of(row: RowStory) -> list[str]:
    """What became of a row, in words: a sentence, then small tables."""
    from fogline.show import quoted

    group = f", of {', '.join(map(quoted, row.by))}" if row.by else ""
    lines = [row.sentence, f"  arrived {row.arrived}{group}"]
    for title, cells in () if row.now is None else row.now.tables()[1:]:
        width = max(len(each[0]) for each in cells)
        lines += [f"  {title}:", *(f"    {each[0]:<{width}}  {', '.join(each[1:])}".rstrip() for each in cells)]
    if row.changes:
        lines.append("  history:")
    if len(row.changes) > MOST:
        lines.append(f"    … {len(row.changes) - MOST} changes before")
    return lines + [f"    {change.time}: {_what(change)}" for change in row.changes[-MOST:]]


def _what(change: Change) -> str:
    from fogline.replay import why_it_left

    if change.change == "leave":
        return f"left: {why_it_left(change)}"
    error = f" ± {change.probability_error:.2g}" if change.probability_error else ""
    return f"{'entered' if change.change == 'enter' else 'still in'}, P = {change.probability:.6g}{error}"
