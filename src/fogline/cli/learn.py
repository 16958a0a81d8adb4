"""fogline fit, rules, impute: from history to what a missing value may be."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.table import Table

import fogline
from fogline.cli.terminal import (
    Master,
    Memory,
    QueryFile,
    RepositoryFolder,
    app,
    helpful,
    must_be_there,
    on_spark,
    paper,
)
from fogline.impute.imputer import Imputer
from fogline.model import Query
from fogline.repository import rules as rule_files
from fogline.repository import store
from fogline.repository.discover import METHODS, PLAIN, check_method
from fogline.repository.repository import Repository


@app.command()
def fit(
    history: Annotated[str, typer.Argument(help="Rows of the past, (nearly) complete: parquet, csv, jsonl.")],
    query: QueryFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write; a repository there is replaced.")
    ],
    rules: Annotated[Path | None, typer.Option(help="Rules of your own, as YAML, instead of discovered ones.")] = None,
    method: Annotated[
        str, typer.Option(help=f"How rules are discovered: {', '.join(METHODS)}; or without any: {', '.join(PLAIN)}.")
    ] = METHODS[0],
    master: Master = "local[*]",
    memory: Memory = None,
) -> None:
    """Learn from complete history what a missing value may be.

    Finds rules such as `voltage(0.01) -> temperature(0.5)` (rows close in voltage are close in temperature), and builds
    the indexes that answer them. A rule file is a list of such texts, or of `{given: {voltage: 0.01}, then:
    temperature, within: 0.5}`. See what was found with `fogline rules`.
    """
    began = perf_counter()
    with helpful():
        asked = Query.load(query)
        given = None if rules is None else rule_files.load(rules)
        check_method(method)
        store.check_folder(output)
        files = must_be_there(history)
        with on_spark(master, memory) as (spark, progress):
            rows = files.with_numbers(files.read(spark, history), asked)
            made = fogline.spark.fit(rows, asked, rules=given, method=method, folder=output, progress=progress)
    size = sum(each.stat().st_size for each in output.rglob("*") if each.is_file()) / 1e6
    typer.echo(
        f"{made.history.rows:,} rows, {len(made.rules)} rules, {size:,.0f} MB, {perf_counter() - began:.0f} s: {output}"
    )
    bare = [name for name, each in made.lattices.items() if not each.rules]
    if bare:
        typer.echo(f"Nothing explains {', '.join(bare)}: imputed from the whole history's distribution.")
    typer.echo(f"See the rules with: fogline rules {output}")


@app.command(name="rules")
def show_rules(
    repository: Annotated[Path, typer.Argument(help="The folder that `fogline fit` made.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Also what is tried in which order, and by which way rows are found.")
    ] = False,
) -> None:
    """Show the rules of a repository, and how good they are.

    Each rule alone imputes the newest tenth of the history from the rest. *Rows* is how many match on average, *finds*
    for how many rows any does. *Error* is how far its distributions lie from the truth (CRPS, in the attribute's own
    unit), and *gain* how much of the error of knowing nothing it takes away: 0 none, 100 % all.
    """
    with helpful():
        loaded = Repository.load(repository)
        console = paper()
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
        console.print(table)
        for name, lattice in loaded.lattices.items():
            if not lattice.rules:
                console.print(f"{name}: no rule; imputed from the whole history's distribution.", markup=False)
        console.print(f"{loaded.history.rows:,} rows of history")
        for step in loaded.explain() if explain else ():
            console.print(f"  {step}", markup=False, soft_wrap=True)


@app.command()
def impute(
    stream: Annotated[str, typer.Argument(help="Rows with gaps: parquet, csv, jsonl.")],
    repository: RepositoryFolder,
    query: QueryFile,
    output: Annotated[str, typer.Option("--output", "-o", help="A folder of files; its suffix says which kind.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    master: Master = "local[*]",
    memory: Memory = None,
) -> None:
    """Write out what each missing value may be, one row per possible value.

    Columns: id, time, attribute, value, probability, and the rule that says so.
    """
    began = perf_counter()
    with helpful():
        asked, known = Query.load(query), Repository.load(repository)
        Imputer(known, asked)  # do they fit?
        files = must_be_there(stream)
        files.check_output(output, overwrite=overwrite)
        with on_spark(master, memory) as (spark, progress):
            from fogline.spark.progress import followed

            filled = fogline.spark.impute(files.read(spark, stream), asked, known)
            with followed(spark, "imputing", progress):
                files.write(filled, output, overwrite=overwrite)
    typer.echo(f"Written in {perf_counter() - began:.0f} s: {output}")
