"""What Fogline gives back, and what it takes from others: `fl.types.Change`, `fl.types.Explanation`, …

Most users only read their fields; they are here for signatures, and for `isinstance`.
"""

from typing import TYPE_CHECKING

from fogline.face import offer

if TYPE_CHECKING:
    from fogline.arrays import Distributions
    from fogline.impute.own import ImputeFunction
    from fogline.impute.protocol import Evidence
    from fogline.impute.scores import Score
    from fogline.notebook import Rendering
    from fogline.output.sink import RunInfo
    from fogline.repository.held_out import Quality
    from fogline.repository.quality import Imputation, Violation
    from fogline.repository.repository import Step
    from fogline.results import (
        Change,
        Decisive,
        Dominator,
        Explanation,
        Flip,
        ImputedCell,
        Node,
        Outside,
        Reject,
        UncertainRow,
        changes_of,
    )
    from fogline.rows.table import RowSource
    from fogline.run import RunSummary

__all__ = [
    "Change",
    "Decisive",
    "Distributions",
    "Dominator",
    "Evidence",
    "Explanation",
    "Flip",
    "Imputation",
    "ImputeFunction",
    "ImputedCell",
    "Node",
    "Outside",
    "Quality",
    "Reject",
    "Rendering",
    "RowSource",
    "RunInfo",
    "RunSummary",
    "Score",
    "Step",
    "UncertainRow",
    "Violation",
    "changes_of",
]

offer(
    __name__,
    {
        "arrays": ("Distributions",),
        "impute.own": ("ImputeFunction",),
        "impute.protocol": ("Evidence",),
        "impute.scores": ("Score",),
        "notebook": ("Rendering",),
        "output.sink": ("RunInfo",),
        "repository.held_out": ("Quality",),
        "repository.quality": ("Imputation", "Violation"),
        "repository.repository": ("Step",),
        "results": (
            "Change",
            "Decisive",
            "Dominator",
            "Explanation",
            "Flip",
            "ImputedCell",
            "Node",
            "Outside",
            "Reject",
            "UncertainRow",
            "changes_of",
        ),
        "rows.table": ("RowSource",),
        "run": ("RunSummary",),
    },
    root="fogline",
)
