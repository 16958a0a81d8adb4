"""Some files of a checkpoint and an output, damaged; `make chaos PARTS=damage` takes each of them in turn."""

from __future__ import annotations

import pytest

from tests.chaos.damage import damaged


@pytest.mark.parametrize("kind", ["a file is another of its folder", "a byte is flipped", "a file is cut short"])
def test_a_damaged_file_is_named_or_makes_no_difference(kind):
    assert damaged(kind, "append", 0, most=5).faults
