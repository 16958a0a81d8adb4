"""What does a Monitor promise, whatever the stream?

At the end of every tick its answer is the oracle's, its changes add up to that answer, and its invariants hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pyarrow as pa

import fogline as fl
from tests import oracle
from tests.strategies import Stream

CLOSE = 1e-9  # how far a probability may be from the truth, and how close to alpha counts as equal to it


def query_of(stream: Stream) -> fl.Query:
    """The stream's question as the package is asked it."""
    alpha, by, k = float(stream.alpha), stream.by, stream.skyband
    return fl.Query(attributes=stream.attributes, id="id", time="t", alpha=alpha, by=by, skyband=k, **stream.window)


def rows_of(stream: Stream) -> dict[tuple[Any, ...], Any]:
    """The stream's rows by their full name: (group…, id, arrived)."""
    return {(*(row[column] for column in stream.by), row["id"], row["t"]): row for row in stream.rows}


# --- Reading answers and changes --------------------------------------------------------------------------------------


def name_of(row: dict[str, Any], by: tuple[str, ...]) -> tuple[Any, ...]:
    return (*(row[column] for column in by), row["id" if "id" in row else "sensor"], row["t"])


def answer_of(monitor: fl.Monitor, by: tuple[str, ...] = ()) -> dict[tuple[Any, ...], float]:
    """(group…, id, arrived) -> probability, of the rows in the answer."""
    rows = monitor.answer().to_pylist()
    answer = {name_of(row, by): row["probability"] for row in rows}
    assert len(answer) == len(rows), "a row is in the answer twice"
    assert all(row["probability_error"] == 0 for row in rows), "few places are always summed exactly"
    return answer


def net(changes: pa.Table, by: tuple[str, ...] = (), *, since=None, until=None) -> dict[tuple[Any, ...], float]:
    """Add changes up, onto the answer `since`, to the answer at `until`; each must make sense where it stands."""
    answer = dict(since or {})
    for row in changes.to_pylist():
        name = name_of(row, by)
        if until is not None and row["time"] > until:
            continue
        if row["change"] == "leave":
            assert row["probability"] is None, f"{name} left with a probability"
            assert answer.pop(name, None) is not None, f"{name} left an answer that it was not in"
            continue
        if row["change"] == "enter":
            assert name not in answer, f"{name} entered an answer that it was in"
        else:
            assert row["change"] == "update"
            assert abs(answer[name] - row["probability"]) > CLOSE, f"{name} was updated to what it was"
        answer[name] = row["probability"]
    return answer


def agree(given: dict[tuple[Any, ...], float], true: dict[tuple[Any, ...], Any], within: float = CLOSE) -> None:
    """The same rows, with the same probabilities."""
    assert set(given) == set(true)
    for name, p in given.items():
        assert abs(Fraction(p) - Fraction(true[name])) <= Fraction(within), f"{name}: {p}, in truth {float(true[name])}"


def members(probabilities: dict[tuple[Any, ...], Fraction], alpha: Fraction) -> dict[tuple[Any, ...], Fraction]:
    """The true answer, as floating point can know it: close to alpha counts as equal, hence out, unless alpha is 0."""
    slack = Fraction(CLOSE) if alpha else Fraction(0)
    return {name: probabilities[name] for name in oracle.answer(probabilities, alpha + slack)}


# --- Running ----------------------------------------------------------------------------------------------------------


def run(stream: Stream, resume: Any = ()) -> list[pa.Table]:
    """Drive a Monitor through all calls and hold it to the oracle; returns the changes of each call.

    After the calls in `resume` the Monitor is thrown away and restored from its snapshot.
    """
    query = query_of(stream)
    monitor, tables = fl.Monitor(query), []
    answer: dict[tuple[Any, ...], float] = {}
    truth: dict[tuple[Any, ...], Fraction] = {}
    ticks = defaultdict(list)
    for tick in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window, skyband=stream.skyband):
        ticks[tick.call].append(tick)
    for call, (now, rows) in enumerate(stream.calls):
        changes = monitor.advance(now, rows)
        well_formed(changes, stream, ticks[call])
        reasons_hold(changes, stream, ticks[call])
        reported_once(changes, stream)
        for tick in ticks[call]:
            truth = members(tick.probabilities, stream.alpha)
            agree(net(changes, stream.by, since=answer, until=tick.time), truth, 2.5 * CLOSE)  # an update may wait
        answer = net(changes, stream.by, since=answer)
        agree(answer_of(monitor, stream.by), truth)
        monitor.check()
        if call in resume:
            monitor = fl.Monitor.restore(query, monitor.snapshot())
        tables.append(changes)
    return tables


def well_formed(changes: pa.Table, stream: Stream, ticks: list[oracle.Tick]) -> None:
    """Changes happen at ticks, in order, and carry the row as it came."""
    fixed = ["id", "t", "change", "probability", "probability_error", "reason", "beaten_by", "beaten_by_time"]
    assert changes.column_names == ["time", *stream.by, *fixed, *stream.attributes]
    rows, came = changes.to_pylist(), rows_of(stream)
    assert {row["time"] for row in rows} <= {tick.time for tick in ticks}
    for group in {tuple(row[column] for column in stream.by) for row in rows}:
        times = [row["time"] for row in rows if tuple(row[column] for column in stream.by) == group]
        assert times == sorted(times)
    for row in rows:
        for attribute in stream.attributes:
            cell = came[name_of(row, stream.by)][attribute]
            distinct = {value for value, _ in cell} if isinstance(cell, list) else {cell}
            assert row[attribute] in (distinct if len(distinct) == 1 else {None})


