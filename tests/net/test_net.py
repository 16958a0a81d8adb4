"""Do the kept answers belong to these streams, and is a difference seen? `python -m tests.net` compares all of them."""

from __future__ import annotations

import copy
import json

import pytest

from tests.net import record
from tests.net.compare import differences
from tests.net.record import Task
from tests.net.streams import streams


@pytest.fixture(scope="module")
def kept():
    return record.read(record.KEPT)


def test_the_streams_are_those_whose_answers_are_kept(kept):
    assert {each.name: each.digest() for each in streams()} == {
        name: json.loads(line)["digest"] for name, line in kept.items()
    }


@pytest.mark.parametrize("name", ["latest/1", "uncertain/2", "walks/0"])
def test_a_stream_is_answered_as_it_was(kept, name):
    mode, seed = name.split("/")
    result = record.compared(Task(mode, int(seed), ("monitor", "restored")), kept[name], 0.0)
    assert not [each for each in result.found if not each.soft]


def test_a_probability_that_moves_and_a_row_that_is_missing_are_seen(kept):
    was = json.loads(kept["latest/1"])["engines"]["monitor"]
    assert not [*differences("latest/1", "monitor", was, copy.deepcopy(was))]
    now = copy.deepcopy(was)
    at = now["changes"]["columns"].index("probability")
    row = next(row for row in now["changes"]["rows"] if row[at] is not None)
    row[at] += 1e-11
    (found,) = differences("latest/1", "monitor", was, now)
    assert 'python -m tests.net --only "latest/1" --engine "monitor"' in str(found)
    assert not [*differences("latest/1", "monitor", was, now, 1e-10)]
    now["changes"]["rows"].remove(row)
    assert [*differences("latest/1", "monitor", was, now, 1e-10)]
