"""What do rows cost of which nothing is known?"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.arrays import SHARED
from fogline.errors import SnapshotError
from fogline.impute import chain as chains
from fogline.pipeline.plan import make_plan
from tests.contracts import agree, answer_of
from tests.flow.driving import Engine, changes_of

NAMES = ("a", "b", "c", "d")
QUERY = fl.Query(
    attributes={"a": "max", "b": "min", "c": "max", "d": "min"}, id="id", time="t", lifetime=100, alpha=0.4
)


def history(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.random(rows) for name in NAMES} | {"id": np.arange(rows), "t": np.arange(rows)})


@pytest.fixture(scope="module")
def large():
    return fl.Repository.fit(history(20_000), QUERY, rules=[])


def blank(i, t=1.0):
    return {"id": i, "t": t} | dict.fromkeys(NAMES)


def mixed(count, seed=1):
    """Rows of which all, some or no attributes are known."""
    rng = np.random.default_rng(seed)
    rows = [{"id": i, "t": float(1 + i // 4)} for i in range(count)]
    return [row | {name: float(rng.random()) if rng.random() < 0.5 else None for name in NAMES} for row in rows]


def test_300_rows_that_know_nothing_take_little_more_than_their_names(large):
    monitor = fl.Monitor(QUERY, large)
    monitor.advance(1, [blank(i) for i in range(300)])
    assert monitor.groups[()].live.alive == 300
    assert len(monitor.snapshot()) < 200_000  # with the values in it: 300 · 4 · 20,000 · 24 bytes = 576 MB
    assert sum(array.nbytes for array in monitor.groups[()].live.slots.uncertain) < 1_000_000
    again = fl.Monitor.restore(QUERY, monitor.snapshot(), large)
    more = {"id": -1, "t": 2, "a": 0.9, "b": 0.1, "c": 0.9, "d": 0.1}
    assert again.advance(2, [more, blank(-2, 2)]).equals(monitor.advance(2, [more, blank(-2, 2)]))
    assert again.answer().equals(monitor.answer())


def test_the_state_of_a_group_of_such_rows_is_as_small_on_a_pipeline(large):
    table = pd.DataFrame([blank(i) for i in range(300)]).astype(dict.fromkeys(NAMES, float))
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    engine = Engine(make_plan(QUERY, arrow.schema, opened=lambda: large), slice_rows=1000, chunk_rows=1000)
    engine.batch([arrow])
    [(key, state)] = engine.states.items()
    assert sum(map(len, state.values())) < 100_000
    assert engine.groups[key].group.live.alive == 300
    assert changes_of(engine.batch([arrow.slice(0, 0)]), engine.plan).num_rows == 0
    assert key in engine.groups


@pytest.mark.parametrize("eager", [False, True])
def test_rows_that_share_a_list_have_the_same_answers_as_rows_that_do_not(eager, monkeypatch):
    repository = fl.Repository.fit(history(7), QUERY, rules=[])
    shared, plain = fl.Monitor(QUERY, repository, eager=eager), None
    with monkeypatch.context() as patch:
        patch.setattr(chains.Chain, "_are_shared", lambda _, answer, *__: np.zeros(len(answer.rows), np.bool_))
        plain = fl.Monitor(QUERY, repository, eager=eager)
        rows = mixed(30)
        for t in range(1, 9):
            plain.advance(t, [row for row in rows if row["t"] == t])
    for t in range(1, 9):
        shared.advance(t, [row for row in rows if row["t"] == t])
        shared.check()
        if t % 3 == 0:
            shared = fl.Monitor.restore(QUERY, shared.snapshot(), repository)
    assert shared.answer().equals(plain.answer())
    assert shared.answer().num_rows > 0
    agree(answer_of(shared, ()), answer_of(plain, ()))
    assert len(shared.snapshot()) < len(plain.snapshot())


def test_a_list_that_is_shared_is_refused_where_it_is_not_the_same():
    repository = fl.Repository.fit(history(40), QUERY, rules=[])
    monitor = fl.Monitor(QUERY, repository)
    monitor.advance(1, [blank(1)])
    batch = monitor.groups[()].live.slots.again(np.array([0]))
    assert (batch.uncertain.start == SHARED).all()
    other = fl.Monitor(QUERY, fl.Repository.fit(history(30), QUERY, rules=[]))
    with pytest.raises(SnapshotError, match="other values"):
        other._new_group().live.load(batch, np.array([1]))
