"""Readings with gaps become the changes of a skyline, and what is in it now."""

from pathlib import Path

import pyarrow.csv as csv
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import fogline as fl

HERE = Path(__file__).resolve().parents[1]
COLUMNS = "sensor string, site string, t long, heat double, damp double"

query = fl.Query(attributes={"heat": "max", "damp": "max"}, id="sensor", time="t", lifetime=12, by=["site"], alpha=0.2)
repository = fl.Repository.fit(
    csv.read_csv(HERE / "history.csv"), query, rules=["heat(2) -> damp(4)", "damp(2) -> heat(4)"]
)

# Fogline looks at the columns of a DataFrame, which Spark does not allow inside a flow: so it is called out here.
spark = SparkSession.active()
readings = (
    spark.readStream.schema(COLUMNS).option("header", True).option("maxFilesPerTrigger", 1).csv(f"{HERE}/readings")
)
changes_of_readings = fl.spark.watch(readings, query, repository)
rejects_of_readings = fl.spark.rejects(readings, query, repository)

dp.create_streaming_table("changes")


@dp.append_flow(target="changes")
def watched() -> DataFrame:
    """How the skyline of each site changes."""
    return changes_of_readings


@dp.table
def rejects() -> DataFrame:
    """Rows that could not be taken, each with its reason."""
    return rejects_of_readings


@dp.materialized_view
def answer() -> DataFrame:
    """The rows that are in now: those that entered once more often than they left."""
    step = F.when(F.col("change") == "enter", 1).when(F.col("change") == "leave", -1).otherwise(0)
    rows = spark.read.table("changes").groupBy("site", "sensor", "t").agg(F.sum(step).alias("inside"))
    return rows.where("inside > 0").select("site", "sensor", "t")
