"""Does a PostgreSQL database hold the Monitor's changes and answer, exactly once, whatever is killed?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
import pytest

from fogline.errors import FoglineError, SinkError
from fogline.flow.embedded import Embedded
from fogline.flow.output import RunConfig
from fogline.flow.sink import Batches, RunInfo
from fogline.sinks.postgres import PostgresSink
from fogline.sinks.postgres_session import Session
from tests.integration.components.postgres import Postgres
from tests.integration.killing import run_until_done
from tests.integration.scenario import CHANGE, FILES, MEMBER, QUERY, all_changes, in_order, prepare, repository, truth

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="pip install 'fogline[postgres]'")


@pytest.fixture(scope="module")
def stream(tmp_path_factory) -> Path:
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
