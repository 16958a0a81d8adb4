"""How is a skyline asked for in SQL?

By a table function: `SELECT * FROM skyline(TABLE(readings))`. Rows come as Arrow batches, are kept until the partition
ends, and are handed to `fogline.skyline` once; its answer is the function's. Which columns that has is known as soon as
those of the table are, so a query that does not fit the table is refused before any work.

Invariant: one skyline per partition of a PARTITION BY, and without one a single skyline over the whole table, however
Spark has cut it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, FractionalType, StructField, StructType
from pyspark.sql.udtf import (
    AnalyzeArgument,
    AnalyzeResult,
    PartitioningColumn,
    SelectedColumn,
    UserDefinedTableFunction,
)
from pyspark.util import PythonEvalType

from fogline.errors import FoglineError, QueryError
from fogline.impute.row import Rules
from fogline.query import Query, must_be_query
from fogline.repository.repository import Repository, must_be_repository
from fogline.rows.cells import read_cells
from fogline.rows.kept import singles
from fogline.rows.names import read_objects
from fogline.rows.table import RowSource
from fogline.spark.connect import must_have_jvm
from fogline.spark.share import shared
from fogline.spark.tables import quoted
from fogline.tables import answered


def register(spark: SparkSession, query: Query, repository: Repository | None = None, name: str = "skyline") -> None:
    """Make the query a table function of this session's SQL: by…, the id, probability, probability_error,
    attributes, what `keep` names.

        SELECT * FROM skyline(TABLE(readings))                       one answer over the whole table
        SELECT * FROM skyline(TABLE(readings) PARTITION BY site)     one answer per site

    A query with `by` answers per group in any case, and shows the group in the answer. Without a repository, what is
    missing is imputed from the other rows of the partition.
    """
    must_be_query(query, "what register takes")
    must_be_repository(repository)
    question = ask(query, repository, spark)
    must_have_jvm(
        spark,
        "register puts its function into the catalogue of the session's JVM",
        "register it in a session that the server's own process makes, or use fl.spark.watch(table, query)",
    )
    whole, cut = (_builder(spark, _table_function(question, name, whole=whole), name) for whole in (True, False))
    ensure_callback_server_started(spark.sparkContext._gateway)
    registry = spark._jsparkSession.sessionState().tableFunctionRegistry()
    registry.createOrReplaceTempFunction(name, _Choice(whole, cut), "python_udtf")


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """What must be known about the query wherever it is answered."""

    query: Query
    columns: frozenset[str] | None = None  # what is read of a table; None: any column may serve to impute
    opened: Callable[[], Repository] | None = None  # gives the repository, if there is one

    def reads(self, table: StructType) -> list[str]:
        """The columns of the table that are read, where that is not all of them."""
        return [] if self.columns is None else [name for name in table.names if name in self.columns]

    def groups(self, table: StructType) -> tuple[str, ...]:
        """Columns by which the rows may be sent to different places without changing the answer.

        None when the rows impute each other. Nor when a key is a real number: Spark never finds NaN equal to NaN.
        """
        real = any(isinstance(table[name].dataType, FractionalType) for name in self.query.by)
        return () if real or self.opened is None else tuple(self.query.by)

    def schema(self, table: StructType) -> StructType:
        """The columns of the answer over such a table, if the query fits it."""
        query, source = self.query, RowSource(to_arrow_schema(table, timezone="UTC").empty_table())
        source.require(query.id, "id column")
        for name in query.by:
            read_objects(source.require(name, "group column"), name, {})
        query = query.keeping(singles(to_arrow_schema(table, timezone="UTC")))
        for name in query.kept:
            source.require(name, "column to keep")
        for name in query.names:
            read_cells(source.require(name, "attribute"), name, {})
        head = [(name, table[name].dataType) for name in query.by] + [(query.id, table[query.id].dataType)]
        tail = [
            ("probability", DoubleType()),
            ("probability_error", DoubleType()),
            *((name, DoubleType()) for name in query.names),
            *((name, table[name].dataType) for name in query.kept),
        ]
        return StructType([StructField(name, kind) for name, kind in head + tail])

    def answer(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """The answer over all rows of the batches."""
        return answered(pa.Table.from_batches(batches), self.query, None if self.opened is None else self.opened())[0]


def ask(query: Query, repository: Repository | None, spark: SparkSession | None = None) -> TableQuestion:
    """The question, if query and repository fit each other; workers of the session get at the repository."""
    if query.latest:
        raise QueryError(
            "a table function looks at all rows of its table, and latest asks for the newest of each id. Select "
            "those in SQL and leave latest out, or use fl.spark.watch(table, query)."
        )
    if repository is None:
        return TableQuestion(query)
    Rules(repository, query)  # refuses a repository that does not fit
    if query.keep is True:
        return TableQuestion(query, None, shared(repository, spark))
    columns = frozenset({query.id, *query.by, *query.names, *query.kept, *repository.determinants})
    return TableQuestion(query, columns, shared(repository, spark))


def _table_function(question: TableQuestion, name: str, *, whole: bool) -> UserDefinedTableFunction:
    """The question as Spark takes it, for calls that leave the partitioning to us (`whole`) or state it themselves."""

    class Skyline:
        def __init__(self) -> None:
            self.batches: list[pa.RecordBatch] = []

        @staticmethod
        def analyze(rows: AnalyzeArgument) -> AnalyzeResult:
            if not rows.isTable:
                raise FoglineError(f"{name} answers about a table: write {name}(TABLE(readings)).")
            table = rows.dataType
            schema, groups = question.schema(table), question.groups(table) if whole else ()
            return AnalyzeResult(
                schema,
                withSinglePartition=whole and not groups,
                partitionBy=[PartitioningColumn(quoted(each)) for each in groups],
                select=[SelectedColumn(quoted(each)) for each in question.reads(table)],
            )

        def eval(self, rows: pa.RecordBatch) -> None:
            self.batches.append(rows)

        def terminate(self) -> Iterator[pa.Table]:
            if self.batches:  # a partition without rows must stay without: Spark joins what comes to the last row
                yield question.answer(self.batches)

    # Not by `arrow_udtf`, which refuses `analyze`, although everything below it can do both.
    return UserDefinedTableFunction(Skyline, None, name, PythonEvalType.SQL_ARROW_UDTF, deterministic=True)


def _builder(spark: SparkSession, function: UserDefinedTableFunction, name: str) -> Any:
    """The JVM's function from the arguments of a call to its plan; nothing stays registered."""
    jvm, registry = spark._jvm, spark._jsparkSession.sessionState().tableFunctionRegistry()
    spark.udtf.register(name, function)
    some = jvm.scala.Some
    known = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, some("session"), some("system"))
    builder = registry.lookupFunctionBuilder(known).get()
    registry.dropFunction(known)
    return builder


class _Choice:
    """Picks the plan by how the call is written: `analyze` sees no PARTITION BY, and Spark refuses two opinions."""

    def __init__(self, whole: Any, cut: Any) -> None:
        self.whole, self.cut = whole, cut

    def apply(self, arguments: Any) -> Any:
        """Called by the JVM whenever the function's name is met in a query."""
        given = [arguments.apply(k) for k in range(arguments.size())]
        return (self.cut if any(map(_is_cut, given)) else self.whole).apply(arguments)

    class Java:
        implements = ("scala.Function1",)


def _is_cut(argument: Any) -> bool:
    """Does this argument of a call state how its rows are partitioned?"""
    kind = argument.getClass().getSimpleName()
    if kind == "NamedArgumentExpression":  # rows => TABLE(…)
        return _is_cut(argument.value())
    return bool(kind == "FunctionTableSubqueryArgumentExpression" and argument.hasRepartitioning())
