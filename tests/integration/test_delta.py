"""Do Delta tables hold the Monitor's changes and answer, exactly once, however often the driver is killed?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.integration.killing import run_until_done
from tests.integration.scenario import CHANGE, FILES, MEMBER, all_changes, in_order, prepare, truth

deltalake = pytest.importorskip("deltalake", reason="pip install 'fogline[delta]'")


def table(root: Path, kind: str) -> pa.Table:
    return pa.table(deltalake.DeltaTable(root / kind).to_pyarrow_table())


def assert_whole(root: Path) -> None:
    """All changes once, numbered without gaps; the answer; a reject of each batch."""
    changes = table(root, "changes").sort_by([("batch", "ascending"), ("position", "ascending")])
    assert in_order(changes, CHANGE) == all_changes()
    named = list(zip(changes["batch"].to_pylist(), changes["position"].to_pylist(), strict=True))
    assert named == [(k, n) for k, batch in enumerate(truth()) for n in range(len(batch.changes))]
    assert in_order(table(root, "answer"), MEMBER) == truth()[-1].answer
    assert sorted(table(root, "rejects")["batch"].to_pylist()) == list(range(FILES))
    assert sum(table(root, "health")["rows"].to_pylist()) == FILES * 121


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(["2:middle", "5:between"], id="a few"),
        pytest.param([f"{n}:middle" for n in (0, 3, 6, 8, 11)], id="in the middle", marks=pytest.mark.whole),
        pytest.param([f"{n}:between" for n in (0, 2, 5, 9, 11)], id="between", marks=pytest.mark.whole),
    ],
)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(tmp_path, kills):
    prepare(tmp_path)
    assert run_until_done(tmp_path, f"delta:{tmp_path}/tables", kills=kills) == len(kills)
    assert_whole(tmp_path / "tables")


@pytest.mark.whole
def test_on_spark_a_driver_that_is_killed_loses_and_doubles_nothing(tmp_path, java_or_skip):
    prepare(tmp_path)
    kills = ["1:between", "3:middle", "6:between", "8:middle", "11:between"]
    assert run_until_done(tmp_path, f"delta:{tmp_path}/tables", kills=kills, engine="spark") == len(kills)
    assert_whole(tmp_path / "tables")
