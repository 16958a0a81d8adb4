"""How is an experiment run?

Trial by trial, in one process. Each trial is written down as soon as it ends; a trial that has a file is done. A run
that is interrupted, by Ctrl-C or by anything else, loses at most the trial it was in. A trial that fails is reported at
the end, and the others go on.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from fogline.errors import did_you_mean
from lab.case import LabError
from lab.experiment import Experiment, Knobs, Scope
from lab.results import Results, origin


@dataclass(frozen=True, slots=True)
class Trial:
    """One point of an experiment."""

    experiment: Experiment
    knobs: Knobs

    def __str__(self) -> str:
        knobs = "  ".join(f"{name}={value}" for name, value in self.knobs.items())
        return f"{self.experiment.name}  {knobs}".rstrip()


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that could not be measured, and why."""

    trial: Trial
    error: Exception

    def __str__(self) -> str:
        text = f"{self.trial}\n  {type(self.error).__name__}: {self.error}"
        if isinstance(self.error, ModuleNotFoundError):
            return f"{text}; pip install -e '.[lab]'"
        last = traceback.extract_tb(self.error.__traceback__)[-1:]
        return text + "".join(f"\n  in {frame.name}, {frame.filename}:{frame.lineno}" for frame in last)


def trials(
    experiments: Sequence[Experiment], scope: Scope, where: Mapping[str, Collection[str]] | None = None
) -> list[Trial]:
    """What there is to measure; of trials that have a knob named in `where`, those with one of its values only."""
    return [
        Trial(each, knobs)
        for each in experiments
        for knobs in each.trials(scope)
        if all(name not in knobs or str(knobs[name]) in values for name, values in (where or {}).items())
    ]


def check_knobs(experiments: Sequence[Experiment], scope: Scope, names: Iterable[str]) -> None:
    """Is each name a knob of some trial?"""
    knobs = dict.fromkeys(knob for trial in trials(experiments, scope) for knob in trial.knobs)
    for name in names:
        if knobs and name not in knobs:
            raise LabError(f"no trial has a knob {name!r}; there are {', '.join(knobs)}.{did_you_mean(name, knobs)}")


def run(todo: Sequence[Trial], scope: Scope, results: Results, console: Console) -> list[Failure]:
    """Measure them all, in order, under a bar; returns those that failed."""
    failures: list[Failure] = []
    gc.collect()
    gc.freeze()  # what was imported is no garbage, and need not be looked through before every trial
    try:
        with _bar(console) as bar:
            task = bar.add_task("", total=len(todo))
            for trial in todo:
                bar.update(task, description=str(trial))
                failures += _tried(trial, scope, results, console)
                bar.advance(task)
            bar.update(task, description="done")
    finally:
        gc.unfreeze()
    return failures


def _tried(trial: Trial, scope: Scope, results: Results, console: Console) -> list[Failure]:
    """Measure one, or report why not."""
    began, failed = perf_counter(), []
    try:
        measure(trial, scope, results)
    except Exception as error:
        failed.append(Failure(trial, error))
    if not console.is_terminal:  # a log has no bar that moves
        end = "failed after" if failed else "in"
        console.print(f"{trial}: {end} {perf_counter() - began:.1f} s", soft_wrap=True, markup=False)
    return failed


def measure(trial: Trial, scope: Scope, results: Results) -> None:
    """One trial, written down."""
    gc.collect()  # what the one before left behind is not this one's time
    began = perf_counter()
    rows = trial.experiment.measure(trial.knobs, scope)
    took = perf_counter() - began
    results.keep(trial.experiment.name, trial.knobs, rows, origin(trial.knobs, scope, took))


def _bar(console: Console) -> Progress:
    return Progress(
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
        console=console,
        expand=True,  # the trial takes what room there is; the clock keeps its own
        speed_estimate_period=3600,  # trials take minutes, not seconds: judge by the last hour
    )
