"""Two runs on one output, once; `make chaos PARTS=drivers` races them by seed."""

from __future__ import annotations

from tests.chaos.drivers import raced


def test_a_second_run_is_refused_with_the_name_of_the_first_even_if_that_stands_still():
    found = raced("the first one stands still", "append", 0, rounds=1)
    assert found.end == "same" or "is being written by process" in found.shown
