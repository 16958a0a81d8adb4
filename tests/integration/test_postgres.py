"""Does a PostgreSQL database hold the Monitor's changes and answer, exactly once, whatever is killed?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError, SinkError
from fogline.output.folder_sink import schemas_of
from fogline.output.sink import Batches, RunInfo
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.rows.changes import member_key
from fogline.runs.config import RunConfig
from fogline.runs.embedded import Embedded
from fogline.sinks.postgres import PostgresSink, Session
from tests.integration.components.postgres import Postgres
from tests.integration.killing import run_until_done
from tests.integration.scenario import (
    CHANGE,
    FILES,
    MEMBER,
    QUERY,
    all_changes,
    batch_rows,
    in_order,
    prepare,
    repository,
    truth,
)

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="pip install 'fogline[postgres]'")


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    prepare(folder)
    return folder


@contextmanager
def cursor_of(server: Postgres) -> Iterator[Any]:
    with dbapi.connect(server.url) as connection, connection.cursor() as cursor:
        yield cursor


def read(server: Postgres, table: str, order: str = "1") -> pa.Table:
    with cursor_of(server) as cursor:
        cursor.execute(f'SELECT * FROM "{table}" ORDER BY {order}')
        found = cursor.fetch_arrow_table()
    names = [name.removesuffix("_") if name == "xmin_" else name for name in found.column_names]
    return found.rename_columns(names)


def config_of(stream: Path, folder: Path, *sinks: Any) -> RunConfig:
    where = str(stream / "in"), str(folder / "run")
    return RunConfig(*where, QUERY, repository(), sinks=sinks, keeps=False, engine="embedded")


def run(config: RunConfig) -> Embedded:
    running = Embedded(config)
    try:
        assert running.start(files_per_batch=1).awaitTermination()
    finally:
        running.close()
    return running


class AfterEach:
    """Looks at the tables when each batch is there."""

    def __init__(self, server: Postgres, table: str) -> None:
        self.server, self.table, self.seen = server, table, 0

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        assert in_order(read(self.server, f"{self.table}_answer"), MEMBER) == truth()[number].answer
        found = read(self.server, f"{self.table}_changes", "batch, position").to_pylist()
        latest = pa.Table.from_pylist([row for row in found if row["batch"] == number])
        assert latest["position"].to_pylist() == list(range(latest.num_rows))
        assert in_order(latest, CHANGE) == truth()[number].changes
        self.seen += 1


def assert_whole(server: Postgres, table: str) -> None:
    """All changes once, the answer, a reject of each batch, and the number of the last batch."""
    changes = read(server, f"{table}_changes", "batch, position")
    assert in_order(changes, CHANGE) == all_changes()
    assert in_order(read(server, f"{table}_answer"), MEMBER) == truth()[-1].answer
    rejects = read(server, f"{table}_rejects", "batch")
    assert rejects["batch"].to_pylist() == list(range(FILES))
    assert set(rejects["reason"].to_pylist()) == {"the id 'sensor' is missing"}
    assert sum(read(server, f"{table}_health")["rows"].to_pylist()) == FILES * 121
    assert read(server, f"{table}_run")["batch"].to_pylist() == [FILES - 1]


def test_after_every_batch_the_tables_hold_the_answer_and_the_changes(database, stream, tmp_path):
    table, look = 'odd "name" ü', AfterEach(database, 'odd ""name"" ü')
    run(config_of(stream, tmp_path, PostgresSink(database.url, table), look))
    assert look.seen == FILES
    assert_whole(database, 'odd ""name"" ü')


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(["2:middle", "5:between"], id="a few"),
        pytest.param([f"{n}:middle" for n in (0, 3, 6, 8, 11)], id="in the middle", marks=pytest.mark.whole),
        pytest.param(
            [f"{n}:between" for n in (0, 2, 5, 9, 11)], id="between write and commit", marks=pytest.mark.whole
        ),
    ],
)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(database, stream, tmp_path, kills, request):
    table = request.node.callspec.id
    prepare(tmp_path / "here")
    url = f"{database.url}?table={table}"
    assert run_until_done(tmp_path / "here", url, kills=kills) == len(kills)
    assert_whole(database, table)


@pytest.mark.whole
def test_on_spark_a_driver_that_is_killed_loses_and_doubles_nothing(database, tmp_path, java_or_skip):
    prepare(tmp_path / "here")
    kills = ["1:between", "3:middle", "6:between", "8:middle", "11:between"]
    assert run_until_done(tmp_path / "here", f"{database.url}?table=spark", kills=kills, engine="spark") == len(kills)
    assert_whole(database, "spark")


class Falls:
    """A sink whose database is killed, and started again a little later, at some batches."""

    def __init__(self, sink: PostgresSink, server: Postgres, middle: tuple[int, ...], before: tuple[int, ...]) -> None:
        self.sink, self.server, self.middle, self.before = sink, server, set(middle), set(before)
        self.place = sink.place
        self.waiting: list[Timer] = []

    def begin(self, run: RunInfo) -> None:
        self.sink.begin(run)

    def close(self) -> None:
        self.sink.close()

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        if number in self.before:
            self.fall()
        self.sink.put(number, changes, rejects, Torn(health, self, number))

    def fall(self) -> None:
        self.server.kill()
        self.waiting.append(Timer(0.3, self.server.start))
        self.waiting[-1].start()


class Torn:
    """Record batches after the first of which the database is killed, once."""

    def __init__(self, batches: Any, sink: Falls, number: int) -> None:
        self.batches, self.sink, self.number = batches, sink, number

    def __iter__(self) -> Torn:
        return self

    def __next__(self) -> pa.RecordBatch:
        found = next(self.batches)
        if self.number in self.sink.middle:
            self.sink.middle.discard(self.number)
            self.sink.fall()
        return found

    def again(self) -> Torn:
        return Torn(self.batches.again(), self.sink, self.number)


@pytest.mark.parametrize(
    ("middle", "before"),
    [
        pytest.param((3,), (6,), id="once"),
        pytest.param((0, 2, 5, 8, 11), (1, 4, 6, 9, 10), id="often", marks=pytest.mark.whole),
    ],
)
def test_a_database_that_is_killed_is_waited_for(database, stream, tmp_path, middle, before, request):
    table = f"falls {request.node.callspec.id}"
    sink = Falls(PostgresSink(database.url, table), database, middle, before)
    run(config_of(stream, tmp_path, sink))
    assert len(sink.waiting) == len(middle) + len(before)
    assert_whole(database, table)


@pytest.mark.parametrize("committed", [False, True])
def test_whether_a_lost_commit_has_happened_is_found_out(database, stream, tmp_path, monkeypatch, committed):
    """The connection is lost as a transaction is committed: before the database has done it, or after."""
    table, falling, once = f"lost {committed}", [2, 5, 8, 11, 14], Session._once
    commits = []

    def lost(session: Session, do: Any) -> Any:
        with session.connection.cursor() as cursor:
            done = do(cursor)
        if committed:
            session.connection.commit()
        with cursor_of(database) as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"
            )
            cursor.fetchall()
        session.connection.commit() if not committed else session.connection.execute("SELECT 1")
        return done

    def sometimes(session: Session, do: Any) -> Any:
        commits.append(do)
        return lost(session, do) if len(commits) in falling else once(session, do)

    monkeypatch.setattr(Session, "_once", sometimes)
    run(config_of(stream, tmp_path, PostgresSink(database.url, table)))
    assert len(commits) == FILES + 1 + len(falling)
    assert_whole(database, table)


def test_a_database_that_stays_away_stops_the_run_which_then_goes_on(database, stream, tmp_path):
    class Killed(PostgresSink):
        def put(self, number: int, *reported: Any) -> None:
            if number == 4:
                database.kill()
            super().put(number, *reported)

    sink = Killed(database.url, "away", patience=0.5)
    try:
        with pytest.raises(
            SinkError, match=r"table=away could not take batch 4: the database has not answered for 0.5 s"
        ):
            run(config_of(stream, tmp_path, sink))
    finally:
        database.start()
    run(config_of(stream, tmp_path, PostgresSink(database.url, "away")))
    assert_whole(database, "away")


def begun(sink: PostgresSink, mark: str = "one", last: int | None = None, **how: Any) -> RunInfo:
    query = how.get("query", QUERY)
    schema = how.get("schema") or batch_rows(0).schema
    plan = make_plan(query, schema, opened=repository if query is QUERY else None)
    info = RunInfo(mark, query, schemas_of(Plans.alone(plan)), tuple(member_key(query)), last, how.get("remark", print))
    try:
        sink.begin(info)
    finally:
        if not how.get("stays"):
            sink.close()
    return info


def test_tables_of_others_are_refused_in_a_sentence(database):
    def sink(table: str) -> PostgresSink:
        return PostgresSink(database.url, table, patience=1)

    begun(sink("ours"))
    begun(sink("ours"), mark="another")  # no batch was written: it is taken over
    with cursor_of(database) as cursor:
        cursor.execute("UPDATE ours_run SET batch = 3")
        cursor.connection.commit()
    with pytest.raises(FoglineError, match="hold batches of another run, up to 3; choose another table=NAME"):
        begun(sink("ours"), mark="third")
    with pytest.raises(FoglineError, match="it has batch 3, but the checkpoint knows of batches up to 1 only"):
        begun(sink("ours"), mark="another", last=1)
    begun(sink("ours"), mark="another", last=2)
    with cursor_of(database) as cursor:
        cursor.execute("ALTER TABLE ours_answer RENAME TO hidden")
        cursor.connection.commit()
    with pytest.raises(FoglineError, match=r'"ours_answer" is gone, and the others hold batches up to 3'):
        begun(sink("ours"), mark="another", last=2)
    with cursor_of(database) as cursor:
        cursor.execute("ALTER TABLE hidden RENAME TO ours_answer")
        cursor.connection.commit()
    with pytest.raises(FoglineError, match="the run has done its batches up to 7 without it"):
        begun(sink("fresh"), last=7)
    with cursor_of(database) as cursor:
        cursor.execute("SELECT to_regclass('fresh_run')::text")
        assert cursor.fetchone() == (None,)  # what is refused leaves nothing behind
        cursor.execute("UPDATE ours_run SET format = 3")
        cursor.execute('CREATE TABLE shaped_changes (batch bigint, "time" text)')
        cursor.execute("CREATE TABLE foreign_run (x int)")
        cursor.connection.commit()
    with pytest.raises(FoglineError, match="are of format 3, and this version of Fogline writes format 2"):
        begun(sink("ours"), mark="another", last=2)
    with pytest.raises(
        FoglineError, match=r'"shaped_changes" has other columns: position \(is missing, expected bigint\)'
    ):
        begun(sink("shaped"))
    with pytest.raises(FoglineError, match='"foreign_run" is not one of Fogline\'s'):
        begun(sink("foreign"))
    with pytest.raises(FoglineError, match="is longer than PostgreSQL's 63 bytes"):
        begun(sink("n" * 60))
    with pytest.raises(FoglineError, match='database "postgres-nowhere" does not exist'):
        begun(PostgresSink(f"{database.url}-nowhere", "x"))
    with pytest.raises(FoglineError, match=r"(?i)connection refused"):
        begun(PostgresSink("postgresql://postgres@127.0.0.1:1/postgres", "x"))


def test_a_second_process_is_refused(database, monkeypatch):
    monkeypatch.setattr("fogline.sinks.postgres.TAKEN", 0.1)
    first = PostgresSink(database.url, "held")
    begun(first, stays=True)
    with pytest.raises(FoglineError, match=r"another process writes to the tables held_…"):
        begun(PostgresSink(database.url, "held"))
    with cursor_of(database) as cursor:
        cursor.execute('CREATE SCHEMA "other ""one"""')
        cursor.connection.commit()
    begun(PostgresSink(database.url, "held", schema='other "one"'))  # other tables
    first.close()
    begun(PostgresSink(database.url, "held"))


