"""fogline init: from a file to a query that can be asked of it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.terminal import app, echo, helpful, must_be_there, remark
from fogline.errors import FoglineError

if TYPE_CHECKING:
    from fogline.cli.guess import Guess
    from fogline.files.sniffing import Dialect

DIRECTIONS = ("max", "min", "skip")


@app.command()
def init(
    file: Annotated[str, typer.Argument(help="Rows of what you want to watch: parquet, csv, jsonl.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The query to write; it is never overwritten.")] = Path(
        "query.yaml"
    ),
    id: Annotated[str | None, typer.Option("--id", help="The column that names a row's sensor.")] = None,
    time: Annotated[str | None, typer.Option("--time", help="The column with a row's time.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take the guesses; ask nothing.")] = False,
) -> None:
    """Look at a file, and write a query for it.

    Which column names a row, which is its time, which are compared, and for how long a row counts: guessed from what
    the columns hold, asked on a terminal, and written with comments into a YAML file to be looked at. Then it prints
    the four commands that lead to an answer.
    """
    with helpful():
        must_not_be_there(output)
        must_be_there(file)
        from fogline.cli.guess import guess
        from fogline.files.options import Options
        from fogline.files.reading import table
        from fogline.model import Query

        found = guess(table(file, None, Options(), remark), id, time)
        if not yes and _on_a_terminal():
            ask(found, file)
        must_be_known(found, file)
        text = document(found, file)
        written(output, text)
        Query.load(output)  # what was written can be read
        echo(f"Written: {output}. {guessed(found)}")
        echo("Look at it, then:")
        for line in next_commands(file, output):
            echo(f"  {line}")


def written(path: Path, text: str) -> None:
    """A file that was not there, whole or not at all: half of one would be in the way of the same command."""
    from fogline.repository.files import write

    must_not_be_there(path)  # nor made meanwhile
    write(path, text)


def must_not_be_there(path: Path) -> None:
    """It is never overwritten."""
    if path.exists():
        raise FoglineError(f"{str(path)!r} is there already, and is not overwritten; choose another: --output.")


def _on_a_terminal() -> bool:
    return sys.stdin.isatty()


def ask(found: Guess, file: str) -> None:
    """Ask what was guessed, one thing after the other; Enter takes the guess."""
    remark(f"{file} has {', '.join(found.columns)}. Enter takes what stands in brackets.")
    found.id = _asked("Which column names a row's sensor (or whatever sends rows)?", found.id, found.columns)
    found.time = _asked("Which column is a row's time?", found.time, found.columns)
    chosen = {}
    for name in (*found.attributes, *found.others):
        if name in (found.id, found.time):
            continue
        usual = found.attributes.get(name, "skip")
        chosen[name] = _asked(
            f"Is more of {name!r} better (max), less (min), or is it not compared (skip)?", usual, DIRECTIONS
        )
    found.attributes = {name: each for name, each in chosen.items() if each != "skip"}
    found.others = [name for name, each in chosen.items() if each == "skip"]
    found.sure = set(found.attributes)
    found.lifetime = _length(typer.prompt("How long does a row count?", default=str(found.lifetime), err=True))


def _asked(question: str, usual: str | None, known: Any) -> str:
    while True:
        given = str(typer.prompt(question, default=usual, err=True)).strip()
        if given in known:
            return given
        remark(f"{given!r} is none of {', '.join(known)}.")


def _length(given: str) -> str | float:
    try:
        return int(given) if float(given).is_integer() else float(given)
    except ValueError:
        return given


def must_be_known(found: Guess, file: str) -> None:
    """Without these there is no query."""
    there = f"{file} has {', '.join(found.columns)}"
    if found.id is None:
        raise FoglineError(f"no column looks like the name of a row's sensor: {there}. State it: --id COLUMN.")
    if found.time is None:
        raise FoglineError(f"no column looks like a row's time: {there}. State it: --time COLUMN.")
    if not found.attributes:
        raise FoglineError(f"no column holds numbers that vary, so nothing can be compared: {there}.")


def document(found: Guess, file: str) -> str:
    """The query as YAML, with what is guessed and what could be changed beside it."""
    lines = [
        f"# Which rows of {file} are not beaten by any other? Guessed by `fogline init`; correct what is wrong.",
        "",
        "# What is compared, and whether more of it (max) or less of it (min) is better.",
        "attributes:",
    ]
    for name, direction in found.attributes.items():
        why = "" if name in found.sure else "  # a guess: write min if less is better"
        lines.append(f"  {_plain(name)}: {direction}{why}")
    if found.others:
        lines.append("# Also numbers; but of many attributes nearly every row is unbeaten:")
        lines += [f"#  {_plain(name)}: max" for name in found.others]
    lines += [
        "",
        "# What names the sensor, or whatever else sends rows, and when a row came.",
        f"id: {_plain(found.id)}",
    ]
    lines += [f"time: {_plain(found.time)}", ""]
    lines += ["# How long a row counts; guessed as about 20 readings of a sensor."]
    lines += [f"lifetime: {json.dumps(found.lifetime)}", ""]
    lines += ["# With this, only the newest row of each id counts: which are best now?", "# latest: true", ""]
    lines += ["# Rows that are in the answer with a probability above this.", "alpha: 0.5", ""]
    name, (low, high) = next((name, found.ranges[name]) for name in found.attributes if name in found.ranges)
    lines += [f"# Values outside are taken for missing. Of {name}, from {low:.6g} to {high:.6g} were seen."]
    lines += [f"# limits: {{{_plain(name)}: [{low:.6g}, {high:.6g}]}}"]
    return "\n".join([*lines, *source_lines(found, file)]) + "\n"


def source_lines(found: Guess, file: str) -> list[str]:
    """How the files are written, where that is not the usual way, and the same in all of them."""
    from fogline.files.listing import kind_of

    stated = {} if found.time_format is None else {"time_format": found.time_format}
    dialects, between = _dialects(found, file), "\t" if kind_of(file, existing=True) == "tsv" else ","
    for name, usual in (("separator", between), ("decimal", "."), ("encoding", "utf-8")):
        ways = {str(getattr(each, name)) for each in dialects}
        if len(ways) == 1 and ways != {usual}:
            stated[name] = ways.pop()
    if not stated:
        return []
    lines = [
        "",
        "# How the files are written, as they show it; what is left out is looked for in each file.",
        "source:",
    ]
    lines += [f"  {name}: {json.dumps(each, ensure_ascii=False)}" for name, each in stated.items()]
    return [*lines, "  # zone: Europe/Berlin  # of times without one; else they are UTC"]


def _dialects(found: Guess, file: str) -> list[Dialect]:
    """How each file of lines is written, of those that can be read; an error if none of them can."""
    from fogline.files.delimited import opened_dialect
    from fogline.files.layout import FILES
    from fogline.files.listing import files_of, kind_of_file, name_in, root_of
    from fogline.files.options import Options
    from fogline.files.raw import UNREADABLE, reason_of
    from fogline.files.roles import Roles

    numbers, root = Roles(numbers=(*found.attributes, *found.others)), root_of(file)
    dialects, failed = [], []
    for path in map(str, files_of(file)[:FILES]):
        if kind_of_file(path, root) in ("csv", "tsv"):
            try:
                dialects.append(opened_dialect(path, None, Options(), numbers))
            except UNREADABLE as error:
                failed.append(f"{name_in(path, root)} cannot be read: {reason_of(error)}.")
    if failed and not dialects:
        raise FoglineError(failed[0])
    return dialects


def _plain(name: str | None) -> str:
    """A name as YAML has it, quoted where it must be."""
    text = str(name)
    return text if re.fullmatch(r"[A-Za-z_][\w]*( [\w]+)*", text) else json.dumps(text, ensure_ascii=False)


def guessed(found: Guess) -> str:
    """What was guessed, in a sentence."""
    compared = ", ".join(f"{name} ({each})" for name, each in found.attributes.items())
    return f"Rows of {found.id!r} at {found.time!r}, which count for {found.lifetime}, by {compared}."


def next_commands(file: str, query: Path) -> list[str]:
    """From here to an answer."""
    stem = re.sub(r"\W+", "_", Path(file.rstrip("/*")).name.split(".")[0]) or "rows"
    rows, asked = shlex.quote(file), shlex.quote(str(query))
    return [
        f"fogline fit {rows} -q {asked} -o {stem}.repo",
        f"fogline check {rows} -q {asked} -r {stem}.repo",
        f"fogline run {rows} -q {asked} -r {stem}.repo -o {stem}.watched",
        f"fogline answer {stem}.watched",
    ]
