"""Fogline: which objects of a stream are not beaten by any other, when some of their values are missing?"""

from fogline.errors import ClockError, FoglineError, HistoryError, QueryError, RowsError, RuleError, SnapshotError
from fogline.model import Change, Cloud, Node, Query, Reject, Rule, changes_of
from fogline.monitor import Monitor
from fogline.repository.repository import Repository
from fogline.repository.verify import Violation, verify
from fogline.static import skyline

__version__ = "0.1.0"

__all__ = [
    "Change",
    "ClockError",
    "Cloud",
    "FoglineError",
    "HistoryError",
    "Monitor",
    "Node",
    "Query",
    "QueryError",
    "Reject",
    "Repository",
    "RowsError",
    "Rule",
    "RuleError",
    "SnapshotError",
    "Violation",
    "changes_of",
    "skyline",
    "verify",
]