def reasons_hold(changes: pa.Table, stream: Stream, ticks: list[oracle.Tick]) -> None:
    """A leave has its reason, and it is so: as the oracle sees the window of that tick."""
    windows = {tick.time: tick.windows for tick in ticks}
    for row in changes.to_pylist():
        rival = row["beaten_by"], row["beaten_by_time"]
        if row["change"] != "leave":
            assert (row["reason"], *rival) == (None, None, None)
            continue
        group = tuple(row[column] for column in stream.by)
        window = windows[row["time"]].get(group, ())
        why_it_left(row["id"], row["t"], window, row["reason"], rival, stream.skyband)


def replacing_reasons_hold(changes: pa.Table, by: tuple[str, ...], before: Any, ticks: list[oracle.Tick]) -> None:
    """The same, where rows are replaced; `before`: the windows before these ticks."""
    rows = changes.to_pylist()
    for tick in ticks:
        for row in (row for row in rows if row["time"] == tick.time and row["change"] == "leave"):
            group, rival = tuple(row[column] for column in by), (row["beaten_by"], row["beaten_by_time"])
            window = tick.windows.get(group, ())
            here = [cloud for cloud in window if cloud.id == row["id"]]
            if not here:
                gone = (*group, row["id"]) in tick.removed
                assert (row["reason"], *rival) == ("removed" if gone else "expired", None, None)
            elif not any(here[0] is cloud for cloud in before.get(group, ())):
                assert (row["reason"], *rival) == ("replaced", *surely_beaten_by(here[0], window, tick.skyband))
            else:
                why_it_left(row["id"], row["t"], window, row["reason"], rival, tick.skyband)
        before = tick.windows


def surely_beaten_by(cloud: Any, window: Any, k: int) -> tuple[Any, Any]:
    """Of k or more rows that surely beat this one the first that is open, so fewer than k surely beat it; (None, None):
    fewer do."""
    sure = [g for g in window if g is not cloud and oracle.chance(g, cloud) == 1]
    if len(sure) < k:
        return None, None
    unbeaten = [g for g in sure if sum(oracle.chance(other, g) == 1 for other in window if other is not g) < k]
    _, *first = min((g.arrived, g.id, g.arrived) for g in unbeaten)
    return first[0], first[1]


def why_it_left(name: Any, arrived: Any, window: Any, reason: str, rival: tuple[Any, Any], k: int) -> None:
    """`expired`: it is not in the window; `beaten`: by the first of the open rows that surely beat it, if these are k;
    else neither."""
    here = [cloud for cloud in window if (cloud.id, cloud.arrived) == (name, arrived)]
    if not here:
        assert (reason, *rival) == ("expired", None, None)
        return
    first = surely_beaten_by(here[0], window, k)
    if first != (None, None):
        assert reason == "beaten", f"{name!r} left since it was {reason}, but {first[0]!r} surely beats it"
        assert rival == first
    else:
        assert (reason, *rival) == ("less likely", None, None)


def reported_once(changes: pa.Table, stream: Stream) -> None:
    """A tick has one change of a row at most."""
    reported = Counter((row["time"], name_of(row, stream.by)) for row in changes.to_pylist())
    assert all(times == 1 for times in reported.values())


def tree_of(monitor: fl.Monitor) -> dict[tuple[Any, ...], oracle.Node]:
    """The guard tree as the oracle writes it."""
    return {(*n.by, n.id, n.arrived): oracle.Node(n.layer, n.parent, n.shadow) for n in monitor.tree()}


# --- Other ways to put the same ---------------------------------------------------------------------------------------

DISTRIBUTION = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))


def as_arrow(stream: Stream) -> Stream:
    """The same calls as Arrow tables; an attribute with any distribution has them in every cell."""
    wide = {a: any(isinstance(row[a], list) for row in stream.rows) for a in stream.attributes}
    plain = pa.table({column: [row[column] for row in stream.rows] for column in ("id", "t", "e", "g")}).schema
    schema = pa.schema([*plain, *((a, DISTRIBUTION if w else pa.float64()) for a, w in wide.items())])

    def cell(given: Any) -> Any:
        pairs = given if isinstance(given, list) else [(given, 1)]
        return [{"value": value, "weight": weight} for value, weight in pairs]

    def table(rows: Any) -> pa.Table:
        return pa.Table.from_pylist([{**r, **{a: cell(r[a]) for a in wide if wide[a]}} for r in rows], schema=schema)

    return replace(stream, calls=[(now, table(rows)) for now, rows in stream.calls])


def as_pandas(stream: Stream) -> Stream:
    """The same calls as pandas frames; a column with distributions holds numbers and lists."""
    frames: list[Any] = [(now, pd.DataFrame(list(rows), columns=list(stream.rows[0]))) for now, rows in stream.calls]
    return replace(stream, calls=frames)


def drive(stream: Stream) -> list[pa.Table]:
    """The changes of each call, held to nothing."""
    monitor = fl.Monitor(query_of(stream))
    return [monitor.advance(now, rows) for now, rows in stream.calls]
