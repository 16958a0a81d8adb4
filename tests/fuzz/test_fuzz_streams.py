"""On a few hundred fixed streams, and on the least streams that ever differed: is reported what the reference reports?

`python -m tests.fuzz` runs any number of others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz import runners
from tests.fuzz.command import differences
from tests.fuzz.streams import Stream

SEEDS, BLOCK = 300, 30


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_random_streams_of_all_features_are_reported_as_the_reference_does(first):
    found = [f"seed {seed}, {text}" for k in range(first, first + BLOCK) for seed, _, _, text in differences(k)]
    assert not found, "\n".join(found)


# --- Finds ------------------------------------------------------------------------------------------------------------


def _find(calls: list[tuple[int, list[dict[str, Any]]]], query: dict[str, Any], **how: Any) -> Stream:
    count, numbered = 0, []
    for now, rows in calls:
        numbered.append((now, [{"id": "a", **row, "n": count + k} for k, row in enumerate(rows)]))
        count += len(rows)
    asked = {"attributes": {"a0": "max"}, "id": "id", "time": "t", "alpha": 0.1, "by": [], **query}
    return Stream(0, asked, calls=numbered, **how)


LIFE = {"lifetime": 5}
TWO = {"attributes": {"a0": "max", "a1": "max"}}
LIMITS = {"limits": {"a0": (0, 3)}, "expires": "e"}
MENDED = {
    "changes of a call are in the order of time where groups empty": _find(
        [(14, [{"t": 1, "g": "y", "a0": 0}, {"t": 2, "g": "x", "a0": 0}])], {"by": ["g"], "lifetime": 3}
    ),
    "a call of which every row is rejected, at its end alone": _find(
        [(1, [{"t": 1, "a0": 0}]), (1, [{"t": 1, "a0": 0}])], {"last": 1}, ends=(1,)
    ),
    "what is outside its limits is no number among copies": _find(
        [(10, [{"t": 5, "e": 5, "a0": 9}, {"t": 5, "e": 1005, "a0": 0}])], LIMITS, repository="whole"
    ),
    "a row with a gap that nothing fills is no copy": _find(
        [(3, [{"t": 3, "a0": None, "a1": 1}, {"t": 3, "a0": 1, "a1": 0}])], TWO | LIFE, repository="empty"
    ),
    "a row with a gap that nothing fills is no reading": _find(
        [(5, [{"t": 2, "a0": None, "a1": 0}, {"id": "b", "t": 2, "a0": 0, "a1": 0}, {"t": 4, "a0": 0, "a1": None}])],
        TWO | {"last": 4}, repository="empty",
    ),
    "a copy that is rejected is no reading": _find(
        [(23, [{"t": 2, "e": 14, "a0": 0}, {"t": 23, "e": 27, "a0": None}]),
         (24, [{"t": 23, "e": 35, "a0": 1}, {"t": 24, "e": 28, "a0": None}])],
        {"expires": "e"}, repository="empty",
    ),
    "of copies that are imputed the chosen one is the reading": _find(
        [(9, [{"id": "b", "t": 1, "e": 4, "a0": 0}, {"id": "b", "t": 5, "e": 1005, "a0": 9},
              {"id": "b", "t": 5, "e": 10, "a0": 1}, {"t": 7, "e": 11, "a0": 0}])],
        LIMITS | {"attributes": {"a0": "min"}, "latest": True}, repository="last",
    ),
    "with carry, a row that is rejected for its gap does not move the clock": _find(
        [(6, [{"t": 1, "a0": 0}, {"id": "d", "t": 6, "a0": None}])], LIFE | {"latest": True, "carry": ["a0"]},
        repository="empty",
    ),
    "with carry, a row that is rejected for its gap moves silent groups, however rows are cut": _find(
        [(10, [{"id": "c", "t": 10, "e": 22, "g": "y", "a0": 0}]), (27, [{"t": 27, "e": 31, "g": "x", "a0": None}]),
         (32, [{"t": 32, "e": 40, "g": "z", "a0": None}])],
        {"expires": "e", "latest": True, "carry": ["a0"], "by": ["g"]}, repository="empty", idle=5,
    ),
    "of stale copies, too, the chosen one is the reading, with what an imputer of the user's own gave": _find(
        [(2, [{"t": 1, "e": 2, "v": 1, "a0": None, "a1": 0}, {"t": 2, "e": 6, "v": None, "a0": None, "a1": None}]),
         (3, [{"t": 1, "e": 13, "v": None, "a0": None, "a1": 0}, {"t": 1, "e": 2, "v": None, "a0": 0, "a1": 0},
              {"t": 3, "e": 5, "v": 0, "a0": 0, "a1": 0}])],
        {"attributes": {"a0": "min", "a1": "min"}, "expires": "e", "latest": True, "version": "v"}, repository="empty",
        own="other", lateness=1,
    ),
    "a late row that is rejected when it is due has not expired": _find(
        [(6, [{"t": 3, "e": 7, "a0": 0}, {"t": 6, "e": 9, "a0": 0}]), (8, [{"id": "b", "t": 4, "e": 4, "a0": None}]),
         (9, [{"id": "c", "t": 0, "e": 1, "a0": 0}, {"id": "c", "t": 0, "e": 2, "a0": 0}])],
        {"expires": "e"}, repository="empty", lateness=1,
    ),
    "what an imputer of the user's own gives is not carried": _find(
        [(4, [{"t": 2, "a0": None, "a1": 0}]),
         (6, [{"t": 4, "a0": None, "a1": 1}, {"id": "b", "t": 6, "a0": 0, "a1": 0}])],
        {"attributes": {"a0": "max", "a1": "min"}, "latest": True, "carry": ["a0"]}, repository="whole", own="other",
    ),
    "what an imputer of the user's own gives counts among copies": _find(
        [(5, [{"t": 1, "a0": [(1, 1), (0, 5)]}, {"t": 1, "a0": None}])], {"last": 2}, repository="empty", own="some",
        wide=True,
    ),
    "a row that is rejected for its gap drives no sensor out": _find(
        [(19, [{"id": "b", "t": 12, "a0": 0, "a1": 0}, {"t": 13, "a0": None, "a1": 0},
               {"id": "b", "t": 19, "a0": None, "a1": None}])],
        {"attributes": {"a0": "min", "a1": "max"}, "last": 6, "max_sensors": 1}, repository="empty",
    ),
    "a time that cannot be read is no error, in the first call either": _find(
        [(0, [{"t": "x", "a0": 0}])], LIFE, typed=False
    ),
    "a row that was held and given up does not move the clock": _find(
        [(38, [{"t": 38, "a0": 0}, {"t": 19, "a0": 0}]), (45, [{"t": 28, "a0": 0}]), (45, [{"t": 30, "a0": 0}])],
        {"lifetime": 3}, every="batch", ahead=5,
    ),
    "of versions of an older instant the greatest of a call is the reading": _find(
        [(4, [{"id": "c", "t": 4, "v": 0, "a0": None, "a1": 0}]),
         (23, [{"id": "c", "t": 2, "v": 1, "a0": 1, "a1": 0}, {"id": "c", "t": 2, "v": 2, "a0": 0, "a1": 0},
               {"id": "c", "t": 12, "v": 2, "a0": None, "a1": 0}, {"id": "b", "t": 18, "v": 1, "a0": 0, "a1": 0}])],
        TWO | {"lifetime": 1000, "latest": True, "version": "v"}, repository="empty", own="late",
    ),
    "copies with a gap are both rejected where their sensor has been driven out": _find(
        [(24, [{"id": "c", "t": 23, "a0": 0, "a1": None}, {"id": "b", "t": 24, "a0": None, "a1": 0},
               {"id": "b", "t": 23, "a0": 0, "a1": 0}, {"id": "b", "t": 24, "a0": None, "a1": 0}])],
        TWO | {"lifetime": 3, "latest": True, "carry": ["a1"], "max_sensors": 1}, repository="empty",
    ),
}  # fmt: skip


def _everywhere(stream: Stream) -> None:
    for shelved in (False, True):
        runners.run_stages(replace(stream, shelved=shelved))
    runners.run_embedded(stream)
    runners.run_monitor(stream)


@pytest.mark.parametrize("stream", MENDED.values(), ids=MENDED)
def test_what_once_differed_is_reported_as_the_reference_does(stream):
    _everywhere(stream)
