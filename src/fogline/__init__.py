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
    from fogline import types as types
    from fogline.errors import FoglineError, HistoryWarning, RowsRejectedWarning
    from fogline.impute.protocol import Imputer
    from fogline.monitor import Monitor
    from fogline.notebook import load_ipython_extension as load_ipython_extension
    from fogline.notebook import show
    from fogline.notebook import unload_ipython_extension as unload_ipython_extension
    from fogline.output.sink import Sink
    from fogline.queries import Queries
    from fogline.query import Query, Rule
    from fogline.repository.quality import verify
    from fogline.repository.repository import Repository
    from fogline.run import run
    from fogline.tables import skyline

__version__ = "0.2.0"

__all__ = [
    "FoglineError",
    "HistoryWarning",
    "Imputer",
    "Monitor",
    "Queries",
    "Query",
    "Repository",
    "RowsRejectedWarning",
    "Rule",
    "Sink",
    "errors",
    "impute",
    "plot",
    "run",
    "show",
    "sinks",
    "skyline",
    "spark",
    "types",
    "verify",
]

offer(
    __name__,
    {
        "errors": ("errors", "FoglineError", "HistoryWarning", "RowsRejectedWarning"),
        "impute": ("impute",),
        "impute.protocol": ("Imputer",),
        "monitor": ("Monitor",),
        "notebook": ("load_ipython_extension", "show", "unload_ipython_extension"),
        "output.sink": ("Sink",),
        "plot": ("plot",),
        "queries": ("Queries",),
        "query": ("Query", "Rule"),
        "repository.quality": ("verify",),
        "repository.repository": ("Repository",),
        "run": ("run",),
        "sinks": ("sinks",),
        "spark": ("spark",),
        "tables": ("skyline",),
        "types": ("types",),
    },
)
