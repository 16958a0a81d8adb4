"""Is what a state would know without a value what it knows if that has never come?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.arrays import Floats
from fogline.kernels.sensors import AGE, LAST, PARTS, Recent, Trials
from fogline.repository.sensors.gaps import Gaps, Hiding
from fogline.repository.sensors.state import SensorRows, SensorState

D, SENSORS = 2, "ab"
RECENT = Recent(np.array([[np.nan, 1.5]]), np.array([4.0]), np.array([0]))  # b(1.5), at most 4 ago -> a
Row = tuple[str, float, tuple[float, float]]  # sensor, time, values
Choice = tuple[int, int, int, bool]  # row, attribute, run, together


def fresh(*, hindsight: bool = False) -> SensorState:
    return SensorState(D, 9.0, recent=RECENT, hindsight=hindsight)


@st.composite
def streams(draw):
    """At most eight readings of each sensor, in the order of time, and which of the values are hidden."""
    cells = st.sampled_from([np.nan, 1.0, 2.0, 4.0])
    rows = [
        (name, float(t), draw(st.tuples(cells, cells)))
        for name in SENSORS
        for t in draw(st.lists(st.integers(0, 20), min_size=1, max_size=8, unique=True))
    ]
    rows.sort(key=lambda row: row[1])
    choices = [
        (i, j, draw(st.integers(0, 4)), draw(st.booleans()))
        for i, (_, _, values) in enumerate(rows)
        if not np.isnan(values[j := draw(st.integers(0, D - 1))]) and draw(st.booleans())
    ]
    return rows, choices, draw(st.integers(0, len(rows))), draw(st.booleans())


def trials_of(choices: list[Choice], n: int, *, sure: bool = True) -> Trials:
    row, which, run = (np.array([each[k] for each in choices], np.int64) for k in range(3))
    together, attribute = np.array([each[3] for each in choices], np.bool_), np.zeros(n, np.int64)
    attribute[row] = which
    return Trials(attribute, row, run, together, np.full(len(choices), sure))


def watch(state: SensorState, rows: list[Row], hiding: Hiding | None = None):
    time, values = np.array([row[1] for row in rows]), np.array([row[2] for row in rows]).reshape(len(rows), D)
    gaps, wanted = Gaps(np.isnan(values), time + 6), np.isnan(values).any(axis=1)
    return state.take(SensorRows([(row[0],) for row in rows], time, values, wanted, gaps=gaps, hiding=hiding))[:2]


def expected(rows: list[Row], choice: Choice) -> Floats:
    """The context in a stream in which the hidden values are missing."""
    i, j, run, together = choice
    name, now, values = rows[i]
    own = [row for row in rows if row[0] == name and row[1] < now]
    known = [time for _, time, cells in own if not np.isnan(cells[j])][::-1]
    run = min(run, len(known) - 1)
    begin = known[run - 1] if run > 0 else now
    shown = []
    for _, time, cells in own:
        left = [np.nan if time >= begin and (together or q == j) else x for q, x in enumerate(cells)]
        shown.append((name, time, tuple(left)))
    state, every = fresh(), np.arange(len(shown) + 1) == len(shown)
    whole = [*shown, (name, now, values)]
    at, came = np.array([row[1] for row in whole]), np.array([row[2] for row in whole])
    return state.update([(name,)] * len(whole), at, came, every)


@given(streams())
@settings(deadline=None, max_examples=150)
def test_a_hidden_value_has_the_context_of_a_stream_without_it_and_nothing_else_changes(case):
    rows, choices, cut, hindsight = case
    seen, unseen = fresh(hindsight=hindsight), fresh(hindsight=hindsight)
    for begin, end in ((0, cut), (cut, len(rows))):
        part = rows[begin:end]
        some = [(i - begin, *rest) for i, *rest in choices if begin <= i < end]
        hiding = Hiding(trials_of(some, len(part)), len(rows), np.arange(D))
        (context, revised), (plain, also) = watch(seen, part, hiding), watch(unseen, part)
        np.testing.assert_array_equal(context, plain)
        for one, other in zip(revised, also, strict=True):
            np.testing.assert_array_equal(one, other)
        hidden = hiding.hidden
        assert sorted(zip(hidden.row.tolist(), hidden.attribute.tolist(), strict=True)) == [each[:2] for each in some]
        assert hidden.context is not None
        width = seen.width - (2 * D if hindsight else 0)
        for row, single, found in zip(hidden.row.tolist(), hidden.single.tolist(), hidden.context, strict=True):
            choice = next(each for each in choices if each[0] == row + begin)
            np.testing.assert_array_equal(found[:width], expected(rows, choice)[0])
            assert np.isnan(found[width:]).all()  # nor is it known what comes later
            assert choice[2] == 0 or not single
    assert seen.to_bytes() == unseen.to_bytes()


def test_a_late_value_is_hidden_as_if_nothing_later_were_known():
    state = fresh(hindsight=True)
    watch(state, [("a", t, (t, 1.0)) for t in (0.0, 1.0, 2.0, 4.0, 5.0)])
    hiding = Hiding(trials_of([(0, 0, 1, False)], 1), 5, np.arange(D))
    watch(state, [("a", 3.0, (3.0, 1.0))], hiding)
    assert hiding.hidden.context is not None
    [context] = hiding.hidden.context
    assert (context[LAST], context[AGE], context[PARTS + AGE]) == (1.0, 2.0, 1.0)
    assert np.isnan(context[-2 * D :]).all()


@pytest.mark.parametrize(
    ("now", "drawn", "every"), [(11.0, False, False), (11.5, True, False), (67.0, True, False), (67.5, True, True)]
)
def test_values_that_end_a_silence_are_hidden_by_another_lot_and_after_a_long_one_all_of_them(now, drawn, every):
    rows: list[Row] = [("a", t, (1.0, 1.0)) for t in (-9.0, 0.0, 1.0, 3.0)]  # distances 9, 1, 2: the median counts
    scaled = 3 + 2 * (now - 3)
    for lot, hides in (([(4, 0, 0, False)], drawn), ([], every)):
        hiding = Hiding(trials_of(lot, 5, sure=False), 5, np.arange(D))
        assert not len(hiding.hidden.row)
        watch(fresh(), [*rows, ("a", scaled, (1.0, 1.0))], hiding)
        assert hiding.hidden.row.tolist() == [4] * hides
        assert not hiding.hidden.single.any()
    surely = Hiding(trials_of([(4, 0, 0, False)], 5), 5, np.arange(D))
    watch(fresh(), [*rows, ("a", scaled, (1.0, 1.0))], surely)
    assert surely.hidden.single.tolist() == [not drawn]  # not to be compared with what was fitted


def test_the_attribute_that_was_silent_is_the_one_that_is_hidden():
    rows: list[Row] = [("a", float(t), (1.0, 1.0 if t < 4 else np.nan)) for t in range(12)]
    hiding = Hiding(trials_of([(12, 0, 0, False)], 13, sure=False), 5, np.arange(D))
    watch(fresh(), [*rows, ("a", 12.0, (1.0, 5.0))], hiding)
    assert hiding.hidden.attribute.tolist() == [1]
    assert hiding.hidden.context is not None
    assert hiding.hidden.context[0, PARTS + AGE] == 9.0


def test_of_one_call_the_first_few_in_time_are_hidden_and_attributes_keep_the_numbers_that_rows_have():
    rows: list[Row] = [("a", t, (t, -t)) for t in (3.0, 1.0, 2.0)]
    hiding = Hiding(trials_of([(k, 0, 0, False) for k in range(3)], 3), 2, np.array([1, 0]))  # the state has b, a
    watch(fresh(), rows, hiding)
    assert hiding.hidden.row.tolist() == [1, 2]
    assert hiding.hidden.attribute.tolist() == [0, 0]
    assert hiding.hidden.context is not None
    assert hiding.hidden.context[1, PARTS + LAST] == -1.0
