"""Changes into a PostgreSQL database, and the current answer beside them, exactly once.

A connection that is lost is made again, and what was to be done in one transaction is done again from its beginning,
for as long as the caller is patient. What the database refuses, or the caller gets wrong, is an error at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import CHANGES as WORDS
from fogline.arrays import LEAVE
from fogline.errors import QueryError, SinkError
from fogline.output.sink import (
    BATCH,
    POSITION,
    Batches,
    RunInfo,
    again,
    numbered,
    numbered_schema,
    refuse_gap,
    refuse_loss,
)
from fogline.pipeline.names import CHANGES, HEALTH, KINDS, REJECTS
from fogline.query import OF_CHANGES
from fogline.sinks.places import cast_to, joined, needs, shown, streamed

Done = TypeVar("Done")
_FIRST, _LONGEST = 0.1, 5.0  # seconds between tries
_AWAY = ("57P01", "57P02", "57P03", "53300", "40001", "40P01")  # it stops, starts, is full, or two were in the way
_SETTINGS = {"connect_timeout": "10", "keepalives_idle": "30", "tcp_user_timeout": "60000"}
_STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting")


class TakenError(SinkError):
    """Another connection holds what this one needs; of one that was lost, the database may not know it yet."""


class Session:
    """A connection that comes back."""

    def __init__(self, url: str, patience: float) -> None:
        self.url, self.patience = with_settings(url), patience
        self.connection: Any = None
        self.on_connect: Callable[[Any], None] = lambda cursor: None  # what a new connection needs before its first use

    def transaction(
        self, do: Callable[[Any], Done], *, starting: bool = False, remark: Callable[[str], None] = lambda text: None
    ) -> Done:
        """Do something in one transaction; where the database is away, again. `do` must bear to be called again.

        `starting`: a database that is not there is an error at once, only one that is just starting is waited for.
        """
        began, pause = monotonic(), _FIRST
        while True:
            try:
                return self._once(do)
            except Exception as error:
                self.close()
                if not is_away(error, starting):
                    raise in_words(error) from None
                if monotonic() - began + pause > self.patience:
                    raise SinkError(
                        f"the database has not answered for {self.patience:g} s ({line_of(error)}). Run the "
                        "same command again when it is back: it goes on from there."
                    ) from None
                if pause == _FIRST:
                    remark(
                        f"the database does not answer ({line_of(error)}): waiting up to {self.patience:g} s for it."
                    )
                sleep(pause)
                pause = min(pause * 2, _LONGEST)

    def _once(self, do: Callable[[Any], Done]) -> Done:
        if self.connection is None:
            self._connect()
        with self.connection.cursor() as cursor:
            done = do(cursor)
        self.connection.commit()
        return done

    def _connect(self) -> None:
        needs("adbc_driver_postgresql", "postgres", "PostgreSQL as a sink")
        from adbc_driver_postgresql import dbapi

        self.connection = dbapi.connect(self.url)
        with self.connection.cursor() as cursor:
            cursor.execute("SET client_encoding TO 'UTF8'")
            self.on_connect(cursor)
        self.connection.commit()

    def close(self) -> None:
        """What was not committed is undone."""
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(Exception):  # it may be lost already
                connection.rollback()
            with suppress(Exception):
                connection.close()


def with_settings(url: str) -> str:
    """The address with settings by which a dead connection is noticed, where it states none."""
    parts = urlsplit(url)
    stated = dict(parse_qsl(parts.query))
    return joined(parts._replace(query=urlencode(_SETTINGS | stated, quote_via=quote)))


def is_away(error: Exception, starting: bool) -> bool:
    """Whether the database cannot be reached just now."""
    from adbc_driver_manager import AdbcStatusCode, Error

    if not isinstance(error, Error):
        return isinstance(error, TakenError) and not starting
    state = error.sqlstate or ""
    if starting:
        return state == "57P03" or any(words in str(error) for words in _STARTING)
    if state:
        return state.startswith("08") or state in _AWAY
    return bool(error.status_code == AdbcStatusCode.IO) and "authentication failed" not in str(error)


def in_words(error: Exception) -> Exception:
    """What the database has refused, on one line; errors of others stay as they are."""
    from adbc_driver_manager import Error

    return SinkError(line_of(error)) if isinstance(error, Error) else error


def line_of(error: Exception) -> str:
    """The words of the database alone: not the driver's, and no statement."""
    text = str(error).split("\nQuery was:")[0].split("ERROR:")[-1].split("FATAL:")[-1]
    return " ".join(text.split()).removeprefix("IO: ")


