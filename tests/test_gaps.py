"""Are the figures of the README about gaps those that are measured?"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gaps import accuracy, calibration, measuring, pareto, seasons
from tests.real_sets import real_sets

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows():
    pytest.importorskip("paretoset")
    path = real_sets() / "nba_players.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the real sets")
    return seasons(path)


@pytest.mark.slow
def test_the_table_of_what_each_way_finds_is_what_is_measured(rows):
    assert f"{len(rows):,} seasons" in README
    assert f"{int(pareto(rows).sum())} are truly unbeaten" in README
    measured = {f"{recall:.0%} {precision:.0%}" for _, recall, precision in accuracy(rows)}
    lines = re.findall(r"^\| \D.*\| \**(\d+) %\** \| (\d+) % \|$", README, re.MULTILINE)
    assert {f"{recall}% {precision}%" for recall, precision in lines} == measured


@pytest.mark.slow
def test_what_is_reported_with_a_probability_is_true_as_often_as_the_readme_states(rows):
    found = {f"{stated:.1f}": right for _, stated, right in calibration(rows)}
    text = " ".join(README.split())
    stated = re.search(r"about 0\.7, (\d+) % truly are in the answer; with 0\.3, (\d+) %; with 0\.9, (\d+) %", text)
    assert stated
    assert [round(100 * found[each]) for each in ("0.7", "0.3", "0.9")] == [int(each) for each in stated.groups()]
    assert all(abs(float(each) - right) < 0.15 for each, right in found.items())


@pytest.mark.slow
def test_measuring_what_is_asked_for_gains_what_the_readme_states(rows):
    before, at_random, asked = (f"{score:.2f}" for _, score in measuring(rows))
    text = " ".join(README.split())
    assert f"the F-score is {asked} instead of {before}." in text
    assert f"drawn at random, change nothing ({at_random})." in text
    assert "about 5,900" in text
    assert np.isclose(rows.size * 0.1, 5_900, rtol=0.01)
