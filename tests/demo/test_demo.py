"""Does the demo show the truth, and does it keep its own secrets?"""

import io
import re
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.demo import DemoOptions, run, show
from fogline.demo.comparison import DROP, EXPECT, FILL, FOGLINE, TruthComparison, filled, skyline
from fogline.demo.control_room import ControlRoom, earlier_shift
from fogline.demo.display import frame
from fogline.demo.engine import EmbeddedEngine
from fogline.demo.mine import ATTRIBUTES, OPENING, STEP, Mine, gallery_of
from fogline.demo.shift import Shift, question
from fogline.demo.view import MineView


def fogline(*arguments):
    return CliRunner().invoke(app, arguments)


@contextmanager
def embedded():
    yield EmbeddedEngine()


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Kernels are there, and the shift before was a short one."""
    monkeypatch.setattr(run, "warm_up", lambda query: None)
    monkeypatch.setattr(run, "earlier_shift", partial(earlier_shift, readings=3_000))


def shown(options, *, plain=True, width=100, height=30):
    """Run the demo without Spark; what it wrote, and what it knows in the end."""
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=not plain, width=width, height=height)
    view = show(options, console, plain=plain, opened=embedded)
    return terminal.getvalue(), view


@pytest.fixture(scope="module")
def repository():
    return fl.Repository.fit(earlier_shift(sensors=60, seed=3, readings=3_000), question(0.5))


@pytest.fixture
def shift(repository):
    return Shift(60, 3, question(0.5), repository)


def mine_and_room(*, sensors=60, seed=3):
    mine = Mine(sensors, seed)
    return mine, ControlRoom(mine.names, mine.readings())


def everyone(mine, truth, lost):
    """Reports of all sensors at one tick."""
    return replace(mine.tick(), who=np.arange(len(truth)), truth=truth, lost=lost)


# --- The mine and the control room ------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_rows_and_another_seed_others():
    def rows_of(seed):
        mine, room = mine_and_room(seed=seed)
        return [room.take(mine.tick()) for _ in range(60)]

    assert rows_of(3) == rows_of(3)
    assert rows_of(3) != rows_of(4)


def test_another_shift_of_the_same_mine_has_other_readings_around_the_same_usual_ones():
    now, before = Mine(60, 3), Mine(60, 3, shift=-1)
    assert (now.usual == before.usual).all()
    assert (now.wander != before.wander).all()
    assert before.tick().when < OPENING


def test_what_was_lost_is_written_nowhere():
    mine, room = mine_and_room()
    secretive = ControlRoom(mine.names, room.latest)
    lost = 0
    for _ in range(120):
        reports = mine.tick()
        hidden = replace(reports, truth=np.where(reports.lost, -1e6, reports.truth))
        assert room.take(reports).equals(secretive.take(hidden))
        lost += reports.lost.sum()
    assert lost > 50


def test_a_row_has_a_number_for_what_arrived_and_null_for_what_did_not():
    mine, room = mine_and_room()
    for _ in range(60):
        reports = mine.tick()
        for row, truth, lost in zip(room.take(reports).to_pylist(), reports.truth, reports.lost, strict=True):
            for name, value, gone in zip(ATTRIBUTES, truth, lost, strict=True):
                assert row[name] is None if gone else row[name] == value


def test_a_lost_value_is_surrounded_by_the_last_known_one_moved_as_the_neighbours_moved():
    mine, room = mine_and_room()
    start, lost, i = room.latest.copy(), np.zeros((60, 4), bool), 30
    lost[i, 0] = True
    room.take(everyone(mine, start + 5.0, lost))
    row = room.take(everyone(mine, start + 5.0, lost)).to_pylist()[i]
    assert row["temperature"] is None
    assert row["moved_temperature"] == pytest.approx(start[i, 0] + 5.0)
    assert row["moved_gas"] == pytest.approx(start[i, 1] + 5.0)


def test_a_reading_does_not_impute_itself():
    """What stands beside a reading was known before it came: else history would find rules that never help."""
    mine, room = mine_and_room()
    before, who = room.latest.copy(), np.array([30])
    alone = replace(mine.tick(), who=who, truth=before[who] + 5.0, lost=np.zeros((1, 4), bool))
    assert room.take(alone).to_pylist()[0]["moved_temperature"] == pytest.approx(before[30, 0])


def test_the_history_is_complete_and_about_as_long_as_asked():
    for sensors in (20, 300, 5_000):
        history = earlier_shift(sensors, seed=3, readings=1_000)
        assert 1_000 <= history.num_rows < 1_100
        assert all(column.null_count == 0 for column in history.columns)


def test_the_fire_moves_from_one_gallery_to_the_next():
    mine, hottest = Mine(sensors=100, seed=3), []
    for _ in range(2):
        hottest.append(mine.names[mine.readings()[:, 0].argmax()])
        for _ in range(200):
            mine.tick()
    assert gallery_of(hottest[0]) != gallery_of(hottest[1])


# --- The shift, the view and its comparison ---------------------------------------------------------------------------


def test_every_lost_value_gets_the_bounds_and_the_mean_of_its_distribution(shift, repository):
    rows, happened = shift.next(90)
    low, high, mean = (np.concatenate([getattr(tick, name) for tick in happened]) for name in ("low", "high", "mean"))
    spread = fl.impute.distributions(rows, question(0.5), repository).to_pylist()
    names = list(zip(rows["sensor"].to_pylist(), rows["ts"].to_pylist(), strict=True))
    gaps = np.argwhere(np.concatenate([tick.reports.lost for tick in happened]))
    assert len(gaps) > 50
    for i, j in gaps:
        cell = [
            each
            for each in spread
            if (each["sensor"], each["ts"]) == names[i] and each["attribute"] == [*ATTRIBUTES][j]
        ]
        values = [each["value"] for each in cell]
        assert (low[i, j], high[i, j]) == (min(values), max(values))
        assert mean[i, j] == pytest.approx(sum(each["value"] * each["probability"] for each in cell))


def follow(view, engine):
    report = engine.poll(0.0)
    assert report is not None
    view.follow(report)


def viewed(shift, repository, group_rows, *, latest=False):
    view, engine = MineView(60, 0.5, latest=latest), EmbeddedEngine()
    engine.start(question(0.5, latest=latest), repository, at_once=None)
    for ticks in group_rows:
        rows, happened = shift.next(ticks)
        engine.send(rows)
        view.expect(happened)
        follow(view, engine)
    return view, engine


def test_the_changes_add_up_to_the_answer_of_the_monitor(shift, repository):
    view, engine = viewed(shift, repository, [30, 30, 30])
    answer = engine.monitor.answer()
    names = zip(answer["sensor"].to_pylist(), answer["ts"].to_pylist(), strict=True)
    assert view.members == dict(zip(names, answer["probability"].to_pylist(), strict=True))
    assert set(view.since) == set(view.answer)
    assert view.now == OPENING + 89 * STEP


def test_what_is_known_after_a_tick_does_not_depend_on_how_the_stream_was_cut(repository):
    def all_of(group_rows):
        view, _ = viewed(Shift(60, 3, question(0.5), repository), repository, group_rows)
        return view.members, view.since, list(view.recent), view.comparison.counts, view.ticks, view.missing

    assert all_of([90]) == all_of([7, 1, 40, 42]) == all_of([1] * 90)


def test_a_tick_is_shown_when_it_is_complete_and_not_before(shift, repository):
    view, engine = MineView(60, 0.5), EmbeddedEngine()
    engine.start(question(0.5), repository, at_once=None)
    for _ in range(2):
        rows, happened = shift.next(10)
        engine.send(rows)
        view.expect(happened)
    assert view.ticks == 0
    follow(view, engine)
    assert (view.ticks, view.now) == (10, OPENING + 9 * STEP)


def test_ticks_without_reports_are_ticks_too():
    _, view = shown(DemoOptions(seconds=1, sensors=20, speed=48 * 5))
    assert (view.ticks, view.rows) == (48, 40)


def test_when_nothing_is_missing_every_way_of_asking_finds_the_truth(monkeypatch):
    monkeypatch.setattr(Mine, "_fail", lambda self, who: np.zeros((len(who), 4), bool))
    _, view = shown(DemoOptions(seconds=1, sensors=200, speed=300))
    for count in view.comparison.counts.values():
        assert count.right > 50
        assert (count.precision, count.recall, count.f1) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_reference_skyline_is_what_no_other_point_beats(seed):
    points = np.random.default_rng(seed).integers(0, 4, size=(40, 3)) / 10
    beats = lambda a, b: (a >= b).all() and (a > b).any()  # noqa: E731
    assert sorted(skyline(points)) == [k for k in range(40) if not any(beats(other, points[k]) for other in points)]


def test_gaps_are_filled_with_the_mean_of_what_the_window_knows():
    assert filled(np.array([[1.0, np.nan], [3.0, 8.0], [np.nan, np.nan]])).tolist() == [[1, 8], [3, 8], [2, 8]]


def test_each_plain_way_is_judged_for_what_it_does_to_a_gap():
    """Sensor 1 is the hottest but its reading is lost; history makes 40 likely. Sensor 2 is beaten by 0 and by 1."""
    truth = np.array([[30.0, 1.0, 1.0, 20.0], [50.0, 1.0, 1.0, 20.0], [20.0, 1.0, 1.0, 20.0]])
    lost, mean = np.zeros((3, 4), bool), truth.copy()
    lost[1, 0], mean[1, 0] = True, 40.0
    mine, _ = mine_and_room()
    comparison = TruthComparison(3)
    comparison.take(everyone(mine, truth, lost), mean)
    comparison.compare(answered={1, 2})
    found = {name: (count.right, count.wrong, count.overlooked) for name, count in comparison.counts.items()}
    assert found == {FOGLINE: (1, 1, 0), DROP: (0, 1, 1), FILL: (0, 1, 1), EXPECT: (1, 0, 0)}


# --- The screen and the command ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "warm_up", lambda query: None)
        patch.setattr(run, "earlier_shift", partial(earlier_shift, readings=3_000))
        return shown(DemoOptions(seconds=1, speed=500))[1]


def drawn(view, width, height):
    console = Console(width=width, height=height, file=io.StringIO(), record=True, force_terminal=True)
    console.print(frame(view, width, height))
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


def test_the_plain_demo_reports_what_it_does_and_ends_with_a_summary(monkeypatch):
    monkeypatch.setattr(run, "earlier_shift", earlier_shift)
    text, _ = shown(DemoOptions(seconds=4, sensors=100, seed=5, speed=75))
    assert "learning from 12,000 readings" in text
    assert len(re.findall(r"^\d\d:\d\d:\d\d .* answer \d+:", text, re.MULTILINE)) == 8
    for words in ("missing cells", "ticks 60", "precision", "recall", FOGLINE, DROP, FILL):
        assert words in text


def test_the_live_demo_ends_by_itself_with_the_comparison_of_the_plain_one():
    options = DemoOptions(seconds=1.2, sensors=60)
    text, live = shown(options, plain=False)
    drawing, _, summary = text.rpartition("\x1b[?1049l")  # the terminal's way back
    assert "a simulated coal mine" in drawing
    assert "missing cells" in summary
    assert "precision" in summary
    assert live.comparison.counts == shown(options)[1].comparison.counts


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(("after", "words"), [(2, "ticks 24"), (0, "before the first tick")])
def test_an_interrupted_demo_still_sums_up(monkeypatch, after, words, plain):
    batches = iter(range(after))

    def poll(self, patience, really=EmbeddedEngine.poll):
        if next(batches, None) is None:
            raise KeyboardInterrupt
        return really(self, patience)

    monkeypatch.setattr(EmbeddedEngine, "poll", poll)
    assert words in shown(DemoOptions(seconds=3, sensors=60), plain=plain)[0]


def test_without_pyspark_the_demo_runs_in_this_process_and_states_so(monkeypatch):
    monkeypatch.setattr(run, "find_spec", lambda name: None)
    monkeypatch.setattr(run, "on_spark", None)
    result = fogline("demo", "--plain", "--seconds", "1", "--sensors", "60", "--speed", "600")
    assert result.exit_code == 0
    assert "PySpark is not installed: the demo runs in this process" in result.output
    assert "held against the true skyline" in result.output


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--alpha", "1.5", "QueryError: alpha is 1.5; it is a probability"), ("--seconds", "inf", "seconds is inf")],
)
def test_a_bad_option_is_refused_in_words(option, value, words):
    result = fogline("demo", option, value)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)  # in words, no traceback
    assert words in result.output


def test_the_help_teaches_what_fogline_is_and_names_the_demo():
    text = " ".join(fogline("--help").output.split())
    assert "that no other row beats on all measures at once" in text
    assert "fogline demo" in text
    assert "simulated coal mine" in text


def test_the_version_is_shown():
    assert fogline("--version").output.startswith("fogline 0.")


# --- The newest reading of each sensor --------------------------------------------------------------------------------


def test_asked_for_the_newest_readings_the_demo_answers_the_same_and_reports_sensors(repository):
    """Every sensor reports once in the lifetime of a reading, so both questions have the same answers."""
    usual, _ = viewed(Shift(60, 3, question(0.5), repository), repository, [30, 60])
    newest, engine = viewed(Shift(60, 3, question(0.5), repository), repository, [30, 60], latest=True)
    assert newest.answer == pytest.approx(usual.answer)
    assert (newest.since, newest.comparison.counts) == (usual.since, usual.comparison.counts)
    assert [each.sensor for each in newest.recent] == [each.sensor for each in usual.recent]
    assert (newest.live, sorted(engine.monitor.answer()["sensor"].to_pylist())) == (60, sorted(newest.answer))


def test_the_newest_readings_need_no_spark(monkeypatch):
    monkeypatch.setattr(run, "on_spark", None)
    result = fogline("demo", "--latest", "--plain", "--seconds", "1", "--sensors", "60", "--speed", "600")
    assert result.exit_code == 0
    assert "Spark" not in result.output
    assert "held against the true skyline" in result.output


def test_the_screen_states_what_is_asked():
    for latest, asked in ((True, "which sensors are worst now?"), (False, "which places are beaten by none?")):
        terminal = io.StringIO()
        Console(file=terminal, width=120, height=30).print(frame(MineView(60, 0.5, latest=latest), 120, 30))
        assert asked in terminal.getvalue()
