"""How do tables come to Spark: what a database answers through JDBC, a Delta table?"""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from fogline.errors import FoglineError
from fogline.files.reading import DELTA
from fogline.spark.errors import translated

FETCHED = 10_000  # rows at once
_PACKAGES = {"postgresql": "org.postgresql:postgresql:42.7.14", "mysql": "com.mysql:mysql-connector-j:9.1.0"}
_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
}  # Java finds no driver by itself that came to Spark by --jars or --packages


def answered(spark: SparkSession, url: str, sql: str) -> DataFrame:
    """What a database answers to a query, its decimals as numbers. The URL may hold a secret: it is not shown."""
    kind = url.split(":")[1]
    try:
        reader = spark.read.format("jdbc").option("url", url).option("query", sql.strip().rstrip(";"))
        reader = reader.option("driver", _DRIVERS[kind]) if kind in _DRIVERS else reader
        return _plain(reader.option("fetchsize", FETCHED).load())
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if "No suitable driver" in text or "ClassNotFoundException" in text:
            known = _PACKAGES.get(kind, "GROUP:ARTIFACT:VERSION of its driver")
            raise FoglineError(f"Spark has no driver for {kind}; give it one: --packages {known}, or --jars.") from None
        raise FoglineError(f"the database reports: {_reported(text)}") from None


def _reported(text: str) -> str:
    """What a database has to say of a query, on one line."""
    found = re.search(r"(?:PSQLException|SQLException|SQL\w*Exception): ([^\n]*(?:\n(?!\s*at )[^\n]*){0,2})", text)
    return " ".join((found[1] if found else str(translated(text))).split())


def delta(spark: SparkSession, path: str) -> DataFrame:
    """A Delta table, read by Spark."""
    try:
        return _plain(spark.read.format("delta").load(path.removeprefix(DELTA)))
    except PySparkException as error:
        if "find data source" not in str(error) and "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise translated(str(error)) from None
        raise FoglineError(
            "this Spark reads no Delta tables (delta-spark exists for some versions of Spark only). Leave "
            "--master and --memory out: then this process reads them itself."
        ) from None


def _plain(rows: DataFrame) -> DataFrame:
    kinds = {field.name: field.dataType for field in rows.schema}
    columns = {name: F.col(quoted(name)) for name in kinds}
    return rows.select(
        [
            columns[name].cast("double").alias(name) if isinstance(kind, DecimalType) else columns[name]
            for name, kind in kinds.items()
        ]
    )


def quoted(name: str) -> str:
    """The name of a column as Spark has it, whatever characters it has.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return f"`{name.replace('`', '``')}`"
