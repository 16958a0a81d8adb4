"""How are files read and written by Spark?

Which files, and of which kind, is `flow.listing`'s matter. Paths may be any that Spark knows; local ones are looked at
first, so that a typing error is answered with a guess and not with a Java stack.

A stream's columns are settled by the files that are there at its start, and must hold for all that come later. So what
the query compares is read as text wherever a file's kind leaves that open (csv, json), and decoded by `fogline.rows`,
which refuses a cell by its name: 2, then 2.5, then "n/a" is no line that cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, NullType, StringType, StructField, StructType

from fogline.errors import FoglineError, QueryError, did_you_mean
from fogline.files import listing
from fogline.files.listing import must_exist, pattern_of
from fogline.files.origin import CORRUPT
from fogline.files.paths import absolute, is_local
from fogline.model import Query
from fogline.rows.clock import CLOCKS, STAMP, meaning_of, meant_by
from fogline.rows.version import read_versions
from fogline.spark.errors import plainly
from fogline.spark.hadoop import HadoopFolder

Shape = Mapping[str, str]  # what must stay the same about the files of a stream: see `shape_of`
CORRUPT_OPTION = "columnNameOfCorruptRecord"
BATCH = 256 * 2**20  # bytes of files in one micro-batch, at most
NO_AGE = "36500d"  # by default Spark skips, without a word, files that are a week older than the newest
LOOKED = 1000  # rows whose times show what kind of clock it is

__all__ = ["check_output", "kind_of", "must_exist", "read", "shape_of", "stream", "table", "with_clock", "with_numbers"]


def read(spark: SparkSession, path: str, query: Query | None = None) -> DataFrame:
    """The rows of a file, a folder or a pattern; in csv, the query's names stay the texts they are: 007 is not 7."""
    kind = kind_of(path, existing=True)
    with plainly():
        reader = _format(spark.read.option("recursiveFileLookup", "false"), kind, pattern_of(path))
        if kind not in ("csv", "tsv"):
            return reader.load(absolute(path))
        found = reader.option("inferSchema", True).load(absolute(path))
        names = () if query is None else (query.id, *query.by)
        if not any(name in names and field.dataType != StringType() for name, field in _fields(found)):
            return found
        fields = [StructField(name, StringType()) if name in names else field for name, field in _fields(found)]
        return reader.schema(StructType(fields)).load(absolute(path))


def _fields(df: DataFrame) -> list[tuple[str, StructField]]:
    return [(field.name, field) for field in df.schema.fields]


def _format(reader: Any, kind: str, pattern: str) -> Any:
    reader = reader.format("csv" if kind == "tsv" else kind)
    if pattern:
        reader = reader.option("pathGlobFilter", pattern)
    if kind in ("csv", "tsv"):
        reader = reader.option("header", True).option("sep", "\t" if kind == "tsv" else ",")
    return reader


def shape_of(
    spark: SparkSession,
    path: str,
    query: Query,
    *,
    clock: str | None = None,
    lateness: Any = 0,
    remark: Callable[[str], None] = lambda text: None,
) -> dict[str, str]:
    """What `stream` needs to know about files, as they are now: their kind, and the names and types of their columns.

    In csv every column is text, in json what the query compares and its times; lines that do not fit are kept as they
    are: what cannot be read shall be refused with its reason, not silently become null. `clock`: what times that are
    texts mean, if the user states it; else it is looked for, and `remark` gets to know what was found.
    """
    kind = kind_of(path, existing=True)
    pattern = pattern_of(path)
    with plainly():
        found = _format(spark.read.option(CORRUPT_OPTION, CORRUPT), kind, pattern).load(absolute(path)).schema
    schema, casts = (found, {}) if kind != "json" else _json(found, query, remark)
    if kind != "parquet" and CORRUPT not in schema.names:
        schema = schema.add(CORRUPT, StringType())
    shape = {"kind": kind, "columns": schema.json(), "pattern": pattern, "casts": json.dumps(casts), "clock": ""}
    numeric = kind == "json" and query.time in found.names and found[query.time].dataType != StringType()
    meant = _clock(spark, path, shape, query, clock or ("number" if numeric else None), lateness, remark)
    return shape | {"clock": meant, "versions": _versions(spark, path, shape, query)}


def _json(found: StructType, query: Query, remark: Callable[[str], None]) -> tuple[StructType, dict[str, str]]:
    """Columns that later lines will fit as well, and into which types names are cast."""
    open_names = set(query.columns).difference((query.id, *query.by))
    fields, casts = [], {}
    for field in found.fields:
        single = not isinstance(field.dataType, ArrayType | MapType | StructType)
        if single and field.name in (query.id, *query.by) and field.dataType != StringType():
            casts[field.name] = field.dataType.simpleString()
        text = single and (field.name in open_names or field.name in casts or isinstance(field.dataType, NullType))
        fields.append(StructField(field.name, StringType()) if text else field)
    for name in query.names:
        if name not in found.names:
            near = did_you_mean(name, found.names).strip()
            remark(f"no line has {name!r} yet: it counts as missing until one does. {near}".rstrip())
            fields.append(StructField(name, StringType()))
    return StructType(fields), casts


def _clock(
    spark: SparkSession, path: str, shape: Shape, query: Query, given: str | None, lateness: Any, remark: Any
) -> str:
    """What times that are texts mean: as stated, as the query shows, or as the first rows do. Empty: no texts."""
    if given not in (None, *CLOCKS):
        raise QueryError(f"clock is {given!r}; it may be 'number' or 'timestamp'.")
    columns = StructType.fromJson(json.loads(shape["columns"]))
    if query.time not in columns.names or columns[query.time].dataType != StringType():
        return given or ""
    meant = given or meant_by(query, lateness)
    if meant is None:
        with plainly():
            meant = _meaning(table(spark, path, shape), query)
        if meant is None:
            raise QueryError(
                f"the times in {query.time!r} are texts, and the first rows do not show whether they mean numbers or "
                "timestamps; state it: --clock number, or --clock timestamp."
            )
        remark(f"the times in {query.time!r} are taken for {meant}s, as the first rows show; --clock states otherwise.")
    return meant


