"""Does Spark carry the demo without deciding anything?"""

import io
import os
from contextlib import contextmanager

import pytest
from rich.console import Console

from fogline.demo import Plan, play, show
from fogline.demo.engine import Embedded
from fogline.demo.stream import BRISK
from fogline.demo.watch import Watch

PLAN = Plan(seconds=3, sensors=60, seed=3)


@contextmanager
def embedded():
    yield Embedded()


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch):
    monkeypatch.setattr(play, "warm_up", lambda query: None)


def shown(*, plain=True, **how):
    console = Console(file=io.StringIO(), force_terminal=not plain, width=100, height=30)
    return show(PLAN, console, plain=plain, **how)


def settings(spark):
    return {key: spark.conf.get(key, None) for key in BRISK}


@pytest.mark.parametrize("plain", [True, False])
def test_the_demo_on_spark_tells_what_a_monitor_tells(spark, tmp_path, monkeypatch, plain):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = settings(spark)
    ours, theirs = shown(plain=plain), shown(opened=embedded)
    assert ours.ticks == theirs.ticks == PLAN.ticks
    assert ours.score.tallies == theirs.score.tallies
    assert ours.members == pytest.approx(theirs.members)
    assert list(ours.since) == list(theirs.since)
    assert not spark.streams.active
    assert settings(spark) == before
    assert not [name for name in os.listdir(tmp_path) if "demo" in name]


def test_an_interrupted_demo_leaves_no_query_behind(spark, monkeypatch):
    def follow(self, told, really=Watch.follow):
        really(self, told)
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "follow", follow)
    watch = shown(plain=False)
    assert 0 < watch.ticks < PLAN.ticks
    assert not spark.streams.active
