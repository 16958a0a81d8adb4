"""Are the expected changes of a measured cell the exact expectation?"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given

import fogline as fl
from fogline.rows.kinds import Kinds
from fogline.skyline.asking import questions
from tests import oracle
from tests.changing import Toy, changing
from tests.contracts import CLOSE, query_of
from tests.strategies import late_streams, streams
from tests.test_streams import trying


def expected(windows, alpha, names):
    """(group…, id, arrived, attribute) -> the expectation, in fractions; only what is above 0."""
    out = {}
    for window in windows.values():
        now = answer(window, alpha)
        for cloud in window:
            for j, name in enumerate(names):
                total = sum(
                    (w * len(now ^ answer(known(window, cloud, j, v), alpha)) for v, w in cloud.cells[j]), Fraction(0)
                )
                if total > 0:
                    out[(*cloud.key, name)] = total
    return out


def answer(window, alpha):
    probabilities = {cloud.key: oracle.probability(cloud, window) for cloud in window}
    return oracle.answer(probabilities, alpha + (Fraction(CLOSE) if alpha else 0))


def known(window, cloud, j, value):
    """The window if one cell of a cloud has that value."""
    cells = (*cloud.cells[:j], ((value, Fraction(1)),), *cloud.cells[j + 1 :])
    return [replace(c, cells=cells, beaten={}) if c is cloud else c for c in window]


def asked(monitor, by=()):
    table = monitor.ask_next(10_000).to_pylist()
    assert [row["changes"] for row in table] == sorted((row["changes"] for row in table), reverse=True)
    return {(*(row[name] for name in by), row["id"], row["arrived"], row["attribute"]): row["changes"] for row in table}


def agree(found, true):
    assert found.keys() == true.keys()
    assert all(abs(found[key] - float(true[key])) < CLOSE for key in true)


@trying(100)
@given(streams(most=8) | streams(groups=2, most=8) | late_streams())
def test_expected_changes_are_the_exact_expectation(stream):
    monitor, ticks = fl.Monitor(query_of(stream)), {}
    for tick in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window):
        ticks[tick.call] = tick
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        if call in ticks:  # the last one of the call
            agree(asked(monitor, stream.by), expected(ticks[call].windows, stream.alpha, stream.attributes))


@trying(60)
@given(changing(most=5))
def test_where_the_newest_row_of_an_id_counts_they_are_too(stream):
    toy, ticks = Toy(stream), {}
    group, number, clock = toy.group(), 0, -np.inf
    query = fl.Query(attributes=stream.attributes, id="id", time="t", latest=True, alpha=float(stream.alpha))
    for tick in stream.oracle().ticks():
        ticks[tick.call] = tick
    for call, (now, rows) in enumerate(stream.calls):
        numbered = list(enumerate(rows, number))
        group.advance(clock, now, toy.batch(numbered), True, toy.removals(numbered))
        number, clock = number + len(rows), now
        if call in ticks:
            table = questions([((), group.live)], 1000, query, Kinds(pa.int64(), pa.string())).to_pylist()
            found = {(row["id"], row["arrived"], row["attribute"]): row["changes"] for row in table}
            agree(found, expected(ticks[call].windows, stream.alpha, stream.attributes))