@pytest.mark.parametrize(("one", "other"), [(None, "public"), ("public", None)])
def test_tables_are_held_by_what_they_are_and_not_by_how_they_were_named(database, monkeypatch, one, other):
    monkeypatch.setattr("fogline.sinks.postgres.TAKEN", 0.1)
    name = f"named_{one}".lower()
    first = PostgresSink(database.url, name, schema=one)
    begun(first, stays=True)
    with pytest.raises(FoglineError, match=rf"another process writes to the tables {name}_…"):
        begun(PostgresSink(database.url, name, schema=other))
    with cursor_of(database) as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS elsewhere")
        cursor.connection.commit()
    apart = [PostgresSink(database.url, name, schema="elsewhere"), PostgresSink(database.url, f"{name}_2")]
    for each in apart:
        begun(each)  # other tables
    elsewhere = f"{database.url}?options=-csearch_path%3Delsewhere"
    begun(PostgresSink(elsewhere, name))
    first.close()
    begun(PostgresSink(database.url, name, schema=other))


def test_the_types_of_ids_and_groups_come_back_as_they_went(database):
    stamps = pa.timestamp("us", "UTC")
    kinds = {
        "int": (pa.int32(), 5), "large": (pa.uint64(), 2**64 - 1), "text": (pa.string(), "a\0b"),
        "date": (pa.date32(), dt.date(2024, 5, 1)), "yes": (pa.bool_(), True), "bytes": (pa.binary(), b"\0\1"),
        "moment": (stamps, dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)), "missing": (pa.string(), None),
    }  # fmt: skip
    query = fl.Query(attributes={"x": "max"}, id="id", time="t", latest=True, by=list(kinds))
    schema = pa.schema([("id", pa.int64()), ("t", stamps), ("x", pa.float64()), *((k, v[0]) for k, v in kinds.items())])
    sink, remarks = PostgresSink(database.url, "kinds"), list[str]()
    info = begun(sink, query=query, schema=schema, stays=True, remark=remarks.append)
    wide = info.schemas["changes"]
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    row = {name: value for name, (_, value) in kinds.items()}
    row |= {"time": noon, "id": 7, "t": noon, "change": "enter", "probability": 1.0, "probability_error": 0.0}

    def put(number: int, *rows: dict[str, Any]) -> None:
        batches = pa.Table.from_pylist(list(rows), schema=wide).to_batches()
        sink.put(number, iter(batches), iter(()), iter(()))

    put(0, row | {"x": float("nan")}, row | {"x": 1.0, "change": "update"}, row | {"id": 8, "x": None})
    found = read(database, "kinds_answer", "id").to_pylist()
    assert [(each["id"], each["x"]) for each in found] == [(7, 1.0), (8, None)]
    expected = {name: value for name, (_, value) in kinds.items()} | {"text": "a␀b", "large": str(2**64 - 1)}
    assert {name: found[0][name] for name in kinds} == expected
    assert found[0]["time"] == noon
    put(1, row | {"change": "leave"}, row | {"id": 9, "x": 2.0}, row | {"id": 9, "change": "leave"})
    put(1, row | {"id": 11})  # known: ignored
    assert read(database, "kinds_answer")["id"].to_pylist() == [8]
    assert remarks == [f"{sink.place}: PostgreSQL's texts cannot hold the character NUL; ␀ stands in its place."]
    sink.close()
