"""Is what a database answers the same history as files?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from tests.integration.components.kafka import spark_jars
from tests.integration.components.postgres import Postgres

QUERY = "attributes: {x: max, y: max}\nid: s\ntime: t\nlifetime: 100\n"


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*words, "-q", "q.yaml"], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.mark.usefixtures("spark")
def test_a_query_of_a_database_is_a_history(
    database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "postgresql" not in spark_jars():
        pytest.skip("there is no JDBC driver here: make components")
    from adbc_driver_postgresql import dbapi

    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY)
    rows: dict[str, Any] = {"s": [f"s{i % 5}" for i in range(300)], "t": list(range(300))}
    rows |= {"x": [(i * 37 % 101) / 8 for i in range(300)]}
    table = pa.table(rows | {"y": [2 * each for each in rows["x"]]})
    pq.write_table(table, "history.parquet")
    with dbapi.connect(database.url) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("readings", table)
        cursor.execute("alter table readings alter column y type numeric(10, 3)")
        connection.commit()
    monkeypatch.setenv("THE_PASSWORD", "not-asked-for")
    url = f"jdbc:postgresql://127.0.0.1:{database.port}/postgres?user=postgres&password=${{THE_PASSWORD}}"
    assert "on Spark: a database is asked" in run("fit", url, "--sql", "select * from readings;", "-o", "one")
    run("fit", "history.parquet", "-o", "other")
    assert fl.Repository.load("one").fingerprint == fl.Repository.load("other").fingerprint
    wrong = run("fit", url, "--sql", "select * from nowhere", "-o", "two", code=2)
    assert 'the database reports: ERROR: relation "nowhere" does not exist' in wrong
    assert "not-asked-for" not in wrong
    assert "Spark has no driver for nosuch; give it one: --packages" in run(
        "fit", "jdbc:nosuch://host/db", "--sql", "select 1", "-o", "two", code=2
    )
