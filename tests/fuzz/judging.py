"""Does a run report what the reference does?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tests.fuzz.streams import NUMBER, Row, Stream
from tests.reference import Report, Unstated

CLOSE = 2.5e-9  # an update may wait until a probability has moved by 1e-9
KINDS = {  # kinds of reasons, by what their texts hold
    "copy": "is there already", "gap": ", and the(re is no)? repository", "id": "id", "time": "'t'|the time",
    "future": "later than now",
    "expiry": "'e'|expir", "version": "version", "gone": "gone", "group": "'g'",
    "value": "holds a|which is not a number|outside its limits|2\\^53|cannot be|float64 cannot hold",
}  # fmt: skip


class Difference(AssertionError):
    """A run reports something else; `kind` names what."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def plain(value: Any) -> Any:
    """A key or a cell, to be compared."""
    return (
        None if isinstance(value, float) and math.isnan(value) else value + 0.0 if isinstance(value, float) else value
    )


def content(row: Mapping[str, Any]) -> str:
    """What a row holds, whichever of several equal ones it is."""
    cells = {k: _pairs(v) for k, v in row.items() if k != NUMBER}
    return repr(sorted((k, v) for k, v in cells.items() if v is not None))


def _pairs(value: Any) -> Any:
    if isinstance(value, list | tuple):
        pairs = [tuple(each.values()) if isinstance(each, Mapping) else each for each in value]
        if not pairs or not all(isinstance(pair, tuple) for pair in pairs):
            return value
        merged: Counter[Any] = Counter()
        for value, weight in pairs:
            merged[_float(value)] += weight
        total = sum(merged.values())
        many = [(value, round(weight / total, 9)) for value, weight in sorted(merged.items(), key=repr) if total]
        return many if len(many) > 1 else _float(pairs[0][0])
    return _float(value)


def _float(value: Any) -> Any:
    if isinstance(value, str):  # as a reject shows a number that JSON has not
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return None if math.isnan(value) else float(value) + 0.0


