"""How do changes come into a PostgreSQL database, and the current answer beside them, exactly once?

One transaction per batch: its changes, rejects and health are appended, the answer follows, and the number of the batch
is noted. A batch whose number is noted is ignored, so it does not matter whether a crash came before or after. A
connection that is lost while a transaction is committed leaves open whether it was: the number shows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pyarrow as pa

from fogline.errors import QueryError, SinkError
from fogline.flow.names import CHANGES, HEALTH, KINDS, REJECTS
from fogline.flow.sink import Batches, RunInfo, again, numbered, refuse_gap
from fogline.sinks.casting import streamed
from fogline.sinks.places import joined, needs, shown
from fogline.sinks.postgres_session import Session, TakenError
from fogline.sinks.postgres_tables import ANSWER, FORMAT, RUN, RUN_COLUMNS, RunTables, quoted, storable

PATIENCE = 60.0  # seconds that a database may be away
TAKEN = 10.0  # seconds in which another run must let go of the tables
_LOCK = 0x666F676C  # of advisory locks, those that are Fogline's
_SHAPE = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
    "WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)


class PostgresSink:
    """RunTables in a PostgreSQL database: NAME_changes, NAME_answer, NAME_rejects, NAME_health and NAME_run.

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
            raise SinkError("the connection was lost, and what was to be written can be read only once.")
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
