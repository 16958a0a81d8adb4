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
    from fogline.impute.own import ImputeFunction
    from fogline.impute.protocol import Evidence, Imputer
    from fogline.impute.scores import Score
    from fogline.impute.written import distributions
    from fogline.monitor import Monitor
    from fogline.notebook import Rendering, show
    from fogline.notebook import load_ipython_extension as load_ipython_extension
    from fogline.notebook import unload_ipython_extension as unload_ipython_extension
    from fogline.output.sink import RunInfo, Sink
    from fogline.queries import Queries
    from fogline.query import Query, Rule
    from fogline.repository.held_out import Quality
    from fogline.repository.quality import Imputation, Violation, verify
    from fogline.repository.repository import Repository, Step
    from fogline.results import (
        Change,
        Decisive,
        Explanation,
        Flip,
        ImputedCell,
        Node,
        Outside,
        Reject,
        Rival,
        UncertainRow,
        changes_of,
    )
    from fogline.rows.table import RowSource
    from fogline.run import RunSummary, run
    from fogline.tables import skyline

__version__ = "0.2.0"

__all__ = [
    "Change",
    "ClockError",
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
    "RunSummary",
    "Score",
    "Sink",
    "SinkError",
    "SnapshotError",
    "Step",
    "UncertainRow",
    "Violation",
    "changes_of",
    "distributions",
    "run",
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
        "output.sink": ("RunInfo", "Sink"),
        "impute": ("impute",),
        "impute.own": ("ImputeFunction",),
        "impute.protocol": ("Evidence", "Imputer"),
        "impute.scores": ("Score",),
        "impute.written": ("distributions",),
        "monitor": ("Monitor",),
        "plot": ("plot",),
        "queries": ("Queries",),
        "query": ("Query", "Rule"),
        "repository.held_out": ("Quality",),
        "repository.quality": ("Imputation", "Violation", "verify"),
        "repository.repository": ("Repository", "Step"),
        "results": (
            "Change",
            "Decisive",
            "Explanation",
            "Flip",
            "ImputedCell",
            "Node",
            "Outside",
            "Reject",
            "Rival",
            "UncertainRow",
            "changes_of",
        ),
        "rows.table": ("RowSource",),
        "run": ("RunSummary", "run"),
        "notebook": ("Rendering", "load_ipython_extension", "show", "unload_ipython_extension"),
        "sinks": ("sinks",),
        "spark": ("spark",),
        "tables": ("skyline",),
    },
)
