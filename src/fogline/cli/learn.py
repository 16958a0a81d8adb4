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
            help="Rows of the past, (nearly) complete: parquet, csv, jsonl; a Delta table, `delta:PATH`; or with --sql "
            "a database, `jdbc:postgresql://host/database?user=me&password=${NAME}`.",
            callback=plain,
        ),
    ],
    query: QueryFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write; a repository there stays as an older version.")
    ],
    rules: Annotated[Path | None, typer.Option(help="Rules of your own, as YAML, instead of discovered ones.")] = None,
    method: Annotated[
        str, typer.Option(help=f"How rules are discovered: {', '.join(METHODS)}; or without any: {', '.join(PLAIN)}.")
    ] = METHODS[0],
    retention: Annotated[
        str | None, typer.Option(help="How old a sensor's own readings may be to count; 0: not at all.")
    ] = None,
    hindsight: Annotated[
        bool, typer.Option(help="Whether gaps are also filled from the reading that follows them, when that has come.")
    ] = True,
    values: Annotated[
        int, typer.Option(help="How many values a missing one may have at most; more are reduced.", min=4)
    ] = VALUES,
    sql: Annotated[
        str | None, typer.Option(help="What to ask the database that HISTORY names, such as 'select * from readings'.")
    ] = None,
    master: MaybeMaster = None,
    memory: Memory = None,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Learn from complete history what a missing value may be.

    Finds rules such as `voltage(0.01) -> temperature(0.5)` (rows close in voltage are close in temperature), and builds
    the indexes that answer them. A rule file is a list of such texts, or of `{given: {voltage: 0.01}, then:
    temperature, within: 0.5}`. See what was found with `fogline rules`.
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
    echo(f"{made.history.rows:,} rows, {len(made.rules)} rules, {perf_counter() - began:.0f} s: {output}")
    show_versions(output)
    if bare := unexplained(made):
        echo(f"Nothing explains {', '.join(bare)}: imputed from the whole history's distribution.")
    echo(f"See the rules with: fogline rules {output}")


def unexplained(repository: Repository) -> list[str]:
    """The attributes that neither rules nor other attributes nor sensors' own readings explain."""
    sensors = repository.sensors
    recent = () if sensors is None else (rule.then for rule in sensors.recent)
    learnt = {*repository.others, *recent, *(() if sensors is None else sensors.transitions)}
    return [name for name, each in repository.lattices.items() if not each.rules and name not in learnt]


@app.command(name="rules")
@starts_spark
def show_rules(
    repository: Annotated[Path, typer.Argument(help="The folder that `fogline fit` made.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Also what is tried in which order, and by which way rows are found.")
    ] = False,
    live: Annotated[
        str | None, typer.Option("--live", help="The folder that `fogline run` writes: how they do on that stream.")
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Show the rules of a repository, and how good they are.

    Each rule alone imputes the newest tenth of the history from the rest. *Rows* is how many match on average, *finds*
    for how many rows any does. *Error* is how far its distributions lie from the truth (CRPS, in the attribute's own
    unit), and *gain* how much of the error of knowing nothing, of the attribute's distribution over the whole history,
    it takes away: 0 none, 100 % all. So do the lines of what else imputes: a row's other attributes, a sensor's own
    past. Lines are compared by their gains.

    With --live, what `fogline run` found on the stream itself: now and then it hides a value that is known, and looks
    how well it would have been imputed. *Otherwise* is the error of what would be imputed without the rule, *inside*
    how often the truth lies between the ends of the distribution, *central* how often between its 10 % and 90 % points.
    Then the same by how old the last value was that could be seen: sometimes the values before are hidden too, as in an
    outage, and values that end a real one are hidden more often. Nothing changes by it; `fogline refit` learns anew.
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
            console.print(f"{name}: no rule; imputed from the whole history's distribution.", markup=False)
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
        console.print("The run was begun with an older version of this repository: its rules are shown.")
    if not scores:
        console.print("No value has been hidden yet: that happens once in about a hundred rows.")
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
    repository: Annotated[Path, typer.Argument(help="The folder that `fogline fit` made.")],
    rows: Annotated[str, typer.Argument(help="Rows that came since: parquet, csv, jsonl.", callback=plain)],
    query: QueryFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Another folder to write; without it, a new version of this.")
    ] = None,
    newest: Annotated[int | None, typer.Option(help="Keep so many rows, the newest.", min=1)] = None,
    master: MaybeMaster = None,
    memory: Memory = None,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Learn anew from the history and what came since.

    In the way it was first learnt: rules are discovered again, or stay if they were given. Rows with gaps serve as far
    as they go, and a row that is there twice counts once. The old repository stays beside the new one, as an older
    version of the folder, and a run that was started with it goes on with it; `fogline prune` removes it.
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
        echo(f"{made.history.rows:,} rows, {len(made.rules)} rules, {perf_counter() - began:.0f} s: {target}")
        show_versions(target)


def show_versions(folder: Path) -> None:
    """How large the newest version is, and what lies beside it."""
    from fogline.repository import store

    newest, *older = store.versions(folder)
    echo(f"{newest.size / 1e6:,.0f} MB")
    if older:
        size = sum(each.size for each in older) / 1e6
        echo(f"Older versions: {len(older)}, {size:,.0f} MB. Runs that were begun with them go on with them.")
        echo(f"Remove them with: fogline prune {folder}")


@app.command()
def prune(
    repository: Annotated[Path, typer.Argument(help="The folder that `fogline fit` made.")],
    keep: Annotated[int, typer.Option(help="So many versions stay, the newest.", min=1)] = 1,
) -> None:
    """Remove older versions of a repository.

    `fit` and `refit` leave what was there as an older version, because a run that was begun with it needs it as long as
    it goes on. A run whose version is removed cannot be resumed.
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
    stream: Annotated[str, typer.Argument(help="Rows with gaps: parquet, csv, jsonl.", callback=plain)],
    repository: RepositoryFolder,
    query: QueryFile,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A folder of files of the kind that its suffix names.", callback=plain)
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    master: MaybeMaster = None,
    memory: Memory = None,
    fill: Annotated[
        bool, typer.Option("--fill", help="Write the rows instead, each gap filled with the median of what it may be.")
    ] = False,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Write out what each missing value may be, one row per possible value.

    Columns: id, time, attribute, value, probability, and the rule that found it. With --fill: the rows with all their
    columns, and `filled`, which names the cells that were missing and the rule or imputer that filled each.
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
