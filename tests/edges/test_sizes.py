"""Are all rows still there when their texts no longer fit into one column?

The texts lie in a map of zeros that is never written to, so 2 GB of them take no memory unless they are copied.
"""

from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import RowsError
from fogline.pipeline.decode import Decoder
from fogline.pipeline.exchange import block_of, concat, from_arrays, to_arrays
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.stages import pruned
from fogline.rows import table as module
from fogline.rows.table import RowSource, joined, joined_column

QUERY = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10, alpha=0)
LONG = 600_000_000  # bytes of one text


@pytest.fixture(scope="module")
def zeros():
    """Two texts of 600 MB."""
    text = pa.py_buffer(mmap.mmap(-1, 2 * LONG))
    offsets = pa.py_buffer(np.array([0, LONG, 2 * LONG], np.int32))
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, text])


def four(text: pa.Array) -> list[pa.RecordBatch]:
    """Four rows in two batches, with a column of text that no query asks for: 2.4 GB in all."""
    return [pa.record_batch({"id": [k, k + 1], "t": [1, 1], "a": [1.0, 1.0], "text": text}) for k in (0, 2)]


def test_texts_that_no_query_asks_for_are_not_put_together(zeros):
    batches = four(zeros)
    before = pa.total_allocated_bytes()
    plan = make_plan(QUERY, batches[0].schema)
    for stream in (batches, [batches[0], batches[1].slice(0, 1), batches[1].slice(1)]):
        found = [each for chunk in pruned(Plans.alone(plan), stream) for _, each in chunk.groups]
        assert sum(of_group.came for of_group in found) == 4
        assert sorted(n for of_group in found for n in of_group.rows.columns["id"].to_pylist()) == [0, 1, 2, 3]
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, pa.Table.from_batches(batches))
    assert monitor.stats()["rows"] == 4
    assert monitor.answer()["id"].to_pylist() == [0, 1, 2, 3]
    assert pa.total_allocated_bytes() - before < LONG


def test_a_rejected_row_still_shows_columns_that_no_query_asks_for():
    batches = [pa.record_batch({"id": [k], "t": [1], "a": [a], "text": ["x"]}) for k, a in enumerate([1.0, np.inf])]
    plan = make_plan(QUERY, batches[0].schema)
    [of_group] = [each for chunk in pruned(Plans.alone(plan), batches) for _, each in chunk.groups]
    assert [each.row for each in of_group.rejects] == ['{"id": 1, "t": 1, "a": "inf", "text": "x"}']
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, pa.Table.from_batches(batches))
    assert [reject.row["text"] for reject in monitor.rejects] == ["x"]


def test_a_name_that_the_table_lacks_is_searched_among_all_of_its_columns():
    rows = pa.Table.from_batches([pa.record_batch({"id": [k], "t": [1], "aa": [1.0]}) for k in range(2)])
    with pytest.raises(fl.errors.QueryError, match="it has aa, id, t"):
        fl.Monitor(QUERY).advance(1, rows)


@pytest.fixture
def small(monkeypatch):
    """As if eight bits could not count more than 20 bytes of text."""
    monkeypatch.setattr(module, "LIMIT", 20)


@pytest.mark.usefixtures("small")
def test_a_column_of_too_much_text_counts_in_64_bits():
    parts = [pa.record_batch({"x": [f"text {k}", None], "n": [k, -k]}) for k in range(4)]
    found = joined(parts)
    assert found.to_pylist() == pa.Table.from_batches(parts).to_pylist()
    assert found.schema.types == [pa.large_string(), pa.int64()]
    again = joined([found, parts[0]])
    assert again.num_rows == 10
    again = joined([parts[0], found])
    assert again.num_rows == 10
    assert joined(pa.Table.from_batches([], schema=parts[0].schema)).num_rows == 0
    assert joined_column([pa.array([b"x" * 30]), pa.array([b"y"])], "x").type == pa.large_binary()


@pytest.mark.usefixtures("small")
def test_rows_named_by_much_text_are_all_taken():
    names = [f"a sensor of a long name {k}" for k in range(4)]
    batches = [pa.record_batch({"id": [n], "t": [1], "a": [1.0]}) for n in names]
    plan = make_plan(QUERY, batches[0].schema)
    [of_group] = [each for chunk in pruned(Plans.alone(plan), batches) for _, each in chunk.groups]
    assert of_group.rows.columns["id"].to_pylist() == names
    blocks = [block_of(Decoder(plan).decode(each).rows, ["id", "t"], QUERY, 0) for each in batches]
    whole = concat(blocks)
    assert from_arrays(to_arrays(whole, plan.signs), plan.signs, 0).columns["id"].to_pylist() == names
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, pa.Table.from_batches(batches))
    assert monitor.answer()["id"].to_pylist() == names


def test_long_rows_are_decoded_fewer_at_a_time(monkeypatch):
    monkeypatch.setattr("fogline.pipeline.decode.BYTES", 200)
    batches = [pa.record_batch({"id": [k], "t": [1], "a": [1.0], "text": ["x" * 150]}) for k in range(4)]
    plan = make_plan(QUERY, batches[0].schema)
    [of_group] = [each for chunk in pruned(Plans.alone(plan), batches) for _, each in chunk.groups]
    assert of_group.rows.columns["id"].to_pylist() == [0, 1, 2, 3]


def test_what_cannot_be_put_together_is_refused_with_words(zeros):
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), zeros)
    table = pa.Table.from_batches([pa.record_batch({"x": lists}) for _ in range(2)])
    with pytest.raises(
        RowsError, match=r"the 2 cells of column 'x' .* cannot be put together(.|\n)*leave the column out"
    ):
        RowSource(table)
