"""How does a history of any size become a repository?

Five Spark jobs, each a stage of what `Repository.fit` does in memory, by the same kernels: every partition writes its
columns as numbers; every column is joined; for every attribute rules are discovered; for every attribute the lattice is
ranked and its tables and index are built; for every attribute it is learnt how sensors change. Tasks write their arrays
into the repository's folder and map what earlier jobs left there; the driver maps them too, to look up what each sensor
said last in the newest two million rows. The folder must be one that every worker sees, as when it is used later.

Rows are put in the order of (time, id), so the repository does not depend on files and partitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fogline.errors import HistoryError
from fogline.model import Query, Rule
from fogline.repository import lattice, store
from fogline.repository.discover import check_method, discover_one
from fogline.repository.history import Column, History, read_history
from fogline.repository.repository import Repository, check_rules, fingerprint, longest_of
from fogline.repository.rules import as_rules
from fogline.repository.sensors.model import UNCHANGED, Past, SensorModel, about_recent, gathered, learn_one
from fogline.repository.store import Draft, Files
from fogline.spark.errors import plainly
from fogline.spark.progress import Progress, followed, silent
from fogline.spark.share import temporary_folder

Kinds = Mapping[str, Column]  # columns without rows
Entries = dict[str, Any]  # column -> its entry in the manifest


def fit(
    history: DataFrame,
    query: Query,
    *,
    rules: Iterable[Any] | None = None,
    method: str = "held-out",
    retention: Any = None,
    folder: str | Path | None = None,
    progress: Progress = silent,
) -> Repository:
    """A repository from a DataFrame, in `folder` (one that all workers see), or in a temporary one."""
    check_method(method)
    longest = longest_of(retention, query)
    told = () if rules is None else tuple(as_rules(rules))
    recent = about_recent(told, query)
    given = None if rules is None else tuple(rule for rule in told if rule not in recent)
    empty = read_history(history.limit(0).toArrow(), query)  # what is wrong with the columns is said before any work
    if given is not None:
        check_rules(given, empty)
    draft = Draft(temporary_folder() if folder is None else folder)
    try:
        with plainly():
            _write(history, query, empty.columns, given, method, longest, recent, draft, progress)
    except BaseException:
        draft.discard()
        raise
    return Repository.load(draft.root)


def _write(
    df: DataFrame,
    query: Query,
    kinds: Kinds,
    given: tuple[Rule, ...] | None,
    method: str,
    longest: float,
    recent: tuple[Rule, ...],
    draft: Draft,
    progress: Progress,
) -> None:
    spark, arrays = df.sparkSession, draft.arrays
    rows, columns = _columns(df, query, kinds, arrays, progress)
    rules = _discovered(spark, query, rows, columns, arrays, method, progress) if given is None else given
    past = _mapped(rows, columns, arrays)
    check_rules(rules, past)

    def build(k: int) -> Any:
        built = lattice.build(_mapped(rows, columns, arrays), query.names[k], rules, mean=method == "mean")
        return store.put_lattice(built, Files(arrays, f"lattice-{k}"))

    with followed(spark, "building indexes", progress):
        lattices = dict(zip(query.names, _each(spark, len(query.names), build), strict=True))
    if given is None and method == "held-out":
        sensors = _sensors(spark, query, rows, columns, arrays, rules, longest, progress)
    else:
        same = dict.fromkeys(query.names, UNCHANGED) if method == "last" else {}
        sensors = gathered(past, query, longest, same, recent)
    how = method if given is None else "given"
    known = store.put_sensors(sensors, Files(arrays, "sensors"))
    draft.finish(rows, columns, rules, lattices, known, how, fingerprint(past, rules, sensors, how))


def _columns(df: DataFrame, query: Query, kinds: Kinds, arrays: Path, progress: Progress) -> tuple[int, Entries]:
    """Every column as one array, and how many rows there are."""
    names = tuple(kinds)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([_write_part(batches, query, names, arrays)])

    with followed(df.sparkSession, "reading the history", progress):
        listed = _in_order(df, query).select(*map(_quoted, names)).mapInArrow(write, _PART).collect()
    parts = sorted((row.asDict() for row in listed), key=lambda part: part["partition"])

    def join(k: int) -> Any:
        return store.put_column(
            _joined(parts, names[k], k, kinds[names[k]].words, arrays), Files(arrays, f"column-{k}")
        )

    with followed(df.sparkSession, "joining columns", progress):
        columns = dict(zip(names, _each(df.sparkSession, len(names), join), strict=True))
    for left in arrays.glob("part-*"):
        left.unlink()
    return sum(part["rows"] for part in parts), columns


def _in_order(df: DataFrame, query: Query) -> DataFrame:
    if query.time not in df.columns:
        return df
    keys = [name for name in (query.time, query.id) if name in df.columns]
    return df.sort(*(F.col(_quoted(name)).asc_nulls_last() for name in keys))


_PART = "partition long, file string, rows long, words string"


def _write_part(
    batches: Iterable[pa.RecordBatch], query: Query, names: tuple[str, ...], arrays: Path
) -> dict[str, Any]:
    """The columns of one partition as raw numbers, one file each; words get codes that hold in this partition only."""
    task = TaskContext.get()
    partition = 0 if task is None else task.partitionId()
    part = f"part-{partition}-{0 if task is None else task.taskAttemptId()}"
    words: dict[str, dict[str, int]] = {}
    rows = 0
    files = [(arrays / f"{part}.{k}").open("wb") for k in range(len(names))]
    try:
        for batch in batches:
            read = read_history(pa.Table.from_batches([batch]), query)
            rows += read.rows
            for name, file in zip(names, files, strict=True):
                _recoded(read.columns[name], words.setdefault(name, {})).tofile(file)
    finally:
        for file in files:
            file.close()
    return {
        "partition": partition,
        "file": part,
        "rows": rows,
        "words": json.dumps({n: [*w] for n, w in words.items()}),
    }


def _recoded(column: Column, codes: dict[str, int]) -> Any:
    """The column's values with words numbered as in `codes`, which learns new ones."""
    if column.words is None:
        return np.ascontiguousarray(column.values)
    table = np.array([*(codes.setdefault(word, len(codes)) for word in column.words), np.nan])
    return table[np.nan_to_num(column.values, nan=-1).astype(np.int64)]


