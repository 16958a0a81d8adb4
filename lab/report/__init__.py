"""What came out? One page and one summary, each worked out from the rows alone.

`chapter` gathers what is reported of an experiment, `plot` draws and writes tables, `page` sets the chapters in HTML
and Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.case import LabError
from lab.experiment import Experiment, Scope
from lab.report.chapter import Report, gather
from lab.report.page import html, markdown
from lab.report.plot import standalone
from lab.results import Results

__all__ = ["Report", "write"]


def write(experiments: Sequence[Experiment], results: Results, folder: Path) -> Report:
    """Write report.html, summary.md and plots/*.svg; experiments of which there is nothing are named, and left out."""
    there = results.names()
    if not there.intersection(each.name for each in experiments):
        raise LabError(f"there is nothing in {results.folder} to report; measure first: python -m lab run --quick")
    chapters = [gather(each, results) for each in experiments if each.name in there]
    absent = [each for each in experiments if each.name not in there]
    hungry = [each.name for each in absent if not each.trials(Scope(quick=results.quick))]
    missing = [each.name for each in absent if each.name not in hungry]
    report = Report(folder, results.quick, chapters, missing, hungry)
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    for each in chapters:
        for name, figure in each.pictures():
            (plots / name).write_text(standalone(figure.svg), encoding="utf-8")
    (folder / "report.html").write_text(html(report), encoding="utf-8")
    (folder / "summary.md").write_text(markdown(report), encoding="utf-8")
    return report
