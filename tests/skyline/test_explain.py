"""Are explanations true? Every number of them, against the oracle, on streams that were not thought of."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

import fogline as fl
from tests import oracle
from tests.changing import changing
from tests.contracts import query_of
from tests.explaining import check_all
from tests.strategies import late_streams, streams


def trying(examples):
    return settings(
        deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


def explained_at_every_call(stream) -> int:
    monitor, count = fl.Monitor(query_of(stream)), 0
    ticks = {t.call: t for t in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)}
    windows = {}
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        windows = ticks[call].windows if call in ticks else windows
        before = monitor.snapshot()
        count += check_all(monitor, windows, stream)
        assert monitor.snapshot() == before, "to explain changes nothing"
    return count


@trying(60)
@given(streams(most=7))
def test_every_statement_of_an_explanation_is_true(stream):
    explained_at_every_call(stream)


@trying(25)
@given(streams(groups=3, most=9) | late_streams(groups=2))
def test_every_group_is_explained_by_its_own_rows(stream):
    explained_at_every_call(stream)


@trying(40)
@given(changing(most=5, vague=False))
def test_where_rows_are_replaced_explanations_are_true(stream):
    query = fl.Query(
        attributes=stream.attributes, id="id", time="t", alpha=float(stream.alpha), latest=True, gone="gone",
        version="v", remember_removed=stream.remember, **stream.window,
    )  # fmt: skip
    monitor, windows = fl.Monitor(query), {}
    ticks = {t.call: t for t in stream.oracle().ticks()}
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        windows = ticks[call].windows if call in ticks else windows
        check_all(monitor, windows, stream)
