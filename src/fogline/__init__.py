"""Fogline: which objects of a stream are not beaten by any other, when some of their values are missing?"""

from typing import TYPE_CHECKING, Any

from fogline.arrays import Distributions
from fogline.errors import (
    ClockError,
    FoglineError,
    HistoryError,
    HistoryWarning,
    QueryError,
    RowsError,
    RuleError,
    SnapshotError,
)
from fogline.impute.function import ImputeFunction
from fogline.impute.imputer import Evidence, Imputer
from fogline.impute.scores import Score
from fogline.impute.table import distributions
from fogline.model import Change, Cloud, ImputedCell, Node, Query, Reject, Rule, changes_of
from fogline.monitor import Monitor
from fogline.repository.held_out import Quality
from fogline.repository.imputed import Imputation
from fogline.repository.repository import Repository, Step
from fogline.repository.verify import Violation, verify
from fogline.rows.source import RowSource
from fogline.skyline.explain import Explanation
from fogline.static import skyline

if TYPE_CHECKING:
    from fogline import spark as spark

__version__ = "0.1.0"

__all__ = [
    "Change",
    "ClockError",
    "Cloud",
    "Distributions",
    "Evidence",
    "Explanation",
    "FoglineError",
    "HistoryError",
    "HistoryWarning",
    "Imputation",
    "ImputeFunction",
    "ImputedCell",
    "Imputer",
    "Monitor",
    "Node",
    "Quality",
    "Query",
    "QueryError",
    "Reject",
    "Repository",
    "RowSource",
    "RowsError",
    "Rule",
    "RuleError",
    "Score",
    "SnapshotError",
    "Step",
    "Violation",
    "changes_of",
    "distributions",
    "skyline",
    "verify",
]


def __getattr__(name: str) -> Any:
    """`fogline.spark` is imported when it is first used: without it, pyspark need not be installed."""
    if name == "spark":
        from importlib import import_module

        return import_module("fogline.spark")
    raise AttributeError(f"module 'fogline' has no attribute {name!r}")
