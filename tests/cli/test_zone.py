"""Are times shown in the zone that those of the stream carry, and without one where they carry none?"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fogline.cli import app

QUERY = "attributes: {heat: max}\nid: sensor\ntime: t\nlifetime: 1 hour\n"


def call(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.stdout


def as_csv(*times: str) -> None:
    Path("in/a.csv").write_text("sensor,t,heat\n" + "".join(f"s{k},{time},{k}\n" for k, time in enumerate(times)))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY)
    Path("in").mkdir()


def shown() -> tuple[str, str, str]:
    """The instant of the answer, the arrival in its table, and what is explained of it."""
    call("run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded")
    first, *_ = call("answer", "out").splitlines()
    (row,) = [json.loads(line) for line in call("answer", "out", "--json").splitlines() if line.startswith("{")]
    explained = call("explain", "--replay", "in", "-q", "q.yaml", "--id", "s1")
    at = explained.splitlines()[0].removeprefix("'s1' at ").removesuffix(":")
    assert f"{at}: entered" in explained
    return first.removeprefix("the answer at ").removesuffix(", after batch 0"), row["t"], at


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        (("2024-03-01T10:00:00+02:00", "2024-03-01T10:05:00+02:00"), "2024-03-01 10:05:00+02:00"),
        (("2024-03-01 10:00:00-0930", "2024-03-01 10:05:00-0930"), "2024-03-01 10:05:00-09:30"),
        (("2024-03-01T10:00:00", "2024-03-01T10:05:00"), "2024-03-01 10:05:00"),
        (("01.03.2024 10:00", "01.03.2024 10:05"), "2024-03-01 10:05:00"),
        (("2024-03-01T10:00:00Z", "2024-03-01T12:05:00+02:00"), "2024-03-01 10:05:00+00:00"),  # of several: as UTC
    ],
)
def test_texts_are_shown_with_the_offset_that_they_carry(place, times, wanted):
    as_csv(*times)
    assert shown() == (wanted.removesuffix("+00:00"), wanted, wanted.removesuffix("+00:00"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_zone_that_is_stated_is_shown(place, kind):
    Path("q.yaml").write_text(f"{QUERY}source:\n  zone: Europe/Berlin\n")
    if kind == "csv":
        as_csv("2024-07-01 10:00:00", "2024-07-01 10:05:00")
    else:
        times = pa.array([datetime(2024, 7, 1, 10, minute) for minute in (0, 5)])
        pq.write_table(pa.table({"sensor": ["s0", "s1"], "t": times, "heat": [0.0, 1.0]}), "in/a.parquet")
    assert shown() == ("2024-07-01 10:05:00+02:00",) * 3


@pytest.mark.parametrize(
    ("zone", "wanted"), [("America/New_York", "2024-05-01 08:00:00-04:00"), (None, "2024-05-01 12:00:00")]
)
def test_timestamps_of_parquet_are_shown_in_the_zone_of_their_column(place, zone, wanted):
    noon = pa.array([1_714_564_740_000_000, 1_714_564_800_000_000], pa.int64()).cast(pa.timestamp("us", zone))
    pq.write_table(pa.table({"sensor": ["s0", "s1"], "t": noon, "heat": [0.0, 1.0]}), "in/a.parquet")
    assert shown() == (wanted,) * 3


def test_a_condition_on_times_means_those_that_are_shown(place):
    as_csv("2024-05-01T12:30:00+02:00", "2024-05-01T12:35:00+02:00")
    call("run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded")
    for condition, found in (("t > '2024-05-01 12:00'", "1 row"), ("t > '2024-05-01 12:36'", "0 rows")):
        assert call("answer", "out", "--where", condition).splitlines()[-1] == found
