"""fogline fit, rules, impute: from history to what a missing value may be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from fogline.cli.engine import Where
from fogline.cli.options import Settings, Stated, reads_files, starts_spark
from fogline.cli.terminal import (
    MaybeMaster,
    Memory,
    QueryFile,
    RepositoryFolder,
    app,
    echo,
    helpful,
    must_be_there,
    number_or_text,
    paper,
    reading,
    repository_at,
)
from fogline.files.listing import plain
from fogline.repository import METHODS, PLAIN, VALUES, check_method

if TYPE_CHECKING:
    from rich.table import Table

    from fogline.impute.scores import Score
    from fogline.repository.repository import Repository


@app.command()
@reads_files
@starts_spark
def fit(
    history: Annotated[
        str,
        typer.Argument(
            metavar="HISTORY",
            help="Past rows, mostly complete: parquet, csv or jsonl files, or a Delta table, `delta:PATH`. With --sql "
            "a database, `jdbc:postgresql://host/database?user=me&password=${NAME}`.",
            callback=plain,
        ),
    ],
    query: QueryFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder to write. A repository already there is kept as an older version."),
    ],
    rules: Annotated[
        Path | None, typer.Option(help="YAML file with your own rules (default: rules are found in the history).")
    ] = None,
    method: Annotated[
        str,
        typer.Option(help=f"Find rules with {' or '.join(METHODS)}, or fill gaps without rules: {', '.join(PLAIN)}."),
    ] = METHODS[0],
    retention: Annotated[
        str | None,
        typer.Option(
            help="Ignore a sensor's readings older than this, e.g. '1 hour'; 0 ignores all (default: no limit)."
        ),
    ] = None,
    hindsight: Annotated[
        bool, typer.Option(help="Improve a filled value when the sensor's next reading arrives.")
    ] = True,
    values: Annotated[
        int, typer.Option(help="Keep at most this many possible values per missing value; more are merged.", min=4)
    ] = VALUES,
    sql: Annotated[
        str | None, typer.Option(help="Query for the database named by HISTORY, e.g. 'select * from readings'.")
    ] = None,
    master: MaybeMaster = None,
    memory: Memory = None,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Learn from past rows what a missing value may be.

    Finds rules such as `voltage(0.01) -> temperature(0.5)`: rows within 0.01 in voltage are within 0.5 in temperature.
    A file of your own rules is a YAML list of such texts. `fogline rules` shows what was found.
    """
    began = perf_counter()
    with helpful():
        from fogline.cli.options import one_of
        from fogline.files.listing import must_be_apart
        from fogline.repository import rules as rule_files
        from fogline.repository import store

        asked, options = one_of(query, "fit"), stated()
        given = None if rules is None else rule_files.load(rules)
        check_method(method)
        kept = None if retention is None else number_or_text(retention)
        must_be_apart(history, str(output))
        store.check_folder(output)
        where = Where.of_history(history, sql, master, memory, settings())
        how = {"rules": given, "method": method, "retention": kept, "hindsight": hindsight, "values": values}
        from fogline.cli.jobs import fitted

        summarise(fitted(history, asked, options, output, how, where, sql), output, began)


def summarise(made: Repository, output: Path, began: float) -> None:
    """What was fitted, and what comes next."""
    echo(f"{rows_and_rules(made)}, {perf_counter() - began:.0f} s: {output}")
    show_versions(output)
    if bare := unexplained(made):
        names = ", ".join(bare)
        echo(f"No pattern found for {names}; do not rely on {'its' if len(bare) == 1 else 'their'} imputed values.")
    echo(f"See the rules with: fogline rules {output}")


def rows_and_rules(made: Repository) -> str:
    """How large it is."""
    from fogline.show import count_of

    return f"{count_of(made.history.rows, 'row')}, {count_of(len(made.rules), 'rule')}"


def unexplained(repository: Repository) -> list[str]:
    """The attributes that neither rules nor other attributes nor sensors' own readings explain."""
    sensors = repository.sensors
    recent = () if sensors is None else (rule.then for rule in sensors.recent)
    learnt = {*repository.others, *recent, *(() if sensors is None else sensors.transitions)}
    return [name for name, each in repository.lattices.items() if not each.rules and name not in learnt]


