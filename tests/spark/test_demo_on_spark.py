"""Does Spark carry the demo without deciding anything?"""

import io
import os
from contextlib import contextmanager
from functools import partial

import pytest
from rich.console import Console

import fogline as fl
from fogline.demo import DemoOptions, run, show
from fogline.demo.control_room import earlier_shift
from fogline.demo.engine import EmbeddedEngine
from fogline.demo.spark_engine import BRISK, SparkEngine
from fogline.demo.view import MineView

OPTIONS = DemoOptions(seconds=3, sensors=60, seed=3)


@contextmanager
def embedded():
    yield EmbeddedEngine()


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Kernels are there, and the shift before was a short one."""
    monkeypatch.setattr(run, "warm_up", lambda query: None)
    monkeypatch.setattr(run, "earlier_shift", partial(earlier_shift, readings=3_000))


def shown(*, plain=True, **how):
    console = Console(file=io.StringIO(), force_terminal=not plain, width=100, height=30)
    return show(OPTIONS, console, plain=plain, **how)


def settings(spark):
    return {key: spark.conf.get(key, None) for key in BRISK}


def test_the_demo_on_spark_reports_what_a_monitor_reports(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = settings(spark)
    spark_view, monitor_view = shown(), shown(opened=embedded)
    assert spark_view.ticks == monitor_view.ticks == OPTIONS.ticks
    assert spark_view.comparison.counts == monitor_view.comparison.counts
    assert spark_view.members == pytest.approx(monitor_view.members)
    assert list(spark_view.since) == list(monitor_view.since)
    assert not spark.streams.active
    assert settings(spark) == before
    assert not [name for name in os.listdir(tmp_path) if "demo" in name]


def test_an_interrupted_demo_leaves_no_query_behind(spark, monkeypatch):
    def follow(self, report, really=MineView.follow):
        really(self, report)
        raise KeyboardInterrupt

    monkeypatch.setattr(SparkEngine, "learn", lambda self, history, query: fl.Repository.fit(history, query))
    monkeypatch.setattr(MineView, "follow", follow)
    view = shown(plain=False)
    assert 0 < view.ticks < OPTIONS.ticks
    assert not spark.streams.active