class Judge:
    """Follows the changes of one query, call by call."""

    def __init__(self, stream: Stream, who: str, by: Sequence[str]) -> None:
        self.stream, self.who, self.by = stream, who, by
        self.latest = bool(stream.query.get("latest"))
        self.answer: dict[Any, dict[Any, float]] = {}  # group -> (id, arrived) -> probability
        self.truth: dict[Any, dict[Any, float]] = {}
        self.counts: Counter[str] = Counter()
        self.loose: set[str] = set()
        self.waiting: set[Any] = set()  # copies that wait
        self.all, self.given = Report(), list[tuple[Row, str]]()  # rejects that are compared at the end

    def later(self, report: Report, given: Sequence[tuple[Row, str]]) -> None:
        """Rejects whose call is not stated."""
        self.given += given
        self.all.rejects |= report.rejects
        self.all.maybe = (self.all.maybe - self.waiting) | report.maybe | report.waiting
        for place in report.waiting:
            self.all.rejects.setdefault(place, {"copy"})
        for place in self.waiting - report.waiting - set(report.rejects):
            self.all.rejects.pop(place, None)
        self.waiting = set(report.waiting)
        self.loose |= {"rejected"} if self.waiting else set()

    def fail(self, kind: str, text: str) -> None:
        raise Difference(f"{self.who} {kind}", text)

    def hold(self, call: int, report: Report, changes: Sequence[Row], *, ticks: bool, ordered: bool = True) -> None:
        """The changes of a call: in the order of time, at ticks, and adding up to the answer of each."""
        self.counts.update({k: v for k, v in report.counts.items() if k != "waiting"})
        self.loose |= report.loose
        times = [row["time"] for row in changes]
        if ordered and times != sorted(times):
            self.fail("order", f"call {call}: changes at {times}")
        left, moments = list(changes), sorted({t for t, _, _ in report.ticks})
        for k, t in enumerate(moments):
            self.truth |= {group: found for at, group, found in report.ticks if at == t}
            if not ticks and k + 1 < len(moments):
                continue
            now = [row for row in left if row["time"] <= t or not ticks]
            left = [row for row in left if not any(row is each for each in now)]
            here = {group for at, group, _ in report.ticks if at == t}
            for row in now:
                if ticks and (row["time"] != t or self.group(row) not in here):
                    self.fail("tick", f"call {call}: a change at {row['time']}, which is no tick: {shown(row)}")
                self.apply(row, call)
            self.compare(self.answer, f"call {call}, tick {t}")
        if left:
            self.fail("tick", f"call {call}: changes after the last tick: {[shown(row) for row in left]}")

    def group(self, row: Row) -> Any:
        return tuple(plain(row[column]) for column in self.by)

    def apply(self, row: Row, call: int) -> None:
        answer = self.answer.setdefault(self.group(row), {})
        name = plain(row["id"]), row["t"]
        there = (
            next((each for each in answer if each[0] == name[0]), None)
            if self.latest
            else name
            if name in answer
            else None
        )
        if row["change"] == "leave":
            if there is None:
                self.fail("changes", f"call {call}: left an answer that it was not in: {shown(row)}")
            del answer[there]
            return
        if (row["change"] == "update") != (there is not None):
            self.fail("changes", f"call {call}: {shown(row)} where there was {there}")
        answer.pop(there, None)
        answer[name] = row["probability"]

    def compare(self, answer: Mapping[Any, Mapping[Any, float]], where: str) -> None:
        given = {(*g, *n): p for g, some in answer.items() for n, p in some.items()}
        true = {(*g, *map(plain, n)): p for g, some in self.truth.items() for n, p in some.items()}
        if given.keys() != true.keys() or any(abs(given[n] - true[n]) > CLOSE for n in given):
            self.fail("answer", f"{where}: reported {_rounded(given)}, in truth {_rounded(true)}")

    def content(self, row: Mapping[str, Any]) -> str:
        """What a row holds, as far as it counts: what is outside its limits is missing."""
        limits = {} if "outside" in self.stream.query else self.stream.query.get("limits", {})
        row = dict(row)
        for name, (low, high) in limits.items():
            value = _pairs(row.get(name))
            if isinstance(value, float) and math.isfinite(value) and not low <= value <= high:
                row[name] = None
        return content(row)

    def rejects(self, call: int, report: Report, given: Sequence[tuple[Row, str]], rows: Mapping[int, Row]) -> None:
        """The rejected rows, and the kinds of their reasons."""
        true = Counter(self.content(rows[place]) for place in report.rejects)
        found = Counter(self.content(row) for row, _ in given)
        perhaps = Counter(self.content(rows[place]) for place in report.maybe if place in rows)
        if found - true or true - perhaps - found:
            more, less = dict(found - true), dict(true - found)
            self.fail("rejects", f"call {call}: rejected beside the truth {more}, not rejected {less}")
        kinds: dict[str, set[str]] = {}
        for place, some in report.rejects.items():
            kinds.setdefault(self.content(rows[place]), set()).update(some)
        for row, reason in given:
            if not any(re.search(KINDS[kind], reason) for kind in kinds[self.content(row)]):
                self.fail("reason", f"call {call}: {row} for {reason!r}, in truth {kinds[self.content(row)]}")

    def held(self, call: int, report: Report, given: Sequence[Row], rows: Mapping[int, Row]) -> None:
        """The rows that run ahead."""
        true, found = Counter(content(rows[place]) for place in report.held), Counter(map(content, given))
        if true != found:
            self.fail("held", f"call {call}: held beside the truth {found - true}, not held {true - found}")

    def counted(self, given: Mapping[str, int]) -> None:
        for name, count in given.items():
            if name not in self.loose and count != self.counts[name]:
                self.fail("count", f"{name} is {count}, in truth {self.counts[name]}")


def shown(row: Row) -> str:
    return f"{row['change']} {row['id']} of {row['t']} at {row['time']}"


def _rounded(answer: Mapping[Any, float]) -> str:
    return repr({name: round(p, 10) for name, p in sorted(answer.items(), key=repr)})


def reports_of(stream: Stream, make: Callable[[], Any], *, monitor: bool) -> list[Report]:
    """What the reference reports of each call."""
    truth, out = make(), list[Report]()
    for now, rows in stream.calls:
        numbered = [(row[NUMBER], row) for row in rows]
        out.append(truth.call(now, numbered) if monitor else truth.batch(numbered))
    return out


def settled(stream: Stream, make: Callable[[Stream], Callable[[], Any]], *, monitor: bool) -> tuple[Stream, list[Any]]:
    """The stream without the rows of which the docs do not state what becomes of them, and what is reported of it."""
    while True:
        try:
            return stream, reports_of(stream, make(stream), monitor=monitor)
        except Unstated as unclear:
            calls = [(now, [row for row in rows if row[NUMBER] != unclear.place]) for now, rows in stream.calls]
            stream = replace(stream, calls=calls)
