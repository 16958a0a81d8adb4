"""Does a run's status follow what is reported, and no more?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.output.folder import LocalFolder
from fogline.pipeline.names import HEALTH
from fogline.pipeline.report import COUNTERS
from fogline.runs.config import Output, RunConfig, RunStatus
from fogline.runs.start import StreamRun

QUERY = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, by=["g"])


def health(waiting: int = 0, **live: int) -> dict[str, pa.Table]:
    """What a batch reports of these groups."""
    counts = {name: [1] * len(live) for name in COUNTERS} | {"live": list(live.values()), "answer": list(live.values())}
    return {HEALTH: pa.table({"g": list(live), **counts, "waiting": [waiting] * len(live)})}


def test_groups_that_are_empty_take_no_room_in_the_status():
    status = RunStatus()
    status.update(health(x=2, y=1, z=0), 0, 0.1, QUERY)
    assert (status.live, status.answer, len(status.sizes)) == (3, 3, 2)
    status.update(health(x=0), 1, 0.1, QUERY)
    assert (status.live, len(status.sizes)) == (1, 1)
    assert status.total == 4


def test_rows_that_wait_are_counted_in_groups_that_no_row_has_reached_since_too():
    status = RunStatus()
    status.update(health(x=2, y=0, waiting=3), 0, 0.1, QUERY)
    status.update(health(z=1, waiting=1), 1, 0.1, QUERY)
    assert status.waiting == 7
    status.update(health(x=0, y=0, waiting=0), 2, 0.1, QUERY)
    assert (status.waiting, len(status.sizes)) == (1, 1)


def test_of_several_queries_rows_that_wait_are_counted_once():
    status, both = RunStatus(), fl.Queries({"one": QUERY, "two": QUERY})
    named = [health(x=2, waiting=3)[HEALTH].append_column("query", pa.array([name])) for name in both]
    status.update({HEALTH: pa.concat_tables(named)}, 0, 0.1, both)
    assert (status.waiting, status.live) == (3, 4)
    status.update({HEALTH: named[0].set_column(0, "g", pa.array(["y"]))}, 1, 0.1, both)
    assert status.waiting == 6
    assert (status.total, status.rejected, status.expired, status.late) == (2, 2, 2, 2)


def test_a_run_goes_on_with_the_number_of_buckets_it_was_begun_with(tmp_path):
    config = RunConfig("in", str(tmp_path), QUERY)
    Output(LocalFolder(tmp_path), config).begin({"id": "string"}, 24)
    LocalFolder(tmp_path).put("checkpoint/offsets/0", b"")
    again = Output(LocalFolder(tmp_path), config)
    assert again.shape() == {"id": "string"}
    assert again.buckets == 24


class _Ended:
    """Batches that are done."""

    status = MappingProxyType({"isTriggerActive": False})

    def awaitTermination(self, timeout: float | None = None) -> bool:
        return True

    def stop(self) -> None: ...


@pytest.mark.parametrize("behind", [0, 2])
def test_a_run_that_ends_before_it_has_read_all_files_states_it(tmp_path, behind):
    stated: list[str] = []

    class Ending(StreamRun):
        def start(self, **_: Any) -> _Ended:
            return _Ended()

        def look(self) -> None:
            self.status.behind = behind

    config = RunConfig("in", str(tmp_path), QUERY)
    Ending(config, LocalFolder(tmp_path), remark=stated.append).to_the_end()
    assert ["2 files of the stream" in text for text in stated] == [True] * bool(behind)
