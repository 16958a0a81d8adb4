"""Do objects show themselves, and is a row found, named and filled by what a person would write?"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.impute.written import completed
from fogline.output.about import FORMAT
from fogline.output.folder import LocalFolder
from fogline.repository.held_out import HeldOut
from fogline.results import ImputedCell
from fogline.runs.start import begun_with
from fogline.saved import sealed

QUERY = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)


def history(n: int = 400, noise: float = 0.05) -> pa.Table:
    dice = np.random.default_rng(1)
    gas = np.cumsum(dice.normal(size=n)) / 5
    return pa.table(
        {"sensor": np.arange(n) % 4, "t": np.arange(n), "gas": gas, "oxygen": 2 * gas + noise * dice.normal(size=n)}
    )


@pytest.fixture(scope="module")
def repository() -> fl.Repository:
    return fl.Repository.fit(history(), QUERY)


# --- What an object looks like ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lifetime", "shown"),
    [("2 hours", "'2 hours'"), ("90 min", "'90 minutes'"), ("1500 ms", "'1500 milliseconds'"), (7.0, "7.0")],
)
def test_a_query_shows_its_lifetime_as_a_person_would_write_it(lifetime, shown):
    query = fl.Query(attributes={"gas": "max"}, id="sensor", time="t", lifetime=lifetime)
    assert repr(query) == f"Query(attributes={{'gas': 'max'}}, id='sensor', time='t', lifetime={shown}, alpha=0.5)"
    assert eval(repr(query), {"Query": fl.Query}) == query


def test_a_long_query_is_shown_on_a_few_lines_and_is_the_same_again():
    query = fl.Query(
        attributes={f"attribute_{k}": "max" for k in range(6)}, id="sensor", time="t", latest=True, gone="gone",
        remember_removed="1 day", by=["site", "floor"], limits={"attribute_0": (0, 1)},
    )  # fmt: skip
    lines = repr(query).splitlines()
    assert 3 <= len(lines) <= 6
    assert max(map(len, lines)) <= 104
    assert "remember_removed='1 day'" in repr(query)
    assert eval(repr(query), {"Query": fl.Query}) == query


def test_an_error_names_a_duration_in_words():
    with pytest.raises(
        fl.errors.QueryError, match=r"remember_removed is '2 hours' and lifetime 5\.0: both are numbers"
    ):
        fl.Query(attributes={"x": "max"}, id="i", time="t", latest=True, lifetime=5, remember_removed="120 min")


def test_a_monitor_and_a_repository_show_themselves_on_a_few_lines(repository):
    monitor = fl.Monitor(QUERY, repository)
    assert repr(monitor).startswith(
        "Monitor(not begun; 0 rows, 0 rejected; 0 in the answer of 0 live rows, 0 groups)\n"
    )
    monitor.advance(
        3, [{"sensor": 1, "t": 3, "gas": 2.0, "oxygen": 1.0}, {"sensor": 2, "t": 2, "gas": "no", "oxygen": 1}]
    )
    first, second, third, *rest = repr(monitor).splitlines()
    assert first == "Monitor(at 3; 2 rows, 1 rejected; 1 in the answer of 1 live row, 1 group)"
    assert second == f"    {QUERY!r}"
    assert third == "    Repository(400 rows, fitted by 'held-out')"
    assert len(rest) == 2
    assert rest[0].strip().startswith("gas: ")
    assert rest[0].endswith("the whole history's distribution")


def test_a_repository_of_many_attributes_shows_the_first():
    names = [f"a{k}" for k in range(14)]
    query = fl.Query(attributes=dict.fromkeys(names, "max"), id="id", time="t", last=10)
    made = fl.Repository.fit([dict.fromkeys(names, float(k)) for k in range(5)], query, method="mean")
    lines = repr(made).splitlines()
    assert len(lines) == 11
    assert lines[-1].strip() == "… and 5 attributes more"


# --- Finding and naming rows ------------------------------------------------------------------------------------------


def test_an_id_is_found_however_it_is_written():
    numbers = fl.Monitor(QUERY)
    numbers.advance(1, [{"sensor": 57, "t": 1, "gas": 5, "oxygen": 3}])
    assert [each.id for each in numbers.explain("57")] == [57]
    assert [each.id for each in numbers.explain(57.0)] == [57]
    assert not numbers.explain("58")[0].live
    texts = fl.Monitor(QUERY)
    texts.advance(1, [{"sensor": name, "t": 1, "gas": 5, "oxygen": 3} for name in ("57", " 58", "58 ")])
    assert [each.id for each in texts.explain(57)] == ["57"]
    assert [each.id for each in texts.explain(" 58")] == [" 58"]
    with pytest.raises(
        fl.errors.RowsError, match="no row has the id 58, and several are written like it: ' 58', '58 '"
    ):
        texts.explain(58)


def test_rivals_are_named_by_id_and_arrival():
    monitor = fl.Monitor(QUERY)
    monitor.advance(2, [{"sensor": "a", "t": 1, "gas": [(1, 3), (9, 1)], "oxygen": 3}])
    monitor.advance(3, [{"sensor": "a", "t": 3, "gas": 5, "oxygen": 3}])
    newest, old = sorted(monitor.explain("a"), key=lambda each: -each.arrived)
    assert newest.beaten_by == (("a", 1, 0.25),)
    assert old.beaten_by == (("a", 3, 0.75),)
    assert old.beaten_by[0].arrived == 3
    assert "; 'a' (arrived 3) beats it with probability 0.75; " in old.sentence
    assert str(old).splitlines()[1] == "  'a' (arrived 1): 'a' (arrived 3) guards it, for the rest of its life"


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (["p", "q", "r"], ["p", "r"]),
        (pd.RangeIndex(10, 40, 10), [10, 30]),
        (pd.MultiIndex.from_tuples([(0, "a"), (0, "b"), (1, "a")]), [0, 2]),
        ([1, "b", 2.5], [0, 2]),
    ],
)
def test_the_answer_over_a_frame_keeps_the_labels_of_its_rows_or_their_positions(index, expected):
    frame = pd.DataFrame({"sensor": ["a", "b", "c"], "gas": [1.0, 0.5, 2.0], "oxygen": [1.0, 1.0, 2.0]}, index=index)
    found = fl.skyline(frame, QUERY)
    assert found["sensor"].to_pylist() == ["a", "c"]
    assert found["row"].to_pylist() == expected
    assert fl.skyline(pa.Table.from_pandas(frame, preserve_index=False), QUERY)["row"].to_pylist() == [0, 2]


# --- What a repository is worth ---------------------------------------------------------------------------------------


def test_a_table_is_answered_with_a_warning_where_means_do_better_than_the_repository():
    dice = np.random.default_rng(3)
    gas = np.concatenate((dice.normal(size=540), 50 + dice.normal(size=60)))  # the newest are unlike the others
    past = pa.table(
        {"sensor": [str(k) for k in range(600)], "t": np.arange(600), "gas": gas, "oxygen": dice.normal(size=600)}
    )
    made = fl.Repository.fit(past, QUERY, retention=0)
    rows = [{"sensor": "a", "gas": None, "oxygen": 1.0}, {"sensor": "b", "gas": 1.0, "oxygen": None}]
    with pytest.warns(fl.HistoryWarning) as caught:
        fl.skyline(rows, QUERY, made)
    [found] = [str(each.message) for each in caught if "'gas'" in str(each.message)]
    assert found.startswith("on held-out rows, what the repository gives for 'gas' is off by ")
    assert "knowing nothing is off by" in found
    with pytest.warns(fl.HistoryWarning):
        fl.skyline(rows, QUERY, made)  # again, and from what was kept


def test_a_table_is_answered_in_silence_where_the_repository_does_well_or_no_value_is_missing(repository):
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.HistoryWarning)
        fl.skyline(
            [{"sensor": 1, "gas": None, "oxygen": 1.0}, {"sensor": 2, "gas": 1.0, "oxygen": 1.0}], QUERY, repository
        )
        fl.skyline([{"sensor": 2, "gas": 1.0, "oxygen": 1.0}], QUERY, repository)


def test_all_gains_are_against_knowing_nothing(repository, tmp_path):
    for each in (*repository.others.values(), *(repository.sensors.transitions if repository.sensors else {}).values()):
        assert each.gain == 1 - each.error / each.nothing
    for name, each in repository.others.items():
        nothing = HeldOut(repository.history, name).level_0.mean()
        assert each.nothing == pytest.approx(nothing, rel=0.2)
        assert each.without <= each.nothing
    repository.save(tmp_path)
    again = fl.Repository.load(tmp_path)
    assert {name: each.gain for name, each in again.others.items()} == {
        name: each.gain for name, each in repository.others.items()
    }
    shown = CliRunner().invoke(app, ["rules", str(tmp_path)]).output
    assert "other attributes -> oxygen" in shown
    assert f"{repository.others['oxygen'].gain:.0%}" in shown


def test_a_sensors_own_past_is_held_against_knowing_nothing(tmp_path):
    dice = np.random.default_rng(2)
    level = np.repeat(dice.normal(size=8)[None] * 10, 150, axis=0) + np.cumsum(dice.normal(size=(150, 8)) / 10, axis=0)
    past = pa.table({"sensor": np.tile(np.arange(8), 150), "t": np.repeat(np.arange(150), 8), "gas": level.ravel()})
    query = fl.Query(attributes={"gas": "max"}, id="sensor", time="t", lifetime=10)
    made = fl.Repository.fit(past, query)
    assert made.sensors is not None
    learnt = made.sensors.transitions["gas"]
    assert learnt.nothing >= learnt.without > learnt.error
    assert learnt.gain == 1 - learnt.error / learnt.nothing > 1 - learnt.error / learnt.without - 1e-12


# --- rules --live -----------------------------------------------------------------------------------------------------


def test_rules_of_a_run_are_shown_with_the_version_it_was_begun_with_and_refused_with_another(tmp_path):
    first = fl.Repository.fit(history(), QUERY)
    folder, output = tmp_path / "repository", tmp_path / "out"
    first.save(folder)
    output.mkdir()
    about = {"format": FORMAT, "query": QUERY.to_dict(), "repository": first.fingerprint, "shape": {}, "stream": "in"}
    (output / "about.json").write_text(sealed(about))
    place = LocalFolder(str(output))
    known = fl.Repository.load(folder)
    assert begun_with(place, "out", known) is known
    fl.Repository.fit(history(500), QUERY).save(folder)
    assert begun_with(place, "out", fl.Repository.load(folder)).fingerprint == first.fingerprint
    run = CliRunner().invoke(app, ["rules", str(folder), "--live", str(output)])
    assert "uses an older version of this repository" in run.output
    other = tmp_path / "other"
    fl.Repository.fit(history(300), QUERY).save(other)
    run = CliRunner().invoke(app, ["rules", str(other), "--live", str(output)])
    assert run.exit_code == 2
    assert "was begun with another repository" in run.output
    assert "name the folder that the run was given" in " ".join(run.output.split())
    (output / "about.json").write_text(sealed({**about, "repository": None}))
    run = CliRunner().invoke(app, ["rules", str(other), "--live", str(output)])
    assert run.exit_code == 2
    assert "was begun without a repository" in run.output


# --- Completed rows ---------------------------------------------------------------------------------------------------


def test_completed_rows_have_the_median_of_each_gap_and_name_what_filled_it(repository):
    rows = pa.table(
        {
            "sensor": [1, 2, 3, 4],
            "t": [500, 501, None, 503],
            "note": ["as", "it", "came", None],
            "gas": [1.0, None, None, None],
            "oxygen": [None, 3.0, 1.0, None],
        }
    )
    found = completed(rows, QUERY, repository).rows
    assert found.column_names == [*rows.column_names, "filled"]
    assert found.select(["sensor", "t", "note"]).equals(rows.select(["sensor", "t", "note"]))
    spread = fl.impute.distributions(rows, QUERY, repository).to_pylist()
    for row, name in ((0, "oxygen"), (1, "gas"), (3, "gas"), (3, "oxygen")):
        cell = [each for each in spread if each["sensor"] == rows["sensor"][row].as_py() and each["attribute"] == name]
        below = np.cumsum([each["probability"] for each in cell])
        assert found[name][row].as_py() == cell[int(np.argmax(below >= 0.5 - 1e-9))]["value"]
        assert f"{name} by {cell[0]['rule']}" in found["filled"][row].as_py()
    assert found["gas"][0].as_py() == 1.0
    assert found["gas"][2].as_py() is None  # a row without a time cannot be taken
    assert [each is None for each in found["filled"].to_pylist()] == [False, False, True, False]


def test_a_value_outside_the_limits_is_filled_and_distributions_are_refused():
    query = fl.Query(
        attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=9, limits={"gas": (-50, 50)}
    )
    made = fl.Repository.fit(history(), query)
    found = completed(pa.table({"sensor": [1], "t": [500], "gas": [999.0], "oxygen": [1.0]}), query, made).rows
    assert found["gas"][0].as_py() < 50
    assert found["filled"][0].as_py().startswith("gas by ")
    given = pa.table({"sensor": [1], "t": [500], "gas": [[{"value": 1.0, "weight": 1.0}]], "oxygen": [1.0]})
    with pytest.raises(fl.errors.RowsError, match="'gas' holds distributions"):
        completed(given, query, made)


def test_cells_that_are_not_filled_stay_as_they_came(repository):
    large = 2**53 + 1
    rows = pa.table(
        {
            "sensor": [1, 2, 3, 4],
            "t": [500, 501, 502, 503],
            "gas": ["oops", None, "9007199254740993", "1.50"],
            "oxygen": pa.array([large, 4, 5, None], pa.int64()),
        }
    )
    found, left = completed(rows, QUERY, repository)
    assert left == 2  # the first and the third cannot be taken
    gas, oxygen = found["gas"].to_pylist(), found["oxygen"].to_pylist()
    assert [gas[0], *gas[2:]] == ["oops", "9007199254740993", "1.50"]
    assert float(gas[1]) == pytest.approx(float(completed(rows.slice(1, 1), QUERY, repository).rows["gas"][0].as_py()))
    assert [str(each) for each in oxygen[:3]] == [str(large), "4", "5"]
    whole = rows.set_column(3, "oxygen", pa.array([3.0, 4.0, 5.0, 6.0]))
    assert completed(whole, QUERY, repository).rows["oxygen"].equals(whole["oxygen"])


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_impute_fill_writes_completed_rows(tmp_path, repository):
    repository.save(tmp_path / "repository")
    query = written(tmp_path, "q.yaml", "{attributes: {gas: max, oxygen: min}, id: sensor, time: t, lifetime: 10}")
    rows = written(tmp_path, "rows.csv", "sensor,t,gas,oxygen,note\n1,500,,2.5,x\n2,501,1.5,3,y\n")
    asked = ["impute", rows, "-r", str(tmp_path / "repository"), "-q", query, "--fill"]
    run = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "full.csv")])
    assert run.exit_code == 0, run.output
    [file] = (tmp_path / "full.csv").iterdir()
    found = pd.read_csv(file)
    assert list(found.columns) == ["sensor", "t", "gas", "oxygen", "note", "filled"]
    assert found["gas"].notna().all()
    assert found["note"].tolist() == ["x", "y"]
    assert found["filled"][0].startswith("gas by ")
    assert "stay as they are" not in run.output
    written(tmp_path, "rows.csv", "sensor,t,gas,oxygen\n1,500,,2.5\n2,,,3\n3,501,much,3\n")
    run = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "some.csv")])
    assert "Rows that cannot be used, and stay as they are: 2. `fogline check` names the reasons." in run.output
    run = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "other.csv"), "--master", "local[1]"])
    assert run.exit_code == 2
    assert "--fill completes rows in this process" in run.output


def test_a_distribution_whose_weights_are_rounded_otherwise_has_not_changed():
    values = [float(k) for k in range(62)]
    first = tuple((value, 1 / 62) for value in values)
    now = tuple((value, weight * (1 - 1e-15)) for value, weight in first)
    assert str(ImputedCell("a", first, "whole history", now, "whole history", False)) == (
        "a is missing: 0 to 61, about 30 (by whole history)"
    )
