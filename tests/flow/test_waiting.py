"""Do rows that wait beside the state answer as those that wait in the state, and are only those touched that change?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.pipeline import loaded as waiting
from fogline.pipeline.exchange import GroupRows
from fogline.pipeline.loaded import SEGMENTS
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import BatchResult
from fogline.state.store import MemoryStore
from tests.contracts import CLOSE, agree, net
from tests.flow.driving import Engine, changes_of, plan_of, pruned_rows, take
from tests.flow.test_runner import drives, flush, truth

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=10**6)
BESIDE = ("waiting", "readings")
SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("a", pa.float64()), ("b", pa.float64())])


@given(drives(lateness=True), st.sampled_from([0, 1, 3]))
@settings(deadline=None, max_examples=60)
def test_where_rows_wait_changes_no_answer(drive, few):
    stream, pieces, hold, slice_rows, chunk_rows = drive
    plan = plan_of(stream, pieces[0][0].schema, lateness=hold, idle=0)
    before, waiting.FEW = waiting.FEW, few
    try:
        engine, journal = Engine(plan, slice_rows, chunk_rows), BatchResult()
        for partitions in pieces:
            journal += engine.batch(partitions)
        journal += flush(engine)
    finally:
        waiting.FEW = before
    changes = changes_of(journal, plan)
    for time, answer in truth(stream):
        agree(net(changes, stream.by, until=time), answer, 2.5 * CLOSE)


class Counted(MemoryStore):
    """A store that counts what is asked of it beside states."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []

    @property
    def beside(self) -> list[bytes]:
        """What lies beside states."""
        return [value for (namespace, _, _), value in self.values.items() if namespace in BESIDE]

    def get(self, namespace: str, key: str = "", part: int = 0) -> bytes | None:
        found = super().get(namespace, key, part)
        if namespace in BESIDE:
            self.calls.append(("get", len(found or b"")))
        return found

    def put(self, namespace: str, key: str, part: int, value: bytes) -> None:
        if namespace in BESIDE:
            self.calls.append(("put", len(value)))
        super().put(namespace, key, part, value)

    def delete(self, namespace: str, key: str, part: int) -> None:
        if namespace in BESIDE:
            self.calls.append(("delete", 0))
        super().delete(namespace, key, part)


def front(plan, begin: int, count: int) -> list[GroupRows]:
    """Rows of one instant each of which none beats another: all of them wait, then live."""
    a = np.arange(count, dtype=float)
    t = begin + np.arange(count) // 10
    table = pa.table({"id": begin * 10 + np.arange(count), "t": t, "a": a, "b": -a}, schema=SCHEMA)
    return [each for some in pruned_rows(plan, table).values() for each in some]


def test_only_the_newest_and_the_oldest_slots_are_touched_and_the_state_stays_small():
    plan = make_plan(QUERY, SCHEMA, lateness=1_900)  # slots and batches are not in step
    store, touched, sizes = Counted(), [], []
    for k in range(24):  # 2,500 rows over 250 instants each: eight batches wait
        store.calls.clear()
        outcome = take(plan, "[]", store, front(plan, 250 * k, 2_500))
        assert isinstance(outcome.state, Counted)
        store, calls = outcome.state, list(store.calls)
        assert outcome.group.waits == min(19_000, 2_500 * (k + 1))
        touched.append(sum(size for what, size in calls if what == "put"))
        sizes.append(sum(map(len, store.beside)))
        assert len(store.beside) <= SEGMENTS + 1
        assert len(calls) <= 20
    assert max(touched[12:]) < max(sizes) / 3  # of all that wait


def test_without_lateness_no_slot_is_asked_for_and_a_few_rows_wait_in_the_state():
    for lateness, count in ((0, 5_000), (50, 1_000)):
        plan, store = make_plan(QUERY, SCHEMA, lateness=lateness), Counted()
        outcome = take(plan, "[]", store, front(plan, 0, count))
        outcome = take(plan, "[]", outcome.state, front(plan, 600, count))
        assert not store.calls
        assert not outcome.group.segments
