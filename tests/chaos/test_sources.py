"""Some of the ways in which files of a stream come and go; `make chaos PARTS=sources` tries all, by seed."""

from __future__ import annotations

import pytest

from tests.chaos.sources import tried


@pytest.mark.parametrize("scenario", ["half-written, grown later", "nothing in them"])
def test_what_was_there_to_be_read_is_reported(scenario):
    assert tried(scenario, "csv, timestamps", 0).end == "same"
