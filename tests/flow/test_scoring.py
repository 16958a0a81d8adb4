"""Do the stages of a pipeline keep the scores that a monitor keeps, however the stream is cut?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import fogline as fl
from fogline.impute import scoring
from fogline.impute.scores import Sums, add, from_plain
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import BatchResult
from fogline.repository.sensors.gaps import OpenGaps
from tests.flow.driving import Engine, cut, rows_of
from tests.flow.test_due import learnt, query, with_sites
from tests.flow.test_runner import flush
from tests.impute.test_scoring import with_silences
from tests.walks import walks


def reported(journal: BatchResult) -> Sums:
    sums: Sums = {}
    for row in rows_of(journal, "health"):
        add(sums, from_plain(json.loads(row["scores"] or "[]")))
    return sums


@pytest.fixture
def often(monkeypatch):
    """Every row is asked for a value, however many come at once."""
    monkeypatch.setattr(scoring, "SHARE", 1)
    monkeypatch.setattr(scoring, "MOST_HIDDEN", 1000)


def stream() -> pa.Table:
    return with_sites(with_silences(walks(sensors=6, steps=25, begin=200, gaps=0.2)))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("by", [False, True])
@pytest.mark.parametrize("lateness", [0, 2])
@pytest.mark.parametrize("borders", [[], [7, 20, 21, 60, 100]])
def test_scores_are_those_of_a_monitor_whatever_the_cut(by, lateness, borders):
    table = stream()
    plan = make_plan(query(by=by), table.schema, opened=lambda: learnt(by), buckets=3, lateness=lateness, idle=0)
    engine, journal = Engine(plan, 10, 20), BatchResult()
    for piece in cut(table, borders):
        journal += engine.batch([piece])
    monitor = fl.Monitor(plan.query, learnt(by))
    monitor.advance(1000, table)
    assert monitor.intake is not None
    expected, found = monitor.intake.scored, reported(journal + flush(engine))
    assert found.keys() == expected.keys()
    for key, each in expected.items():
        assert found[key] == pytest.approx(each), key
    assert len({age for _, _, age in found}) >= 4


@pytest.mark.parametrize("lateness", [0, 2])
def test_gaps_that_are_too_many_to_be_watched_are_in_the_health_of_a_group(monkeypatch, lateness):
    monkeypatch.setattr(OpenGaps.__init__, "__kwdefaults__", {"of_one": 1, "most": 1000})
    table = with_sites(walks(sensors=6, steps=12, begin=200, gaps=0.8))
    plan = make_plan(query(by=False), table.schema, opened=lambda: learnt(False), lateness=lateness, idle=0)
    engine, journal = Engine(plan, 10, 20), BatchResult()
    for piece in cut(table, [10, 40]):
        journal += engine.batch([piece])
    monitor = fl.Monitor(plan.query, learnt(False))
    monitor.advance(211, table)
    lost = sum(row["unwatched"] for row in rows_of(journal + flush(engine), "health"))
    assert 0 < lost <= monitor.stats()["unwatched"]
