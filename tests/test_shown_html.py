"""Is what a notebook shows safe, and does it show gaps and probabilities?"""

from __future__ import annotations

import re

import pytest

from fogline.notebook import cell_text, html_table

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("place", ["name", "cell", "title", "note"])
def test_whatever_comes_from_data_stays_text(place):
    given = {each: HOSTILE if each == place else "x" for each in ("name", "cell", "title", "note")}
    html = html_table([given["name"]], [[given["cell"]]], title=given["title"], note=given["note"])
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_a_gap_is_marked_where_a_column_may_have_one_and_empty_elsewhere():
    html = html_table(["gas", "rival"], [[None, None], [float("nan"), "a"]], gaps=["gas"])
    assert html.count(">gap<") == 2
    assert html.count("<td></td>") == 1


def test_a_probability_has_a_bar_as_long_as_it_is_likely():
    html = html_table(["probability", "gas"], [[0.25, 0.25], [1.5, 1.5]])
    assert re.findall(r"gradient\(90deg,[^ ]+ ([^,]+),", html) == ["25.0%"]


def test_every_tag_is_closed():
    html = html_table(["a", "b"], [[1, "x"], [2.5, None]], title="t", note="n", gaps=["b"])
    for tag in ("div", "table", "thead", "tbody", "tr", "th", "td", "span", "b"):
        assert len(re.findall(f"<{tag}[ >]", html)) == html.count(f"</{tag}>")


def test_a_long_text_is_cut_and_a_bool_is_no_number():
    assert len(cell_text("y" * 500)) == 80
    assert cell_text(True) == "True"
    assert '<td style="text-align:left">True</td>' in html_table(["in"], [[True]], bars=["in"])
