"""Does the demo show the truth, and does it keep its own secrets?"""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from fogline.cli import app
from fogline.demo import Plan, show
from fogline.demo.mine import ATTRIBUTES, Mine, gallery_of
from fogline.demo.room import ControlRoom
from fogline.demo.score import DROP, EXPECT, FILL, FOGLINE, Score, filled, skyline
from fogline.demo.screen import frame
from fogline.demo.watch import Watch


def fogline(*arguments):
    return CliRunner().invoke(app, arguments)


def mine_and_room(*, sensors=60, seed=3):
    mine = Mine(sensors, seed)
    return mine, ControlRoom(mine.names, mine.history())


def rows_of(*, seed, ticks):
    mine, room = mine_and_room(seed=seed)
    return [row for _ in range(ticks) for row in room.take(mine.tick())]


def watched(*, ticks, sensors=60, seed=3, alpha=0.5):
    watch = Watch(sensors, seed, alpha)
    for _ in range(ticks):
        watch.tick()
    return watch


# --- The mine and the control room ------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_rows_and_another_seed_others():
    first, again, other = (rows_of(seed=seed, ticks=60) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_the_same_seed_gives_the_same_answer():
    first, again = watched(ticks=60), watched(ticks=60)
    assert first.members == again.members
    assert first.score.tallies == again.score.tallies


def test_what_was_lost_is_written_nowhere():
    mine, room = mine_and_room()
    secretive = ControlRoom(mine.names, room.latest)
    lost = 0
    for _ in range(120):
        reports = mine.tick()
        hidden = replace(reports, truth=np.where(reports.lost, -1e6, reports.truth))
        assert room.take(reports) == secretive.take(hidden)
        lost += reports.lost.sum()
    assert lost > 50


def test_a_row_has_a_number_for_what_arrived_and_a_distribution_for_what_did_not():
    mine, room = mine_and_room()
    for _ in range(60):
        reports = mine.tick()
        for row, truth, lost in zip(room.take(reports), reports.truth, reports.lost, strict=True):
            for name, value, gone in zip(ATTRIBUTES, truth, lost, strict=True):
                assert isinstance(row[name], list) if gone else row[name] == value


def test_a_lost_value_is_the_last_known_one_moved_as_the_neighbours_moved():
    mine, room = mine_and_room()
    start, lost, i = room.latest.copy(), np.zeros((60, 4), bool), 30
    lost[i, 0] = True
    reports = replace(mine.tick(), who=np.arange(60), truth=start + 5.0, lost=lost)
    pairs = room.take(reports)[i]["temperature"]
    assert [value for value, _ in pairs] == pytest.approx([start[i, 0] + 5.0] * 8)


def test_the_fire_moves_from_one_gallery_to_the_next():
    mine, hottest = Mine(sensors=100, seed=3), []
    for _ in range(2):
        hottest.append(mine.names[mine.history()[:, 0].argmax()])
        for _ in range(200):
            mine.tick()
    assert gallery_of(hottest[0]) != gallery_of(hottest[1])


# --- The watch and its score ------------------------------------------------------------------------------------------


def test_the_changes_add_up_to_the_answer_of_the_monitor():
    watch = watched(ticks=90)
    answer = watch.monitor.answer()
    names = zip(answer["id"].to_pylist(), answer["arrived"].to_pylist(), strict=True)
    assert watch.members == dict(zip(names, answer["probability"].to_pylist(), strict=True))
    assert set(watch.since) == set(watch.answer)


def test_when_nothing_is_missing_every_way_of_asking_finds_the_truth(monkeypatch):
    monkeypatch.setattr(Mine, "_fail", lambda self, who: np.zeros((len(who), 4), bool))
    watch = watched(ticks=60, sensors=200)
    for tally in watch.score.tallies.values():
        assert tally.right > 50
        assert (tally.precision, tally.recall, tally.f1) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_reference_skyline_is_what_no_other_point_beats(seed):
    points = np.random.default_rng(seed).integers(0, 4, size=(40, 3)) / 10
    beats = lambda a, b: (a >= b).all() and (a > b).any()  # noqa: E731
    assert sorted(skyline(points)) == [k for k in range(40) if not any(beats(other, points[k]) for other in points)]


def test_gaps_are_filled_with_the_mean_of_what_the_window_knows():
    assert filled(np.array([[1.0, np.nan], [3.0, 8.0], [np.nan, np.nan]])).tolist() == [[1, 8], [3, 8], [2, 8]]


def test_each_plain_way_is_scored_for_what_it_does_to_a_gap():
    """Sensor 1 is the hottest but does not say so; its neighbours make 40 likely. Sensor 2 is beaten by 0 and by 1."""
    truth = np.array([[30.0, 1.0, 1.0, 20.0], [50.0, 1.0, 1.0, 20.0], [20.0, 1.0, 1.0, 20.0]])
    lost = np.zeros((3, 4), bool)
    lost[1, 0] = True
    mine, _ = mine_and_room()
    rows = [dict(zip(ATTRIBUTES, values, strict=True)) for values in truth.tolist()]
    rows[1]["temperature"] = [(35.0, 1.0), (45.0, 1.0)]
    score = Score(3)
    score.take(replace(mine.tick(), who=np.arange(3), truth=truth, lost=lost), rows)
    score.compare(answered={1, 2})
    found = {name: (tally.right, tally.wrong, tally.overlooked) for name, tally in score.tallies.items()}
    assert found == {FOGLINE: (1, 1, 0), DROP: (0, 1, 1), FILL: (0, 1, 1), EXPECT: (1, 0, 0)}


# --- The screen and the command ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy():
    return watched(ticks=100, sensors=300)


def drawn(watch, width, height):
    console = Console(width=width, height=height, file=io.StringIO(), record=True, force_terminal=True)
    console.print(frame(watch, width, height))
    return console.export_text().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 12)])