def _versions(spark: SparkSession, path: str, shape: Shape, query: Query) -> str:
    """What versions that are texts mean, as the first rows show: numbers or timestamps. Empty: no texts."""
    columns = StructType.fromJson(json.loads(shape["columns"]))
    if query.version is None or query.version not in columns.names or columns[query.version].dataType != StringType():
        return ""
    with plainly():
        kind = read_versions(_first(table(spark, path, shape), query.version), query.version, None, {}).kind
    return "timestamp" if kind == STAMP else "number"


def _meaning(df: DataFrame, query: Query) -> str | None:
    return meaning_of(_first(df, query.time))


def _first(df: DataFrame, name: str) -> list[Any]:
    """The first cells of a column."""
    return [row[0] for row in df.select(F.col(_quoted(name))).limit(LOOKED).collect()]


def table(spark: SparkSession, path: str, shape: Shape) -> DataFrame:
    """The rows of files as `stream` reads them, all at once."""
    return _opened(spark.read, path, shape)


def stream(
    spark: SparkSession,
    path: str,
    shape: Shape,
    files_per_batch: int | None = None,
    *,
    by_name: bool = False,
) -> DataFrame:
    """The rows of files as they come, however old. `by_name`: a known name is known, wherever its folder was before."""
    limit = ("maxBytesPerTrigger", BATCH) if files_per_batch is None else ("maxFilesPerTrigger", files_per_batch)
    reader = spark.readStream.option(*limit).option("maxFileAge", NO_AGE).option("fileNameOnly", by_name)
    if by_name and is_local(path) and Path(path).is_dir():
        path = f"{path}/*"  # of a pattern Spark does not ask that files taken up earlier lie there, too
    return _opened(reader, path, shape)


def _opened(reader: Any, path: str, shape: Shape) -> DataFrame:
    kind = shape["kind"]
    with plainly():
        reader = _format(reader, kind, shape.get("pattern", ""))
        reader = reader.schema(StructType.fromJson(json.loads(shape["columns"])))
        if kind != "parquet":
            reader = reader.option(CORRUPT_OPTION, CORRUPT)
        if kind in ("csv", "tsv"):
            reader = reader.option("enforceSchema", False)
        return _cast(reader.load(absolute(path)), json.loads(shape.get("casts", "{}")))


def _cast(df: DataFrame, casts: dict[str, str]) -> DataFrame:
    """Names in the types they had at first; a line with one that does not fit cannot be read, for that reason."""
    wrong: Column = F.col(CORRUPT) if casts else F.lit(None)
    for name, kind in casts.items():
        text, fits = F.col(_quoted(name)), F.expr(f"try_cast({_quoted(name)} AS {kind})")
        words = F.concat(F.lit(f"{name!r} is "), text, F.lit(f", which is no {kind}"))
        wrong = F.coalesce(wrong, F.when(text.isNotNull() & fits.isNull(), words))
    changed = {name: F.expr(f"try_cast({_quoted(name)} AS {kind})") for name, kind in casts.items()}
    return df.withColumns({**changed, CORRUPT: wrong}) if casts else df


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def write(df: DataFrame, path: str, *, overwrite: bool = False) -> None:
    """The rows as a folder of files of the kind that its suffix names."""
    kind = check_output(path, overwrite=overwrite)
    with plainly():
        writer = df.write.mode("overwrite" if overwrite else "error")
        if kind in ("csv", "tsv"):
            writer = writer.option("header", True).option("sep", "\t" if kind == "tsv" else ",")
        writer.format("csv" if kind == "tsv" else kind).save(absolute(path))


def check_output(path: str, *, overwrite: bool) -> str:
    """May this be written? Returns the kind of files it will hold."""
    kind = kind_of(path, existing=False)
    if not overwrite and is_local(path) and Path(path).exists():
        raise FoglineError(f"{path!r} is there already; choose another place, or overwrite it (--overwrite).")
    return kind


def with_numbers(df: DataFrame, query: Query) -> DataFrame:
    """The same with text in the query's attributes read as numbers, and as missing where it is none."""
    texts = [name for name in query.names if name in df.columns and df.schema[name].dataType == StringType()]
    return df.withColumns({name: F.expr(f"try_cast({_quoted(name)} AS DOUBLE)") for name in texts})


def kind_of(path: str, *, existing: bool) -> str:
    """What kind of files these are, wherever they lie; in another file system only once Spark is there."""
    shown = is_local(path) or not existing or listing.kind_of_name(path) is not None
    running = None if shown else SparkSession.getActiveSession()
    there = () if running is None else HadoopFolder(running, path).listing("")
    return listing.kind_of(path, existing=existing, others=there)


def with_clock(df: DataFrame, query: Query) -> DataFrame:
    """The same with times that are texts read as in a stream: as numbers, or as timestamps (without a zone: UTC)."""
    clocks = {query.time, query.expires}
    texts = [name for name, field in _fields(df) if name in clocks and field.dataType == StringType()]
    meant = meant_by(query, 0) or (_meaning(df, query) if query.time in texts else None)
    if meant is None:
        return df
    kind = "DOUBLE" if meant == "number" else "TIMESTAMP"
    return df.withColumns({name: F.expr(f"try_cast(trim({_quoted(name)}) AS {kind})") for name in texts})
