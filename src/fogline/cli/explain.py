"""fogline explain: why is a row in the answer, or why did it leave?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.options import Settings, Stated, reads_files, starts_spark
from fogline.cli.terminal import MaybeRepository, app, echo, helpful, must_be_there, reading, remark
from fogline.errors import FoglineError
from fogline.files.listing import plain
from fogline.show import instant_text

if TYPE_CHECKING:
    from fogline.output.answers import OutputReader
    from fogline.results import Change
    from fogline.story import RowStory, Story


@app.command()
@reads_files
@starts_spark
def explain(
    output: Annotated[
        str | None, typer.Argument(metavar="[OUTPUT]", help="Output folder of `fogline run --explain`.")
    ] = None,
    id: Annotated[str, typer.Option("--id", help="Explain the rows of this id.", show_default=False)] = "",
    at: Annotated[
        str | None, typer.Option(help="Explain it as of this time, e.g. 530 or '2024-05-01 14:00' (default: now).")
    ] = None,
    most: Annotated[
        int, typer.Option("--most", "-n", help="Show at most this many changes, newest first.", min=1)
    ] = 20,
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query", "-q", help="Name of a query, for a run with several. With --replay: query file (YAML)."
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(metavar="STREAM", help="Read these rows again instead of an output; it knows every row."),
    ] = None,
    repository: MaybeRepository = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Show why a row is in the answer, or why and when it left.

    Newest rows of the id first: what was imputed for missing values, what beats it, and what would change that. Then
    when it entered and left.
    """
    with helpful():
        if not id:
            raise FoglineError("say which row to explain: --id NAME.")
        if (output is None) == (replay is None):
            raise FoglineError(
                "say where to look: the output folder of a run, or --replay STREAM with the rows themselves."
                if output is None
                else f"--replay reads the rows of a stream instead of an output; leave {output!r} or --replay out."
            )
        if output is not None:
            story = reading(plain(output), settings(), lambda folder: from_output(folder, id, query or [], at, most))
        else:
            story = from_stream(plain(str(replay)), query or [], stated, repository, id, at)
        if as_json:
            typer.echo(json.dumps(story.to_dict(), indent=2, ensure_ascii=False))
            return
        show(story, id, most)


def from_output(output: OutputReader, id: str, query: list[str], at: str | None, most: int) -> Story:
    """What a run has written down of an id."""
    from fogline.cli.answer import as_shown, chosen_queries
    from fogline.output.recorded import recorded
    from fogline.queries import each_of

    if Path(output.name).is_file() or not output.begun():
        raise FoglineError(
            f"{output.name!r} is not an output folder of `fogline run`. To explain from the rows themselves: "
            f"fogline explain --replay {output.name} --query FILE --id {id}"
        )
    asked = each_of(output.asked())
    names = list(chosen_queries(asked, query[0] if query else None, output.name))
    if len(names) > 1:
        raise FoglineError(
            f"{output.name!r} answers several queries; name one: --query {' or '.join(map(str, names))}."
        )
    if not output.explained:
        remark(
            f"the run in {output.name!r} was made without --explain: only what entered and left is known, not why. Run "
            "it with --explain into another output, or add --replay STREAM in place of the output."
        )
    return recorded(output, id, names[0], as_shown(at, output.zone), most)


def from_stream(stream: str, query: list[str], stated: Any, repository: str | None, id: str, at: str | None) -> Story:
    """What the rows themselves show."""
    must_be_there(stream)
    from fogline.cli.answer import as_shown
    from fogline.cli.engine import LIMIT, size_of
    from fogline.cli.options import one_of
    from fogline.files.reading import table
    from fogline.replay import replay
    from fogline.repository.repository import Repository
    from fogline.show import size_text

    if size_of(stream) > LIMIT:
        raise FoglineError(
            f"{stream!r} has {size_text(size_of(stream))}, and --replay reads up to {size_text(LIMIT)}; name only the "
            "files around the time that you ask about."
        )
    if not query:
        raise FoglineError("--replay needs the query file as well: --query FILE.")
    asked, options = one_of(query, "explain"), stated()
    known = None if repository is None else Repository.load(repository)
    rows = table(stream, asked, options, remark, zoned=True)
    zone = getattr(rows.schema.field(asked.time).type, "tz", None) if asked.time in rows.schema.names else None
    return replay(rows, asked, known, id, as_shown(at, zone))


def show(story: Story, id: str, most: int) -> None:
    """In words: of each row a sentence, small tables, and its newest changes; so many of all, at most."""
    from fogline.show import quoted

    echo(f"{quoted(id)} at {instant_text(story.at)}:")
    if not story.rows:
        echo(f"  none of its rows {'is in the window any more' if story.taken else 'could be taken'}.")
    left, more = most, story.more or len(story.rows) > most
    for row in story.rows[:most]:
        for line in lines_of(row, left):
            echo(f"  {line}")
        more |= len(row.changes) > left
        left = max(left - len(row.changes), 0)
    for reason in story.rejected[:most]:
        echo(f"  rejected: {reason}")
    if more or len(story.rejected) > most:
        echo(f"Older ones are not shown (--most {most}).")


def lines_of(row: RowStory, most: int) -> list[str]:
    """What became of a row, in words: a sentence, then small tables, then its newest changes."""
    from fogline.results import tables_of
    from fogline.show import quoted

    group = f", of {', '.join(map(quoted, row.by))}" if row.by else ""
    lines = [row.sentence, f"  arrived {instant_text(row.arrived)}{group}"]
    for title, cells in [] if row.why is None else tables_of(row.why):
        width = max(len(each[0]) for each in cells)
        lines += [f"  {title}:", *(f"    {each[0]:<{width}}  {each[1]}".rstrip() for each in cells)]
    shown = row.changes[::-1][:most]
    history = [f"    {instant_text(change.time)}: {_what(change)}" for change in shown]
    return [*lines, *(["  history:", *history] if shown else [])]


def _what(change: Change) -> str:
    from fogline.story import why_it_left

    if change.change == "leave":
        return f"left: {why_it_left(change)}"
    error = f" ± {change.probability_error:.2g}" if change.probability_error else ""
    return f"{'entered' if change.change == 'enter' else 'still in'}, P = {change.probability:.6g}{error}"
