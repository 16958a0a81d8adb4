"""Which rows remove their id, and which of two rows is the later word?"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.rows.clock import LEAST, read_versions
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader, read_gone

FIELDS: dict[str, Any] = {"attributes": {"a": "max", "b": "min"}, "id": "id", "time": "t", "latest": True}


@pytest.mark.parametrize(
    "column",
    [
        [True, False, None, True],
        [1, 0, None, 1],
        [1.0, 0.0, float("nan"), 1.0],
        ["true", "false", None, " TRUE "],
        ["1", "0", "", "1"],
        [np.bool_(True), np.int64(0), pd.NA, "True"],
    ],
)
def test_a_removal_is_true_in_all_its_forms(column):
    refused: dict[int, str] = {}
    assert read_gone(column, "gone", refused).tolist() == [True, False, False, True]
    if len({type(cell) for cell in column if cell is not None}) == 1:
        for kind in (pa.array(column), pa.array(column).dictionary_encode()):
            assert read_gone(kind, "gone", refused).tolist() == [True, False, False, True]
    assert not refused


def test_what_is_neither_true_nor_false_is_rejected_with_the_reason():
    refused: dict[int, str] = {}
    found = read_gone(["yes", 2, True, None, 0.5], "gone", refused)
    assert found.tolist() == [False, False, True, False, False]
    assert refused.keys() == {0, 1, 4}
    assert refused[0].startswith("'gone' is 'yes', which is neither true nor false")
    again: dict[int, str] = {}
    read_gone(pa.array(["yes", "true", None, "d"]), "gone", again)
    assert again.keys() == {0, 3}


@pytest.mark.parametrize("made", [list, pa.array])
def test_the_listed_values_of_a_column_remove_and_all_others_do_not(made):
    refused: dict[int, str] = {}
    gone = fl.Query(**FIELDS, gone={"op": ["d", "delete"]}).gone
    numbers = fl.Query(**FIELDS, gone={"op": [3]}).gone
    assert gone is not None
    assert numbers is not None
    assert read_gone(made(["c", "d", "u", None, "delete", " d", "D"]), gone, refused).tolist() == [
        False, True, False, False, True, True, False,
    ]  # fmt: skip
    assert read_gone(made([1, 3, None]), numbers, refused).tolist() == [False, True, False]
    assert not refused


def test_versions_are_whole_numbers_of_64_bits_however_they_come():
    refused: dict[int, str] = {}
    large = 2**62 + 1
    for column in ([large, None, -3], [f"{large}", "", "-3"], [Decimal(large), None, Decimal(-3)]):
        for made in (column, pa.array(column)):
            found = read_versions(made, "v", None, refused)
            assert found.value.tolist() == [large, LEAST, -3]
            assert found.kind == pa.int64()
    assert read_versions([2.0, float("nan"), "7.0"], "v", None, refused).value.tolist() == [2, LEAST, 7]
    assert not refused


def test_versions_may_be_timestamps_which_count_in_microseconds():
    refused: dict[int, str] = {}
    noon = datetime(2024, 5, 1, 12, 0, 0, 5)
    micros = int((noon.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    columns = [
        [noon, None],
        [noon.replace(tzinfo=UTC), None],
        [noon.isoformat(), None],
        pa.array([noon, None]),
        pa.array([noon, None], pa.timestamp("ns", "UTC")),
        pa.array([noon.isoformat() + "Z", None]),
    ]
    for column in columns:
        found = read_versions(column, "v", pa.timestamp("us"), refused)
        assert found.value.tolist() == [micros, LEAST]
        assert found.kind == pa.timestamp("us")
    assert not refused


@pytest.mark.parametrize(
    "bad",
    [
        1.5,
        2**64,
        "x",
        True,
        "2024-05-01",
        float("inf"),
        Decimal("1.5"),
        2.0**60,
        b"x",
        "0x10",
        "9" * 5000,
        Decimal("1e999999999"),
    ],
)
def test_what_is_no_version_of_the_stream_rejects_its_row_and_no_other(bad):
    refused: dict[int, str] = {}
    found = read_versions([1, bad, 3], "v", None, refused)
    assert (found.value[0], found.value[2], found.kind) == (1, 3, pa.int64())
    assert list(refused) == [1]
    assert refused[1].startswith("the version 'v' is ")


def test_versions_that_are_texts_mean_the_same_whatever_comes_with_them_and_whatever_kind_of_text_they_are():
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        for texts in (["3", "0x10"], ["3", "9" * 5000], ["3", "0x10", "1.0"]):
            refused: dict[int, str] = {}
            found = read_versions(pa.array(texts, kind), "v", None, refused)
            assert (found.value[0], found.kind, list(refused)) == (3, pa.int64(), [1])
        assert read_versions(pa.array(["3", " 4 ", None], kind), "v", None, {}).value.tolist() == [3, 4, LEAST]


def test_an_operation_removes_whatever_type_its_value_has():
    for column in ([1, 2], [1.0, 2.0], ["1", "2"], [b"1", b"2"], [Decimal("1.00"), Decimal("2.00")]):
        for made in (column, pa.array(column)):
            assert read_gone(made, {"op": ("1",)}, {}).tolist() == [True, False]
    assert read_gone([Decimal("1e999999999"), b"\xff"], {"op": ("1",)}, {}).tolist() == [False, False]
    assert read_gone(pa.array([Decimal("1.0"), None]), "gone", {}).tolist() == [True, False]


def test_a_number_too_long_to_be_written_does_not_stop_the_others():
    refused: dict[int, str] = {}
    assert read_gone([True, 10**5000], "gone", refused).tolist() == [True, False]
    assert list(refused) == [1]
    assert read_gone(["d", 10**5000], {"op": ("d",)}, {}).tolist() == [True, False]


def test_a_column_of_versions_that_can_never_be_read_is_an_error():
    for column, text in ((pa.array([[1]]), "has type list"), (pa.array([datetime.now(UTC)]), "one kind of version")):
        with pytest.raises(fl.FoglineError, match=text):
            read_versions(column, "v", pa.int64(), {})


def read(rows, **more):
    return Reader(fl.Query(**FIELDS, **more)).read(rows, Kinds())


@pytest.mark.parametrize("made", [list, pd.DataFrame, pa.Table.from_pylist])
def test_of_a_removal_only_its_name_and_its_time_are_looked_at(made):
    rows = [
        {"id": "x", "t": 1, "gone": False, "a": 1.0, "b": 2.0, "e": 5.0},
        {"id": "y", "t": 1, "gone": True, "a": float("inf"), "b": None, "e": 0.0},
        {"id": "z", "t": 1, "gone": False, "a": float("inf"), "b": 1.0, "e": 5.0},
        {"id": None, "t": 1, "gone": True, "a": 1.0, "b": 1.0, "e": 5.0},
        {"id": "w", "t": None, "gone": True, "a": 1.0, "b": 1.0, "e": 5.0},
    ]
    for more in ({}, {"expires": "e"}):
        found = read(made(rows), gone="gone", limits={"a": (0, 10)}, **more)
        assert sorted(found.refused) == [2, 3, 4]
        assert found.gone.tolist() == [False, True, False, True, True]
        assert found.outside.tolist() == [0, 0, 1, 0, 0]


def test_a_table_of_removals_needs_no_attributes_and_no_expiry():
    rows = pa.table({"id": ["x", "y"], "t": [1, 2], "op": ["d", "d"]})
    assert read(rows, gone={"op": ["d"]}, expires="e").refused == {}
    assert read(rows.to_pylist(), gone={"op": ["d"]}, expires="e").refused == {}
    with pytest.raises(fl.errors.QueryError, match="the stream has no attribute 'a'"):
        read(rows, gone={"op": ["x"]})
    with pytest.raises(fl.errors.QueryError, match=r"no column of removals 'opp'.*\nDid you mean 'op'"):
        read(rows, gone={"opp": ["x"]})


def test_dicts_may_leave_out_what_they_do_not_have():
    found = read([{"id": "x", "t": 1, "a": 1.0}], gone="gone", version="v")
    assert (found.refused, found.gone.tolist(), found.version.tolist()) == ({}, [False], [LEAST])
    assert np.isnan(found.raw).tolist() == [[False, True]]
    assert np.isposinf(found.expires).all()


def test_a_stream_has_one_kind_of_version():
    reader = Reader(fl.Query(**FIELDS, version="v"))
    kinds = reader.read([{"id": "x", "t": 1, "a": 1, "b": 1, "v": 1}], Kinds()).kinds
    later = reader.read([{"id": "x", "t": 1, "a": 1, "b": 1, "v": "2024-05-01"}], kinds)
    assert "no whole number" in later.refused[0]


def test_a_length_of_time_that_does_not_fit_the_clock_is_an_error():
    with pytest.raises(fl.errors.QueryError, match="so remember_removed is a number, not '5 seconds'"):
        read([{"id": "x", "t": 1, "a": 1, "b": 1}], remember_removed="5 s")
