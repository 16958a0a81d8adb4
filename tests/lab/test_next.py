"""Is what revealed cells gain measured and read rightly?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lab.experiments.next import ASKED, LINES, NOTHING, RANDOM, Window, interval, read
from lab.maintainers import members
from lab.race import truth_answers
from lab.revising import REVISING, Replay


def test_a_window_judged_anew_has_the_replays_answer_and_with_all_cells_revealed_the_true_one(motes):
    replay = Replay(motes, REVISING["Fogline"](motes))
    answer = replay.leap(motes.full)
    window = Window(motes, replay, motes.full)
    live = window.judged(window.uncertain)
    assert np.array_equal(members(live).id, answer.id)
    row, j = np.nonzero(motes.gaps[window.rows])
    everything = window.judged(window.revealed((window.rows[row], j), window.uncertain))
    true = truth_answers(motes, [motes.full])[motes.full]
    assert np.array_equal(members(everything).id, true)
    assert window.f(everything, true) == 1.0
    assert window.f(live, true) < 1.0


def test_the_reading_states_gains_with_intervals_and_whether_the_aim_is_reached():
    def frame(asked):
        gain = {NOTHING: 0.0, **dict.fromkeys(LINES, 0.004), ASKED: asked, RANDOM: 0.002}
        rows = [
            {"set": "intel", "place": place, "window": window, "seed": 1, "line": line, "draw": 0, "f": 0.9 + more}
            for place in range(3)
            for window in range(2)
            for line, more in gain.items()
        ]
        return pd.DataFrame(rows)

    text = read(frame(0.01)).text
    assert "intel, 6 windows, F 0.900 before: asked +0.0100 (+0.0100 to +0.0100)" in text
    assert "asked is 5.0 times random, more in 6 windows" in text
    assert "on 1 of 1 sets" in text
    assert "on 0 of 1 sets" in read(frame(0.005)).text  # less than 3 times as much


def test_windows_of_one_stretch_are_drawn_together():
    values, stretch = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1])
    assert interval(values, stretch) == (0.0, 1.0)
    low, high = interval(np.tile([0.0, 1.0], 50), np.arange(100))
    assert 0.38 < low < 0.45
    assert 0.55 < high < 0.62
