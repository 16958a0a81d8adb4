"""Which imputers are raced against each other?

Every one learns from R once and then gives, tick by tick, a distribution for each gap.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from fogline.errors import did_you_mean
from lab.case import Case, LabError
from lab.imputers.fittable import FittableImputer
from lab.imputers.rivals import Con, Iterative, Knn, LastOfSensor, MeanOfHistory, Mul
from lab.imputers.rules import DD, ScannedDD
from lab.imputers.sensors import FoglineDefault

IMPUTERS: dict[str, Callable[[Case], FittableImputer]] = {
    "Fogline-past": lambda case: FoglineDefault(),
    "DD": lambda case: DD(case.rules),
    "DD-scan": lambda case: ScannedDD(case.rules),
    "DD-literal": lambda case: DD(case.rules, values=None),
    "DD-held-out": lambda case: DD(case.rules, method="held-out"),
    "DD-context": lambda case: DD(case.rules, method="held-out", context=True),
    "mul": lambda case: Mul(seed=case.settings.seed),
    "con": lambda case: Con(),
    "mean": lambda case: MeanOfHistory(),
    "last": lambda case: LastOfSensor(),
    "knn": lambda case: Knn(),
    "iterative": lambda case: Iterative(seed=case.settings.seed),
}


def imputer(name: str, case: Case) -> FittableImputer:
    """An imputer by its name, fitted to the case's history."""
    return fitted(name, case)[0]


def fitted(name: str, case: Case) -> tuple[FittableImputer, float]:
    """The same, and how many seconds fitting took."""
    if name not in IMPUTERS:
        raise LabError(f"there is no imputer {name!r}; there are {', '.join(IMPUTERS)}.{did_you_mean(name, IMPUTERS)}")
    made = IMPUTERS[name](case)
    began = perf_counter()
    made.fit(case.history, case.query)
    return made, perf_counter() - began
