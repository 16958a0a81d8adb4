"""Do charts show what is true, for any rows, and can they be drawn?"""

from __future__ import annotations

import datetime as dt
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.plot import drawing
from fogline.plot.possible import possible_rows

HOSTILE = '<img src=x onerror=alert(1)> "[/x]\n'
QUERY = fl.Query({"gas.%": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=60)
PNG = b"\x89PNG"


def watched(**more) -> tuple[fl.Monitor, list[pa.Table]]:
    monitor = fl.Monitor(QUERY)
    rows = [
        {"sensor": HOSTILE, "t": 0, "gas.%": 1.2, "oxygen": 19.5},
        {"sensor": "south", "t": 0, "gas.%": [(0.9, 1), (1.6, 3)], "oxygen": 20.1},
        {"sensor": "west", "t": 0, "gas.%": [(1.0, 3), (1.4, 1)], "oxygen": 19.6},
    ]
    later = [{"sensor": "east", "t": 30, "gas.%": 1.5, "oxygen": 19.0}]
    return monitor, [monitor.advance(0, rows), monitor.advance(30, later)]


def drawn(chart) -> bytes:
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(chart.to_dict(), scale=0.5))


def data_of(chart, part: int = 0) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    layer = spec["layer"][part] if "layer" in spec and "data" in spec["layer"][part] else spec
    return list(layer["data"]["values"])


def test_the_front_of_a_monitor_has_members_near_rows_and_whiskers():
    monitor, _ = watched()
    chart = fl.plot.front(monitor)
    points = {point["id"]: point for point in data_of(chart)}
    answer = {row["sensor"]: row for row in monitor.answer(certainty="possible").to_pylist()}
    assert set(points) == set(answer)
    assert {id: point["certainty"] for id, point in points.items()} == {
        id: row["certainty"] for id, row in answer.items()
    }
    assert points["south"]["probability"] == pytest.approx(answer["south"]["probability"])
    assert (points["south"]["xlow"], points["south"]["xhigh"]) == (0.9, 1.6)
    assert points["south"]["x"] == pytest.approx(1.425)
    assert points["east"]["xlow"] is None
    assert drawn(chart).startswith(PNG)


def test_the_front_of_a_table_takes_any_kind_and_names_its_columns():
    frame = pd.DataFrame({"price": [1.0, 2.0, None], "rating": [1, 3, 2]})
    found = fl.skyline(frame, {"price": "min", "rating": "max"}, certainty="possible")
    chart = fl.plot.front(found, x="rating", y="price")
    point = next(each for each in data_of(chart) if each["ylow"] is not None)
    assert (point["ylow"], point["yhigh"]) == (1.0, 2.0), "what is not known may be anything"
    assert drawn(chart).startswith(PNG)
    near = pa.table({"id": ["a"], "x": [None], "y": [1.0], "x.low": [1.0], "x.high": [2.0], "x.mean": [1.8]})
    assert data_of(fl.plot.front(near, ["x", "y"]))[0]["x"] == 1.8


def test_the_most_probable_rows_are_drawn_and_the_title_counts_the_rest():
    table = pa.table({"id": range(30), "probability": np.linspace(0.1, 1, 30), "x": [1.0] * 30, "y": [2.0] * 30})
    chart = fl.plot.front(table, most=3)
    assert [point["id"] for point in data_of(chart)] == ["29", "28", "27"]
    assert "3 of 30 rows" in chart.to_dict()["title"]["subtitle"][0]


def test_the_timeline_has_every_stay_with_its_probability_and_its_end():
    _, changes = watched()
    chart = fl.plot.timeline(changes)
    stays = data_of(chart, 0)
    shown = {(stay["name"], stay["since"], stay["until"]): stay["probability"] for stay in stays}
    entered = changes[0].to_pylist()
    for row in entered:
        assert shown[row["sensor"], 0, 30] == row["probability"]
    assert ("east", 30, 30) in shown
    ends = {end["name"]: end["reason"] for end in data_of(chart, 2)}
    assert ends == {row["sensor"]: row["reason"] for row in changes[1].to_pylist() if row["change"] == "leave"}
    assert drawn(chart).startswith(PNG)


