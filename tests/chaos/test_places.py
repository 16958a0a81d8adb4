"""A full disk, and an input that is away; `make chaos PARTS=places` also locks the output."""

from __future__ import annotations

import pytest

from tests.chaos.case import NotHere
from tests.chaos.places import away, full


def test_a_full_disk_is_named_and_nothing_is_lost_when_there_is_room_again():
    try:
        found = full("append", 0, times=1)
    except NotHere as reason:
        pytest.skip(str(reason))
    assert found.end == "same" or "o space left" in found.shown


def test_an_input_that_is_away_is_named_and_read_when_it_is_back():
    assert away("append", 0, times=2).end == "refused"
