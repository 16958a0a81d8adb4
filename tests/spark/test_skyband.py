"""Does Spark answer as the definitions do, and as the embedded engine, where fewer than k others may beat a row?"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.runs.config import EMBEDDED, SPARK
from fogline.spark.pipeline import watch
from fogline.spark.running import Run
from tests import oracle
from tests.contracts import members
from tests.flow.embedding import CASES, config_of, reported, run, write_stream
from tests.spark.crowd import WINDOWS, as_reported, crowd, delayed, last_arrivals, query_for


def truth(query: fl.Query, table: pa.Table, window: dict[str, Any]) -> dict[int, dict[Any, float]]:
    """tick -> the answer of all groups at its end, by the oracle."""
    rows = [
        row | {a: [(pair["value"], pair["weight"]) for pair in row[a]] for a in query.names}
        for row in sorted(table.to_pylist(), key=lambda row: row["t"])
        if query.expires is None or row["e"] >= row["t"]
    ]
    calls = [(rows[-1]["t"], rows)]
    ticks = oracle.replay(calls, query.attributes, query.by, **window, skyband=query.skyband)
    answers: dict[int, dict[Any, float]] = {}
    now: dict[Any, float] = {}
    found = {tick.time: tick for tick in ticks}
    for t in range(rows[0]["t"], rows[-1]["t"] + 1):
        if t in found:
            true = members(found[t].probabilities, Fraction(query.alpha))
            now = {name: float(p) for name, p in true.items()}
        answers[t] = now
    return answers


@pytest.mark.parametrize(("window", "k", "lateness"), [("expires", 2, 0), ("lifetime", 3, 3), ("last", 2, 0)])
def test_hundreds_of_streams_have_the_skyband_of_the_oracle_at_every_tick(spark, window, k, lateness):
    query, table = replace(query_for(window), skyband=k), crowd(seed=k, groups=120)
    frame = spark.createDataFrame(delayed(table, lateness)).repartition(3)
    found = watch(frame, query, lateness=lateness).toArrow()
    until = {group: last - lateness for group, last in last_arrivals(query, table).items()}
    as_reported(found, query, truth(query, table, WINDOWS[window]), until if lateness else last_arrivals(query, table))


@pytest.mark.parametrize("name", ["timestamps", "lateness", "sensors, with hindsight", "the newest of each id"])
def test_both_engines_report_the_same_skyband(spark, tmp_path, name):
    case, explain = CASES[name], name != "timestamps"
    case = replace(case, query=replace(case.query, skyband=3))
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, EMBEDDED, explain=explain), files_per_batch=3)
    started = Run(spark, config_of(case, tmp_path, SPARK, SPARK, explain=explain)).start(files_per_batch=3)
    assert started.awaitTermination(300)
    assert len(reported(tmp_path / EMBEDDED)) > 20
    for kind in ("changes", "rejects", "near"):
        assert reported(tmp_path / EMBEDDED, kind) == reported(tmp_path / SPARK, kind)
