"""Fogline: which objects of a stream are not beaten by any other, when some of their values are missing?

Names are imported when they are first used (`fogline.face`): without `fogline.spark`, pyspark need not be installed.
"""

from typing import TYPE_CHECKING

from fogline.face import offer

if TYPE_CHECKING:
    from fogline import errors as errors
    from fogline import impute as impute
    from fogline import plot as plot
    from fogline import sinks as sinks
    from fogline import spark as spark
    from fogline.arrays import Distributions
    from fogline.errors import (
        ClockError,
        FoglineError,
        HistoryError,
        HistoryWarning,
        LimitError,
        QueryError,
        RowsError,
        RowsWarning,
        RuleError,
        SinkError,
        SnapshotError,
    )
    from fogline.flow.sink import RunInfo, Sink
    from fogline.impute.function import ImputeFunction
    from fogline.impute.imputer import Evidence, Imputer
    from fogline.impute.scores import Score
    from fogline.impute.table import distributions
    from fogline.model import Change, Cloud, ImputedCell, Node, Query, Reject, Rule, changes_of
    from fogline.monitor import Monitor
    from fogline.notebook import Rendering, show
    from fogline.notebook import load_ipython_extension as load_ipython_extension
    from fogline.notebook import unload_ipython_extension as unload_ipython_extension
    from fogline.one_line import skyline
    from fogline.repository.held_out import Quality
    from fogline.repository.imputed import Imputation
    from fogline.repository.repository import Repository, Step
    from fogline.repository.verify import Violation, verify
    from fogline.rows.queries import Queries
    from fogline.rows.source import RowSource
    from fogline.skyline.explanation import Decisive, Explanation, Flip, Outside, Rival

__version__ = "0.2.0"

__all__ = [
    "Change",
    "ClockError",
    "Cloud",
    "Decisive",
    "Distributions",
    "Evidence",
    "Explanation",
    "Flip",
    "FoglineError",
    "HistoryError",
    "HistoryWarning",
    "Imputation",
    "ImputeFunction",
    "ImputedCell",
    "Imputer",
    "LimitError",
    "Monitor",
    "Node",
    "Outside",
    "Quality",
    "Queries",
    "Query",
    "QueryError",
    "Reject",
    "Rendering",
    "Repository",
    "Rival",
    "RowSource",
    "RowsError",
    "RowsWarning",
    "Rule",
    "RuleError",
    "RunInfo",
    "Score",
    "Sink",
    "SinkError",
    "SnapshotError",
    "Step",
    "Violation",
    "changes_of",
    "distributions",
    "show",
    "skyline",
    "verify",
]

offer(
    __name__,
    {
        "arrays": ("Distributions",),
        "errors": (
            "errors",
            "ClockError",
            "FoglineError",
            "HistoryError",
            "HistoryWarning",
            "LimitError",
            "QueryError",
            "RowsError",
            "RowsWarning",
            "RuleError",
            "SinkError",
            "SnapshotError",
        ),
        "flow.sink": ("RunInfo", "Sink"),
        "impute": ("impute",),
        "impute.function": ("ImputeFunction",),
        "impute.imputer": ("Evidence", "Imputer"),
        "impute.scores": ("Score",),
        "impute.table": ("distributions",),
        "model": ("Change", "Cloud", "ImputedCell", "Node", "Query", "Reject", "Rule", "changes_of"),
        "monitor": ("Monitor",),
        "notebook": ("Rendering", "load_ipython_extension", "show", "unload_ipython_extension"),
        "one_line": ("skyline",),
        "plot": ("plot",),
        "repository.held_out": ("Quality",),
        "repository.imputed": ("Imputation",),
        "repository.repository": ("Repository", "Step"),
        "repository.verify": ("Violation", "verify"),
        "rows.queries": ("Queries",),
        "rows.source": ("RowSource",),
        "skyline.explanation": ("Decisive", "Explanation", "Flip", "Outside", "Rival"),
        "sinks": ("sinks",),
        "spark": ("spark",),
    },
)
