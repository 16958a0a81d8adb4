"""Do all maintainers give the true answer, at every tick?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.arrays import no_rows
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader
from lab import maintainers
from lab.case import LabError
from lab.maintainers import MAINTAINERS, maintainer
from tests import oracle
from tests.contracts import agree, members
from tests.strategies import streams

EXACT = ("skyline", "skyline_forgetting", "live")
TREES = tuple(name for name in MAINTAINERS if name.startswith("skyline_tree"))


def numbered(stream):
    """The same rows, each with a number of its own, one call per instant at which anything happens."""
    rows = [{**row, "id": n} for n, row in enumerate(stream.rows) if row["e"] >= row["t"]]
    instants = sorted({row["t"] for row in rows} | {row["e"] for row in rows if row["e"] <= stream.end})
    return replace(stream, calls=[(t, [row for row in rows if row["t"] == t]) for t in instants])


def points(stream):
    """The same rows, with the first value of each distribution alone."""
    calls = [
        (now, [{**r, **{a: r[a][0][0] if isinstance(r[a], list) else r[a] for a in stream.attributes}} for r in rows])
        for now, rows in stream.calls
    ]
    return replace(stream, calls=calls)


def drive(name, stream):
    """The answer of every call: {(id, arrived): probability}."""
    query = fl.Query(attributes=stream.attributes, id="id", time="t", expires="e", alpha=float(stream.alpha))
    made, reader, arrived = maintainer(name, query), Reader(query), {row["id"]: row["t"] for row in stream.rows}
    for now, rows in stream.calls:
        batch = reader.read(rows, Kinds()).batch() if rows else no_rows(len(stream.attributes))
        answer = made.advance(now, batch)
        yield {(n, arrived[n]): p for n, p in zip(answer.id.tolist(), answer.probability.tolist(), strict=True)}


def truths(stream):
    """The true answer of every call."""
    ticks = {t.call: t for t in oracle.replay(stream.calls, stream.attributes, expires="e")}
    return [
        members(ticks[call].probabilities, stream.alpha) if call in ticks else {} for call in range(len(stream.calls))
    ]


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(streams(window="expires"), st.sampled_from(EXACT))
def test_every_maintainer_of_clouds_gives_the_true_answer_at_every_tick(stream, name):
    stream = numbered(stream)
    for given_, true in zip(drive(name, stream), truths(stream), strict=True):
        agree(given_, true)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(streams(window="expires"), st.sampled_from([name for name in TREES if "printed" not in name]))
def test_the_papers_tree_corrected_answers_with_the_same_rows_and_with_lower_bounds(stream, name):
    stream = numbered(stream)
    for found, true in zip(drive(name, stream), truths(stream), strict=True):
        assert found.keys() == true.keys()
        assert all(p <= float(true[row]) + 1e-9 for row, p in found.items())


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(streams(window="expires"), st.sampled_from(sorted(MAINTAINERS)))
def test_every_maintainer_gives_the_true_skyline_of_points(stream, name):
    stream = points(numbered(stream))
    for given_, true in zip(drive(name, stream), truths(stream), strict=True):
        agree(given_, true)


def foggy(seed, n, d):
    """(t, e, cells) rows over several ticks, with odd lifetimes, up to two cells of each distributed."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(n):
        cells = rng.normal(5, 2, d) - rng.normal(0, 1)
        row: dict[str, Any] = {"id": k, "t": k // 5, "e": k // 5 + int(rng.integers(1, 60))}
        for j in range(d):
            row[f"a{j}"] = float(cells[j])
            if rng.random() < 0.2:
                row[f"a{j}"] = [
                    (float(v), int(w)) for v, w in zip(cells[j] + rng.normal(0, 1, 4), (1, 2, 3, 1), strict=True)
                ]
        rows.append(row)
    return rows


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("d", [2, 4])
def test_hundreds_of_clouds_give_identical_answers_with_every_maintainer(monkeypatch, alpha, d):
    monkeypatch.setattr(maintainers, "SLOTS", 64)  # so that slots and pools must grow
    rows = foggy(d, 900, d)
    query = fl.Query(attributes={f"a{j}": "max" for j in range(d)}, id="id", time="t", expires="e", alpha=alpha)
    made, reader, answered = [maintainer(name, query) for name in EXACT], Reader(query), 0
    for t in range(rows[-1]["t"] + 1):
        batch = reader.read([row for row in rows if row["t"] == t], Kinds()).batch()
        one, *others = (each.advance(t, batch) for each in made)
        for two in others:
            assert np.array_equal(one.id, two.id)
            assert np.abs(one.probability - two.probability).max(initial=0.0) <= 1e-9
        answered += len(one.id)
    assert answered > 250


def test_time_is_measured_apart_for_maintenance_and_query():
    query = fl.Query(attributes={"a0": "max", "a1": "max"}, id="id", time="t", expires="e")
    rows = [{**row, "a0": 1.0, "a1": 2.0} for row in foggy(1, 50, 2)]
    for name in MAINTAINERS:
        made = maintainer(name, query)
        made.advance(9, Reader(query).read(rows, Kinds()).batch())
        assert made.spent.maintenance > 0 < made.spent.query
        assert made.spent.total == made.spent.maintenance + made.spent.query
        assert made.sizes()["kept"] > 0


def test_moocore_refuses_distributions_and_unknown_names_get_a_guess():
    query = fl.Query(attributes={"a0": "max"}, id="id", time="t", expires="e")
    rows = [{"id": 1, "t": 0, "e": 5, "a0": [(1, 1), (2, 1)]}]
    with pytest.raises(LabError, match="points only"):
        maintainer("moocore", query).advance(0, Reader(query).read(rows, Kinds()).batch())
    with pytest.raises(LabError, match="Did you mean 'skyline'"):
        maintainer("skylin", query)
