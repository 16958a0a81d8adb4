"""Is the oracle right?

It must give every listed probability as the very same fraction, and its two definitions of probability must agree.
"""

from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.strategies import COAL_MINE, NOT_TRANSITIVE, PAPER, VECTORS, late_streams, streams

tiny = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])


def replay(stream):
    return oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)


def window_of(vector, t):
    """The clouds of a listed stream at `t`, by id."""
    [*everyone] = oracle.clouds(vector.stream.calls, vector.stream.attributes, **vector.stream.window)
    return {cloud.id: cloud for cloud in oracle.window(everyone, t)}


def by_listed_tick(vector):
    """(tick, probabilities by id) for each listed tick; where nothing happens they stay."""
    happened = {tick.time: tick.probabilities for tick in replay(vector.stream)}
    now: dict[Any, Fraction] = {}
    for t in vector.probabilities:
        now = happened.get(t, now)
        yield t, {name: p for (name, _), p in now.items()}


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_the_oracle_gives_every_listed_probability_and_answer_as_the_same_fractions(vector):
    given = dict(by_listed_tick(vector))
    assert given == vector.probabilities
    assert {t: oracle.answer(p, vector.stream.alpha) for t, p in given.items()} == vector.answers


@pytest.mark.parametrize("vector", PAPER, ids=str)
def test_possible_worlds_give_every_listed_probability_of_the_paper(vector):
    for t, listed in vector.probabilities.items():
        window = window_of(vector, t)
        everyone = list(window.values())
        assert {name: oracle.probability_over_worlds(c, everyone) for name, c in window.items()} == listed


@tiny
@given(streams(most=5) | late_streams())
def test_possible_worlds_and_the_product_form_agree(stream):
    for tick in replay(stream):
        for window in tick.windows.values():
            if prod(len(cloud.places) for cloud in window) <= 500:
                for cloud in window:
                    assert oracle.probability_over_worlds(cloud, window) == oracle.probability(cloud, window)


@tiny
@given(streams(most=5) | late_streams(), st.integers(1, 4))
def test_possible_worlds_and_the_chance_of_fewer_agree_for_every_skyband(stream, k):
    for tick in replay(stream):
        for window in tick.windows.values():
            if prod(len(cloud.places) for cloud in window) <= 500:
                for cloud in window:
                    assert oracle.probability_over_worlds(cloud, window, k) == oracle.probability(cloud, window, k)


@tiny
@given(streams(), st.integers(1, 4))
def test_rows_that_k_surely_beat_as_long_as_they_live_change_no_probability_in_the_skyband(stream, k):
    for tick in replay(stream):
        for window in tick.windows.values():
            there = oracle.live(window, k)
            assert all(oracle.probability(c, window, k) == 0 for c in window if c not in there)
            assert all(oracle.probability(c, there, k) == oracle.probability(c, window, k) for c in there)


def test_of_rows_each_better_than_the_next_the_first_k_are_in_the_skyband():
    rows = [{"id": name, "t": 0, "a": value} for name, value in zip("abcd", (4, 3, 2, 1), strict=True)]
    for k in (1, 2, 3, 4, 5):
        [tick, *_] = oracle.replay([(0, rows)], {"a": "max"}, lifetime=5, skyband=k)
        assert [name for (name, _), p in tick.probabilities.items() if p] == list("abcd")[:k]


def test_the_coal_mine_has_the_chances_of_dominance_that_the_paper_gives():
    window = window_of(COAL_MINE, 8)
    for pair, listed in COAL_MINE.listed["dominance"].items():
        a, b = pair.split(" over ")
        assert oracle.chance(window[a], window[b]) == Fraction(listed)


def test_the_coal_mine_has_the_worlds_of_table_3_at_tick_6():
    worlds = list(oracle.worlds(list(window_of(COAL_MINE, 6).values())))
    assert len(worlds) == COAL_MINE.listed["worlds at t=6"]
    assert sum(weight for _, weight in worlds) == 1
    first: Any = ((90, 2, 2, 3), (60, 1, 1, 1), (70, 2, 2, 2), (90, 2, 3, 2))  # o31, o41, o51, o61
    [weight] = [weight for world, weight in worlds if world == first]
    assert weight == Fraction(COAL_MINE.listed["pw1 probability"])