# --- Tables -----------------------------------------------------------------------------------------------------------
#
# NAME_changes: every change, with its batch and position. NAME_answer: the rows that are in the answer now.
# NAME_rejects and NAME_health: as in an output folder. NAME_run: one row, with the mark of the run and its last batch;
# it is changed in the same transaction as the others, so it always states what they hold.

FORMAT = 2  # of the tables; a newer one is refused
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
            return {name: sql for name, sql in self._of_changes().items() if name not in OF_CHANGES}
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
        return sorted(by, key=lambda name: name not in self._never_missing)

    @property
    def _never_missing(self) -> tuple[str, str]:
        return column(self.run.query.id), column(self.run.query.arrived)

    @property
    def numbers(self) -> list[str]:
        """The columns of a change's batch and position."""
        return [column(name) for name in (BATCH, POSITION)]

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
        names, never = list(map(quoted, self.key)), list(map(quoted, self._never_missing))
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


# --- The sink ---------------------------------------------------------------------------------------------------------
#
# One transaction per batch: its changes, rejects and health are appended, the answer follows, and the number of the
# batch is noted. A batch whose number is noted is ignored, so it does not matter whether a crash came before or after.
# A connection that is lost while a transaction is committed leaves open whether it was: the number shows it.

PATIENCE = 60.0  # seconds that a database may be away
TAKEN = 10.0  # seconds in which another run must let go of the tables
_LOCK = 0x666F676C  # of advisory locks, those that are Fogline's
_SHAPE = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
    "WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)


