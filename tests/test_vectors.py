"""Does a Monitor give the listed answers?

Every stream of `vectors/`, at every listed tick: also where nothing happens, and however the same rows are put.
"""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

import fogline as fl
from tests.contracts import CLOSE, agree, answer_of, net, query_of, tree_of
from tests.strategies import COAL_MINE, NOT_TRANSITIVE, VECTORS

every_vector = pytest.mark.parametrize("vector", VECTORS, ids=str)


def written(cell, sign=1):
    """A listed cell as a user would write it: a known value is a number."""
    pairs = [(sign * value, float(weight)) for value, weight in cell]
    return pairs[0][0] if len(pairs) == 1 else pairs


def stream_of(vector, sign=1):
    """The listed stream in floating point; with sign -1, less is better in every attribute."""
    attributes = dict.fromkeys(vector.stream.attributes, "max" if sign == 1 else "min")
    rewrite = lambda row: row | {name: written(row[name], sign) for name in attributes}  # noqa: E731
    calls = [(now, [rewrite(row) for row in rows]) for now, rows in vector.stream.calls]
    return replace(vector.stream, attributes=attributes, calls=calls)


def follow(stream, resume=False):
    """(tick, {id: probability}) as `answer` gives them; when resuming, each tick begins from a snapshot."""
    query = query_of(stream)
    monitor = fl.Monitor(query)
    for now, rows in stream.calls:
        monitor.advance(now, rows)
        monitor.check()
        if resume:
            monitor = fl.Monitor.restore(query, monitor.snapshot())
        yield now, {name: p for (name, _), p in answer_of(monitor).items()}


def assert_as_listed(given, vector):
    """Each listed tick has the listed answer, with the listed probabilities."""
    given = dict(given)
    assert given.keys() == vector.answers.keys()
    for t, ids in vector.answers.items():
        agree(given[t], {name: vector.probabilities[t][name] for name in ids})


@every_vector
def test_every_listed_tick_has_its_answer(vector):
    assert_as_listed(follow(stream_of(vector)), vector)


@every_vector
def test_at_alpha_0_every_possible_member_shows_its_probability(vector):
    for t, given in follow(replace(stream_of(vector), alpha=Fraction(0))):
        agree(given, {name: p for name, p in vector.probabilities[t].items() if p > 0})


@every_vector
def test_the_order_of_rows_within_a_tick_does_not_matter(vector):
    stream = stream_of(vector)
    shuffled = [(now, Random(now).sample(rows, len(rows))) for now, rows in stream.calls]
    assert_as_listed(follow(replace(stream, calls=shuffled)), vector)


@every_vector
def test_a_monitor_resumed_from_a_snapshot_at_every_tick_gives_the_same_answers(vector):
    assert_as_listed(follow(stream_of(vector), resume=True), vector)


@every_vector
def test_negated_values_where_less_is_better_have_the_same_answers(vector):
    assert_as_listed(follow(stream_of(vector, sign=-1)), vector)


@every_vector
def test_the_changes_of_a_single_call_hold_the_answer_of_every_tick(vector):
    stream = stream_of(vector)
    changes = fl.Monitor(query_of(stream)).advance(stream.end, stream.rows)
    for t, ids in vector.answers.items():
        given = {name: p for (name, _), p in net(changes, until=t).items()}
        agree(given, {name: vector.probabilities[t][name] for name in ids}, 2.5 * CLOSE)


def test_the_coal_mine_has_the_tree_of_the_paper_at_tick_8():
    monitor, listed = fl.Monitor(query_of(COAL_MINE.stream)), COAL_MINE.listed["tree at t=8"]
    for now, rows in stream_of(COAL_MINE).calls:
        if now <= 8:
            monitor.advance(now, rows)
    tree = {name: node for (name, _), node in tree_of(monitor).items() if not node.shadow}
    assert not tree.keys() & set(listed["never again"])
    for layer in (1, 2, 3):
        assert {name for name, node in tree.items() if node.layer == layer} == set(listed[f"layer {layer}"])
    assert {name: node.parent[0] for name, node in tree.items() if node.parent} == listed["parent"]


def test_a_guarded_row_is_answered_when_its_guard_expires_although_another_half_beat_that_guard():
    answers = dict(follow(stream_of(NOT_TRANSITIVE)))
    assert answers[4] == {}
    assert answers[5] == {"c": 1.0}
