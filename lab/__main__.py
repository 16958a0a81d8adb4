"""python -m lab: the paper's experiments, and more, run here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from fogline.cli.terminal import helpful, paper
from fogline.errors import FoglineError, did_you_mean

if TYPE_CHECKING:  # the lab's packages take a second to import, and may be missing
    from lab.experiment import Experiment

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")

Data = Annotated[
    Path | None,
    typer.Option(help="The folder with the real sets, as Parquet. Without it, synthetic streams only."),
]
Out = Annotated[Path, typer.Option(help="Where results are kept: one Parquet file per trial.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small and few: minutes, not hours. Shows that it works.")]
FOLDER = Path("lab-results")


@app.callback()
def about() -> None:
    """Run the paper's evaluation, and more, on this machine.

    `list` shows what there is, `run` measures, `report` writes what came out: one page with every figure, and for each
    whether it confirms the paper. Begin with `python -m lab run --quick`, then `python -m lab report`.
    """


@app.command(name="list")
def show(data: Data = None, out: Out = FOLDER, quick: Quick = False) -> None:
    """Show the experiments: which figure of the paper, what it asks, and how much of it is done."""
    with helpful(), needed():
        from lab.bench import trials
        from lab.experiment import Scope
        from lab.results import Results

        scope, results = Scope(there(data), quick), Results(out, quick=quick)
        table = Table("name", "figure", "question", box=None, pad_edge=False, header_style="bold")
        table.add_column("trials", justify="right")
        table.add_column("done", justify="right")
        for each in known().values():
            todo = trials([each], scope)
            done = sum(results.done(each.name, trial.knobs) for trial in todo)
            table.add_row(each.name, each.figure, each.question, str(len(todo)), str(done))
        paper().print(table)
        left_out(data)


@app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="As in `list`; none, or `all`: everything.")
    ] = None,
    quick: Quick = False,
    data: Data = None,
    out: Out = FOLDER,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Where a trial has one, only this: `honest` (the history ends before the stream begins) or "
            "`paper` (it is drawn from the same set, and may hold the very rows that have gaps)."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KNOB=VALUE,…",
            help="Where a trial has this knob, only these values, as in `--where set=intel,beijing --where xi=0.3`.",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also measure what is already there.")] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes for experiments that measure no seconds; the others run alone, after.")
    ] = 1,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only print how long it will take, by what was measured so far.")
    ] = False,
) -> None:
    """Measure. What is already there is not measured again, so the same command goes on after a stop.

    Times mean something only on a machine that does nothing else. Quick and full results are kept apart.
    """
    with helpful(), needed():
        from lab import bench
        from lab.case import PROTOCOLS
        from lab.experiment import Scope
        from lab.results import Results

        if protocol is not None and protocol not in PROTOCOLS:
            raise FoglineError(f"the protocol is {protocol!r}; it may be {' or '.join(PROTOCOLS)}.")
        scope, results = Scope(there(data), quick), Results(folder(out), quick=quick)
        experiments, only = chosen(names or [], known()), knobs_of(where or [])
        bench.check_knobs(experiments, scope, only)
        asked = bench.trials(experiments, scope, only | ({} if protocol is None else {"protocol": [protocol]}))
        if not asked:
            raise FoglineError(
                "there is nothing to measure: these experiments need real sets, and --data names their folder"
                f"{'; or no trial is as --where asks' if where else ''}."
            )
        todo = [each for each in asked if again or not results.done(each.experiment.name, each.knobs)]
        left_out(data)
        if len(todo) < len(asked):
            typer.echo(f"{len(asked) - len(todo)} of {len(asked)} trials are done already.", err=True)
        if estimate or (todo and not quick):
            for line in bench.forecast(bench.expected(todo, results, Results(out, quick=True)), jobs):
                typer.echo(line, err=not estimate)
        if estimate:
            return
        console = Console(stderr=True, highlight=False)
        try:
            failures = bench.run(todo, scope, results, console, jobs=jobs) if todo else []
        except KeyboardInterrupt:
            same = "The same command without --again" if again else "The same command"
            typer.echo(f"Stopped; what was measured is kept. {same} goes on from there.", err=True)
            raise typer.Exit(130) from None
        for failure in failures:
            typer.echo(f"FAILED {failure}", err=True)
        typer.echo(f"{len(todo) - len(failures)} trials measured, {len(failures)} failed: {results.folder}")
        typer.echo(f"See what came out with: python -m lab report --out {out}{' --quick' if quick else ''}")
        if failures:
            raise typer.Exit(1)


@app.command()
def report(
    out: Out = FOLDER,
    to: Annotated[Path | None, typer.Option(help="The folder to write [default: OUT/report].")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Of the quick results; by default only if there are no full ones.")
    ] = False,
) -> None:
    """Write what came out: `report.html` (one page, nothing else needed), `summary.md`, and the plots as SVG files.

    Each experiment has the paper's claim, the plots, and one sentence, worked out from the rows, on whether they
    confirm it.
    """
    with helpful(), needed():
        from lab import report as reports
        from lab.results import Results

        results = Results(out, quick=quick)
        if not quick and not results.names():
            results = Results(out, quick=True)
        if not results.names():
            raise FoglineError(f"there are no results in {out}; `python -m lab run --quick` makes some in minutes.")
        written = reports.write(list(known().values()), results, folder(to or out / "report"))
        typer.echo(written.line)
        for name, why in written.troubles.items():
            typer.echo(f"FAILED {name}: {why}", err=True)
        typer.echo(f"Written: {written.folder / 'report.html'}")
        if written.troubles:
            raise typer.Exit(1)


@app.command()
def data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the publishers' files.")],
    part: Annotated[bool, typer.Option("--part", help="Also take files that are only a part of the original.")] = False,
) -> None:
    """Check and convert the paper's real sets, as their publishers have them. Nothing is downloaded.

    Each set's file is named with its address. What is converted lies in the same folder, and `run --data DIR` then
    measures at the paper's own sizes.
    """
    with helpful(), needed():
        from lab.originals import convert_all, lines

        found = there(folder)
        assert found is not None
        outcomes = convert_all(found, whole=not part)
        for line in lines(outcomes):
            typer.echo(line)
        if any(each.state == "refused" for each in outcomes):
            raise typer.Exit(1)


def known() -> Mapping[str, Experiment]:
    """All experiments; imported only when one is asked for."""
    from lab import experiments

    return experiments.EXPERIMENTS


def chosen(names: Sequence[str], known: Mapping[str, Experiment]) -> list[Experiment]:
    """Those that were named, in the order of the list."""
    for name in names:
        if name not in (*known, "all"):
            raise FoglineError(f"there is no experiment {name!r}; see `python -m lab list`.{did_you_mean(name, known)}")
    every = not names or "all" in names
    return [each for name, each in known.items() if every or name in names]


def knobs_of(where: Sequence[str]) -> dict[str, list[str]]:
    """Knobs and the values that are asked for.

    >>> knobs_of(["set=intel,beijing", "xi=0.3"])
    {'set': ['intel', 'beijing'], 'xi': ['0.3']}
    """
    parts = [each.partition("=") for each in where]
    for name, equals, values in parts:
        if not (name and equals and values):
            raise FoglineError(f"--where {name}{equals}{values}: write a knob and its values, as in --where set=intel.")
    return {name: values.split(",") for name, _, values in parts}


def there(data: Path | None) -> Path | None:
    """The folder, if it is one."""
    if data is not None and not data.is_dir():
        raise FoglineError(f"there is no folder {data}; --data names the one with the real sets.")
    return data


def folder(path: Path) -> Path:
    """Where something is to be written: not yet there, or a folder."""
    if path.exists() and not path.is_dir():
        raise FoglineError(f"{path} is a file; name a folder.")
    return path


def left_out(data: Path | None) -> None:
    """State once what a run without real sets lacks."""
    from lab.case import available

    if data is None:
        typer.echo("Without --data, the real sets are left out: synthetic streams only.", err=True)
    elif not available(data):
        typer.echo(f"{data} holds none of the real sets: synthetic streams only.", err=True)


@contextmanager
def needed() -> Iterator[None]:
    """Packages that only the lab needs, and how to get them."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("fogline", "lab"):
            raise
        raise FoglineError(f"the lab needs {package}, which is not installed: pip install -e '.[lab]'") from None


if __name__ == "__main__":
    app(prog_name="python -m lab")
