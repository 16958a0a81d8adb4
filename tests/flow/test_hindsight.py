"""Do the stages of a pipeline revise gaps as a monitor does, however the stream is cut?"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.flow.journal import Journal
from fogline.flow.plan import make_plan
from tests.contracts import CLOSE, agree, net
from tests.flow.driving import Engine, changes_of, cut, rows_of
from tests.flow.test_due import few_sensors_a_part, learnt, query, with_sites
from tests.walks import walks


@st.composite
def readings(draw, most: int = 10):
    """Readings of few sensors with many gaps, in the order of time; some come twice."""
    table = with_sites(walks(sensors=3, steps=draw(st.integers(2, most)), begin=200, gaps=0.5, seed=draw(st.integers(1, 5))))
    again = draw(st.lists(st.integers(0, table.num_rows - 1), max_size=2))
    return pa.concat_tables([table, table.take(pa.array(again, pa.int64()))]).sort_by("t")


def monitored(table: pa.Table, by: bool, **how) -> pa.Table:
    return fl.Monitor(query(by=by), learnt(by), **how).advance(max(table["t"].to_pylist()), table)


@given(readings(), st.booleans(), st.sampled_from([1, 3]), st.sampled_from([0, 2000]), st.data())
@settings(deadline=None, max_examples=60)
def test_revisions_are_those_of_a_monitor_whatever_the_cut(table, by, buckets, small, data):
    repository = learnt(by)
    plan = make_plan(query(by=by), table.schema, opened=lambda: repository, buckets=buckets)
    engine, journal = Engine(plan, 4, 6, small), Journal()
    with few_sensors_a_part(data.draw(st.sampled_from([1, 1000]))):
        for piece in cut(table, data.draw(st.lists(st.integers(0, table.num_rows), max_size=5))):
            owner = [data.draw(st.integers(0, 1)) for _ in range(piece.num_rows)]
            journal += engine.batch([piece.filter(pa.array([w == k for w in owner], pa.bool_())) for k in range(2)])
    changes, expected = changes_of(journal, plan), monitored(table, by)
    for time in range(200, max(table["t"].to_pylist()) + 1):
        agree(net(changes, plan.query.by, until=time), net(expected, plan.query.by, until=time), 2.5 * CLOSE)
    health = rows_of(journal, "health")
    assert sum(row["rows"] for row in health) == table.num_rows
