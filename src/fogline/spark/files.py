"""Which file is it, and how is it read and written?

By its suffix: parquet, csv, json lines. A folder is what the files in it are. Paths may be any that Spark knows;
local ones are looked at first, so that a typing error is answered with a guess and not with a Java stack.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from fogline.errors import FoglineError, did_you_mean
from fogline.flow.folder import absolute, is_local
from fogline.flow.piece import CORRUPT
from fogline.model import Query
from fogline.spark.errors import plainly
from fogline.spark.hadoop import HadoopFolder

SUFFIXES = {"parquet": "parquet", "csv": "csv", "tsv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
CORRUPT_OPTION = "columnNameOfCorruptRecord"
BATCH = 256 * 2**20  # bytes of files in one micro-batch, at most
PACKED = ("gz", "bz2", "zst", "snappy", "lz4")


def read(spark: SparkSession, path: str) -> DataFrame:
    """The rows of a file, of a folder of files, or of a pattern."""
    kind = kind_of(path, existing=True)
    with plainly():
        reader = spark.read.option("recursiveFileLookup", "false")
        if kind == "csv":
            reader = reader.option("header", True).option("inferSchema", True)
            reader = reader.option("sep", _separator(path))
        return reader.format(kind).load(absolute(path))


def shape_of(spark: SparkSession, path: str) -> dict[str, str]:
    """What `stream` needs to know about files, as they are now: their kind, and the names and types of their columns.

    In csv every column is text, and lines that do not fit are kept as they are: what cannot be read shall be refused
    with its reason, not silently become null.
    """
    kind = kind_of(path, existing=True)
    with plainly():
        reader = spark.read.option("header", True).option("sep", _separator(path)).option(CORRUPT_OPTION, CORRUPT)
        schema = reader.format(kind).load(absolute(path)).schema
    if kind != "parquet" and CORRUPT not in schema.names:
        schema = schema.add(CORRUPT, StringType())
    return {"kind": kind, "columns": schema.json()}


def table(spark: SparkSession, path: str, shape: Mapping[str, str]) -> DataFrame:
    """The rows of files as `stream` reads them, all at once."""
    return _opened(spark.read, path, shape)


def stream(
    spark: SparkSession,
    path: str,
    shape: Mapping[str, str],
    files_per_batch: int | None = None,
    *,
    by_name: bool = False,
) -> DataFrame:
    """The rows of files as they come. `by_name`: a file of a known name is known, wherever its folder was before."""
    limit = ("maxBytesPerTrigger", BATCH) if files_per_batch is None else ("maxFilesPerTrigger", files_per_batch)
    return _opened(spark.readStream.option(*limit).option("fileNameOnly", by_name), path, shape)


def _opened(reader: Any, path: str, shape: Mapping[str, str]) -> DataFrame:
    with plainly():
        reader = reader.format(shape["kind"]).schema(StructType.fromJson(json.loads(shape["columns"])))
        if shape["kind"] != "parquet":
            reader = reader.option(CORRUPT_OPTION, CORRUPT)
        if shape["kind"] == "csv":
            reader = reader.option("header", True).option("enforceSchema", False).option("sep", _separator(path))
        return reader.load(absolute(path))


def write(df: DataFrame, path: str, *, overwrite: bool = False) -> None:
    """The rows as a folder of files of the kind that its suffix names."""
    kind = check_output(path, overwrite=overwrite)
    with plainly():
        writer = df.write.mode("overwrite" if overwrite else "error")
        if kind == "csv":
            writer = writer.option("header", True).option("sep", _separator(path))
        writer.format(kind).save(absolute(path))


def check_output(path: str, *, overwrite: bool) -> str:
    """May this be written? Returns the kind of files it will hold."""
    kind = kind_of(path, existing=False)
    if not overwrite and is_local(path) and Path(path).exists():
        raise FoglineError(f"{path!r} is there already; choose another place, or overwrite it (--overwrite).")
    return kind


def with_numbers(df: DataFrame, query: Query) -> DataFrame:
    """The same with text in the query's attributes read as numbers, and as missing where it is none."""
    texts = [name for name in query.names if name in df.columns and df.schema[name].dataType == StringType()]
    return df.withColumns({name: F.expr(f"try_cast(`{name.replace('`', '``')}` AS DOUBLE)") for name in texts})


def kind_of(path: str, *, existing: bool) -> str:
    """What kind of files these are."""
    if existing and is_local(path):
        _must_exist(path)
    for name in (path, *(_inside(path) if existing else ())):
        parts = [part for part in Path(name.rstrip("/*")).name.lower().split(".")[1:] if part not in PACKED]
        if parts and parts[-1] in SUFFIXES:
            return SUFFIXES[parts[-1]]
    known = ", ".join(f".{suffix}" for suffix in SUFFIXES)
    raise FoglineError(f"{path!r} does not show what it holds: its name, or the files in it, should end in {known}.")


def _separator(path: str) -> str:
    return "\t" if ".tsv" in path else ","


def _must_exist(path: str) -> None:
    if Path(path).exists() or glob(path):
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FoglineError(f"there is no file {path!r}: not even the folder {str(folder)!r} is there.")
    near = did_you_mean(Path(path).name, [each.name for each in folder.iterdir()])
    raise FoglineError(f"there is no file {path!r}.{near}")


def _inside(path: str) -> Iterator[str]:
    """Some file of a folder, a few levels deep."""
    if not is_local(path):
        running = SparkSession.getActiveSession()
        yield from () if running is None else HadoopFolder(running, path).listing("")
        return
    root = Path(path)
    if root.is_dir():
        for pattern in ("*", "*/*", "*/*/*"):
            for each in sorted(root.glob(pattern)):
                if each.is_file() and not each.name.startswith((".", "_")):
                    yield each.name
                    return
