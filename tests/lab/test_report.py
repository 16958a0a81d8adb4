"""Does the report state what came out, and nothing else?"""

from __future__ import annotations

import doctest
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab import bench, experiments, report, results
from lab.__main__ import app
from lab.case import LabError
from lab.experiment import Plot, Scope
from lab.report import chapter, page, plot
from lab.results import Results
from tests.lab.fakes import Fake

FAKES = (
    Fake("sizes"),
    Fake("sorts", title="Time < sort", verdict="fails here"),
    Fake("shapes", title="Shapes", verdict="flatter or faster"),
    Fake("more", title="More", verdict="beyond the paper"),
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Four experiments, each with another verdict."""
    folder = tmp_path_factory.mktemp("lab")
    made = [each.experiment() for each in FAKES]
    bench.run(bench.trials(made, Scope()), Scope(), Results(folder), Console(file=io.StringIO()))
    return made, Results(folder)


@pytest.fixture(scope="module")
def written(measured, tmp_path_factory):
    """Their report."""
    folder = tmp_path_factory.mktemp("report")
    report.write(measured[0], measured[1], folder)
    return folder


class Tags(HTMLParser):
    """Opens and closes; void tags aside."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_has_each_title_verdict_reading_and_drawing(written):
    html = (written / "report.html").read_text()
    for title in ("Time &amp; size", "Time &lt; sort", "Shapes", "More"):
        assert html.count(f">{title}<") == 2  # in the list, over its chapter
    for verdict in ("✓ holds", "✗ fails here", "≠ flatter or faster"):
        assert html.count(f"{verdict}</span>") == 4  # on top, in the list, in its chapter, beside its claim
    assert html.count("+ beyond the paper</span>") == 3
    assert html.count("It is fast: for a reason.") == 3
    assert html.count("<svg") == 4
    assert html.count("Over 3 sizes.") == 8
    assert html.count("The rest is silence.") == 4  # not in the list: a line is a sentence
    assert html.count("<details>") == 4


def test_the_page_needs_nothing_but_itself(written):
    html = (written / "report.html").read_text()
    assert not re.search(r"https?:|src=|@import|url\((?!#)", html)
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    ids = {attrs["id"] for _, attrs in tags.seen if "id" in attrs}
    links = {attrs["href"] for _, attrs in tags.seen if "href" in attrs}
    assert links
    assert {link[1:] for link in links} <= ids
    assert plot.INK not in html  # drawings take the colour of the text around them


def test_the_summary_links_plots_that_are_there(written):
    text = (written / "summary.md").read_text()
    linked = re.findall(r"\]\((plots/[^)]+)\)", text)
    assert sorted(linked) == sorted(f"plots/{path.name}" for path in (written / "plots").iterdir())
    assert (
        "4 experiments: of 3 claims of the paper 1 hold, 1 fail here, 1 come out flatter or faster; 1 beyond the paper"
        in text
    )
    assert "| DD+skyline | 0.1 | 0.2 | 0.4 |" in text


def test_the_same_rows_give_the_same_report(measured, written, tmp_path):
    report.write(measured[0], measured[1], tmp_path)
    for path in (each.relative_to(written) for each in written.rglob("*") if each.is_file()):
        assert (tmp_path / path).read_bytes() == (written / path).read_bytes()


def test_a_report_states_what_is_missing_and_that_it_was_quick(tmp_path):
    made = [each.experiment() for each in FAKES]
    made.append(replace(made[0], name="real", trials=lambda scope: []))
    quick = Results(tmp_path, quick=True)
    with pytest.raises(LabError, match=r"nothing in .* to report"):
        report.write(made, quick, tmp_path)
    bench.run(bench.trials(made[:1], Scope(quick=True)), Scope(quick=True), quick, Console(file=io.StringIO()))
    assert report.write(made, quick, tmp_path).command == "python -m lab run sizes --quick"
    for name in ("report.html", "summary.md"):
        text = (tmp_path / name).read_text()
        assert "Not measured: sorts, shapes, more." in text
        assert re.search(r"need real sets \(.*\): real\.", text)
        assert "quick run" in text


def test_what_cannot_be_read_or_drawn_does_not_hide_the_others(measured, tmp_path):
    def blind(rows: pd.DataFrame):
        return rows["nowhere"]

    made, rows = measured
    dull = replace(made[1], plots=(Plot("Words", "size", "system"), *made[1].plots))
    written = report.write([replace(made[0], read=blind), dull, *made[2:]], rows, tmp_path)
    assert set(written.troubles) == {"sizes", "sorts"}
    assert written.troubles["sizes"] == "its rows could not be read: KeyError: 'nowhere'"
    assert written.troubles["sorts"].startswith("'Words' could not be drawn: ValueError: could not convert")
    assert written.verdicts["not read"] == 1
    assert "fails here" in (tmp_path / "report.html").read_text()


def test_the_command_reports_full_results_and_quick_ones_only_if_there_are_no_others(measured, tmp_path, monkeypatch):
    made, rows = measured
    monkeypatch.setattr(experiments, "EXPERIMENTS", {each.name: each for each in made}, raising=False)

    def call(*words):
        return CliRunner().invoke(app, [*words])

    written = call("report", "--out", str(rows.folder.parent), "--to", str(tmp_path / "a"))
    assert written.exit_code == 0
    assert "4 experiments: of 3 claims of the paper 1 hold" in written.stdout
    assert (tmp_path / "a" / "report.html").exists()
    assert call("run", "sizes", "--quick", "--out", str(tmp_path / "b")).exit_code == 0
    assert "1 experiments (quick)" in call("report", "--out", str(tmp_path / "b")).stdout
    nothing = call("report", "--out", str(tmp_path / "c"))
    assert nothing.exit_code == 2
    assert "python -m lab run --quick" in nothing.stderr


ROWS = pd.DataFrame(
    {
        "x": [1, 1, 2, 2, 3],
        "y": [0.0, 2.0, 4.0, 4.0, 9.0],
        "name": ["fogline", "fogline", "fogline", "b", "b"],
        "word": ["one", "one", "two", "two", "three"],
        "half": [None, None, 1.0, 1.0, 1.0],
        "yes": [True, False, True, True, False],
    }
)


@pytest.mark.parametrize(
    "drawn",
    [
        Plot("lines", "x", "y", "name"),
        Plot("log", "x", "y", "name", log_x=True, log_y=True, spread=True),
        Plot("words", "word", "y", "name", spread=True),
        Plot("bars", "word", "y", "name", kind="bar", log_y=True, spread=True),
        Plot("panels", "x", "y", None, "name"),
        Plot("diagonal", "x", "y", diagonal=True),
        Plot("yes and no", "x", "yes", spread=True),
        Plot("one point", "x", "y", where={"x": 3}, log_x=True, log_y=True),
    ],
    ids=lambda each: each.title,
)
def test_every_kind_of_plot_can_be_drawn(drawn):
    assert plot.draw(drawn, plot.select(drawn, ROWS)).startswith("<svg")


def test_panels_that_share_an_axis_show_all_of_it():
    rows = pd.DataFrame({"x": [1, 2] * 2, "y": [1.0, 2.0, 3.0, 8.0], "part": ["low"] * 2 + ["high"] * 2})
    drawn = plot.draw(Plot("", "x", "y", None, "part"), rows)
    assert re.search(r">\s*8\s*</text>", drawn)


def test_a_plot_takes_only_the_rows_it_asks_for():
    assert list(plot.select(Plot("", "x", "y", where={"name": "b"}), ROWS)["y"]) == [4.0, 9.0]
    assert list(plot.select(Plot("", "x", "y", where={"half": None}), ROWS)["y"]) == [0.0, 2.0]
    assert list(plot.select(Plot("", "x", "y", where={"x": (1, 3)}), ROWS)["y"]) == [0.0, 2.0, 9.0]
    assert plot.select(Plot("", "x", "nothing"), ROWS).empty


def test_a_table_has_the_mean_and_its_spread():
    (grid,) = plot.grids(Plot("", "x", "y", "name", kind="table", spread=True), ROWS)
    assert grid.head == ["x", "fogline", "b"]
    assert grid.body == [["1", "1 ± 1.4", "–"], ["2", "4", "4"], ["3", "–", "9"]]


def test_a_tables_spread_may_be_that_between_repetitions():
    (grid,) = plot.grids(Plot("", "name", "y", kind="table", spread=True, per=("word",)), ROWS)
    assert grid.body == [["fogline", "2.5 ± 2.1"], ["b", "6.5 ± 3.5"]]  # of (1, 4) and (4, 9)


def test_fogline_looks_the_same_in_every_plot_and_like_no_other():
    names = ["mean", "DD+skyline", "fogline", *(f"s{k}" for k in range(12))]
    looks = plot.styles(names)
    assert looks["fogline"] == plot.styles(["fogline"])["fogline"]
    assert looks["DD+skyline"] == plot.styles(["con+skyline", "DD+skyline"])["DD+skyline"]
    assert [name for name in names if looks[name].colour == plot.FOGLINE_COLOUR] == ["fogline"]
    assert len({(each.colour, each.dash) for each in looks.values()}) == len(names)


def test_drawing_leaves_the_settings_of_others_alone():
    with matplotlib.rc_context({"font.size": 17}):
        plot.draw(Plot("", "x", "y"), ROWS)
        assert matplotlib.rcParams["font.size"] == 17


@pytest.mark.parametrize("module", [chapter, plot, results, page], ids=lambda each: each.__name__)
def test_examples_in_docstrings_are_true(module):
    assert doctest.testmod(module).failed == 0