@app.command(name="rules")
@starts_spark
def show_rules(
    repository: Annotated[Path, typer.Argument(metavar="REPOSITORY", help="Folder made by `fogline fit`.")],
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Also show in which order rules are tried, and how matching rows are looked up."
        ),
    ] = False,
    live: Annotated[
        str | None, typer.Option("--live", help="Show how well the rules did in a run; name its output folder.")
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Show the rules of a repository, and how good they are.

    Each rule fills the newest tenth of the history from the rest, and is compared with the truth.

    \b
    - rows: how many past rows match, on average.
    - finds: for what share of rows any past row matches.
    - error: how far off it is (CRPS, in the column's own unit).
    - gain: how much better than a guess from the whole history.

    With --live: now and then a run hides a known value and looks how well it would have been filled.

    \b
    - otherwise: the error without the rule.
    - inside: how often the truth lies within the range given.
    - central 80 %: how often it lies between its 10 % and 90 % points.

    A second table shows the same by the age of the last value seen. `fogline refit` learns anew.
    """
    with helpful():
        from rich.table import Table

        from fogline.impute.row import OTHERS
        from fogline.impute.scores import OWN
        from fogline.repository.repository import Repository

        loaded = Repository.load(repository)
        console = paper()
        if live is not None:
            show_live(loaded, live, settings())
            return
        table = Table("rule", box=None, pad_edge=False, header_style="bold")
        for name in ("rows", "finds", "error", "gain"):
            table.add_column(name, justify="right")
        for each in loaded.quality():
            table.add_row(
                str(each.rule),
                f"{each.matches:,.0f}" if each.matches >= 10 else f"{each.matches:.2g}",
                f"{each.support:.0%}",
                f"{each.error:.3g}",
                f"{each.gain:.0%}",
            )
        sensors = {} if loaded.sensors is None else loaded.sensors.transitions
        for by, learnt in ((OTHERS, loaded.others), (OWN, sensors)):
            for name, one in learnt.items():
                table.add_row(f"{by} -> {name}", "", "", f"{one.error:.3g}", f"{one.gain:.0%}")
        console.print(table)
        for rule in () if loaded.sensors is None else loaded.sensors.recent:
            console.print(f"{rule} (of the sensor's own readings)", markup=False)
        for name in unexplained(loaded):
            console.print(f"No pattern found for {name}; do not rely on its imputed values.", markup=False)
        for found in loaded.imputations():
            if found.note:
                console.print(f"{found.attribute}, imputed by {found.imputer}: {found.note}.", markup=False)
        console.print(f"{loaded.history.rows:,} rows of history")
        for step in loaded.explain() if explain else ():
            console.print(f"  {step}", markup=False, soft_wrap=True)


def show_live(repository: Repository, output: str, settings: Mapping[str, str]) -> None:
    """How rules do on the stream of a run, as a table; then what to think of it."""
    from fogline.impute.scores import by_age, listed, wrongly_sure
    from fogline.runs.start import begun_with

    both = reading(output, settings, lambda found: (found.scores(), begun_with(found.place, output, repository)))
    sums, begun = both
    scores, console = listed(sums, begun), paper()
    if begun is not repository:
        console.print("The run uses an older version of this repository; its rules are shown.")
    if not scores:
        console.print("Nothing was tested yet: about one row in a hundred is.")
        return
    singly = ["" if each.error_of_singles is None else f"{each.error_of_singles:.3g}" for each in scores]
    fitted = ["" if each.fitted is None else f"{each.fitted:.3g}" for each in scores]
    console.print(score_table(scores, {"hidden singly": singly, "when fitted": fitted}))
    console.print()
    aged = by_age(sums)
    console.print(score_table(aged, {"last value": [each.ages for each in aged]}))
    for line in wrongly_sure(aged):
        console.print(line, markup=False, soft_wrap=True)
    for each in scores:
        if each.worse:
            console.print(
                f"{each.attribute}: '{each.rule}' does worse than what would be imputed without it.", markup=False
            )
        if each.drifts:
            console.print(f"{each.attribute}: '{each.rule}' does worse than when it was fitted.", markup=False)
    if any(each.worse or each.drifts for each in scores):
        console.print("Learn anew with: fogline refit")


def score_table(scores: list[Score], also: dict[str, list[str]]) -> Table:
    """Scores as a table, with these columns beside."""
    from rich.table import Table

    table = Table("attribute", "rule", box=None, pad_edge=False, header_style="bold")
    for name in (*also, "cells", "error", "otherwise", "inside", "central 80 %"):
        table.add_column(name, justify="right")
    for k, each in enumerate(scores):
        central = "" if each.central is None else f"{each.central:.0%}"
        numbers = f"{each.cells:,}", f"{each.error:.3g}", f"{each.otherwise:.3g}", f"{each.inside:.0%}", central
        table.add_row(each.attribute, each.rule, *(column[k] for column in also.values()), *numbers)
    return table


@app.command()
@reads_files
@starts_spark
def refit(
    repository: Annotated[Path, typer.Argument(metavar="REPOSITORY", help="Folder made by `fogline fit`.")],
    rows: Annotated[
        str,
        typer.Argument(metavar="ROWS", help="Rows that arrived since: parquet, csv or jsonl.", callback=plain),
    ],
    query: QueryFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write (default: a new version in the same folder).")
    ] = None,
    newest: Annotated[
        int | None, typer.Option(help="Keep only this many rows, the newest (default: all).", min=1)
    ] = None,
    master: MaybeMaster = None,
    memory: Memory = None,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Learn anew from the history and the rows that arrived since.

    Rules are found again; rules of your own stay. A row that is there twice counts once. The old version stays, because
    runs begun with it still need it; `fogline prune` removes it.
    """
    began = perf_counter()
    with helpful():
        from fogline.cli.options import one_of
        from fogline.files.listing import must_be_apart
        from fogline.impute.chain import chain_of
        from fogline.repository import store
        from fogline.repository.repository import Repository

        asked, options, known = one_of(query, "refit"), stated(), Repository.load(repository)
        chain_of(known, asked)  # do they fit?
        target = repository if output is None else output
        must_be_apart(rows, str(target))
        store.check_folder(target)
        must_be_there(rows)
        where = Where.chosen(rows, master, memory, settings())
        from fogline.cli.jobs import fitted_again

        made = fitted_again(known, rows, asked, options, newest, target, where)
        echo(f"{rows_and_rules(made)}, {perf_counter() - began:.0f} s: {target}")
        show_versions(target)


def show_versions(folder: Path) -> None:
    """How large the newest version is, and what lies beside it."""
    from fogline.repository import store

    newest, *older = store.versions(folder)
    echo(f"Size: {max(newest.size / 1e6, 0.1):,.1f} MB")
    if older:
        size = sum(each.size for each in older) / 1e6
        echo(f"Older versions: {len(older)}, {size:,.0f} MB. Runs begun with them still need them.")
        echo(f"Remove them with: fogline prune {folder}")


@app.command()
def prune(
    repository: Annotated[Path, typer.Argument(metavar="REPOSITORY", help="Folder made by `fogline fit`.")],
    keep: Annotated[int, typer.Option(help="Keep this many versions, the newest.", min=1)] = 1,
) -> None:
    """Remove older versions of a repository.

    `fit` and `refit` keep them, because a run needs the version it was begun with. A run whose version is removed
    cannot continue.
    """
    with helpful():
        from fogline.repository import store

        before = sum(each.size for each in store.versions(repository))
        gone = store.prune(repository, keep)
        left = store.versions(repository)
    now = sum(each.size for each in left)
    echo(f"{len(gone)} removed, {len(left)} left, {now / 1e6:,.0f} MB of {before / 1e6:,.0f} MB: {repository}")


@app.command()
@reads_files
@starts_spark
def impute(
    stream: Annotated[
        str,
        typer.Argument(metavar="STREAM", help="Rows with missing values: parquet, csv or jsonl.", callback=plain),
    ],
    repository: RepositoryFolder,
    query: QueryFile,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Folder to write, e.g. filled.parquet; its ending chooses the file format.",
            callback=plain,
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    master: MaybeMaster = None,
    memory: Memory = None,
    fill: Annotated[
        bool,
        typer.Option(
            "--fill", help="Write the rows themselves, each gap filled with the median of its possible values."
        ),
    ] = False,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Write what each missing value may be, one row per possible value.

    Columns: id, time, attribute, value, probability, and the rule that found it. With --fill, all rows are written with
    all their columns. The column `filled` then names what was missing, and what filled it.
    """
    began = perf_counter()
    with helpful():
        from fogline.cli.options import one_of
        from fogline.impute.chain import chain_of

        asked, options, known = one_of(query, "impute"), stated(), repository_at(repository, settings(), memory)
        chain_of(known, asked)  # do they fit?
        must_be_there(stream)
        from fogline.cli.jobs import imputed
        from fogline.files.listing import must_be_apart
        from fogline.files.writing import check_output

        must_be_apart(stream, output)
        check_output(output, overwrite=overwrite)
        where = Where.chosen(stream, master, memory, settings())
        imputed(stream, asked, options, known, output, where, overwrite=overwrite, fill=fill)
        echo(f"Written in {perf_counter() - began:.0f} s: {output}")
