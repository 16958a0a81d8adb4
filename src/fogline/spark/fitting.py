"""How does a history of any size become a repository?

By the recipe of `repository.fit`; Spark only carries it out. Each partition writes its columns as numbers, the parts of
a column are joined, then each step of the recipe is one job with one task per attribute. Tasks write their arrays into
the repository's folder and map what earlier jobs left there, so every worker must see that folder. The driver maps the
arrays, too: it looks up what each sensor has read last in the newest two million rows.

Rows are put in the order of (time, id, groups), so the repository does not depend on files and partitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fogline.errors import HistoryError
from fogline.query import Query
from fogline.repository import VALUES
from fogline.repository import fit as recipes
from fogline.repository.files import Files
from fogline.repository.fit import Progress as Progress
from fogline.repository.fit import Recipe, Work, fingerprint, longest_of
from fogline.repository.history import Column, History, Texts, Words, read_history, recoded, sorted_words
from fogline.repository.repository import Repository
from fogline.repository.rules import check_rules
from fogline.repository.store import Draft
from fogline.spark.errors import plainly
from fogline.spark.partitions import context_of
from fogline.spark.share import temporary_folder
from fogline.spark.tables import quoted

EVERY = 0.25  # seconds between reports of progress


def silent(what: str, done: int, of: int) -> None:
    """Report nothing."""


@contextmanager
def followed(spark: SparkSession, what: str, progress: Progress) -> Iterator[None]:
    """While the jobs of this block run, a thread reports how many of their tasks are done."""
    context = None if progress is silent else context_of(spark)
    if context is None:  # a Connect server does not show its tasks
        yield
        return
    over = Event()
    tracker = context.statusTracker()

    def report() -> None:
        while not over.wait(EVERY):
            stages = [stage for k in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(k)) is not None]
            if stages:
                progress(what, sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages))

    progress(what, 0, 1)
    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
        over.set()
        thread.join()
        progress(what, 1, 1)
    finally:
        over.set()
        thread.join()


T = TypeVar("T")
Kinds = Mapping[str, Column]  # columns without rows
ColumnEntries = dict[str, Any]  # column -> its entry in the manifest


def fit(
    history: DataFrame,
    query: Query,
    *,
    rules: Iterable[Any] | None = None,
    method: str = "held-out",
    retention: Any = None,
    hindsight: bool = True,
    values: int | None = VALUES,
    folder: str | Path | None = None,
    progress: Progress = silent,
) -> Repository:
    """A repository from a DataFrame, in `folder` (one that all workers see), or in a temporary one."""
    recipe = Recipe.of(query, rules, method, longest_of(retention, query), hindsight=hindsight, values=values)
    empty = read_history(history.limit(0).toArrow(), query)  # columns that do not fit are found before any work
    check_rules(recipe.rules or (), empty)
    draft = Draft(temporary_folder() if folder is None else folder)
    try:
        with plainly():
            mark = _write(history, recipe, empty.columns, draft, progress)
    except BaseException:
        draft.discard()
        raise
    return Repository.load(draft.root, mark)


def _write(df: DataFrame, recipe: Recipe, kinds: Kinds, draft: Draft, progress: Progress) -> str:
    rows, columns, texts = _columns(df, recipe.query, kinds, draft.arrays, progress)
    tasks = Tasks(df.sparkSession, draft.arrays, rows, columns, progress)
    fitted = recipes.fit(recipe, replace(tasks.history(), texts=texts), tasks)
    mark = fingerprint(fitted)
    draft.finish(fitted, mark, tasks.files)
    return mark


class Tasks:
    """Does the work for each attribute in a Spark task of its own; what comes of it lies in the repository's folder."""

    def __init__(
        self, spark: SparkSession, arrays: Path, rows: int, columns: ColumnEntries, progress: Progress
    ) -> None:
        self.spark, self.arrays, self.progress = spark, arrays, progress
        self.rows, self.columns = rows, columns
        self.files = Files(arrays)  # knows what tasks have written, once it was read

    def history(self) -> History:
        """The history, mapped."""
        return _mapped(self.rows, self.columns, self.files)

    def each(self, work: Work[T], names: tuple[str, ...]) -> list[T]:
        arrays, rows, columns = self.arrays, self.rows, self.columns  # a task gets these, not the session
        title, do = work.title, work.do

        def one(k: int) -> Any:
            files = _files(arrays, f"{title.split()[-1]}-{k}")
            return files.put(do(_mapped(rows, columns, files), names[k]))

        with followed(self.spark, title, self.progress):
            entries = _each(self.spark, len(names), one)
        return [self.files.get(entry) for entry in entries]


