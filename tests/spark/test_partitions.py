"""How many parts of state are chosen before a cluster is there?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkAttributeError, PySparkValueError
from pyspark.sql import functions as F

from fogline.spark import partitions
from fogline.spark.partitions import AT_LEAST, AT_MOST, PARTITIONS, bucket_labels, parts, parts_of_new
from fogline.spark.pipeline import buckets_for
from fogline.spark.session import SparkAdvice, _fixed, warn_once

GROWS = {"spark.dynamicAllocation.enabled": "true"}


class FakeSession:
    """What a session answers, without a JVM; `cores` have come so far, None is Spark Connect."""

    def __init__(self, master: str, cores: int | None, settings: dict[str, str]) -> None:
        self.settings, self.cores, self.conf = {"spark.master": master, **settings}, cores, self
        self.set = self.settings.__setitem__

    def get(self, key: str) -> str:
        if key not in self.settings:
            raise PySparkValueError(f"{key} is not set")
        return self.settings[key]

    @property
    def sparkContext(self) -> Any:
        if self.cores is None:
            raise PySparkAttributeError(
                errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "sparkContext"}
            )
        return SimpleNamespace(defaultParallelism=self.cores)


@pytest.mark.parametrize(
    ("master", "there", "settings", "expected"),
    [
        ("local[3]", 3, {}, 3),
        ("local[1]", 1, GROWS, 1),
        ("yarn", 2, {}, AT_LEAST),
        ("yarn", 2, {"spark.executor.instances": "10", "spark.executor.cores": "4"}, 40),
        ("yarn", 2, {"spark.executor.instances": "2"}, AT_LEAST),
        ("spark://x", 2, {"spark.cores.max": "24"}, 24),
        ("spark://x", 48, {}, 48),
        ("yarn", 2, {**GROWS, "spark.dynamicAllocation.maxExecutors": "6", "spark.executor.cores": "4"}, 24),
        ("yarn", 2, {**GROWS, "spark.dynamicAllocation.maxExecutors": str(2**31 - 1)}, AT_LEAST),
        ("yarn", 2, {**GROWS, "spark.dynamicAllocation.maxExecutors": "infinity"}, AT_LEAST),
        ("yarn", 2, {**GROWS, "spark.dynamicAllocation.maxExecutors": "1000"}, AT_MOST),
    ],
)
def test_there_are_as_many_parts_as_the_cluster_may_have_cores(master, there, settings, expected):
    assert parts(FakeSession(master, there, settings)) == expected


def test_a_cluster_of_no_stated_size_is_waited_for(monkeypatch):
    waited = []
    monkeypatch.setattr(partitions, "_wait", waited.append)
    assert parts_of_new(FakeSession("spark://x", 16, {})) == 16
    assert len(waited) == 1
    for master, settings in (("local[2]", {}), ("yarn", GROWS), ("yarn", {"spark.executor.instances": "9"})):
        parts_of_new(FakeSession(master, 2, settings))
    assert len(waited) == 1


def test_waiting_ends_when_no_more_executors_come(monkeypatch):
    counts = iter([1, 2, 3, 3])  # the driver is among them
    status = SimpleNamespace(getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: next(counts)))
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: status))
    monkeypatch.setattr(partitions, "context_of", lambda session: context)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    partitions._wait(FakeSession("spark://x", 2, {}))
    assert list(counts) == []


def test_under_dynamic_allocation_the_number_is_stated():
    [text] = _fixed(FakeSession("yarn", 2, {**GROWS, PARTITIONS: "24"}))
    assert "spark.sql.shuffle.partitions is 24" in text
    assert "for life" in text
    assert _fixed(FakeSession("yarn", 2, {PARTITIONS: "24"})) == []


def test_advice_needs_no_context():
    connected = FakeSession("local[*]", None, {PARTITIONS: "200", "spark.sql.session.timeZone": "UTC"})
    with pytest.warns(SparkAdvice) as seen:
        warn_once(connected)
    texts = [str(each.message) for each in seen]
    assert "opens that many state stores" in texts[0]
    assert len(texts) == 1


@pytest.mark.parametrize("buckets", [1, 8, 24])
def test_buckets_are_spread_evenly_over_partitions(spark, buckets):
    frame = spark.createDataFrame([(label,) for label in bucket_labels(buckets)], "label int")
    parts = [p for p in range(1, buckets + 1) if buckets % p == 0]
    found = frame.select(*(F.pmod(F.hash("label"), F.lit(p)) for p in parts)).collect()
    for p, column in zip(parts, zip(*found, strict=True), strict=True):
        assert sorted(column) == sorted(k % p for k in range(buckets))


@pytest.mark.parametrize(("partitions", "buckets"), [(1, 8), (2, 8), (3, 9), (7, 14), (24, 24)])
def test_buckets_are_a_multiple_of_partitions(partitions, buckets):
    assert buckets_for(FakeSession("local[2]", 2, {PARTITIONS: str(partitions)})) == buckets
