"""How do files come to Spark's tasks, and how are they written?

Only their paths go through Spark; the task that gets a path reads the file with `fogline.files`, as one process would,
so both give the same rows, and no row passes through the JVM on its way to the first stage. Of files that only Spark
reaches, such as in HDFS, the content comes beside the path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from fogline.files import listing
from fogline.files.layout import FILES, Layout, layout_of
from fogline.files.listing import absolute, files_of, is_local, pattern_of
from fogline.files.one_file import bytes_per_row
from fogline.files.options import Options
from fogline.files.reading import batches, history_schema, joined_kinds, kinds_of, left_out, typed, unreadable
from fogline.files.unread import STRAYS, names_of
from fogline.files.writing import check_output
from fogline.pipeline.decode import NOW
from fogline.queries import Asked
from fogline.query import Query
from fogline.runs.taken import BATCH, ROWS
from fogline.spark.errors import plainly
from fogline.spark.hadoop import HadoopFolder
from fogline.spark.partitions import AT_LEAST, running

Read = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Limit = tuple[str, int]  # an option of Spark's source
ROUGH = 100  # bytes of a row, where nothing shows it
NO_AGE = "36500d"  # by default Spark skips, without a word, files that are a week older than the newest
_BINARY = "path string, modificationTime timestamp, length long, content binary"
_EXAMPLES = 3  # unreadable lines that a task reports


def settle(spark: SparkSession, path: str, query: Asked | None, options: Options, **how: Any) -> Layout:
    """`files.layout.layout_of`, wherever the files lie."""
    if is_local(path):
        return layout_of(path, query, options, **how)
    HadoopFolder(spark, path).files()  # is it there?
    with plainly():
        first = listed(spark, path).limit(FILES).toArrow()
    contents = dict(zip(first["path"].to_pylist(), first["content"].to_pylist(), strict=True))
    if not contents:
        kind_of(path, existing=True)
    return layout_of(path, query, options, contents=contents, **how)


def listed(spark: SparkSession, path: str) -> DataFrame:
    """The files that are there: their paths and, if they are not on this machine, what is in them."""
    if not is_local(path):
        return _source(spark.read, path).load(path).select("path", "content")
    paths = [(str(each),) for each in files_of(path)]
    tasks = max(1, min(len(paths), 4 * (running(spark) or AT_LEAST)))
    return spark.createDataFrame(paths, "path string").repartition(tasks)


def limit_of(path: str, files: int | None, rows: int | None, remark: Callable[[str], None]) -> Limit:
    """How much a micro-batch takes: so many files, or about so many rows, by their bytes; at least one file."""
    if files is not None:
        return "maxFilesPerTrigger", files
    each = bytes_per_row(path)
    if each is None:
        return "maxBytesPerTrigger", BATCH if rows is None else min(BATCH, rows * ROUGH)
    size = max(1, min(BATCH, int((rows or ROWS) * each)))
    large = [] if rows is None else [str(file) for file in files_of(path) if listing.size_of(file) > rows * each]
    if large:
        remark(
            f"{names_of(large)}: more than about {rows:,} rows. Spark reads whole files, so such a file is a "
            "batch of its own. Write smaller files, or use --engine embedded, which splits them."
        )
    return "maxBytesPerTrigger", size


def stream(
    spark: SparkSession, path: str, limit: Limit = ("maxBytesPerTrigger", BATCH), *, by_name: bool = False
) -> DataFrame:
    """The files as they come, however old. `by_name`: a known name is known, wherever its folder was before."""
    reader = spark.readStream.option(*limit).option("maxFileAge", NO_AGE).option("fileNameOnly", by_name)
    columns = ["path"] if is_local(path) else ["path", "content"]
    reader, where = _source(reader, path), for_hadoop(path)
    if by_name and is_local(path) and Path(path).is_dir():
        where += "/*"  # of a pattern Spark does not ask that files taken up earlier lie there, too
    with plainly():
        return reader.schema(_BINARY).load(where).select(*columns)


_LETTERS = re.compile(r"[*?\[\]{}\\]")  # that mean something in a pattern of Hadoop
_PATTERN = re.compile(r"\[([^!])\]|([{}\\])")  # of a pattern of Python: a letter that stands for itself


def for_hadoop(path: str) -> str:
    """A path as Hadoop reads it, whose patterns have more letters: what is there on this machine is no pattern.

    >>> for_hadoop("/in/{a}-[0-9].csv"), for_hadoop("/in/[[]a]*"), for_hadoop("hdfs://host/{a,b}")
    ('/in/\\\\{a\\\\}-[0-9].csv', '/in/\\\\[a]*', 'hdfs://host/{a,b}')
    """
    if not is_local(path):
        return path
    whole = absolute(path)
    if Path(whole).exists():
        return _LETTERS.sub(r"\\\g<0>", whole)
    return _PATTERN.sub(lambda found: "\\" + (found[1] or found[2]), whole)


def _source(reader: Any, path: str) -> Any:
    reader = reader.format("binaryFile").option("recursiveFileLookup", True)
    pattern = pattern_of(path)
    return reader.option("pathGlobFilter", pattern) if pattern else reader


class StraysThere:
    """What lies beside the files of a stream in another file system and is not read: `look` reports each thing once."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.folder, self.root = HadoopFolder(spark, path), listing.root_of(path)
        self.named: set[str] = set()

    def look(self) -> list[str]:
        """Sentences about what is new."""
        others = [each for each in self.folder.files() if listing.is_stray(each, self.root)]
        new = [each for each in others if each not in self.named]
        self.named.update(new)
        return [STRAYS.format(names_of(new))] if new else []


