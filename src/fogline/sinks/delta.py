"""How do batches become Delta tables, exactly once, without a JVM?

PATH/changes, PATH/rejects and PATH/health are appended to; PATH/answer holds the current answer, and is replaced. Each
commit notes the number of its batch under the mark of the run, which is what Delta calls an application's transaction:
a table that has the number is left as it is. After a crash between two tables the batch comes again, and each takes it
if it has not; when the next batch comes, all have the one before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from fogline.errors import QueryError, SinkError
from fogline.files.listing import absolute, is_local
from fogline.output.sink import Batches, RunInfo, again, numbered, numbered_schema, refuse_gap, refuse_loss
from fogline.pipeline.names import CHANGES, HEALTH, KINDS, REJECTS
from fogline.rows.changes import standing
from fogline.sinks.places import cast_to, needs, shown, streamed

ANSWER = "answer"
EVERY = 100  # batches after which small files are joined, and files that no table needs are removed
FORMAT = "fogline 2"  # what the tables' description begins with; another is refused
MANY = 1_000_000  # changes that are held at once while the answer is made
_BEGUN = -1  # the number that a table notes when a run begins
_ODD = str.maketrans(dict.fromkeys(" ,;{}()\n\t=\r", "_"))  # what names of Delta's columns may not have
_LOST = re.compile(r"[\[\]^|\\]|%[0-9a-fA-F]{2}")  # what delta-rs takes for a part of a URL, or for the end of one
_SHORT = {"delta.deletedFileRetentionDuration": "interval 1 hours", "delta.logRetentionDuration": "interval 1 days"}
_SAME = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(),
    pa.date32(),
)  # fmt: skip
_OTHERS = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(), pa.large_binary(): pa.binary(), pa.date64(): pa.date32(),
}  # fmt: skip


class DeltaSink:
    """Delta tables `changes`, `rejects`, `health` and `answer` in one folder.

    `path`: a folder, or an address that delta-rs knows such as s3://bucket/folder; `storage`: its options, by default
    from the environment. `every`: after so many batches small files are joined (None: never).
    """

    def __init__(
        self, path: str | os.PathLike[str], *, storage: dict[str, str] | None = None, every: int | None = EVERY
    ):
        plain = os.fspath(path)
        self.path = absolute(plain) if is_local(plain) else plain.rstrip("/")
        if is_local(plain) and (odd := _LOST.search(self.path)) is not None:
            raise QueryError(
                f"Delta tables cannot lie in {self.path!r}: delta-rs does not find a path with {odd[0]!r} again. "
                "Choose a folder with another name."
            )
        self.place = f"delta:{shown(self.path)}"
        self.storage, self.every = storage, every
        self.tables: dict[str, Any] = {}
        self.run: RunInfo | None = None
        self.answer: pa.Table | None = None  # as changes, after the last batch
        self.done = 0  # batches of this process

    @classmethod
    def from_url(cls, url: str) -> DeltaSink:
        """As in `--to delta:PATH`."""
        path = url.partition(":")[2]
        if not path or path.startswith("//"):
            raise QueryError(f"{shown(url)!r} names no folder; write delta:PATH, or delta:s3://bucket/folder.")
        return cls(path)

    def begin(self, run: RunInfo) -> None:
        """Make the tables, or see that those that are there belong to this run."""
        needs("deltalake", "delta", "Delta as a sink")
        self.run, self.done = run, 0
        there = {kind: self._opened(kind) for kind in (*KINDS, ANSWER)}
        numbers = {kind: self._noted(table) for kind, table in there.items() if table is not None}
        known = {kind: numbers.get(kind) is not None for kind in there}
        for kind, table in there.items():
            if table is not None:
                self._refuse_other(kind, table, known[kind])
        noted = {kind: each for kind, each in numbers.items() if each is not None and each != _BEGUN}
        refuse_gap(run, max(noted.values(), default=None), known=all(known.values()))
        refuse_loss(run, min(noted[kind] for kind in KINDS) if noted.keys() >= set(KINDS) else None)
        for kind, table in there.items():
            self.tables[kind] = self._made(kind) if table is None else table
            if not known[kind]:
                self._write(kind, _BEGUN, iter(()), "append")
        stored = self.tables[ANSWER].to_pyarrow_table().select(self._schema(ANSWER).names)
        self.answer = pa.Table.from_batches([self._as_held(each) for each in stored.to_batches()], self._held())

    def _opened(self, kind: str) -> Any:
        """The table of a kind; None: it is not there."""
        from deltalake import DeltaTable

        path = f"{self.path}/{kind}"
        if not DeltaTable.is_deltatable(path, storage_options=self.storage):
            if is_local(path) and os.path.isdir(path) and os.listdir(path):
                raise SinkError(f"{path!r} holds files that are no Delta table; choose another folder.")
            return None
        return DeltaTable(path, storage_options=self.storage)

    def _made(self, kind: str) -> Any:
        from deltalake import DeltaTable

        return DeltaTable.create(
            f"{self.path}/{kind}",
            self._schema(kind),
            description=f"{FORMAT}: {kind} of a skyline",
            configuration=_SHORT if kind == ANSWER else None,
            storage_options=self.storage,
        )

    def _refuse_other(self, kind: str, table: Any, known: bool) -> None:
        """A table that is no table of ours, of another format, run or shape."""
        described = table.metadata().description or ""
        if not described.startswith("fogline "):
            raise SinkError(f"the table {kind!r} in it is not one of Fogline's; choose another folder.")
        if not described.startswith(f"{FORMAT}:"):
            found = described.partition(":")[0]
            raise SinkError(
                f"its tables are of the format {found!r}, and this version of Fogline writes {FORMAT!r}: use the "
                "version that made them, or choose another folder."
            )
        if not known and table.file_uris():
            raise SinkError("it holds the tables of another run; choose another folder.")
        expected, there = _columns(self._schema(kind)), _columns(pa.schema(table.schema().to_arrow()))
        if there != expected:
            which = ", ".join(sorted({name for name, _ in {*expected} ^ {*there}})) or "their order"
            raise SinkError(f"the table {kind!r} in it has other columns ({which}); choose another folder.")

    def _noted(self, table: Any) -> int | None:
        """The last batch of this run that a table has; None: the run has not begun with it."""
        number: int | None = table.transaction_version(self._run().mark)
        return number

    def _has(self, kind: str, number: int) -> bool:
        noted = self._noted(self.tables[kind])
        return noted is not None and noted >= number

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        """Append a batch to each table that has not got it, then replace the answer."""
        answering = again(changes)
        if answering is None:  # what can be read once is kept for the answer
            kept = list(changes)
            changes, answering = iter(kept), iter(kept)
        for kind, each in ((CHANGES, changes), (REJECTS, rejects), (HEALTH, health)):
            if not self._has(kind, number):
                rows = numbered(number, each, self._run().schemas[CHANGES]) if kind == CHANGES else each
                self._write(kind, number, rows, "append")
        answer = self._answer(answering)
        if answer is not None and not self._has(ANSWER, number):
            self._write(ANSWER, number, iter(answer.to_batches()), "overwrite")
            self.answer = answer
        self.done += 1
        if self.every is not None and self.done % self.every == 0:
            self._tidy()

    def _answer(self, changes: Batches) -> pa.Table | None:
        """The answer after these changes; None: there are none."""
        query, held, waiting, changed = self._run().query, self.answer, list[pa.RecordBatch](), False
        for each in changes:
            changed |= each.num_rows > 0
            waiting.append(self._as_held(each))
            if sum(batch.num_rows for batch in waiting) > MANY:
                held, waiting = standing([held, pa.Table.from_batches(waiting)], query), []
        if waiting:
            held = standing([held, pa.Table.from_batches(waiting)], query)
        return held if changed else None

    def _held(self) -> pa.Schema:
        """Changes under the names of the stream, in the types of the tables: all of them can be stored and read."""
        return pa.schema([pa.field(each.name, stored_as(each.type)) for each in self._run().schemas[CHANGES]])

    def _as_held(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return cast_to(batch, self._held())

    def _write(self, kind: str, number: int, batches: Iterator[pa.RecordBatch], mode: str) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        schema = self._schema(kind)
        noted = CommitProperties(app_transactions=[Transaction(self._run().mark, number)])
        with streamed(_some(batches, schema), schema, lambda each: cast_to(each, schema)) as reader:
            write_deltalake(self.tables[kind], reader, mode=mode, commit_properties=noted)

    def _tidy(self) -> None:
        """Join small files, and remove those that have been replaced for longer than a table keeps them."""
        for kind, table in self.tables.items():
            if kind != ANSWER:
                table.optimize.compact()
            table.vacuum(dry_run=False)

    def _schema(self, kind: str) -> pa.Schema:
        """The columns of a table, in types and names that Delta has."""
        schema = self._run().schemas[CHANGES if kind == ANSWER else kind]
        schema = numbered_schema(schema) if kind == CHANGES else schema
        names = plain_names(schema.names)
        return pa.schema([pa.field(name, stored_as(each.type)) for name, each in zip(names, schema, strict=True)])

    def _run(self) -> RunInfo:
        assert self.run is not None, "begin comes first"
        return self.run


def _some(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """At least one record batch, which may be empty."""
    first = True
    for each in batches:
        first = False
        yield each
    if first:
        yield pa.record_batch([pa.array([], each.type) for each in schema], schema=schema)


def _columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types, whichever of Arrow's texts a library has chosen."""
    words = {"string_view": "string", "large_string": "string", "binary_view": "binary", "large_binary": "binary"}
    return [(each.name, words.get(str(each.type), str(each.type))) for each in schema]


def stored_as(kind: pa.DataType) -> pa.DataType:
    """The type that Delta has for one of Arrow's: none of its values changes; what Delta has no type for is a text."""
    if pa.types.is_dictionary(kind):
        return stored_as(kind.value_type)
    if kind in _SAME or pa.types.is_decimal128(kind):
        return kind
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return _OTHERS.get(kind, pa.string())


def plain_names(names: list[str]) -> list[str]:
    """Names without characters that Delta's columns may not have, and which differ whatever their case.

    >>> plain_names(["gas (ppm)", "Gas", "gas"])
    ['gas__ppm_', 'Gas', 'gas_']
    """
    found: list[str] = []
    for name in names:
        plain = name.translate(_ODD)
        while plain.lower() in {each.lower() for each in found}:
            plain += "_"
        found.append(plain)
    return found