def _joined(parts: list[dict[str, Any]], name: str, k: int, before: tuple[str, ...] | None, arrays: Path) -> Column:
    """One column of all partitions; words are numbered in their order, as everywhere."""
    known = [json.loads(part["words"]).get(name) for part in parts]
    words = sorted({*(before or ()), *chain.from_iterable(each or () for each in known)})
    code = {word: float(i) for i, word in enumerate(words)}
    values = np.empty(sum(part["rows"] for part in parts))
    at = 0
    for part, mine in zip(parts, known, strict=True):
        read = np.fromfile(arrays / f"{part['file']}.{k}")
        if len(read) != part["rows"]:
            raise HistoryError(f"part of column {name!r} is not in {str(arrays)!r}: can every worker see this folder?")
        if mine:
            read = np.array([*(code[word] for word in mine), np.nan])[np.nan_to_num(read, nan=-1).astype(np.int64)]
        values[at : at + len(read)] = read
        at += len(read)
    return Column(values, None if before is None else tuple(words))


def _discovered(
    spark: SparkSession, query: Query, rows: int, columns: Entries, arrays: Path, method: str, progress: Progress
) -> tuple[Rule, ...]:
    def find(k: int) -> Any:
        found = discover_one(_mapped(rows, columns, arrays), query, query.names[k], method=method)
        return [{"given": dict(rule.given), "then": rule.then, "within": rule.within} for rule in found]

    with followed(spark, "discovering rules", progress):
        return tuple(Rule(**each) for found in _each(spark, len(query.names), find) for each in found)


def _sensors(
    spark: SparkSession,
    query: Query,
    rows: int,
    columns: Entries,
    arrays: Path,
    rules: tuple[Rule, ...],
    longest: float,
    progress: Progress,
) -> SensorModel | None:
    def find(k: int) -> Any:
        history = _mapped(rows, columns, arrays)
        past = Past.of(history, query, longest)
        transition = None if past is None else learn_one(history, past, query.names[k], rules)
        return transition and store.put_transition(transition, Files(arrays, f"transition-{k}"))

    if not longest > 0:
        return None
    with followed(spark, "learning how sensors change", progress):
        found = dict(zip(query.names, _each(spark, len(query.names), find), strict=True))
    files = Files(arrays)
    learnt = {name: store.get_transition(each, files) for name, each in found.items() if each is not None}
    return gathered(_mapped(rows, columns, arrays), query, longest, learnt)


def _mapped(rows: int, columns: Mapping[str, Any], arrays: Path) -> History:
    files = Files(arrays)
    return History({name: store.get_column(each, files) for name, each in columns.items()}, rows)


def _each(spark: SparkSession, count: int, work: Callable[[int], Any]) -> list[Any]:
    """work(0), work(1), … as one task each; what it returns travels as JSON."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for k in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pylist([{"id": k, "result": json.dumps(work(k))}])

    done = spark.range(0, count, 1, count).mapInArrow(run, "id long, result string").collect()
    return [json.loads(row["result"]) for row in sorted(done, key=lambda row: row["id"])]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
