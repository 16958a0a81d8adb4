"""The data source `fogline`: the synthetic stream, read by Spark in any number of parts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogline.errors import FoglineError
from fogline.spark.synthetic import FoglineSource, cut, register
from fogline.synthetic import BLOCK, Stream, rows

COUNT = 3 * BLOCK + 17
DESCRIPTION: dict[str, Any] = {"distribution": "anti", "d": 3, "rows": COUNT, "missing": 0.4, "m": 2, "groups": 3}


@given(st.integers(0, 5 * BLOCK), st.integers(0, 5 * BLOCK), st.integers(1, 9))
def test_spans_follow_each_other_without_gap_or_overlap(start, length, parts):
    spans = cut(start, start + length, parts)
    assert len(spans) <= parts
    assert [i for span in spans for i in (span.start, span.end)] == (
        [start, *(i for span in spans[:-1] for i in (span.end, span.end)), start + length] if length else []
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mising": "0.3"}, "no option 'mising'.*\nDid you mean 'missing'"),
        ({"distribution": "corelated"}, "distribution is 'corelated'.*\nDid you mean 'correlated'"),
        ({"rate": "fast"}, "'rate' of the source 'fogline' is a whole number, not 'fast'"),
        ({"missing": "1.5"}, "missing is 1.5; it is a share"),
        ({"d": "2", "m": "3"}, "m is 3, but a row has only 2"),
        ({"d": "0"}, "d is 0; it is at least 1"),
    ],
)
def test_a_wrong_option_is_refused_with_the_way_out(options, words):
    with pytest.raises(FoglineError, match=f"(?s){words}"):
        FoglineSource(options)


def test_an_endless_stream_is_no_table():
    with pytest.raises(FoglineError, match="state how much of it"):
        FoglineSource({}).reader(None).partitions()


def test_an_endless_stream_goes_on_batch_by_batch_and_has_one_batch_for_now():
    reader = FoglineSource({"batch": "10", "start": "5"}).streamReader(None)
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset(reader.initialOffset(), limit) == {"id": 15}
    assert reader.latestOffset({"id": 15}, limit) == {"id": 25}
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"id": 25}, limit) == {"id": 35}
    assert reader.latestOffset({"id": 35}, limit) == {"id": 35}


def described(reader, **more):
    for name, value in {**DESCRIPTION, **more}.items():
        reader = reader.option(name, value)
    return reader


@pytest.fixture
def truth() -> pa.Table:
    return pa.Table.from_batches([rows(Stream(**DESCRIPTION), 0, COUNT)])


@pytest.mark.parametrize("partitions", [1, 3])
def test_spark_reads_the_same_table_in_any_number_of_partitions(spark, truth, partitions):
    register(spark)
    table = described(spark.read.format("fogline"), partitions=partitions).load()
    assert table.rdd.getNumPartitions() == partitions
    assert table.toArrow().sort_by("id").combine_chunks() == truth


def test_spark_streams_the_same_rows_in_batches_of_any_size(spark, truth):
    register(spark)
    seen = []
    stream = described(spark.readStream.format("fogline"), batch=5_000).load()
    query = stream.writeStream.trigger(availableNow=True).foreachBatch(lambda batch, _: seen.append(batch.toArrow()))
    query.start().awaitTermination()
    sizes = [part.num_rows for part in seen if part.num_rows]
    assert sizes == [5_000, 5_000, COUNT - 10_000]
    assert pa.concat_tables(seen).sort_by("id").combine_chunks() == truth


def test_spark_guesses_which_option_was_meant(spark):
    register(spark)
    with pytest.raises(Exception, match="Did you mean 'missing'"):
        spark.read.format("fogline").option("mising", 0.3).load()
