"""Do rows that wait in cells answer as those that wait in the state, and are only those touched that change?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.pipeline import loaded as waiting
from fogline.pipeline.exchange import Parcel
from fogline.pipeline.loaded import SLOTS
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import Journal
from fogline.pipeline.runner import Keeper
from fogline.pipeline.stages import screened
from fogline.pipeline.state import MemoryCells
from tests.contracts import CLOSE, agree, net
from tests.flow.driving import Engine, changes_of, plan_of
from tests.flow.test_keeper import drives, flush, truth

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=10**6)
SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("a", pa.float64()), ("b", pa.float64())])


@given(drives(lateness=True), st.sampled_from([0, 1, 3]))
@settings(deadline=None, max_examples=60)
def test_where_rows_wait_changes_no_answer(drive, few):
    stream, pieces, hold, slice_rows, chunk_rows = drive
    plan = plan_of(stream, pieces[0][0].schema, lateness=hold, idle=0)
    before, waiting.FEW = waiting.FEW, few
    try:
        engine, journal = Engine(plan, slice_rows, chunk_rows), Journal()
        for partitions in pieces:
            journal += engine.batch(partitions)
        journal += flush(engine)
    finally:
        waiting.FEW = before
    changes = changes_of(journal, plan)
    for time, answer in truth(stream):
        agree(net(changes, stream.by, until=time), answer, 2.5 * CLOSE)


class Counted(MemoryCells):
    """Cells that count what is asked of them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []

    def get(self, number: int) -> bytes:
        self.calls.append(("get", len(self.saved[number])))
        return super().get(number)

    def put(self, number: int, saved: bytes) -> None:
        self.calls.append(("put", len(saved)))
        super().put(number, saved)

    def remove(self, number: int) -> None:
        self.calls.append(("remove", 0))
        super().remove(number)


def front(plan, begin: int, count: int) -> list[Parcel]:
    """Rows of one instant each of which none beats another: all of them wait, then live."""
    a = np.arange(count, dtype=float)
    t = begin + np.arange(count) // 10
    table = pa.table({"id": begin * 10 + np.arange(count), "t": t, "a": a, "b": -a}, schema=SCHEMA)
    return [
        Parcel.from_bytes(each.as_py(), plan) for out in screened(plan, table.to_batches()) for each in out["parcel"]
    ]


def test_only_the_newest_and_the_oldest_slots_are_touched_and_the_state_stays_small():
    plan = make_plan(QUERY, SCHEMA, lateness=1_900)  # slots and batches are not in step
    cells, state, touched, sizes = Counted(), None, [], []
    for k in range(24):  # 2,500 rows over 250 instants each: eight batches wait
        cells.calls.clear()
        outcome = Keeper(plan).take("[]", state, front(plan, 250 * k, 2_500), cells=cells)
        assert outcome.state is not None
        state = outcome.state
        assert outcome.group.waits == min(19_000, 2_500 * (k + 1))
        touched.append(sum(size for what, size in cells.calls if what == "put"))
        sizes.append(sum(map(len, cells.saved.values())))
        assert len(cells.saved) <= SLOTS + 1
        assert len(cells.calls) <= 20
    assert max(touched[12:]) < max(sizes) / 3  # of all that wait


def test_without_lateness_no_cell_is_asked_for_and_a_few_rows_wait_in_the_state():
    for lateness, count in ((0, 5_000), (50, 1_000)):
        plan, cells = make_plan(QUERY, SCHEMA, lateness=lateness), Counted()
        outcome = Keeper(plan).take("[]", None, front(plan, 0, count), cells=cells)
        outcome = Keeper(plan).take("[]", outcome.state, front(plan, 600, count), cells=cells)
        assert not cells.calls
        assert not outcome.group.slots
