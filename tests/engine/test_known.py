"""Which late rows are there already, and is that found once for all rows of a call?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.arrays import UncertainRows
from fogline.engine.copies import duplicates
from fogline.engine.group import Group, WindowGroup
from fogline.engine.live import LiveSet
from fogline.engine.slots import Slots
from fogline.engine.window import CountWindow
from fogline.rows.names import DUPLICATE, Contents

WINDOWS: list[dict[str, Any]] = [{"lifetime": 100}, {"last": 5000}]
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=30)


def rows_of(names, value: float = 0.0) -> list[dict[str, Any]]:
    return [{"id": name, "t": t, "a": float(k), "b": value - k} for k, (name, t) in enumerate(names)]


def monitor_of(**window) -> fl.Monitor:
    return fl.Monitor(fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", **window))


@settings(deadline=None, max_examples=200)
@given(ROWS, ROWS, st.sampled_from(WINDOWS))
def test_a_late_row_is_a_copy_if_and_only_if_one_of_its_id_and_time_is_there(first, then, window):
    monitor = monitor_of(**window)
    first, then = list(dict.fromkeys(first)), list(dict.fromkeys(then))
    monitor.advance(10, rows_of(first))  # none beats another, so all of them are live
    monitor.advance(20, rows_of(then))
    assert [(each.row["id"], each.row["t"], each.reason) for each in monitor.rejects] == [
        (*name, DUPLICATE) for name in then if name in first
    ]


@pytest.mark.parametrize("window", WINDOWS, ids=["lifetime", "last"])
def test_all_late_rows_of_a_call_are_looked_up_at_once(window, monkeypatch):
    looked: list[int] = []
    alive, keys = Slots.alive, CountWindow.holds

    def counted(self):
        looked.append(1)
        return alive(self)

    def counted_keys(self, *names):
        looked.append(1)
        return keys(self, *names)

    def work(n: int) -> int:
        monitor = monitor_of(**window)
        monitor.advance(10, rows_of([(k, 5) for k in range(n)]))
        monitor.advance(11, rows_of([(-1, 11)], value=-9.0))
        looked.clear()
        monitor.advance(12, rows_of([(k, 5) for k in range(n)]))
        assert len(monitor.rejects) == n
        return len(looked)

    monkeypatch.setattr(Slots, "alive", counted)
    monkeypatch.setattr(CountWindow, "holds", counted_keys)
    assert work(300) == work(3)


# --- Copies that others need ------------------------------------------------------------------------------------------


def contents_of(rng, n: int) -> Contents:
    lo = rng.integers(0, 4, (n, 2)).astype(float)
    start, none = np.full(lo.shape, -1), np.empty(0)
    return Contents(
        lo, rng.integers(5, 8, n).astype(float), UncertainRows(lo, lo, start, -start, none, none, none), np.ones(2)
    )


def group_of(names, held: Contents) -> Group:
    monitor = monitor_of(expires="e")
    rows = [
        {"id": id, "t": t, "e": int(held.expires[k]), "a": held.raw[k, 0], "b": held.raw[k, 1]}
        for k, (id, t) in enumerate(names)
    ]
    monitor.advance(4, rows)
    group = monitor.groups[()]
    assert isinstance(group, WindowGroup)
    return group


def conflicts_slowly(needed, again, group: Group, names, held: Contents) -> list[int]:
    """As the definition reads."""
    slots, kept = group.live.slots, []
    lives = [(slots.uncertain.lo[g], slots.columns.expires[g]) for g in slots.alive()]
    for k in needed:
        there = [n for n, name in enumerate(names) if name == names[k] and (n not in again or n in kept)]
        covered = any((lo >= held.uncertain.lo[k]).all() and expires >= held.expires[k] for lo, expires in lives)
        if not covered and not any(held.as_good(n, k) for n in there):
            kept.append(k)
    return kept


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**6), ROWS)
def test_the_copies_that_are_kept_are_those_whose_place_no_other_row_can_take(seed, names):
    rng = np.random.default_rng(seed)
    there = list(dict.fromkeys((id, t) for id, t in names if rng.random() < 0.3))
    group = group_of(there, contents_of(rng, len(there))) if there else None
    held, covering = contents_of(rng, len(names)), rng.random(len(names)) < 0.7
    ids, arrived = [id for id, _ in names], np.array([float(t) for _, t in names])
    refused, kept = duplicates(group, ids, arrived, 4.0, lambda: held, covering)
    again = {*refused, *kept}
    needed = [k for k in sorted(again) if covering[k]]
    slow = conflicts_slowly(needed, again, group or WindowGroup(LiveSet(2, 0.5)), names, held)
    assert kept == slow


def test_what_copies_hold_is_put_together_once_however_many_there_are():
    asked: list[int] = []

    def contents() -> Contents:
        asked.append(1)
        return held

    held, twice = contents_of(np.random.default_rng(1), 40), [k // 2 for k in range(40)]
    refused, kept = duplicates(None, twice, np.ones(40), -np.inf, contents, np.ones(40, np.bool_))
    assert len(refused) + len(kept) == 20
    assert len(asked) == 1
