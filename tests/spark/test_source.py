"""The synthetic stream: the same rows however they are cut, and as incomplete as asked."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogline.errors import FoglineError
from fogline.spark.source import BLOCK, DISTRIBUTIONS, FoglineSource, Stream, cut, register, rows

COUNT = 3 * BLOCK + 17
DESCRIPTION: dict[str, Any] = {"distribution": "anti", "d": 3, "rows": COUNT, "missing": 0.4, "m": 2, "groups": 3}


def streams() -> st.SearchStrategy[Stream]:
    return st.builds(
        Stream,
        distribution=st.sampled_from(DISTRIBUTIONS),
        d=st.integers(2, 5),
        rate=st.integers(1, 50),
        missing=st.sampled_from([0.0, 0.3, 1.0]),
        m=st.integers(0, 2),
        seed=st.integers(0, 9),
        seeds=st.sampled_from([0, 7]),
        groups=st.sampled_from([0, 3]),
    )


def values(batch: pa.RecordBatch) -> np.ndarray:
    names = [name for name in batch.schema.names if name.startswith("a")]
    return np.array([batch.column(name).to_numpy(zero_copy_only=False) for name in names])


@given(streams(), st.integers(0, 3 * BLOCK), st.lists(st.integers(0, 2 * BLOCK), min_size=1, max_size=4))
def test_rows_are_the_same_however_the_stream_is_cut(stream, start, steps):
    edges = np.cumsum([start, *steps]).tolist()
    parts = [rows(stream, low, high) for low, high in pairwise(edges)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([rows(stream, start, edges[-1])])


@given(st.integers(0, 5 * BLOCK), st.integers(0, 5 * BLOCK), st.integers(1, 9))
def test_spans_follow_each_other_without_gap_or_overlap(start, length, parts):
    spans = cut(start, start + length, parts)
    assert len(spans) <= parts
    assert [i for span in spans for i in (span.start, span.end)] == (
        [start, *(i for span in spans[:-1] for i in (span.end, span.end)), start + length] if length else []
    )


@given(streams())
def test_gaps_do_not_change_the_values_beside_them(stream):
    whole = Stream(**{name: getattr(stream, name) for name in ("distribution", "d", "seed", "seeds")}, missing=0)
    holed, truth = values(rows(stream, 0, 500)), values(rows(whole, 0, 500))
    assert np.isfinite(truth).all()
    assert (np.isnan(holed) | (holed == truth)).all()


@given(streams())
def test_values_lie_on_the_scale_and_ticks_have_as_many_rows_as_the_rate_says(stream):
    batch = rows(stream, 0, 5 * stream.rate)
    known = values(batch)
    assert ((known >= 0) & (known <= 10) | np.isnan(known)).all()
    assert batch.column("time").value_counts().field("counts").to_pylist() == [stream.rate] * 5


@pytest.mark.parametrize("distribution", ["uniform", "correlated", "anti"])
def test_close_rows_are_copies_of_one_seed_so_that_rules_hold(distribution):
    """Within 0.001 in one attribute means within 0.001 in all."""
    known = values(rows(Stream(missing=0, d=3, distribution=distribution), 0, 20_000))
    order = known[0].argsort()
    close = np.diff(known[0][order]) <= 0.001
    assert close.any()
    assert not close.all()
    assert (np.abs(np.diff(known[:, order], axis=1))[:, close] <= 0.001).all()


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_asked_share_of_rows_lacks_exactly_m_values(m):
    gaps = np.isnan(values(rows(Stream(d=3, m=m, missing=0.3), 0, 50_000))).sum(axis=0)
    assert set(gaps) == {0, m}
    assert np.mean(gaps > 0) == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("seeds", [0, 5_000])
def test_correlated_attributes_rise_together_and_anticorrelated_ones_against_each_other(seeds):
    def correlation(kind: str) -> float:
        return float(np.corrcoef(values(rows(Stream(kind, d=2, missing=0, seeds=seeds), 0, 20_000)))[0, 1])

    assert correlation("correlated") > 0.5
    assert abs(correlation("uniform")) < 0.1
    assert correlation("anti") < -0.5


def test_a_row_is_near_one_of_the_seed_points():
    points = values(rows(Stream(seeds=3, missing=0), 0, 1000))
    assert len(np.unique(points.round(1), axis=1).T) <= 3 * 2**4  # rounding may part what is close
    assert np.ptp(points[0, np.abs(points[0] - points[0, 0]) < 0.02]) <= 0.0101


def test_history_from_far_away_has_other_rows_of_the_same_points():
    near, far = (values(rows(Stream(seeds=3, missing=0), start, start + 1000)) for start in (0, 10**12))
    assert not np.isin(far[0], near[0]).any()
    assert all(np.abs(near[0] - x).min() < 0.02 for x in far[0])


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
    with pytest.raises(FoglineError, match="say how much of it"):
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


def test_spark_tells_which_option_was_meant(spark):
    register(spark)
    with pytest.raises(Exception, match="Did you mean 'missing'"):
        spark.read.format("fogline").option("mising", 0.3).load()
