"""Do several threads come to the same bits as one?"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.engine import bulk as shared_work
from fogline.engine import bulk as threads
from fogline.engine import live
from fogline.errors import FoglineError

NAMES = ("a", "b", "c")


def rows(n: int, seed: int, since: int, missing: float = 0.0, spread: int = 0) -> pa.Table:
    """Anti-correlated rows, many of which stay; some are the same as others."""
    random = np.random.default_rng(seed)
    values = random.random((n, 3))
    values += (1.5 - values.sum(axis=1, keepdims=True)) / 3 + random.normal(0, 0.02, (n, 1))
    values = np.round(values, 2)
    columns: dict[str, object] = {"id": np.arange(n) + 10_000 * seed, "t": since + np.arange(n) // (n // 3)}
    for j, name in enumerate(NAMES):
        if spread:
            columns[name] = [
                [{"value": v + k / 50, "weight": 1.0} for k in range(spread)]
                if i % 3 == j
                else [{"value": v, "weight": 1.0}]
                for i, v in enumerate(values[:, j].tolist())
            ]
        else:
            columns[name] = pa.array(values[:, j], mask=random.random(n) < missing)
    return pa.table(columns)


QUERY = fl.Query(attributes=dict.fromkeys(NAMES, "max"), id="id", time="t", lifetime=7, alpha=0.3)


def watched(number: int, monkeypatch, repository=None, **how) -> list[object]:
    monkeypatch.setenv(threads.VARIABLE, str(number))
    monitor, seen = fl.Monitor(QUERY, repository), []
    for k in range(5):
        changes = monitor.advance(4 * k + 3, rows(300, k, 4 * k, **how))
        seen += [changes, monitor.answer(), monitor.snapshot()]
        if number > 1:  # with one thread, every other test checks it
            monitor.check()
    return seen


@pytest.fixture(autouse=True)
def shared_always(monkeypatch):
    """Small ticks are shared, too."""
    monkeypatch.setattr(shared_work, "ROWS", 2)
    monkeypatch.setattr(live, "MANY", 1)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"spread": 3}], ids=["plain", "distributions"])
def test_any_number_of_threads_comes_to_the_same_bits(how, monkeypatch):
    one = watched(1, monkeypatch, **how)
    for number in (2, 3):
        several = watched(number, monkeypatch, **how)
        for a, b in zip(one, several, strict=True):
            assert a == b


@pytest.mark.slow
def test_so_it_is_with_gaps_that_a_repository_fills(monkeypatch):
    repository = fl.Repository.fit(
        rows(600, 77, 0), QUERY, rules=["a(0.1) -> b(0.2)", "b(0.1) -> c(0.2)", "c(0.1) -> a(0.2)"]
    )
    one, two = (watched(number, monkeypatch, repository, missing=0.2) for number in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a == b


def test_shares_are_taken_by_threads_of_this_process(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "3")
    assert threads.in_shares(threads.cuts(10, threads.threads()), lambda a, b: b - a) == [3, 3, 4]
    assert (os.getpid(), 3) in threads._pools


def test_what_an_engine_allows_counts_unless_the_environment_states_otherwise(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    monkeypatch.setattr(threads, "_asked", [])
    assert threads.threads() == 1
    threads.allow(4)
    assert threads.threads() == 4
    monkeypatch.setenv(threads.VARIABLE, "2")
    assert threads.threads() == 2


@pytest.mark.parametrize("given", ["many", "", "0", "-1", "1.5", " 2", "1025", "9" * 5_000])
def test_a_number_of_threads_that_is_none_is_named_before_any_row_is_taken(given, monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, given)
    with pytest.raises(FoglineError, match=r"^FOGLINE_THREADS is '.{0,40}'; it must be a whole number, from 1"):
        fl.Monitor(QUERY)


@pytest.mark.slow
def test_a_process_that_was_forked_starts_threads_of_its_own():
    script = """
import os
from fogline.engine.bulk import cuts, in_shares
assert in_shares(cuts(4, 2), lambda a, b: b - a) == [2, 2]
child = os.fork()
if child == 0:
    os._exit(0 if in_shares(cuts(6, 2), lambda a, b: b - a) == [3, 3] else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0
