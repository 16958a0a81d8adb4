"""A clock that jumps, once; `make chaos PARTS=clocks` in several modes."""

from __future__ import annotations

from tests.chaos.clocks import files_jump, jumping


def test_a_clock_that_jumps_changes_nothing():
    assert jumping("csv, timestamps", 0, times=1).end == "same"


def test_times_of_files_that_jump_change_nothing():
    assert files_jump("append", 0).end == "same"
