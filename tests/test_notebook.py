"""Do answers, changes and explanations show themselves in a notebook, and safely?"""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell

import fogline as fl

HOSTILE = "<img src=x onerror=alert(1)>"
QUERY = fl.Query({"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=60)


def watched() -> tuple[fl.Monitor, pa.Table]:
    monitor = fl.Monitor(QUERY)
    rows = [
        {"sensor": HOSTILE, "t": 0, "gas": 1.2, "oxygen": 19.5},
        {"sensor": "south", "t": 0, "gas": [(0.9, 1), (1.6, 3)], "oxygen": 20.1},
    ]
    return monitor, monitor.advance(0, rows)


def test_an_answer_has_bars_and_gaps_and_stays_text():
    monitor, _ = watched()
    html = fl.show(monitor.answer())._repr_html_()
    assert "2 rows in the answer" in html
    assert "&lt;img src=x" in html
    assert "<img" not in html
    assert "75.0%" in html
    assert ">gap<" in html
    assert "exact" not in html


def test_changes_have_their_signs_and_columns_that_state_nothing_are_left_out():
    monitor, entered = watched()
    left = monitor.advance(30, [{"sensor": "east", "t": 30, "gas": 1.5, "oxygen": 19.0}])
    assert "▲ enter" in fl.show(entered)._repr_html_()
    assert "reason" not in fl.show(entered)._repr_html_()
    html = fl.show(left)._repr_html_()
    assert "▽ leave" in html
    assert "beaten" in html


def test_explanations_and_a_monitor_show_themselves():
    monitor, _ = watched()
    found = fl.show(monitor.explain("south"))
    assert "south" in found._repr_html_()
    assert "south" in repr(found)
    assert fl.show(monitor)._repr_html_() == fl.show(monitor.answer())._repr_html_()


def test_long_tables_are_cut_and_the_rest_is_counted():
    table = pa.table({"id": range(70), "probability": [1.0] * 70})
    assert "… 20 more" in fl.show(table)._repr_html_()
    assert fl.show(table, 3)._repr_html_().count("<tr>") == 4
    assert repr(fl.show(table, 3)).endswith("… 67 more")


def test_what_no_table_is_has_one_sentence():
    with pytest.raises(fl.FoglineError, match="int cannot be shown; give an answer"):
        fl.show(3)
    with pytest.raises(fl.FoglineError, match="rows is 0"):
        fl.show(pa.table({"id": [1]}), 0)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({}),
        pa.table({"id": pa.array([], pa.string())}),
        pa.table({"id": ["a\nb"], "why": [json.dumps({"sentence": HOSTILE})]}),
        pa.table({"id": ["a"], "why": ["no JSON"]}),
        pa.table({"id": pa.array([2**62], pa.timestamp("ns")), "x": pa.array([None], pa.float64())}),
        pa.table({"id": pa.array([2**62], pa.timestamp("s"))}),
        pa.table({"id": [dt.date(1, 1, 1)], "ids": [[1, 2]]}),
        pa.table([[1], [2]], names=["id", "id"]),
    ],
)
def test_any_table_can_be_shown(table):
    found = fl.show(table)
    assert "<img" not in found._repr_html_()
    assert len(repr(found).splitlines()) == table.num_rows + 1


def test_the_extension_renders_tables_until_it_is_unloaded():
    shell = InteractiveShell.instance()
    table = pa.table({"id": [HOSTILE], "probability": [0.5]})
    assert shell.display_formatter is not None
    format_of = shell.display_formatter.format
    try:
        shell.run_line_magic("load_ext", "fogline")
        assert "50.0%" in format_of(table)[0]["text/html"]
        assert "<img" not in format_of(table)[0]["text/html"]
        shell.run_line_magic("unload_ext", "fogline")
        assert "text/html" not in format_of(table)[0]
    finally:
        InteractiveShell.clear_instance()


def test_rows_that_are_only_possible_are_not_counted_as_answers():
    query = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
    monitor = fl.Monitor(query)
    rows = [
        {"sensor": "a", "t": 1, "gas": 5, "oxygen": 20},
        {"sensor": "b", "t": 1, "gas": [(3, 1), (9, 3)], "oxygen": 20},
    ]
    monitor.advance(1, rows)
    assert "<b>1 row in the answer, 1 more possible</b>" in fl.show(monitor.answer(certainty="possible"))._repr_html_()
    assert "<b>1 row in the answer</b>" in fl.show(monitor.answer())._repr_html_()