def test_a_frame_fits_into_its_terminal(busy, width, height):
    lines = drawn(busy, width, height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width


def test_at_80_columns_nothing_is_cut_off_and_missing_values_show_their_range(busy):
    lines = drawn(busy, 80, 24)
    assert not [line for line in lines if "…" in line]
    assert any(re.search(r"\? [0-9.]+–[0-9.]+", line) for line in lines)


def test_the_plain_demo_ends_with_a_summary():
    result = fogline("demo", "--plain", "--seconds", "1", "--sensors", "100", "--seed", "5")
    assert result.exit_code == 0
    for text in ("answer", "missing cells", "ticks 60", "precision", "recall", FOGLINE, DROP, FILL):
        assert text in result.output


def test_the_live_demo_ends_by_itself_with_a_summary():
    terminal = io.StringIO()
    show(Plan(seconds=0.5, sensors=60), Console(file=terminal, force_terminal=True, width=100, height=30))
    drawing, _, summary = terminal.getvalue().rpartition("\x1b[?1049l")  # the terminal's way back
    assert "a simulated coal mine" in drawing
    assert "missing cells" in summary
    assert "precision" in summary


@pytest.mark.parametrize(("after", "text"), [(40, "ticks 40"), (0, "before the first tick")])
def test_an_interrupted_demo_still_sums_up(monkeypatch, after, text):
    def tick(self, really=Watch.tick):
        if self.ticks == after:
            raise KeyboardInterrupt
        really(self)

    monkeypatch.setattr(Watch, "tick", tick)
    monkeypatch.setattr("fogline.demo.warm_up", lambda alpha: None)
    result = fogline("demo", "--plain", "--sensors", "60")
    assert result.exit_code == 0
    assert text in result.output


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--alpha", "1.5", "QueryError: alpha is 1.5; it is a probability"), ("--seconds", "inf", "seconds is inf")],
)
def test_a_bad_option_is_refused_in_words(option, value, words):
    result = fogline("demo", option, value)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)  # told, not thrown
    assert words in result.output


def test_the_help_teaches_what_fogline_is_and_names_the_demo():
    text = " ".join(fogline("--help").output.split())
    assert "not beaten by any other" in text
    assert "fogline demo" in text
    assert "simulated coal mine" in text


def test_the_version_is_told():
    assert fogline("--version").output.startswith("fogline 0.")
