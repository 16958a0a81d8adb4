"""Does an experiment say what was measured?"""

from __future__ import annotations

from dataclasses import replace

from fogline.lab.experiments.fscore import fscore
from tests.lab.conftest import SMALL


def test_fscore_has_a_row_for_every_imputer_window_and_fiftieth_tick(folder):
    rows = list(fscore("intel", folder, ["mean", "last"], replace(SMALL, ticks=52), [None, 1_550]))
    assert [(row.imputer, row.start, row.tick) for row in rows] == [
        (imputer, start, tick) for start in (None, 1_550) for imputer in ("mean", "last") for tick in (19, 69)
    ]
    assert all(0 <= row.f <= 1 for row in rows)


def test_on_slow_waves_repeating_the_last_value_scores_better_than_the_mean(folder):
    rows = list(fscore("intel", folder, ["mean", "last"], replace(SMALL, xi=0.5)))
    best = {row.imputer: row.f for row in rows}
    assert best["last"] > best["mean"]
