"""The short form of the simulation: a few schedules of every mode; and it finds what it should."""

from __future__ import annotations

import pytest

from fogline.pipeline import loaded as cache
from tests.chaos import simulation
from tests.chaos.sim_streams import MODES
from tests.chaos.simulation import FOLDER, SCHEDULES, cases, many, one


@pytest.mark.parametrize("mode", [*MODES, FOLDER])
def test_whatever_an_engine_does_the_stages_report_what_the_oracle_knows(mode):
    outcome = many(mode, 0, 1)
    assert outcome.schedules == SCHEDULES
    assert outcome.faults > 1


@pytest.mark.parametrize(("mode", "seed"), [("latest", 350026), ("moved", 350095), ("sensors", 350000)])
def test_a_stream_that_was_reported_in_two_ways_once_is_not_again(mode, seed):
    assert one(mode, seed) > 0


def test_a_case_is_named_by_its_mode_and_seed():
    assert [case.key for case in cases(7)] == [f"simulation/schedules/{mode}/7" for mode in (*MODES, FOLDER)]


def test_a_group_at_hand_that_is_not_the_one_that_was_saved_is_found_and_shown(monkeypatch):
    monkeypatch.setattr(cache, "digest", lambda state: bytes(16))
    monkeypatch.setattr(simulation, "TRIES", 3)
    with pytest.raises(AssertionError, match=r"repeat: python -c .*one\('append', \d+\)"):
        many("append", 0, 20)
