"""fogline answer: what is in the answer, now or then, as a person or a program wants it."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fogline.cli.options import Settings, starts_spark
from fogline.cli.terminal import app, echo, helpful, paper, reading, remark
from fogline.errors import FoglineError, did_you_mean
from fogline.files.listing import plain
from fogline.show import count_of, instant_text, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from fogline.output.answers import OutputReader, Shown
    from fogline.query import Query

Each = TypeVar("Each")
ALARMS = 5  # that are printed
FORMATS = ("table", "csv", "json", "parquet")
COMPARISONS = {"<=": "less_equal", ">=": "greater_equal", "!=": "not_equal", "==": "equal", "=": "equal", "<": "less",
               ">": "greater"}  # fmt: skip
CLOCKS = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")  # beside ISO 8601
_CONDITION = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|(.+?))\s*(<=|>=|!=|==|=|<|>)\s*(.*?)\s*""", re.DOTALL)


@app.command()
@starts_spark
def answer(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Output folder of `fogline run`.", callback=plain)],
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Only the query of this name (default: all queries of the run).")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Show the answer as it was then, e.g. 530 or '2024-05-01 14:00' (default: now).")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN OP VALUE", help="Only rows that match, e.g. 'co2 > 900'. Repeat it; all must hold."
        ),
    ] = None,
    certainty: Annotated[
        str,
        typer.Option(
            help="`certain`: only rows that are in under every value imputed for what is missing. `likely`: the "
            "answer. `possible`: also rows that are out but may be in; needs a run with --explain."
        ),
    ] = "likely",
    alpha: Annotated[
        float | None,
        typer.Option(help="Only rows above this probability, at least the query's alpha (default: the query's alpha)."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            help="Show only this many rows per group, as different as possible, each standing for similar ones "
            "(default: all).",
            min=1,
        ),
    ] = None,
    most: Annotated[int, typer.Option("--most", help="Print at most this many rows; 0 prints all.", min=0)] = 50,
    form: Annotated[
        str | None,
        typer.Option("--format", help=f"Write {', '.join(FORMATS)} (default: table, or as the file name ends)."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line, as `--format json`.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of the terminal.")
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Show the answer of a run, now or at any earlier time.

    Ask for a later time, and rows that have expired by then are left out. Which rows come in later, only a run can
    show.
    """
    with helpful():
        chosen = format_of("json" if as_json and form is None else form, file)
        from fogline.cli.options import named
        from fogline.output.certainty import check_certainty, near_of, with_certainty

        full: list[str] = []
        zone: list[str | None] = []

        def read(folder: OutputReader) -> dict[str | None, tuple[Shown, pa.Table | None]]:
            full[:] = [f"alarm: {each.sentence()}." for each in folder.alarms()]
            zone[:] = [folder.zone]
            when = as_shown(at, folder.zone)
            check_certainty(certainty, folder, when)
            found = chosen_queries(folder.shown(when), query, output)
            return {name: (shown, near_of(folder, name, when)) for name, shown in found.items()}

        every: dict[str | None, Shown] = {}
        tables: dict[str | None, pa.Table] = {}
        for name, (whole, near) in reading(output, settings(), read).items():
            with named(name):
                every[name] = with_certainty(whole, near, certainty, alpha)
                rows = chosen_rows(in_zone_of(every[name].rows, whole.query, zone[0]), where or [])
                tables[name] = rows if top is None else few_rows(replace(every[name], rows=rows), near, top)
                every[name] = shown_in(every[name], zone[0])
        for text in full[:ALARMS]:
            remark(text)
        sentences = {name: about(shown) for name, shown in every.items()}
        if file is None and chosen == "table":
            for name, rows in tables.items():
                if name is not None:
                    echo(f"{name}:", bold=True)
                echo("\n".join(sentences[name]))
                print_table(rows, most, [every[name].query.arrived])
            return
        rows = together(tables)
        remark("\n".join(dict.fromkeys(line for lines in sentences.values() for line in lines)))
        if file is not None:
            write(rows, chosen, file, [shown.query.arrived for shown in every.values()])
            echo(f"{count_of(rows.num_rows, 'row')}: {file}")
        else:
            text = as_text(rows, chosen)  # for a program as it is, for a person as it may be shown
            echo(text, nl=False) if sys.stdout.isatty() else typer.echo(text, nl=False)


def in_zone_of(rows: pa.Table, query: Query, zone: str | None) -> pa.Table:
    """The rows, with their times as clocks of a zone show them."""
    from fogline.rows.clock import in_zone

    return rows.set_column(rows.schema.names.index(query.arrived), query.arrived, in_zone(rows[query.arrived], zone))


def as_shown(at: str | None, zone: str | None) -> str | None:
    """An instant as a person writes it, who sees times as clocks of a zone show them; also as in 01.05.2024 14:00.

    >>> as_shown("01.05.2024 14:00", "Europe/Berlin"), as_shown("2024-05-01", ""), as_shown("530", None)
    ('2024-05-01 14:00:00+02:00', '2024-05-01 00:00:00', '530')
    """
    when = None if at is None else _clock_time(at)
    if when is None or when.tzinfo is not None or not zone:
        return at if when is None else str(when)
    import pyarrow as pa
    import pyarrow.compute as pc

    stamp = pa.scalar(when, pa.timestamp("us"))
    return str(pc.assume_timezone(stamp, zone, ambiguous="earliest", nonexistent="latest").as_py())


def _clock_time(text: str) -> datetime | None:
    """A date, or a date and a time; None: it is neither, such as a number."""
    with suppress(ValueError):
        float(text)
        return None
    with suppress(ValueError):
        return datetime.fromisoformat(text.strip())
    for form in CLOCKS:
        with suppress(ValueError):
            return datetime.strptime(text.strip(), form)  # the zone is that of the stream
    return None


def shown_in(shown: Shown, zone: str | None) -> Shown:
    """The answer, with its instants as clocks of a zone show them."""
    import pyarrow as pa

    from fogline.rows.clock import in_zone

    at, reached = (in_zone(pa.array([each]), zone)[0].as_py() for each in (shown.instant, shown.reached))
    return replace(shown, instant=at, reached=reached)


def chosen_queries(every: dict[str | None, Each], name: str | None, output: str) -> dict[str | None, Each]:
    """What was asked for of what several queries have found: all, or the one of a name."""
    if name is None:
        return every
    if None in every:
        raise FoglineError(f"{output!r} answers one query, which has no name; leave --query out.")
    if name not in every:
        known = [str(each) for each in every]
        raise FoglineError(f"{output!r} has no query {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")
    return {name: every[name]}


def together(tables: dict[str | None, pa.Table]) -> pa.Table:
    """The rows of several queries as one table, each with the name of its query; of one alone, as they are."""
    import pyarrow as pa

    from fogline.queries import QUERY

    if None in tables:
        return tables[None]
    wide = [
        table.add_column(0, QUERY, pa.array([name] * table.num_rows, pa.string())) for name, table in tables.items()
    ]
    return pa.concat_tables(wide, promote_options="permissive")


def format_of(given: str | None, file: Path | None) -> str:
    """In which form rows are wanted."""
    ends = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet", ".txt": "table"}
    chosen = given or ("table" if file is None else ends.get(file.suffix.lower()))
    if chosen is None:
        raise FoglineError(f"the name {str(file)!r} does not show a format; state it: --format csv, json or parquet.")
    if chosen not in FORMATS:
        raise FoglineError(f"the format is {chosen!r}; it may be {', '.join(FORMATS)}.{did_you_mean(chosen, FORMATS)}")
    if chosen == "parquet" and file is None:
        raise FoglineError("Parquet is not for a terminal; name a file: --output answer.parquet.")
    return chosen


def about(shown: Shown) -> list[str]:
    """Of which instant an answer is, and what is not known of it."""
    if shown.instant is None:
        return ["no row has come yet."]
    group = ", of each group as its own rows have come" if shown.query.by else ""
    if not shown.beyond:
        after = f", after batch {shown.batch}" if shown.instant == shown.reached and shown.batch >= 0 else ""
        return [f"the answer at {instant_text(shown.instant)}{after}{group}"]
    lines = [f"the answer at {instant_text(shown.instant)}; the run has come to {instant_text(shown.reached)}{group}"]
    if shown.query.expires is not None:
        lines.append(
            f"rows expire by {shown.query.expires!r}, which is not in the output: some of these may have expired."
        )
    elif shown.expired:
        lines.append(
            f"{count_of(shown.expired, 'row')} expired since then; which rows came in instead, only a run "
            "of later rows can show."
        )
    return lines


def chosen_rows(rows: pa.Table, where: list[str]) -> pa.Table:
    """The rows for which all conditions hold."""
    for condition in where:
        rows = rows.filter(holds(rows, condition))
    return rows


def few_rows(shown: Shown, near: pa.Table | None, top: int) -> pa.Table:
    """Of each group the rows that stand for the others, and for how many each does."""
    import numpy as np
    import pyarrow as pa

    from fogline.engine.representatives import representatives, with_stands_for
    from fogline.output.certainty import values_of

    rows, values = shown.rows.combine_chunks(), values_of(shown, near)
    probability = rows["probability"].to_numpy()
    names = list(zip(*(rows[name].to_pylist() for name in shown.query.by), strict=True)) or [()] * rows.num_rows
    groups = dict[tuple[Any, ...], list[int]]()
    for k, name in enumerate(names):
        groups.setdefault(name, []).append(k)
    which, stands_for = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for there in groups.values():
        chosen, count = representatives(values[there], probability[there], top)
        which.append(np.array(there)[chosen])
        stands_for.append(count)
    return with_stands_for(rows.take(pa.array(np.concatenate(which))), np.concatenate(stands_for))


def holds(rows: pa.Table, condition: str) -> Any:
    """For which rows a condition holds; where the value is missing it does not.

    The value is read as the column's type is; a number that a column of whole ones cannot hold is compared as float64.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    read = _CONDITION.fullmatch(condition)
    if read is None:
        raise FoglineError(
            f"--where {condition!r}: write a column, a comparison and a value, as in 'co2 > 900'. A name with such "
            "signs stands in quotes."
        )
    *names, sign, text = read.groups()
    name = next(each for each in names if each)
    if name not in rows.schema.names:
        there = rows.schema.names
        raise FoglineError(
            f"--where {condition!r}: the answer has no {name!r}; it has {', '.join(there)}.{did_you_mean(name, there)}"
        )
    kind = rows.schema.field(name).type
    if pa.types.is_null(kind):  # no row has a value there
        return pa.array([False] * rows.num_rows)
    value, column = _value(text, kind, condition), rows[name]
    if value.type != kind:
        column = column.cast(value.type, safe=False)
    return getattr(pc, COMPARISONS[sign])(column, value).fill_null(False)


def _value(text: str, kind: pa.DataType, condition: str) -> pa.Scalar:
    """What a person has written, in the type of a column; times without a zone are in that of the column."""
    import pyarrow as pa

    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    if pa.types.is_timestamp(kind):
        from fogline.rows.clock import as_instant

        return as_instant(as_shown(bare, kind.tz), kind)
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.scalar(bare).cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
    with suppress(ValueError):
        if numbers:
            return pa.scalar(float(bare))
    wanted = "a number" if numbers else "true or false" if pa.types.is_boolean(kind) else f"a {kind}"
    raise FoglineError(f"--where {condition!r}: {bare!r} is not {wanted}, as that column holds.")


def as_text(rows: pa.Table, form: str) -> str:
    """Rows as CSV, or as JSON lines."""
    if form == "csv":
        import pyarrow as pa
        import pyarrow.csv as pc

        sink = pa.BufferOutputStream()
        pc.write_csv(rows, sink)
        return str(sink.getvalue().to_pybytes().decode())
    import json

    return "".join(f"{json.dumps(row, default=str)}\n" for row in rows.to_pylist())


def write(rows: pa.Table, form: str, file: Path, times: Collection[str] = ()) -> None:
    """Rows into a file, which is replaced if it is there; see `table_of`."""
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(rows, file)
    elif form == "table":
        from rich.console import Console

        with file.open("w", encoding="utf-8") as out:
            Console(file=out, highlight=False, markup=False, emoji=False, width=160).print(table_of(rows, times))
    else:
        file.write_text(as_text(rows, form), encoding="utf-8")


def print_table(rows: pa.Table, most: int, times: Collection[str] = ()) -> None:
    """The first rows as a table, and how many there are; see `table_of`."""
    console = paper()
    shown = rows.slice(0, most) if most else rows
    console.print(table_of(shown, times))
    more = rows.num_rows - shown.num_rows
    console.print(f"{count_of(rows.num_rows, 'row')}{f', {more:,} of them not shown (--most 0)' if more else ''}")


def table_of(rows: pa.Table, times: Collection[str] = ()) -> Any:
    """Rows as a table for people; columns of `times` are instants, of which no digit is left out."""
    from rich.table import Table

    table = Table(*rows.schema.names, box=None, pad_edge=False, header_style="bold")
    for row in rows.to_pylist():
        table.add_row(*(_cell(value, name in times) for name, value in row.items()))
    return table


def _cell(value: Any, is_time: bool) -> str:
    """A value as a table shows it: numbers with four digits, or with all of those before the point.

    >>> _cell(0.123456, False), _cell(123456.7, False), _cell(1.7e9 + 0.25, True), _cell(1e300, False)
    ('0.1235', '123457', '1700000000.25', '1e+300')
    """
    if is_time and value is not None:
        text = instant_text(value)
    elif isinstance(value, float):
        text = f"{value:.15g}" if value.is_integer() else f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    else:
        text = "" if value is None else str(value)
    return printable(text, keep="")