class PostgresSink:
    """Tables in a PostgreSQL database: NAME_changes, NAME_answer, NAME_rejects, NAME_health and NAME_run.

    `url`: as libpq takes it; passwords better come from PGPASSWORD or ~/.pgpass. `table`: the NAME. `schema`: where
    the tables lie; by default the first schema of the search path. `patience`: for how many seconds a database that is
    away is waited for.
    """

    def __init__(
        self, url: str, table: str = "fogline", *, schema: str | None = None, patience: float = PATIENCE
    ) -> None:
        self.table, self.schema = table, schema
        self.place = shown(with_table(url, table, schema))
        self.session = Session(url, patience)
        self.session.on_connect = self._hold
        self.tables: RunTables | None = None
        self.remark: Callable[[str], None] = lambda text: None
        self.replaced = False  # whether a remark on characters that were replaced was made

    @classmethod
    def from_url(cls, url: str) -> PostgresSink:
        """As in `--to`: the names `table` and `schema` are ours, the others libpq's."""
        if "://" not in url:
            raise QueryError("a database is named as postgresql://user@host:port/database?table=NAME.")
        parts = urlsplit(url)
        stated = dict(parse_qsl(parts.query))
        table, schema = stated.pop("table", None), stated.pop("schema", None)
        if not table:
            raise QueryError(
                f"{shown(url)!r} names no table; add ?table=NAME: the tables become NAME_changes, and so on."
            )
        return cls(joined(parts._replace(query=urlencode(stated))), table, schema=schema)

    def begin(self, run: RunInfo) -> None:
        """Make the tables, or see that those that are there belong to this run."""
        needs("adbc_driver_postgresql", "postgres", "PostgreSQL as a sink")
        self.remark, self.tables = run.remark, None
        RunTables("", self.table, run).check_names()
        self.session.close()
        self.session.transaction(lambda cursor: self._begin(cursor, run), starting=True, remark=self.remark)

    def _begin(self, cursor: Any, run: RunInfo) -> None:
        self.tables = tables = RunTables(self._schema(cursor), self.table, run)
        there = {kind: dict(self._shape(cursor, kind)) for kind in (*KINDS, ANSWER, RUN)}
        known, last = False, None
        if there[RUN]:
            known, last = self._known(cursor, there[RUN])
        for kind, shape in there.items():
            if not shape:
                if last is not None:
                    raise SinkError(
                        f"the table {tables.full(kind)} is gone, and the others hold batches up to {last}. "
                        "Put it back, or begin a new run with another table=NAME."
                    )
                for statement in tables.create(kind):
                    cursor.execute(statement)
            else:
                self._refuse_other_shape(kind, shape)
                if last is None and kind != RUN:
                    self._refuse_rows(cursor, kind)
        refuse_gap(run, last, known=known)
        refuse_loss(run, last)
        if not known:
            cursor.execute(f"DELETE FROM {tables.full(RUN)}")
            cursor.execute(
                f"INSERT INTO {tables.full(RUN)} ({', '.join(RUN_COLUMNS)}) VALUES ($1, $2, NULL, $3, now())",
                parameters=(FORMAT, run.mark, json.dumps(run.query.to_dict())),
            )

    def _shape(self, cursor: Any, kind: str) -> list[tuple[str, str]]:
        cursor.execute(_SHAPE, parameters=(self._tables().full(kind),))
        return [(name, sql) for name, sql in cursor.fetchall()]

    def _known(self, cursor: Any, shape: dict[str, str]) -> tuple[bool, int | None]:
        """Whether the tables belong to this run, and their last batch; those of another run are refused."""
        tables = self._tables()
        if "format" not in shape:
            raise SinkError(f"the table {tables.full(RUN)} is not one of Fogline's; choose another table=NAME.")
        cursor.execute(f"SELECT format FROM {tables.full(RUN)}")
        newest = max((each[0] for each in cursor.fetchall()), default=FORMAT)
        if newest != FORMAT:
            raise SinkError(
                f"the tables {tables.name}_… are of format {newest}, and this version of Fogline writes format "
                f"{FORMAT}: use the version that made them, or choose another table=NAME."
            )
        cursor.execute(f"SELECT mark, batch FROM {tables.full(RUN)}")
        found = cursor.fetchone()
        if found is None:
            return False, None
        mark, last = found
        if mark != tables.run.mark and last is not None:
            raise SinkError(
                f"the tables {tables.name}_… hold batches of another run, up to {last}; choose another table=NAME, "
                "or go on with the checkpoint that belongs to them."
            )
        return mark == tables.run.mark, last

    def _refuse_other_shape(self, kind: str, shape: dict[str, str]) -> None:
        tables = self._tables()
        expected = tables.columns(kind)
        if shape == expected:
            return
        differs = [name for name in {**expected, **shape} if shape.get(name) != expected.get(name)]
        which = ", ".join(
            f"{name} ({shape.get(name, 'is missing')}, expected {expected.get(name, 'none')})" for name in differs
        )
        raise SinkError(f"the table {tables.full(kind)} has other columns: {which}; choose another table=NAME.")

    def _refuse_rows(self, cursor: Any, kind: str) -> None:
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {self._tables().full(kind)})")
        if cursor.fetchone()[0]:
            raise SinkError(
                f"the table {self._tables().full(kind)} has rows that no run has written; choose another table=NAME."
            )

    def _schema(self, cursor: Any) -> str:
        """Where the tables lie, or will: of a run that has begun, where they were then."""
        if self.tables is not None:
            return self.tables.schema
        cursor.execute("SELECT current_schema()")
        (first,) = cursor.fetchone()
        if (here := self.schema or first) is None:
            raise SinkError("the database has no schema to make tables in; name one with schema=NAME.")
        return str(here)

    def _hold(self, cursor: Any) -> None:
        """The tables are this process's as long as its connection lasts: by their names, however those were stated."""
        name = f"{quoted(self._schema(cursor))}.{quoted(self.table)}"
        cursor.execute("SELECT set_config('lock_timeout', $1, false)", parameters=(f"{TAKEN * 1000:.0f}ms",))
        cursor.fetchall()
        try:
            cursor.execute("SELECT pg_advisory_lock($1::int, hashtext($2))::text", parameters=(_LOCK, name))
            cursor.fetchall()
        except Exception as error:
            if getattr(error, "sqlstate", None) == "55P03":
                raise TakenError(
                    f"another process writes to the tables {self.table}_…, and holds them; stop it, or choose another "
                    "table=NAME. (If its machine is gone, end its connection: pg_terminate_backend of what pg_locks "
                    "shows as advisory.)"
                ) from None
            raise
        cursor.execute("SELECT set_config('lock_timeout', '0', false)")
        cursor.fetchall()

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        """Take a batch in one transaction, unless its number is noted."""
        left = {CHANGES: changes, REJECTS: rejects, HEALTH: health}
        tries = 0

        def do(cursor: Any) -> None:
            nonlocal left, tries
            if not self._is_new(cursor, number):
                return
            if tries:
                left = {kind: self._again(each) for kind, each in left.items()}
            tries += 1
            for kind, each in left.items():
                self._copy(cursor, kind, number, each)
            tables = self._tables()
            for statement in tables.answer(number):
                cursor.execute(statement)
            cursor.execute(f"UPDATE {tables.full(RUN)} SET batch = $1, written = now()", parameters=(number,))

        self.session.transaction(do, remark=self.remark)

    def _is_new(self, cursor: Any, number: int) -> bool:
        """Whether the batch is not noted yet; the row is held until the transaction ends."""
        cursor.execute(f"SELECT mark, batch FROM {self._tables().full(RUN)} FOR UPDATE")
        found = cursor.fetchone()
        if found is None or found[0] != self._tables().run.mark:
            raise SinkError(f"the tables {self.table}_… were taken over by another run; choose another table=NAME.")
        return found[1] is None or found[1] < number

    def _again(self, batches: Batches) -> Batches:
        once_more = again(batches)
        if once_more is None:
            raise SinkError(
                "the connection was lost, and the rows cannot be read a second time. Run the same command again: "
                "it goes on from there."
            )
        return once_more

    def _copy(self, cursor: Any, kind: str, number: int, batches: Batches) -> None:
        """Append to a table what comes, in bulk."""
        tables = self._tables()
        schema, wide = tables.arrow(kind), tables.run.schemas[kind]
        rows = numbered(number, batches, wide) if kind == CHANGES else batches
        with streamed(rows, schema, lambda each: self._storable(each, schema)) as reader:
            cursor.adbc_ingest(tables.plain(kind), reader, mode="append", db_schema_name=tables.schema)

    def _storable(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        found, replaced = storable(batch, schema)
        if replaced and not self.replaced:
            self.replaced = True
            self.remark(f"{self.place}: PostgreSQL's texts cannot hold the character NUL; ␀ stands in its place.")
        return found

    def _tables(self) -> RunTables:
        assert self.tables is not None, "begin comes first"
        return self.tables

    def close(self) -> None:
        """The tables are free for another process."""
        self.session.close()


def with_table(url: str, table: str, schema: str | None) -> str:
    """The address with the names of the tables in it, as `--to` has it."""
    parts = urlsplit(url)
    stated = dict(parse_qsl(parts.query)) | {"table": table} | ({} if schema is None else {"schema": schema})
    return joined(parts._replace(query=urlencode(stated)))
