"""Is the answer right on streams that were not thought of?

More than two thousand small random streams against the oracle, at every tick: `run` is where they are compared.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from tests import oracle
from tests.contracts import CLOSE, agree, answer_of, as_arrow, as_pandas, drive, net, query_of, run, tree_of
from tests.strategies import cuts, late_streams, streams


def trying(examples):
    return settings(
        deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


# --- Against the oracle, with check() after every call and changes added up at every tick -----------------------------


@trying(500)
@given(streams(window="expires"))
def test_with_an_expiry_column_every_tick_has_the_true_answer(stream):
    run(stream)


@trying(350)
@given(streams(window="lifetime"))
def test_with_a_lifetime_every_tick_has_the_true_answer(stream):
    run(stream)


@trying(500)
@given(streams(window="last"))
def test_with_the_newest_rows_only_every_tick_has_the_true_answer(stream):
    run(stream)


@trying(300)
@given(streams(groups=3))
def test_every_group_has_its_own_true_answer(stream):
    run(stream)


@trying(500)
@given(st.sampled_from([1, 2]).flatmap(lambda groups: late_streams(groups=groups)))
def test_late_rows_enter_at_the_clock_and_every_tick_has_the_true_answer(stream):
    run(stream)


@trying(250)
@given(streams() | late_streams())
def test_after_every_call_the_tree_is_what_its_definition_states(stream):
    monitor = fl.Monitor(query_of(stream))
    true: dict[Any, oracle.Node] = {}
    ticks = {t.call: t for t in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)}
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        if call in ticks:  # the last one of the call; without any, the tree stays
            true = {}
            for window in ticks[call].windows.values():
                true |= oracle.tree(window, stream.alpha)
        assert tree_of(monitor) == true


# --- The same, however it is put --------------------------------------------------------------------------------------


@trying(250)
@given(streams(groups=2) | late_streams(groups=2), st.sets(st.integers(0, 8)))
def test_a_monitor_resumed_from_snapshots_goes_on_with_identical_changes(stream, resume):
    for resumed, unbroken in zip(run(stream, resume), drive(stream), strict=True):
        assert resumed.equals(unbroken)


@trying(250)
@given(streams(), st.data())
def test_the_answer_of_every_tick_is_the_same_however_the_rows_are_cut_into_calls(stream, data):
    rows = sorted(stream.rows, key=lambda row: row["t"])
    some = pa.concat_tables(drive(stream))
    other = pa.concat_tables(drive(replace(stream, calls=data.draw(cuts(rows, stream.end)))))
    for t in sorted({*some["time"].to_pylist(), *other["time"].to_pylist()}):
        agree(net(some, until=t), net(other, until=t), 3 * CLOSE)


@trying(150)
@given(streams(groups=2), st.sampled_from([as_arrow, as_pandas]))
def test_tables_and_frames_give_the_same_changes_as_dicts(stream, put):
    for given_so, plain in zip(drive(put(stream)), drive(stream), strict=True):
        assert given_so.to_pylist() == plain.to_pylist()


# --- At the border ----------------------------------------------------------------------------------------------------


@trying(100)
@given(streams(window="expires"))
def test_rows_that_expire_before_they_arrive_are_rejected_and_no_others(stream):
    monitor = fl.Monitor(query_of(stream))
    for now, rows in stream.calls:
        monitor.advance(now, rows)
    rejected = Counter((reject.row["id"], reject.row["t"]) for reject in monitor.rejects)
    assert rejected == Counter((row["id"], row["t"]) for row in stream.rows if row["e"] < row["t"])
    assert all(reject.reason for reject in monitor.rejects)


def test_a_call_against_the_clock_is_refused_and_changes_nothing():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, alpha=0.25)
    monitor, undisturbed = fl.Monitor(query), fl.Monitor(query)
    first, second = [{"id": "x", "t": 3, "a": 1}], [{"id": "y", "t": 5, "a": [(0, 1), (2, 1)]}]
    monitor.advance(4, first)
    with pytest.raises(fl.FoglineError):
        monitor.advance(2, [{"id": "z", "t": 2, "a": 7}])
    undisturbed.advance(4, first)
    assert monitor.advance(6, second).equals(undisturbed.advance(6, second))
    agree(answer_of(monitor), {("x", 3): 0.5, ("y", 5): 0.5})
