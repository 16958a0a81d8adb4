"""200,000 rows with gaps into a database, Delta tables and a folder at once: do all hold what a Monitor reports?"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration import test_delta, test_postgres
from tests.integration.components.postgres import Postgres
from tests.integration.killing import run_until_done
from tests.integration.scenario import CHANGE, MEMBER, all_changes, in_order, prepare, truth

FILES, ROWS = 40, 4_992  # rows of a whole number of ticks, so that the clocks of all sites move together


def assert_same(server: Postgres, root: Path, files: int, rows: int) -> None:
    expected = all_changes(files, rows)
    assert in_order(test_postgres.read(server, "all_changes"), CHANGE) == expected
    assert in_order(test_delta.table(root / "delta", "changes"), CHANGE) == expected
    assert in_order(pq.read_table(root / "folder" / "changes"), CHANGE) == expected
    answer = truth(files, rows)[-1].answer
    assert in_order(test_postgres.read(server, "all_answer"), MEMBER) == answer
    assert in_order(test_delta.table(root / "delta", "answer"), MEMBER) == answer


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_two_hundred_thousand_rows_are_the_same_in_all_sinks_through_kills(tmp_path, database, engine, java_or_skip):
    prepare(tmp_path, FILES, ROWS)
    urls = str(tmp_path / "folder"), f"delta:{tmp_path}/delta", f"{database.url}?table=all"
    kills = ["5:middle", "17:between", "30:middle"]
    with test_postgres.cursor_of(database) as cursor:
        for kind in ("changes", "answer", "rejects", "health", "run"):
            cursor.execute(f"DROP TABLE IF EXISTS all_{kind}")
        cursor.connection.commit()
    assert run_until_done(tmp_path, *urls, kills=kills, engine=engine) == len(kills)
    assert_same(database, tmp_path, FILES, ROWS)
