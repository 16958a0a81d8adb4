"""Are the columns of a table in Spark as the table has them, whatever they are called?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fogline.spark.tables import answered


@pytest.mark.parametrize("name", ["a`b", "`", "a.b", "a b``"])
def test_a_column_of_a_database_may_have_any_name(spark: SparkSession, name: str, tmp_path: Path) -> None:
    jvm: Any = spark.sparkContext._jvm
    jvm.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))  # else it lies in this folder
    sql = f'select 7 as "{name}", cast(2.5 as decimal(5, 2)) as "{name}2" from sysibm.sysdummy1'
    rows = answered(spark, "jdbc:derby:memory:names;create=true", sql)  # the one database that comes with Spark
    assert rows.columns == [name, f"{name}2"]
    assert [tuple(row) for row in rows.collect()] == [(7, 2.5)]
