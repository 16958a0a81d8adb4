"""fogline init: from a file to a query that can be asked of it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogline.cli.options import Stated, reads_files
from fogline.cli.terminal import app, echo, helpful, must_be_there, remark
from fogline.errors import FoglineError

if TYPE_CHECKING:
    from fogline.cli.guess import Guess
    from fogline.files.delimited import Dialect
    from fogline.files.options import Options

DIRECTIONS = ("max", "min", "skip")
STATION = "station"  # the column of the only sensor of files that name none
INCOMING, NEW = "incoming", "new"  # the folder of rows that come; the second where the past lies in the first
ZONE = "# zone: Europe/Berlin  # of times without one; else they are UTC"
LISTED = 5  # texts of a column that are no numbers


@app.command()
@reads_files
def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file or folder of past rows: parquet, csv or jsonl.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Query file to write; an existing file is never overwritten.")
    ] = Path("query.yaml"),
    id: Annotated[str | None, typer.Option("--id", help="Column that names the sensor (default: guessed).")] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column with the time (default: guessed).")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept all guesses without asking.")] = False,
    *,
    stated: Stated,
) -> None:
    """Begin here with a file of your own: guess a query from it, and write it down.

    Guesses which column names the sensor, which is the time, what to compare, and how long a row counts. On a terminal
    it asks you to confirm. The result is a YAML file with comments. Then it prints the four commands that lead to an
    answer.
    """
    with helpful():
        must_be_there(file)
        must_not_be_there(output)
        from fogline.cli.guess import guess
        from fogline.files.reading import table
        from fogline.query import Query

        options = stated()
        found = guess(table(file, None, options, remark), id, time)
        if not yes and _on_a_terminal():
            ask(found, file)
        must_be_known(found, file)
        if found.id is None:
            options = options.stated(constants=one_station(found, file))
        text = document(found, file, options)
        written(output, text)
        Query.load(output)  # what was written can be read
        echo(f"Written: {output}")
        echo(guessed(found))
        for line in doubts(found, options, output):
            echo(line)
        echo(f"Check {output}. Put incoming rows into a folder of their own, here {incoming(file)}/. Then:")
        for line in next_commands(file, output):
            echo(f"  {line}")


def written(path: Path, text: str) -> None:
    """A file that was not there, whole or not at all: half of one would be in the way of the same command."""
    from fogline.durable import write

    must_not_be_there(path)  # nor made meanwhile
    write(path, text)


def must_not_be_there(path: Path) -> None:
    """It is never overwritten."""
    if path.exists():
        raise FoglineError(f"{str(path)!r} exists already and is not overwritten; choose another name: --output FILE.")


def _on_a_terminal() -> bool:
    return sys.stdin.isatty()


def ask(found: Guess, file: str) -> None:
    """Ask what was guessed, one thing after the other; Enter takes the guess."""
    remark(f"{file} has the columns {', '.join(found.columns)}. Press Enter to accept what is in brackets.")
    sensor = _asked(
        "Which column names the sensor (none: there is only one)?",
        found.id or "none",
        [*found.columns, "none"],
    )
    found.id = None if sensor == "none" and sensor not in found.columns else sensor
    found.time = _asked("Which column is the time?", found.time, found.columns)
    chosen = {}
    for name in (*found.attributes, *found.others):
        if name in (found.id, found.time):
            continue
        usual = found.attributes.get(name, "skip")
        chosen[name] = _asked(
            f"{name}: is more better (max), less better (min), or is it not compared (skip)?", usual, DIRECTIONS
        )
    found.attributes = {name: each for name, each in chosen.items() if each != "skip"}
    found.others = [name for name, each in chosen.items() if each == "skip"]
    found.sure = set(found.attributes)
    found.lifetime = _length(
        typer.prompt("How long does a row count?", default=lifetime_in_words(found), err=True), found
    )


def _asked(question: str, usual: str | None, known: Any) -> str:
    while True:
        given = str(typer.prompt(question, default=usual, err=True)).strip()
        if given in known:
            return given
        remark(f"{given!r} is not one of {', '.join(known)}.")


def _length(given: str, found: Guess) -> str | float:
    from fogline.cli.guess import unit_of
    from fogline.query import duration

    try:
        return int(given) if float(given).is_integer() else float(given)
    except ValueError:
        return given if found.epoch is None else int(duration(given) / unit_of(found.epoch))


def must_be_known(found: Guess, file: str) -> None:
    """Without these there is no query."""
    there = f"{file} has {', '.join(found.columns)}"
    if found.time is None:
        raise FoglineError(f"no column looks like a time: {there}. Name it: --time COLUMN.")
    if not found.attributes:
        raise FoglineError(f"no column has numbers that vary, so there is nothing to compare: {there}.")


def one_station(found: Guess, file: str) -> dict[str, str]:
    """The column that all rows get where none names their sensor, and what it is called; it becomes their id."""
    found.id = next(name for name in (STATION, f"{STATION}_id", f"{STATION}_name") if name not in found.columns)
    return {found.id: stem_of(file)}


def document(found: Guess, file: str, options: Options) -> str:
    """The query as YAML, with what is guessed and what could be changed beside it."""
    lines = [
        f"# Which rows of {file} does no other row beat? Guessed by `fogline init`; correct what is wrong.",
        "",
        "# What is compared, and whether more of it (max) or less of it (min) is better.",
        "attributes:",
    ]
    for name, direction in found.attributes.items():
        why = "" if name in found.sure else "  # a guess: write min if less is better"
        lines.append(f"  {_plain(name)}: {direction}{why}")
    if found.others:
        lines.append("# Also numbers; but of many attributes nearly every row is unbeaten:")
        lines += [f"#  {_plain(name)}: max{_gaps(found, name)}" for name in found.others]
    lines += [
        "",
        "# What names the sensor, or whatever else sends rows, and when a row came.",
        f"id: {_plain(found.id)}",
    ]
    since = "" if found.epoch is None else f"  # {found.epoch} since 1970"
    lines += [f"time: {_plain(found.time)}{since}", ""]
    counts = "" if found.epoch is None else f"; {lifetime_in_words(found)}, in {found.epoch} as the times"
    lines += [f"# How long a row counts; guessed as about 20 readings of a sensor{counts}."]
    lines += [f"lifetime: {json.dumps(found.lifetime)}", ""]
    lines += ["# With this, only the newest row of each id counts: which are best now?", "# latest: true", ""]
    lines += ["# Other columns that come along into the answer: [their, names], or all.", "# keep: all", ""]
    lines += ["# Rows that are in the answer with a probability above this.", "alpha: 0.5", ""]
    lines += [
        "# With this, rows that fewer than 3 others beat are in, and not only those that none does.",
        "# skyband: 3",
        "",
    ]
    name = next(name for name in found.attributes if name in found.ranges)
    low, high = found.suspects[name][2:] if name in found.suspects else found.ranges[name]
    lines += [f"# Values outside are taken for missing. Of {name}, from {low:.6g} to {high:.6g} were seen."]
    lines += [f"# limits: {{{_plain(name)}: [{low:.6g}, {high:.6g}]}}"]
    return "\n".join([*lines, *source_lines(found, file, options)]) + "\n"


def _gaps(found: Guess, name: str) -> str:
    from fogline.cli.guess import MISSING

    share = found.missing.get(name, 0.0)
    return f"  # missing in {share:.0%} of the rows" if share > MISSING else ""


def source_lines(found: Guess, file: str, options: Options) -> list[str]:
    """How the files are written: as it is stated, and where that is not the usual way, and the same in all of them."""
    from fogline.files.listing import kind_of

    stated = ({} if found.time_format is None else {"time_format": found.time_format}) | options.to_dict()
    dialects, between = _dialects(found, file, options), "\t" if kind_of(file, existing=True) == "tsv" else ","
    for name, usual in (("separator", between), ("decimal", "."), ("encoding", "utf-8")):
        ways = {str(getattr(each, name)) for each in dialects}
        if name not in stated and len(ways) == 1 and ways != {usual}:
            stated[name] = ways.pop()
    if any(each.thousands for each in dialects):
        stated["decimal"] = "."  # so commas stand between thousands, whatever a file shows
    words = [str(each) for each in found.suspects.values()]
    words += [text for texts in found.odd.values() for text, _ in texts.most_common(LISTED)]
    hints = [] if found.time_format is None or "zone" in stated else [ZONE]
    if words:
        listed = json.dumps([*(options.nulls or ()), *dict.fromkeys(words)], ensure_ascii=False)
        hints.append(f"# nulls: {listed}  # if these stand for missing values")
    if not stated and not hints:
        return []
    lines = [
        "",
        "# How the files are written, as they show it; what is left out is looked for in each file.",
        "source:" if stated else "# source:",
    ]
    lines += [f"  {name}: {json.dumps(each, ensure_ascii=False)}" for name, each in stated.items()]
    return [*lines, *(f"  {each}" for each in hints)]


def _dialects(found: Guess, file: str, options: Options) -> list[Dialect]:
    """How each file of lines is written, of those that can be read; an error if none of them can."""
    from fogline.files.blocks import UNREADABLE, reason_of
    from fogline.files.delimited import opened_dialect
    from fogline.files.layout import FILES
    from fogline.files.listing import files_of, kind_of_file, name_in, root_of
    from fogline.files.settled import Roles

    numbers, root = Roles(numbers=(*found.attributes, *found.others)), root_of(file)
    dialects, failed = [], []
    for path in map(str, files_of(file)[:FILES]):
        if kind_of_file(path, root) in ("csv", "tsv"):
            try:
                dialects.append(opened_dialect(path, None, options, numbers))
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
    since, length = "", found.lifetime
    if found.epoch is not None:
        since, length = f" ({found.epoch} since 1970)", f"{found.lifetime} ({lifetime_in_words(found)})"
    return f"Guessed: sensor {found.id!r}, time {found.time!r}{since}; compared by {compared}; a row counts {length}."


def lifetime_in_words(found: Guess) -> str:
    """How long a row counts, in words."""
    from fogline.cli.guess import unit_of
    from fogline.show import in_words

    return str(found.lifetime) if found.epoch is None else in_words(round(float(found.lifetime) * unit_of(found.epoch)))


def doubts(found: Guess, options: Options, output: Path) -> list[str]:
    """What a person should look at, and the option that settles it."""
    lines = []
    for name, value in (options.constants or {}).items():
        lines.append(
            f"No column seems to name the sensor, so all rows count as one sensor: {name!r} is {value!r}. If there is "
            "one, name it: --id COLUMN."
        )
    for name, texts in found.odd.items():
        few = ", ".join(f"{text!r} {count:,}×" for text, count in texts.most_common(LISTED))
        more = f" and {len(texts) - LISTED:,} more" if len(texts) > LISTED else ""
        way = " ".join(f"--null {shlex.quote(text)}" for text, _ in texts.most_common(LISTED))
        lines.append(
            f"{name!r} has numbers, and also texts: {few}{more}. If these mean missing values, add {way}, or `nulls` "
            f"in {output}; else such rows are rejected where {name!r} is compared."
        )
    for value in dict.fromkeys(map(str, found.suspects.values())):
        where = [(name, each) for name, each in found.suspects.items() if str(each) == value]
        few = ", ".join(
            f"{name!r} ({each.times:,} rows; else {each.low:.6g} to {each.high:.6g})" for name, each in where[:LISTED]
        )
        more = f" and {len(where) - LISTED:,} more" if len(where) > LISTED else ""
        lines.append(
            f"{value} lies far from all other values of {few}{more}. If it means a missing value, add --null {value}, "
            f"or `nulls` in {output}; else it counts as a number."
        )
    return lines


def next_commands(file: str, query: Path) -> list[str]:
    """From here to an answer."""
    stem, rows, asked, stream = stem_of(file), shlex.quote(file), shlex.quote(str(query)), incoming(file)
    return [
        f"fogline fit {rows} -q {asked} -o {stem}.repo",
        f"fogline check {stream} -q {asked} -r {stem}.repo",
        f"fogline run {stream} -q {asked} -r {stem}.repo -o watched",
        "fogline answer watched",
    ]


def incoming(file: str) -> str:
    """A folder of rows that come; never what was looked at, which knows nothing new of its own rows."""
    return NEW if INCOMING in Path(file).parts else INCOMING


def stem_of(file: str) -> str:
    """What the files are called."""
    return re.sub(r"\W+", "_", Path(file.rstrip("/*")).name.split(".")[0]).strip("_") or "rows"
