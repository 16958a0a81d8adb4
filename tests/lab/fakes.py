"""Experiments that measure nothing: they count how often they are asked, and fail or are interrupted on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from lab.experiment import Experiment, Finding, Knobs, Plot, Reading, Scalar, Scope, Verdict

PLOTS = (
    Plot("Time over size", "size", "seconds", "system", "protocol", log_x=True, log_y=True),
    Plot("Time, once more", "system", "seconds", "size", kind="table"),
)


@dataclass
class Fake:
    """Three sizes (two when quick) and two protocols; `trouble` is raised at the trial of size `at`."""

    name: str = "sizes"
    trouble: BaseException | None = None
    at: int = 20
    verdict: Verdict = "holds"
    title: str = "Time & size"
    measured: list[Knobs] = field(default_factory=list)

    def trials(self, scope: Scope) -> Sequence[Knobs]:
        sizes = (10, 20) if scope.quick else (10, 20, 40)
        return [{"size": size, "protocol": one, "seed": 7} for size in sizes for one in ("honest", "paper")]

    def measure(self, knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
        if self.trouble is not None and knobs["size"] == self.at:
            raise self.trouble
        self.measured.append(knobs)
        size = knobs["size"]
        assert isinstance(size, int)
        return [{"system": "fogline", "seconds": size / 1e4}, {"system": "DD+skyline", "seconds": size / 1e2}]

    def read(self, rows: pd.DataFrame) -> Reading:
        claims = [] if self.verdict == "beyond the paper" else [Finding("It is fast", self.verdict, "for a reason")]
        return Reading(self.verdict, f"Over {rows['size'].nunique()} sizes. The rest is silence.", claims)

    def experiment(self, plots: Sequence[Plot] = PLOTS) -> Experiment:
        return Experiment(
            self.name, self.title, "Figure 0", "How long?", "Not long.", self.trials, self.measure, plots, self.read
        )
