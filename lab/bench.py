"""How is an experiment run, and how long will that take?

Trials that measure seconds run one after the other, in this process. Others may be spread over several processes before
that (`jobs`); those that share R stay together, since what is learnt from R is learnt once. Each trial is written down
as soon as it ends; a trial that has a file is done. A run that is interrupted, by Ctrl-C or by anything else, loses at
most the trials it was in. A trial that fails is reported at the end, and the others go on.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
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


def run(todo: Sequence[Trial], scope: Scope, results: Results, console: Console, *, jobs: int = 1) -> list[Failure]:
    """Measure them all, in order, under a bar; returns those that failed. `jobs`: processes for what is not timed."""
    failures: list[Failure] = []
    if jobs > 1:
        failures += _spread([each for each in todo if not each.experiment.timed], scope, results, console, jobs)
        todo = [each for each in todo if each.experiment.timed]
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


def _spread(todo: Sequence[Trial], scope: Scope, results: Results, console: Console, jobs: int) -> list[Failure]:
    """Trials that measure no seconds, in several processes, the longest groups first as far as that is known."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for each in todo:
        knobs = each.knobs
        shared = (knobs.get("set"), knobs.get("protocol"), knobs.get("place"), knobs.get("window"))
        groups.setdefault((each.experiment.name, *shared), []).append(each)
    failures: list[Failure] = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        asked = {
            pool.submit(_apart, [(each.experiment.name, dict(each.knobs)) for each in group], scope, results): group
            for group in groups.values()
        }
        try:
            for done in as_completed(asked):
                for trial, error, seconds in zip(asked[done], *zip(*done.result(), strict=True), strict=True):
                    failures += [Failure(trial, error)] if error is not None else []
                    end = "failed after" if error is not None else "in"
                    console.print(f"{trial}: {end} {seconds:.1f} s", soft_wrap=True, markup=False)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return failures


def _apart(group: Sequence[tuple[str, Knobs]], scope: Scope, results: Results) -> list[tuple[Exception | None, float]]:
    """In another process: the error of each trial, if there was one, and its seconds."""
    from lab.experiments import EXPERIMENTS

    out: list[tuple[Exception | None, float]] = []
    for name, knobs in group:
        began, failed = perf_counter(), None
        try:
            measure(Trial(EXPERIMENTS[name], knobs), scope, results)
        except Exception as error:
            failed = LabError(f"{type(error).__name__}: {error}")
        out.append((failed, perf_counter() - began))
    return out


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


# ----------------------------------------------------------------------------------------------- how long it will take


@dataclass(frozen=True, slots=True)
class Expected:
    """What an experiment's trials will take, if they run one after the other."""

    name: str
    trials: int
    seconds: float | None
    """None: nothing of it has been measured, quick or in full."""
    by: str
    """From which trials that was worked out."""
    timed: bool


FACTOR = 8.0  # a full trial beside a quick one, where the experiment has no number of its own
FACTORS: Mapping[str, float] = {}


def expected(todo: Sequence[Trial], results: Results, quick: Results) -> list[Expected]:
    """By what trials of the same experiment took: those that are done, else quick ones times a factor."""
    found = []
    for each in dict.fromkeys(trial.experiment.name for trial in todo):
        here = [trial for trial in todo if trial.experiment.name == each]
        about = here[0].experiment
        done, small = (_mean_seconds(rows, each) for rows in (results, quick))
        one = done if done is not None else small and small * FACTORS.get(each, FACTOR)
        by = "trials that are done" if done is not None else "quick trials" if small is not None else "nothing"
        found.append(Expected(each, len(here), None if one is None else one * len(here), by, about.timed))
    return found


def _mean_seconds(results: Results, name: str) -> float | None:
    seconds = [origin.seconds for origin in results.origins(name)]
    return sum(seconds) / len(seconds) if seconds else None


def forecast(found: Sequence[Expected], jobs: int) -> list[str]:
    """For people: the whole, and the experiments, the longest first."""
    known = [(each, each.seconds) for each in found if each.seconds is not None]
    alone = sum(seconds for each, seconds in known if each.timed)
    beside = sum(seconds for each, seconds in known if not each.timed) / jobs
    lines = [
        f"about {length(alone + beside)} on a quiet machine with {jobs} cores: {length(alone)} for what is timed, one "
        f"trial after the other, and {length(beside)} for the rest, {jobs} at a time"
    ]
    for each, seconds in sorted(known, key=lambda pair: -pair[1]):
        lines.append(f"  {each.name}: {each.trials} trials, {length(seconds)} (by {each.by})")
    if unknown := [each.name for each in found if each.seconds is None]:
        lines.append(f"  not in this, since nothing of it was measured: {', '.join(unknown)}")
    return lines


def length(seconds: float) -> str:
    """
    >>> length(5400), length(90), length(2.5)
    ('1 h 30 min', '1.5 min', '2.5 s')
    """
    if seconds >= 3600:
        return f"{seconds // 3600:.0f} h {seconds % 3600 / 60:.0f} min"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.1f} s"