def test_the_coal_mine_has_the_tree_of_the_paper_at_tick_8():
    listed = COAL_MINE.listed["tree at t=8"]
    tree = {
        name: node for (name, _), node in oracle.tree(list(window_of(COAL_MINE, 8).values()), Fraction(9, 20)).items()
    }
    for layer in (1, 2, 3):
        assert {name for name, node in tree.items() if node.layer == layer} == set(listed[f"layer {layer}"])
    assert {name: node.parent[0] for name, node in tree.items() if node.parent} == listed["parent"]
    assert not any(name in tree and not tree[name].shadow for name in listed["never again"])


def test_two_clouds_that_guard_each_other_hang_below_the_one_that_goes_first():
    coin = [(0, 1), (2, 1)]
    rows = [{"id": "early", "t": 0, "e": 5, "a": coin}, {"id": "late", "t": 0, "e": 9, "a": coin}]
    [tick, *_] = oracle.replay([(0, rows)], {"a": "max"}, expires="e")
    tree = oracle.tree(tick.windows[()], Fraction(3, 4))
    assert tree["early", 0] == oracle.Node(layer=None, parent=None, shadow=True)
    assert tree["late", 0] == oracle.Node(layer=2, parent=("early", 0), shadow=False)


def test_in_the_counterexample_c_stands_below_its_guard_and_rises_when_the_guard_expires():
    alpha = NOT_TRANSITIVE.stream.alpha
    before = oracle.tree(list(window_of(NOT_TRANSITIVE, 4).values()), alpha)
    after = oracle.tree(list(window_of(NOT_TRANSITIVE, 5).values()), alpha)
    assert before["c", 1] == oracle.Node(layer=2, parent=("n", 0), shadow=False)
    assert after == {("c", 1): oracle.Node(layer=1, parent=None, shadow=False)}


def times(rows, calls=None, **window):
    """[(tick, ids in the window)] for rows of one attribute that is the same for all."""
    made = [
        (now, [{"id": name, "t": t, "e": e, "a": 1} for name, t, e in batch]) for now, batch in calls or [(99, rows)]
    ]
    ticks = oracle.replay(made, {"a": "max"}, **window)
    return [(tick.time, "".join(sorted(cloud.id for cloud in tick.windows[()]))) for tick in ticks]


def test_what_expires_leaves_before_what_arrives_enters():
    assert times([("a", 0, 2), ("b", 2, 3)], expires="e") == [(0, "a"), (2, "b"), (3, "")]


def test_a_row_expired_on_arrival_never_enters():
    assert times([("a", 1, 1), ("b", 2, 1)], expires="e") == [(1, ""), (2, "")]


def test_a_lifetime_counts_from_arrival():
    assert times([("a", 0, None), ("b", 1, None)], lifetime=2) == [(0, "a"), (1, "ab"), (2, "b"), (3, "")]


def test_a_count_window_keeps_the_newest_by_arrival_and_then_by_id():
    assert times([("b", 0, None), ("a", 0, None), ("c", 0, None), ("d", 5, None)], last=2) == [(0, "bc"), (5, "cd")]


def test_a_late_row_enters_at_the_clock_and_keeps_its_own_expiry():
    calls = [(5, [("a", 5, 9)]), (8, [("b", 2, 7), ("c", 2, 5), ("d", 8, 9)])]
    assert times([], calls, expires="e") == [(5, "a"), (5, "ab"), (7, "a"), (8, "ad")]


def test_a_late_row_that_is_not_among_the_newest_never_enters_a_count_window():
    calls = [(5, [("a", 3, None), ("b", 5, None)]), (6, [("c", 4, None), ("d", 2, None)])]
    assert times([], calls, last=2) == [(3, "a"), (5, "ab"), (5, "bc")]
