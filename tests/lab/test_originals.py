"""Are the publishers' files recognised, refused in words, and converted into what experiments read?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from lab.__main__ import app
from lab.case import Settings, is_whole, real
from lab.experiment import Scope
from lab.experiments.common import sets, settings
from lab.originals import BID, ORIGINALS, PUMP, convert, convert_all

SOME = Settings(window=60, theta=10, history=100, ticks=3)


def write(folder, rows=400):
    """Small made-up files of the publishers' form."""
    rng = np.random.default_rng(3)
    lines = []
    for k in range(rows):
        at = pd.Timestamp("2004-02-28") + pd.Timedelta(seconds=31 * k)
        temperature, humidity, light, voltage = 20 + rng.random(4).round(4)
        tail = "" if k == 7 else f" {light} {voltage - 18}"  # a line that breaks off
        lines.append(f"{at.date()} {at.time()}.5 {k} {1 + k % 54} {temperature} {humidity}{tail}")
    (folder / "data.txt").write_text("\n".join(lines) + "\n")
    gas = ["id  time  R1  R2  R3  R4  R5  R6  R7  R8  Temp.  Humidity"]
    gas += [f"{k % 2}  {k / 3600:.6f}  " + "  ".join(f"{x:.4f}" for x in rng.random(10)) for k in range(rows)]
    (folder / "HT_Sensor_dataset.dat").write_text("\n".join(gas) + "\n")
    days = ["id\tdate\tclass\tt0\tdt", "0\t07-04-15\tbanana\t13.49\t1.64", "1\t07-05-15\twine\t19.61\t0.54"]
    (folder / "HT_Sensor_metadata.dat").write_text("\n".join(days) + "\n")
    pd.DataFrame(rng.random((rows, 8)), columns=list(BID)).assign(goods="a").to_csv(folder / "bid.csv", index=False)
    pump = pd.DataFrame(rng.random((rows, 12)), columns=[*PUMP[1:], "sensor_11", "sensor_12"])
    minutes = pd.date_range("2018-04-01", periods=rows, freq="min").astype(str)
    pump.assign(timestamp=minutes, machine_status="NORMAL").to_csv(folder / "sensor.csv")


def test_every_set_is_converted_and_read_as_the_whole_of_it(tmp_path):
    write(tmp_path)
    assert [each.state for each in convert_all(tmp_path, whole=False)] == ["converted"] * 4
    assert [each.state for each in convert_all(tmp_path)] == ["there"] * 4
    for name in ORIGINALS:
        case = real(name, tmp_path, SOME)
        assert case.truth.shape == (SOME.rows, len(case.query.names))
        if name != "bid":
            assert is_whole(name, tmp_path)
    motes = pq.read_table(tmp_path / "intel_lab_full.parquet").to_pandas()
    assert motes["timestamp"].is_monotonic_increasing
    assert motes[["light", "voltage"]].isna().any(axis=1).sum() == 1, "the line that broke off"
    gas = pq.read_table(tmp_path / "gas_home_full.parquet").to_pandas()
    assert gas["date"].dt.day.unique().tolist() == [4, 5], "days of the metadata"


def test_with_the_whole_of_a_set_experiments_run_at_the_papers_sizes_and_nothing_stands_in_for_bid(tmp_path):
    write(tmp_path)
    scope = Scope(tmp_path)
    convert_all(tmp_path, whole=False)
    assert {settings(name, scope).window for name in ORIGINALS} == {20_000}
    assert {settings(name, Scope(None)).window for name in ("gas", "pump")} == {1_500, 5_000}
    (tmp_path / "sp500_stocks_5yr.parquet").write_bytes(b"")
    assert "bid" in sets(scope)
    assert "sp500" not in sets(scope)


def test_a_part_of_a_file_other_columns_and_a_missing_file_are_reported_with_the_address(tmp_path):
    write(tmp_path)
    outcome = convert(ORIGINALS["intel"], tmp_path)
    assert outcome.state == "refused"
    assert "2,313,682" in outcome.text
    assert "--part" in outcome.text
    (tmp_path / "sensor.csv").write_text("timestamp,sensor_01\n2018-04-01,1\n")
    (tmp_path / "data.txt").write_text("timestamp,temperature\n")
    (tmp_path / "bid.csv").unlink()
    found = {each.name: each for each in convert_all(tmp_path, whole=False)}
    assert "sensor_02" in found["pump"].text
    assert "mote_id" in found["intel"].text
    assert (found["bid"].state, found["pump"].state, found["intel"].state) == ("missing", "refused", "refused")
    assert ORIGINALS["bid"].address in found["bid"].text
    assert not (tmp_path / "pump_sensor_full.parquet").exists()


@pytest.mark.parametrize(("part", "code"), [(["--part"], 0), ([], 1)])
def test_the_command_names_each_set_and_what_became_of_it(tmp_path, part, code):
    write(tmp_path)
    result = CliRunner().invoke(app, ["data", str(tmp_path), *part])
    assert result.exit_code == code
    assert [line.partition(":")[0] for line in result.output.splitlines()] == [*ORIGINALS]
