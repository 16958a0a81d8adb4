"""Are words, and what names rows, kept exactly, and are they cheap?"""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.pipeline.sensor_state import name_of
from fogline.repository.history import TEXTS, Words, as_texts, coded, numbered, read_history
from fogline.repository.sensors.state import sensor_names
from fogline.rows.names import key_columns, keyed

FAR = 2**60
QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=100)
GROUPED = fl.Query(**{**QUERY.to_dict(), "by": ["site"]})

texts = st.lists(st.text(max_size=3) | st.none(), max_size=20)


@settings(max_examples=200, deadline=None)
@given(texts, texts)
def test_words_are_coded_in_their_order_joined_and_found(first, second):
    values, words = coded(pa.array(first, TEXTS))
    assert words.texts.to_pylist() == sorted({each for each in first if each is not None})
    assert [None if np.isnan(v) else words.texts[int(v)].as_py() for v in values] == first
    more = coded(pa.array(second, TEXTS))[1]
    both, codes = words.joined(more)
    assert both.texts.to_pylist()[: len(words)] == words.texts.to_pylist()
    assert [both.texts[int(k)].as_py() for k in codes] == more.texts.to_pylist()
    assert len(set(both.texts.to_pylist())) == len(both)
    assert Words.from_arrays(*both.arrays()).texts.equals(both.texts)
    found = both.find(pa.array([*second, "not there"]))
    assert [None if k < 0 else both.texts[int(k)].as_py() for k in found] == [*second, None]


def test_a_part_of_words_has_arrays_of_its_own():
    part = Words(Words.of(["one", "two", "three"]).texts.slice(1))
    assert Words.from_arrays(*part.arrays()).texts.to_pylist() == ["two", "three"]


def test_rows_with_equal_values_get_equal_numbers():
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 5, 100).astype(float) for _ in range(3)]
    code, first = numbered(columns)
    rows = list(zip(*(each.tolist() for each in columns), strict=True))
    assert len(first) == len(set(rows)) == code.max() + 1
    assert all(rows[first[k]] == row for k, row in zip(code, rows, strict=True))


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([FAR, FAR + 1], pa.int64()),
        pa.array([2**63 + 5, 2**63 + 6], pa.uint64()),
        pa.array([Decimal(10**20), Decimal(10**20 + 1)], pa.decimal128(38, 0)),
        pa.array([Decimal("0.1234567890123456789"), Decimal("0.1234567890123456788")]),
        pa.array(["00:1b:44:11:3a:b7", "00:1b:44:11:3a:b8"]),
        pa.array([1.0, 2.5]),
        pa.array([True, False]),
    ],
)
@pytest.mark.parametrize("column", ["id", "site"])
def test_ids_and_groups_that_differ_are_different_sensors(ids, column):
    other = "site" if column == "id" else "id"
    steps = 8
    table = pa.table(
        {
            column: pa.concat_arrays([ids] * steps),
            other: pa.array(["s"] * 2 * steps),
            "t": np.repeat(np.arange(steps), 2),
            "a": [1.0, 100.0] * steps,
            "b": [2.0, 200.0] * steps,
        }
    )
    repository = fl.Repository.fit(table, GROUPED, method="last")
    assert repository.sensors is not None
    assert len(repository.sensors.known_sensors) == 2
    asked = (
        table.slice(0, 2)
        .set_column(2, "t", pa.array([50, 50]))
        .set_column(3, "a", pa.array([None, None], pa.float64()))
    )
    found = fl.impute.distributions(asked, GROUPED, repository).to_pylist()
    assert [row["value"] for row in found if row["attribute"] == "a"] == [1.0, 100.0]


def test_a_row_is_there_once_for_each_id_beyond_2_to_the_53():
    table = pa.table({"id": [FAR, FAR + 1, FAR], "t": [1, 1, 1], "a": [1.0, 2.0, 1.0], "b": [1.0, 2.0, 1.0]})
    assert read_history(table, QUERY).in_order(QUERY).columns["a"].values.tolist() == [1.0, 2.0]
    nameless = pa.table({"id": pa.array([None, None], pa.int64()), "t": [1, 1], "a": [1.0, 2.0], "b": [1.0, 2.0]})
    assert read_history(nameless, QUERY).in_order(QUERY).rows == 2