def _columns(
    df: DataFrame, query: Query, kinds: Kinds, arrays: Path, progress: Progress
) -> tuple[int, ColumnEntries, dict[str, Texts]]:
    """How many rows there are, every column as one array, and the texts that are no numbers."""
    names = tuple(kinds)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([_write_part(batches, query, names, arrays)])

    with followed(df.sparkSession, "reading the history", progress):
        listed = _in_order(df, query).select(*map(quoted, names)).mapInArrow(write, _PART).collect()
    parts = sorted((row.asDict() for row in listed), key=lambda part: part["partition"])

    def join(k: int) -> Any:
        return _files(arrays, f"column-{k}").put(_joined(parts, names[k], k, kinds[names[k]].words, arrays))

    with followed(df.sparkSession, "joining columns", progress):
        columns = dict(zip(names, _each(df.sparkSession, len(names), join), strict=True))
    for left in arrays.glob("part-*"):
        left.unlink()
    return sum(part["rows"] for part in parts), columns, _texts_of(parts)


def _texts_of(parts: list[dict[str, Any]]) -> dict[str, Texts]:
    """The texts of all partitions, with the first of them as the example."""
    texts: dict[str, Texts] = {}
    for part in parts:
        _add(texts, json.loads(part["texts"]))
    return texts


def _add(texts: dict[str, Texts], more: Mapping[str, Texts]) -> None:
    for name, (count, example) in more.items():
        before, first = texts.get(name, (0, example))
        texts[name] = before + count, first


def _in_order(df: DataFrame, query: Query) -> DataFrame:
    if query.time not in df.columns:
        return df
    """As `history.in_order`."""
    keys = [name for name in (query.time, query.id, *query.by) if name in df.columns]
    time = F.col(quoted(query.time))
    dated = time.isNotNull()
    if df.schema[query.time].dataType.typeName() in ("float", "double"):
        dated &= ~F.isnan(time)
    return df.sort(dated, *(F.col(quoted(name)).asc_nulls_last() for name in keys))


_PART = "partition long, file string, rows long, words string, texts string"


def _write_part(
    batches: Iterable[pa.RecordBatch], query: Query, names: tuple[str, ...], arrays: Path
) -> dict[str, Any]:
    """The columns of one partition as raw numbers, one file each; words get codes that hold in this partition only."""
    task = TaskContext.get()
    partition = 0 if task is None else task.partitionId()
    part = f"part-{partition}-{0 if task is None else task.taskAttemptId()}"
    words: dict[str, dict[str, int]] = {}  # of columns that hold words: the code of each
    texts: dict[str, Texts] = {}
    rows = 0
    files = [(arrays / f"{part}.{k}").open("wb") for k in range(len(names))]
    try:
        for batch in batches:
            read = read_history(pa.Table.from_batches([batch]), query)
            rows += read.rows
            _add(texts, read.texts)
            for name, file in zip(names, files, strict=True):
                column = read.columns[name]
                if column.words is None:
                    np.ascontiguousarray(column.values).tofile(file)
                else:
                    codes = words.setdefault(name, {})
                    table = [codes.setdefault(word, len(codes)) for word in column.words.texts.to_pylist()]
                    recoded(column.values, table).tofile(file)
    finally:
        for file in files:
            file.close()
    written = {
        name: Files(arrays, f"{part}.words-{names.index(name)}").put(Words.of(codes)) for name, codes in words.items()
    }
    return {
        "partition": partition,
        "file": part,
        "rows": rows,
        "words": json.dumps(written),
        "texts": json.dumps(texts),
    }


def _joined(parts: list[dict[str, Any]], name: str, k: int, before: Words | None, arrays: Path) -> Column:
    """One column of all partitions; words are numbered in their order, as everywhere."""
    files = Files(arrays)
    there = [files.get(json.loads(part["words"]).get(name)) for part in parts]
    texts = [each.texts for each in (before, *there) if each is not None]
    words = sorted_words(pa.concat_arrays(texts)) if texts else None
    values = np.empty(sum(part["rows"] for part in parts))
    at = 0
    for part, own in zip(parts, there, strict=True):
        read = np.fromfile(arrays / f"{part['file']}.{k}")
        if len(read) != part["rows"]:
            raise HistoryError(
                f"part of column {name!r} is not in {str(arrays)!r}. Every worker must see this folder under the "
                "same path."
            )
        if own is not None and words is not None:
            read = recoded(read, pc.index_in(own.texts, value_set=words.texts).to_numpy(zero_copy_only=False))
        values[at : at + len(read)] = read
        at += len(read)
    return Column(values, words)


def _mapped(rows: int, columns: Mapping[str, Any], files: Files) -> History:
    return History({name: files.get(each) for name, each in columns.items()}, rows)


def _files(arrays: Path, part: str) -> Files:
    """A place for what a task writes; one that is done twice at once does not write over itself."""
    task = TaskContext.get()
    return Files(arrays, f"{part}-{0 if task is None else task.taskAttemptId()}")


def _each(spark: SparkSession, count: int, work: Callable[[int], Any]) -> list[Any]:
    """work(0), work(1), … as one task each; what it returns travels as JSON."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for k in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pylist([{"id": k, "result": json.dumps(work(k))}])

    done = spark.range(0, count, 1, count).mapInArrow(run, "id long, result string").collect()
    return [json.loads(row["result"]) for row in sorted(done, key=lambda row: row["id"])]
