"""Is what is recorded right? Streams that the reference covers are held to it while they are recorded.

`tests/reference.py` is the oracle with all that comes before it: which rows are taken, and what their gaps are.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

from tests.fuzz.judging import Judge
from tests.net.driving import STEPS, Record, history
from tests.net.streams import Row, Stream
from tests.reference import Imputing, MonitorTruth, PipelineTruth, Question, Unstated

COVERED = ("", *STEPS)  # repositories that the reference knows
SLOW = ("large", "crowded", "many groups")


def judged(stream: Stream, engine: str, record: Record) -> str:
    """Hold what was reported to the reference: "right", or why it is not judged. What differs is raised."""
    if stream.repository not in COVERED or stream.own == "knn" or stream.stamps or "places" in stream.monitor:
        return "not covered"
    if engine not in ("monitor", "at once", "small batches", "one batch", "followed") or stream.mode in SLOW:
        return "not covered"
    if stream.mode == "dense" and stream.seed >= 10:
        return "not judged: it takes long"
    pipeline = engine not in ("monitor", "at once")
    if "error" in record or (pipeline and "max_sensors" in stream.first):
        return "not covered"
    try:
        (_pipeline if pipeline else _monitor)(stream, engine, record)
    except Unstated:
        return "the docs leave it open"
    return "right"


def _own(row: Any) -> dict[str, Any]:
    """`driving.by_time`, row by row."""
    known = None if row["t"] is None else int(row["t"]) % 3
    cells: dict[Any, Any] = {0: None, 1: [(1.0, 1), (3.0, 1)], 2: 2.0}
    return {"a0": cells.get(known), "a1": cells.get(2 if known is None else (known + 1) % 3)}


def _imputing(stream: Stream, *, pipeline: bool) -> Imputing:
    whole = {}
    if stream.repository:
        table = history(len(stream.attributes), STEPS[stream.repository])
        whole = {name: table[name].to_pylist() for name in stream.attributes}
    last = stream.repository == "last" and (pipeline or stream.monitor.get("remember", True))
    return Imputing(_own if stream.own else None, last, whole)


def _changes(record: Record, query: dict[str, Any]) -> list[Row]:
    """Changes as the judge reads them."""
    columns, found = record["changes"]["columns"], []
    for values in record["changes"]["rows"]:
        row = dict(zip(columns, values, strict=True))
        found.append(row | {"t": row["arrived"]} | dict(zip(query.get("by", ()), row["by"], strict=False)))
    return found


def _rejects(stream: Stream, record: Record, name: str, reports: list[Any]) -> None:
    """Which rows are rejected; those without a number are looked for by what they are called."""
    found = [row for row in record["rejects"]["rows"] if row[0] == name]
    true = {place for report in reports for place in report.rejects}
    maybe = {place for report in reports for place in (*report.maybe, *report.held)}
    named = {row["n"]: (str(row["id"]), str(row["t"])) for row in stream.rows}
    numbers = {row[1] for row in found if row[1] is not None}
    names = {(row[2], row[4]) for row in found if row[1] is None}
    assert not numbers - true - maybe, f"rejected beside the truth: rows {sorted(numbers - true - maybe)}"
    beside = names - {named[place] for place in true | maybe}
    assert not beside, f"rejected beside the truth: {sorted(beside)}"
    not_found = {place for place in true - maybe - numbers if named[place] not in names}
    assert not not_found, f"not rejected: rows {sorted(not_found)}"


def _monitor(stream: Stream, engine: str, record: Record) -> None:
    query = stream.first
    truth = MonitorTruth(Question(**query), _imputing(stream, pipeline=False))
    calls, ends = stream.calls, stream.ends
    if engine == "at once":
        calls, ends = [(stream.calls[-1][0], stream.rows)], ()
    judge, changes, reports = _judge(stream, query), _changes(record, query), []
    for k, (now, rows) in enumerate(calls):
        report = truth.call(now, [(row["n"], row) for row in _seen(rows)])
        reports.append(report)
        judge.hold(k, report, [row for row in changes if row["call"] == k], ticks=k not in ends)
    _rejects(stream, record, "", reports)


def _seen(rows: list[Row]) -> list[Row]:
    """Rows with pairs as tuples, as the reference reads them."""
    return [{k: [tuple(p) for p in v] if isinstance(v, list) and k.startswith("a") else v for k, v in row.items()}
            for row in rows]  # fmt: skip


def _pipeline(stream: Stream, engine: str, record: Record) -> None:
    parts = [rows for _, rows in stream.calls if rows or engine == "followed"]
    parts = [stream.rows] if engine == "one batch" else parts
    if engine == "followed":
        parts += [[]] * 3
    for name, query in stream.queries.items():
        make = partial(PipelineTruth, Question(**query), _imputing(stream, pipeline=True))
        truth = make(stream.how.get("lateness", 0), _length(stream, "ahead"), _length(stream, "idle"))
        judge, by_batch, reports = _judge(stream, query), defaultdict(list), []
        for row in _changes(record, query):
            if (row["query"] or "") == name:
                by_batch[row["batch"]].append(row)
        for k, rows in enumerate(parts):
            report = truth.batch([(row["n"], row) for row in _seen(rows)])
            reports.append(report)
            judge.hold(k, report, by_batch.pop(k, []), ticks=stream.how["every"] == "tick", ordered=False)
        assert not by_batch, f"changes of batches {list(by_batch)}"
        if "lateness" not in stream.how:
            _rejects(stream, record, name, reports)


def _length(stream: Stream, name: str) -> Any:
    return None if stream.how.get(name) in (None, "off") else stream.how[name]


def _judge(stream: Stream, query: dict[str, Any]) -> Any:
    class Asked:
        seed = stream.seed

    asked: Any = Asked()
    asked.query = query
    return Judge(asked, stream.name, query.get("by", ()))
