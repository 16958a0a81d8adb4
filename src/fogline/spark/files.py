"""Which file is it, and how is it read and written?

The suffix says: parquet, csv, json lines. A folder is what the files in it are. Paths may be any that Spark knows;
local ones are looked at first, so that a typing error is answered with a guess and not with a Java stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from fogline.errors import FoglineError, did_you_mean
from fogline.model import Query
from fogline.spark.errors import plainly

SUFFIXES = {"parquet": "parquet", "csv": "csv", "tsv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
PACKED = ("gz", "bz2", "zst", "snappy", "lz4")


def read(spark: SparkSession, path: str) -> DataFrame:
    """The rows of a file, of a folder of files, or of a pattern."""
    kind = kind_of(path, existing=True)
    with plainly():
        reader = spark.read.option("recursiveFileLookup", "false")
        if kind == "csv":
            reader = reader.option("header", True).option("inferSchema", True)
            reader = reader.option("sep", "\t" if ".tsv" in path else ",")
        return reader.format(kind).load(absolute(path))


def write(df: DataFrame, path: str, *, overwrite: bool = False) -> None:
    """The rows as a folder of files of the kind its suffix says."""
    kind = check_output(path, overwrite=overwrite)
    with plainly():
        writer = df.write.mode("overwrite" if overwrite else "error")
        if kind == "csv":
            writer = writer.option("header", True).option("sep", "\t" if ".tsv" in path else ",")
        writer.format(kind).save(absolute(path))


def check_output(path: str, *, overwrite: bool) -> str:
    """May this be written? Returns the kind of files it will hold."""
    kind = kind_of(path, existing=False)
    if not overwrite and _is_local(path) and Path(path).exists():
        raise FoglineError(f"{path!r} is there already; choose another place, or overwrite it (--overwrite).")
    return kind


def with_numbers(df: DataFrame, query: Query) -> DataFrame:
    """The same with text in the query's attributes read as numbers, and as missing where it is none."""
    texts = [name for name in query.names if name in df.columns and df.schema[name].dataType == StringType()]
    return df.withColumns({name: F.expr(f"try_cast(`{name.replace('`', '``')}` AS DOUBLE)") for name in texts})


def kind_of(path: str, *, existing: bool) -> str:
    """What kind of files these are."""
    if existing and _is_local(path):
        _must_exist(path)
    for name in (path, *(_inside(path) if existing and _is_local(path) else ())):
        parts = [part for part in Path(name.rstrip("/*")).name.lower().split(".")[1:] if part not in PACKED]
        if parts and parts[-1] in SUFFIXES:
            return SUFFIXES[parts[-1]]
    known = ", ".join(f".{suffix}" for suffix in SUFFIXES)
    raise FoglineError(f"{path!r} does not say what it holds: its name, or the files in it, should end in {known}.")


def absolute(path: str) -> str:
    """The same path wherever the JVM thinks it is."""
    return str(Path(path).absolute()) if _is_local(path) else path


def _is_local(path: str) -> bool:
    return re.match(r"[a-zA-Z][\w+.-]*:/", path) is None


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
    root = Path(path)
    if root.is_dir():
        for pattern in ("*", "*/*", "*/*/*"):
            for each in sorted(root.glob(pattern)):
                if each.is_file() and not each.name.startswith((".", "_")):
                    yield each.name
                    return
