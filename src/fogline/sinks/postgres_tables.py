"""Which tables does a run have in PostgreSQL, and which statements fill them?

NAME_changes: every change, with its batch and position. NAME_answer: the rows that are in the answer now. NAME_rejects
and NAME_health: as in an output folder. NAME_run: one row, with the mark of the run and its last batch; it is changed
in the same transaction as the others, so it always states what they hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import CHANGES as WORDS
from fogline.arrays import LEAVE
from fogline.errors import SinkError
from fogline.flow.names import CHANGES, KINDS
from fogline.flow.sink import BATCH, POSITION, RunInfo, beside, numbered_schema
from fogline.query import LEAVING
from fogline.sinks.casting import cast_to

FORMAT = 1  # of the tables; a newer one is refused
LONGEST = 63  # bytes of a name; PostgreSQL would cut off the rest
ANSWER, RUN = "answer", "run"
RUN_COLUMNS = {
    "format": "integer",
    "mark": "text",
    "batch": "bigint",
    "query": "text",
    "written": "timestamp with time zone",
}
NUL = "\N{SYMBOL FOR NULL}"  # stands for the character that PostgreSQL's texts cannot hold
_SYSTEM = ("ctid", "xmin", "cmin", "xmax", "cmax", "tableoid", "oid")  # names that no column may have
_SQL = {
    pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.uint8(): "smallint", pa.uint16(): "integer", pa.uint32(): "bigint",
    pa.float16(): "real", pa.float32(): "real", pa.float64(): "double precision", pa.bool_(): "boolean",
    pa.date32(): "date", pa.time32("s"): "time without time zone", pa.time32("ms"): "time without time zone",
    pa.time64("us"): "time without time zone", pa.binary(): "bytea", pa.string(): "text",
}  # fmt: skip


def quoted(name: str) -> str:
    """A name as SQL has it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def stored_as(kind: pa.DataType) -> tuple[pa.DataType, str]:
    """How values of a type are stored: the Arrow type that they are cast to, and PostgreSQL's.

    No value changes by that: what PostgreSQL has no type for becomes a number with as many digits, or a text.
    """
    if pa.types.is_dictionary(kind):
        return stored_as(kind.value_type)
    if kind in _SQL:
        return kind, _SQL[kind]
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", kind.tz), f"timestamp {'without' if kind.tz is None else 'with'} time zone"
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0), "numeric"
    if pa.types.is_decimal(kind):
        return kind, "numeric"
    if pa.types.is_date64(kind):
        return pa.date32(), "date"
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary(), "bytea"
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid":
        return kind, "uuid"
    return pa.string(), "text"


@dataclass(frozen=True, slots=True)
class RunTables:
    """The tables of one run, by the beginning of their names."""

    schema: str  # of PostgreSQL
    name: str
    run: RunInfo

    def full(self, kind: str) -> str:
        """The table of a kind, as SQL has it."""
        return f"{quoted(self.schema)}.{quoted(self.plain(kind))}"

    def plain(self, kind: str) -> str:
        """The same without its schema."""
        return f"{self.name}_{kind}"

    def arrow(self, kind: str) -> pa.Schema:
        """The columns that are copied into a table, in types that PostgreSQL has."""
        schema = self.run.schemas[kind]
        wide = numbered_schema(schema) if kind == CHANGES else schema
        return pa.schema([pa.field(column(each.name), stored_as(each.type)[0]) for each in wide])

    def columns(self, kind: str) -> dict[str, str]:
        """The names and types of a table's columns, as PostgreSQL shows them."""
        if kind == RUN:
            return dict(RUN_COLUMNS)
        if kind == ANSWER:
            left_out = {"change", *LEAVING}
            return {name: sql for name, sql in self._of_changes().items() if name not in left_out}
        return {each.name: stored_as(each.type)[1] for each in self.arrow(kind)}

    def _of_changes(self) -> dict[str, str]:
        return {column(each.name): stored_as(each.type)[1] for each in self.run.schemas[CHANGES]}

    def check_names(self) -> None:
        """Names that PostgreSQL would cut off are refused: two of them could become one."""
        names = [self.plain(kind) for kind in (*KINDS, ANSWER, RUN)] + [f"{self.plain(ANSWER)}_key"]
        names += [name for kind in (*KINDS, ANSWER) for name in self.columns(kind)]
        for name in names:
            if len(name.encode()) > LONGEST:
                raise SinkError(f"the name {name!r} is longer than PostgreSQL's {LONGEST} bytes; choose a shorter one.")

    def create(self, kind: str) -> list[str]:
        """The statements that make a table."""
        what = [f"{quoted(name)} {sql}" for name, sql in self.columns(kind).items()]
        if kind == CHANGES:
            what.append(f"PRIMARY KEY ({', '.join(map(quoted, self.numbers))})")
        made = [f"CREATE TABLE {self.full(kind)} ({', '.join(what)})"]
        if kind == ANSWER:
            index = quoted(f"{self.plain(ANSWER)}_key")
            made.append(f"CREATE INDEX {index} ON {self.full(ANSWER)} ({', '.join(map(quoted, self.key))})")
        return made

    @property
    def key(self) -> list[str]:
        """What names a row of the answer: the id first, since it is never missing."""
        by = [column(name) for name in self.run.key]
        return sorted(by, key=lambda name: name not in ("id", "arrived"))

    @property
    def numbers(self) -> list[str]:
        """The columns of a change's batch and position."""
        return [column(beside(name, self.run.schemas[CHANGES])) for name in (BATCH, POSITION)]

    def answer(self, number: int) -> list[str]:
        """The statements by which the changes of a batch become the answer: the last one of each row decides."""
        batch, position = map(quoted, self.numbers)
        key = ", ".join(map(quoted, self.key))
        last = (
            f"SELECT DISTINCT ON ({key}) * FROM {self.full(CHANGES)} WHERE {batch} = {number:d} "
            f"ORDER BY {key}, {position} DESC"
        )
        names = ", ".join(map(quoted, self.columns(ANSWER)))
        return [
            *(f"DELETE FROM {self.full(ANSWER)} a USING ({last}) l WHERE {same}" for same in self._same()),
            f"INSERT INTO {self.full(ANSWER)} ({names}) SELECT {names} FROM ({last}) l "
            f"WHERE change <> '{WORDS[LEAVE]}'",
        ]

    def _same(self) -> list[str]:
        """When a row a of the answer is that of a change l: all is equal; or, which no index finds, both lack some."""
        names, never = list(map(quoted, self.key)), ('"id"', '"arrived"')
        equal = " AND ".join(f"a.{name} = l.{name}" for name in names)
        lacking = [name for name in names if name not in never]
        if not lacking:
            return [equal]
        missing = " OR ".join(f"l.{name} IS NULL" for name in lacking)
        both = [f"a.{name} = l.{name}" for name in names if name in never]
        both += [f"a.{name} IS NOT DISTINCT FROM l.{name}" for name in lacking]
        return [equal, f"({missing}) AND {' AND '.join(both)}"]


def column(name: str) -> str:
    """The name of a column: some of PostgreSQL's own may not be used again."""
    return f"{name}_" if name in _SYSTEM else name


def storable(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, int]:
    """A batch in types and texts that PostgreSQL can hold; and in how many cells something had to be replaced."""
    cast, replaced = cast_to(batch, schema), 0
    columns = []
    for each in cast.columns:
        found = (pc.sum(pc.match_substring(each, "\0")).as_py() or 0) if pa.types.is_string(each.type) else 0
        columns.append(pc.replace_substring(each, "\0", NUL) if found else each)
        replaced += found
    return pa.record_batch(columns, schema=schema), replaced