def reader(layout: Layout) -> Read:
    """What a task does with paths: the rows of their files, in `layout.schema`."""

    def read(paths: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in paths:
            for i in range(batch.num_rows):
                path = batch.column("path")[i].as_py()
                content = batch.column("content")[i].as_py() if "content" in batch.schema.names else None
                for rows in batches(local(path), layout, content=content):
                    yield _with_now(rows, batch, i)

    return read


def _with_now(rows: pa.RecordBatch, paths: pa.RecordBatch, i: int) -> pa.RecordBatch:
    """The rows with the machine's clock, if it stands beside the path."""
    at = paths.schema.get_field_index(NOW)
    if at < 0:
        return rows
    return rows.append_column(paths.schema.field(at), pa.repeat(paths.column(at)[i], rows.num_rows))


def local(path: str) -> str:
    """A path as Spark gives it, as this machine writes it.

    >>> local("file:/tmp/a b.csv"), local("hdfs://host/a.csv")
    ('/tmp/a b.csv', 'hdfs://host/a.csv')
    """
    return path.removeprefix("file:").replace("///", "/", 1) if path.startswith("file:") else path


def table(
    spark: SparkSession,
    path: str,
    query: Query | None,
    options: Options,
    remark: Callable[[str], None] = lambda text: None,
) -> DataFrame:
    """`files.reading.table`, read by tasks: the same rows in the same types."""
    layout = settle(spark, path, query, options, remark=remark, history=True)
    paths, read = listed(spark, path), reader(layout)

    def look(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds: dict[str, str] = {}
        bad: list[str] = []
        for batch in read(rows):
            kinds = joined_kinds([kinds, kinds_of(batch, layout)])
            bad += unreadable(batch)
        names = pa.array(list(kinds), pa.string()), pa.array(list(kinds.values()), pa.string())
        yield pa.record_batch([*names], ["name", "kind"])
        few = bad[:_EXAMPLES] + [""] * max(0, len(bad) - _EXAMPLES)
        yield pa.record_batch([pa.nulls(len(few), pa.string()), pa.array(few, pa.string())], ["name", "kind"])

    with plainly():
        found = paths.mapInArrow(look, "name string, kind string").toArrow().to_pylist()
    kinds = joined_kinds({row["name"]: row["kind"]} for row in found if row["name"] is not None)
    kinds = {name: kinds[name] for name in layout.columns.names if name in kinds}
    bad = sorted((row["kind"] for row in found if row["name"] is None), key=lambda text: (not text, text))
    if bad:
        remark(left_out(bad))

    def rows_of(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (typed(batch, layout, kinds) for batch in read(rows))

    return paths.mapInArrow(rows_of, from_arrow_schema(history_schema(layout, kinds), True))


def write(df: DataFrame, path: str, *, overwrite: bool = False) -> None:
    """The rows as a folder of files of the kind that its suffix names."""
    kind = check_output(path, overwrite=overwrite)
    with plainly():
        writer = df.write.mode("overwrite" if overwrite else "error")
        if kind in ("csv", "tsv"):
            writer = writer.option("header", True).option("sep", "\t" if kind == "tsv" else ",")
        writer.format("csv" if kind == "tsv" else kind).save(absolute(path))


def kind_of(path: str, *, existing: bool) -> str:
    """What kind of files these are, wherever they lie; in another file system only once Spark is there."""
    shown = is_local(path) or not existing or listing.kind_of_name(path) is not None
    active = None if shown else SparkSession.getActiveSession()
    there = () if active is None else HadoopFolder(active, path).files()
    return listing.kind_of(path, existing=existing, others=there)
