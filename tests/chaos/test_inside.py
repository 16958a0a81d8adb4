"""Do a few faults of SQLite's own operations change the state? `make chaos PARTS=inside` tries each."""

from __future__ import annotations

import pytest

from tests.chaos.case import NotHere
from tests.chaos.inside import KINDS, tried


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_fault_within_sqlite_the_same_batches_leave_the_same_state(kind):
    try:
        found = tried(kind, small=True, most=12)
    except NotHere as reason:
        pytest.skip(str(reason))
    assert found.faults > 5
