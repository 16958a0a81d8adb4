"""Fogline on Spark: the only room that imports pyspark. Spark carries; it decides nothing."""

from typing import TYPE_CHECKING

from fogline.face import offer

WORKS_WITH = ("4.2", "4.3")  # versions of PySpark; tools/versions.py tests both

try:
    import pyspark
except ModuleNotFoundError as error:
    if error.name != "pyspark":
        raise
    raise ImportError("Fogline on Spark needs pyspark: pip install 'fogline[spark]'") from error

if ".".join(pyspark.__version__.split(".")[:2]) not in WORKS_WITH:
    raise ImportError(
        f"Fogline works with PySpark {' and '.join(WORKS_WITH)}, not with {pyspark.__version__}, which is installed "
        "here: pip install --upgrade 'fogline[spark]'"
    )

if TYPE_CHECKING:
    from fogline.spark.fitting import fit
    from fogline.spark.frames import run
    from fogline.spark.pipeline import impute, rejects, watch
    from fogline.spark.session import SparkAdvice, session
    from fogline.spark.share import repository
    from fogline.spark.sql import register

__all__ = ["SparkAdvice", "fit", "impute", "register", "rejects", "repository", "run", "session", "watch"]

offer(
    __name__,
    {
        "fitting": ("fit",),
        "frames": ("run",),
        "pipeline": ("impute", "rejects", "watch"),
        "share": ("repository",),
        "session": ("SparkAdvice", "session"),
        "sql": ("register",),
    },
)
