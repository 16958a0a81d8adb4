"""Few kills, quickly; `make chaos PARTS=kills` does many, also on Spark."""

from __future__ import annotations

from tests.chaos.kills import asked_to_stop, killed, suspended


def test_a_run_that_is_killed_again_and_again_reports_every_change_once():
    assert killed("append, files joined", 0, kills=3).faults == 3


def test_a_run_that_is_asked_to_stop_or_stands_still_for_a_while_loses_nothing():
    assert asked_to_stop("append", 0, times=1).end == suspended("append", 0, times=1).end == "same"
