"""Fogline on Spark: the only room that imports pyspark. Spark carries; it decides nothing."""

from typing import TYPE_CHECKING

from fogline.face import offer

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "pyspark":
        raise
    raise ImportError("Fogline on Spark needs pyspark: pip install 'fogline[spark]'") from error

if TYPE_CHECKING:
    from fogline.spark.fetching import repository
    from fogline.spark.fitting import fit
    from fogline.spark.frames import run
    from fogline.spark.imputing import impute
    from fogline.spark.pipeline import rejects, watch
    from fogline.spark.session import SparkAdvice, session
    from fogline.spark.sql import register

__all__ = ["SparkAdvice", "fit", "impute", "register", "rejects", "repository", "run", "session", "watch"]

offer(
    __name__,
    {
        "fetching": ("repository",),
        "fitting": ("fit",),
        "frames": ("run",),
        "imputing": ("impute",),
        "pipeline": ("rejects", "watch"),
        "session": ("SparkAdvice", "session"),
        "sql": ("register",),
    },
)