def test_the_timeline_cuts_at_the_ids_that_were_in_last_and_reads_timestamps():
    times = [dt.datetime(2024, 1, 1, hour) for hour in range(9)]
    table = pa.table({"time": times, "id": range(9), "t": times, "change": ["enter"] * 9, "probability": [1.0] * 9})
    chart = fl.plot.timeline(table, most=2)
    assert {stay["name"] for stay in data_of(chart)} == {"8", "7"}
    assert "2 of 9 ids" in chart.to_dict()["title"]["subtitle"][0]
    assert chart.to_dict()["layer"][0]["encoding"]["x"]["type"] == "temporal"
    assert drawn(chart).startswith(PNG)


def test_gaps_of_rows_are_shares_along_the_table_limits_included():
    rows = [{"x": None if k < 30 else 1.0, "y": 99.0 if k % 2 else 1.0, "z": "" if k == 0 else "1"} for k in range(120)]
    query = fl.Query({"x": "max", "y": "max", "z": "max"}, id="s", time="t", lifetime=1, limits={"y": (0, 9)})
    chart = fl.plot.gaps(rows, query)
    cells = data_of(chart)
    assert {cell["attribute"] for cell in cells} == {"x (25%)", "y (50%)", "z (1%)"}
    assert [cell["missing"] for cell in cells if cell["attribute"].startswith("x")] == [1.0] * 15 + [0.0] * 45
    assert drawn(chart).startswith(PNG)


def test_gaps_of_a_monitor_are_the_ranges_of_its_missing_cells():
    monitor, _ = watched()
    chart = fl.plot.gaps(monitor)
    cells = chart.to_dict()["data"]["values"]
    south = next(cell for cell in cells if cell["row"].startswith("south") and cell["attribute"] == "gas.%")
    assert (south["low"], south["high"], south["cell"]) == (0.9, 1.6, "missing")
    assert drawn(chart).startswith(PNG)


@pytest.mark.parametrize("source", [[], fl.Monitor(QUERY)])
def test_nothing_can_be_drawn_too(source):
    names = ["x", "y"] if isinstance(source, list) else None
    table = pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.float64())})
    charts = [fl.plot.front(table if isinstance(source, list) else source, names)]
    charts += [fl.plot.gaps(table if isinstance(source, list) else source, names)]
    charts += [fl.plot.timeline(fl.Monitor(QUERY).advance(0))]
    assert all(drawn(chart).startswith(PNG) for chart in charts)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fl.plot.front(pa.table({"x": [1.0]})), "the y axis has no attribute left; the table has none"),
        (lambda: fl.plot.front(pa.table({"x": [1.0], "y": [1.0]}), x="z"), "x is 'z'; it may be x, y"),
        (lambda: fl.plot.front(pa.table({"x": [1.0]}), ["y"]), "no column 'y'; it has x"),
        (lambda: fl.plot.timeline(pa.table({"id": [1]})), "this one lacks 'time'"),
        (lambda: fl.plot.gaps(3), "that is an int, and no table"),
    ],
)
def test_mistakes_have_one_sentence(call, text):
    with pytest.raises(fl.FoglineError) as caught:
        call()
    assert text in str(caught.value)


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(drawing, "import_module", absent)
    with pytest.raises(fl.FoglineError, match=r"pip install 'fogline\[plot\]'"):
        fl.plot.front(watched()[0])


def test_rows_are_named_as_their_index_is():
    frame = pd.DataFrame({"x": [1.0], "y": [1.0]}, index=["first"])
    assert possible_rows(frame, None)[0][0].name == "row 'first'"


def test_the_timeline_states_how_many_bars_are_left_out(monkeypatch):
    monkeypatch.setattr(import_module("fogline.plot.timeline"), "PIECES", 5)
    changes = ["enter", *["update"] * 8]
    table = pa.table({"time": range(9), "id": ["a"] * 9, "t": [0] * 9, "change": changes, "probability": [0.9] * 9})
    chart = fl.plot.timeline(table)
    assert [stay["since"] for stay in data_of(chart)] == [4, 5, 6, 7, 8]
    assert chart.to_dict()["title"]["subtitle"] == ["5 of 9 bars, the last ones"]