@pytest.mark.parametrize("ids", [[5, FAR], ["5", str(FAR)], [5.0, float(FAR)], [Decimal("5.00"), Decimal(FAR)]])
def test_an_id_is_called_the_same_whatever_it_came_as(ids):
    assert as_texts(pa.array(ids)).to_pylist() == ["5", str(FAR)]
    table = pa.table({"id": pa.array(ids), "t": [1, 2], "a": [1.0, 2.0], "b": [1.0, 2.0]})
    plain = pa.table({"id": [5, FAR], "t": [1, 2], "a": [1.0, 2.0], "b": [1.0, 2.0]})
    one, other = (fl.Repository.fit(each, QUERY, method="last") for each in (table, plain))
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize("kind", [pa.decimal128(20, 2), pa.decimal128(38, 20), pa.uint64(), pa.int64(), pa.string()])
def test_a_pipeline_calls_sensors_and_groups_as_a_monitor_does(kind):
    values = [FAR + 1, 5] if not pa.types.is_decimal(kind) else [Decimal(5), Decimal("-0.10"), Decimal("1200")]
    ids = pa.array([str(each) for each in values] if pa.types.is_string(kind) else values, kind)
    keys, which = keyed(pa.record_batch({"id": ids}), ["id"])
    assert [name_of(keys[k]) for k in which] == sensor_names(ids.to_pylist())
    assert [key_columns([keys[k]], [kind])[0][0] for k in which] == list(ids)


def test_an_infinite_id_names_no_sensor():
    table = pa.table({"id": [1.0, float("inf"), float("nan")], "t": [1, 1, 1], "a": [1.0] * 3, "b": [1.0] * 3})
    repository = fl.Repository.fit(table, QUERY, method="last")
    assert repository.sensors is not None
    assert repository.sensors.known_sensors == (("1",),)


def test_a_rule_speaks_of_groups_as_words():
    table = pa.table({"site": [FAR, FAR + 1] * 5, "a": [1.0, 2.0] * 5, "b": [10.0, 20.0] * 5})
    repository = fl.Repository.fit(table, GROUPED, rules=["site -> b(1)"])
    asked = [{"id": 1, "t": 1, "site": FAR + k, "a": 1.0, "b": None} for k in range(2)]
    assert fl.impute.distributions(asked, GROUPED, repository)["value"].to_pylist() == [10.0, 20.0]
    with pytest.raises(fl.errors.RuleError, match="gives 'site' a distance, but it holds words"):
        fl.Repository.fit(table, GROUPED, rules=["site(1) -> b(1)"])


def test_no_word_and_no_name_lies_in_a_manifest(tmp_path):
    rows = [{"id": f"sensor-{k}", "t": k, "remark": f"remark-{k}", "a": 1.0 * k, "b": 2.0 * k} for k in range(50)]
    repository = fl.Repository.fit(rows, QUERY, method="last")
    repository.save(tmp_path / "r")
    for manifest in (tmp_path / "r").rglob("manifest.json"):
        assert not {"sensor-7", "remark-7"} & set(json.dumps(json.loads(manifest.read_text())).split('"'))
    loaded = fl.Repository.load(tmp_path / "r")
    assert loaded.history.columns["remark"].words is not None
    assert loaded.history.columns["remark"].words.texts.to_pylist() == sorted(f"remark-{k}" for k in range(50))
    assert loaded.sensors is not None
    assert repository.sensors is not None
    assert loaded.sensors.known_sensors == repository.sensors.known_sensors
    assert "_codes" not in vars(loaded.history.columns["remark"].words)  # no word was looked up


def test_two_hundred_thousand_words_are_joined_with_as_many():
    """By hashing: comparing each with all would take minutes."""
    words = Words.of(f"word {k}" for k in range(200_000))
    more = Words.of(f"word {k}" for k in range(100_000, 300_000))
    both, codes = words.joined(more)
    assert len(both) == 300_000
    assert codes[[0, 99_999, 100_000, -1]].tolist() == [100_000, 199_999, 200_000, 299_999]
