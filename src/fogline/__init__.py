"""Fogline: which objects of a stream are not beaten by any other, when some of their values are missing?"""

from fogline.errors import ClockError, FoglineError, QueryError, RowsError, SnapshotError
from fogline.model import Change, Cloud, Node, Query, Reject, Rule, changes_of
from fogline.monitor import Monitor

__version__ = "0.1.0"

__all__ = [
    "Change",
    "ClockError",
    "Cloud",
    "FoglineError",
    "Monitor",
    "Node",
    "Query",
    "QueryError",
    "Reject",
    "RowsError",
    "Rule",
    "SnapshotError",
    "changes_of",
]
