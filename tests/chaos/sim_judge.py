"""What has a stream to report, batch by batch?

`Judge` follows each group as docs/reference.md states it: its clock, what waits, what is late, which copies count. From
that the oracle knows the answer at every tick. Where sensors are remembered a `Monitor` takes its place. Counters are
held to what came: a row is answered for, held, late or rejected, and counted.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import fogline as fl
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.report import BatchResult
from tests import oracle
from tests.chaos.sim_streams import BAD, Row, World, completed
from tests.contracts import CLOSE, agree, members
from tests.flow.driving import rows_of
from tests.test_carry import completed as carried

Answer = dict[tuple[Any, ...], float]
Group = tuple[str, Any]  # name of the query, value of the group


def number_of(value: Any) -> Any:
    """An instant as a number: timestamps in seconds."""
    return int(value.timestamp()) if isinstance(value, datetime.datetime) else value


def length_of(length: Any) -> Any:
    """The same of a length."""
    if not isinstance(length, str):
        return length
    count, unit = length.split()
    return float(count) / (1_000_000 if unit == "microseconds" else 1)


class Course:
    """One group of one query, from its first row until it is forgotten."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.query, self.alpha = world, world.queries[name], world.alphas[name]
        self.lateness = length_of(world.how["lateness"])
        lives = {k: getattr(self.query, k) for k in ("lifetime", "expires", "last")}
        self.window = {k: v if k == "expires" else length_of(v) for k, v in lives.items() if v is not None}
        self.clock: Any = None
        self.waiting: list[Row] = []
        self.held: list[Row] = []
        self.seen: set[Any] = set()
        self.calls: list[tuple[Any, list[Row]]] = []
        self.answer: Answer = {}
        self.marks: list[tuple[int, Answer, list[Row]]] = []  # calls so far, the answer before, the changes since
        self.known = True  # whether it is known which rows it has taken
        self.monitor = self._monitor()

    def _monitor(self) -> fl.Monitor | None:
        if self.world.mode != "sensors" or len(self.world.repositories) > 1:
            return None
        return fl.Monitor(self.query, self.world.repositories[0], hindsight=self.world.how["hindsight"])

    # --- One batch

    def take(self, healths: Sequence[Row], came: Sequence[Row], changes: list[Row], held: list[Any]) -> None:
        """What a batch has reported of this group, in one turn or two: rows, then time."""
        good = [row for row in came if BAD not in row]
        self.waiting += [row for row in good if (row["id"], row["t"]) not in held]
        self.held += [row for row in good if (row["id"], row["t"]) in held]
        broken, before = len(came) - len(good), len(self.calls)
        for k, health in enumerate(healths):
            assert health["rows"] == (len(came) if k == 0 else 0), (
                f"{len(came)} rows came, {health['rows']} are counted"
            )
            if health["released"]:
                self._release(health)
            clock = number_of(health["time"])
            if clock is None:
                assert health["rejected"] + health["held"] == len(came), "rows were neither taken nor rejected"
                continue
            self._clock(clock, k == 0 and bool(came))
            self._turn(clock, health, broken if k == 0 else 0)
        if any(row["reason"] == "begun anew" for row in changes):
            self.known = False
        since = self.answer
        self.answer = net(changes, since, latest=self.query.latest, id_name=self.query.id)
        if healths:
            assert healths[-1]["answer"] == len(self.answer), "another number of rows is in the answer than is counted"
        if len(self.calls) > before and self.known:
            self.marks.append((len(self.calls), since, changes))

    def _clock(self, clock: Any, rows: bool) -> None:
        back = self.clock is not None and clock < self.clock
        if back and self.world.mode == "ahead":  # it began anew
            self.known = False
            return
        assert not back, f"the clock went back from {self.clock} to {clock}"
        if rows and self.world.how["ahead"] == "off" and self.waiting:
            newest = max(row["t"] for row in self.waiting) - self.lateness
            expected = newest if self.clock is None else max(self.clock, newest)
            assert clock == expected, f"the clock is {clock} and should be {expected}"

    def _release(self, health: Row) -> None:
        """Held rows that the clock has passed enter, if these are as many as are counted."""
        clock = number_of(health["time"])
        free = [row for row in self.held if row["t"] <= clock]
        self.known &= len(free) == health["released"]
        self.waiting += free
        self.held = [row for row in self.held if row["t"] > clock]

    def _turn(self, clock: Any, health: Row, broken: int) -> None:
        due = [row for row in self.waiting if not self.lateness or row["t"] <= clock]
        self.waiting = [row for row in self.waiting if self.lateness and row["t"] > clock]
        self._count_waiting(health["waiting"])
        if self.query.latest:
            taken = due
            if self.world.mode != "carry":
                assert health["rejected"] == broken, "another number of rows is rejected than was broken"
        else:
            taken = self._distinct(due)
            self._count(due, taken, health, broken)
            taken = [row for row in taken if (row["id"], row["t"]) not in self.seen]
            self.seen |= {(row["id"], row["t"]) for row in taken}
        self.calls.append((clock, taken))
        self.clock = clock
        if self.monitor is not None:
            self.monitor.advance(clock, self.world.table(taken) if taken else None, every="batch")

    def _count_waiting(self, counted: int) -> None:
        """Copies may be rejected as they come, or when they are due."""
        most, least = len(self.waiting), len({(row["id"], row["t"]) for row in self.waiting})
        least = most if self.query.latest else least
        if not self.world.screens:
            assert least <= counted <= most, f"{counted} rows wait, and should be {least} to {most}"

    def _distinct(self, due: list[Row]) -> list[Row]:
        """Of copies the one that is better in the first attribute in which they differ, then the longer-lived."""
        rule = oracle.Latest([], self.query.attributes, expires=self.window.get("expires"), lifetime=self._life())
        best: dict[Any, Row] = {}
        for row in due:
            name = row["id"], row["t"]
            if name in best and best[name]["repository"] != row["repository"] and self._differ(best[name], row):
                self.known = False  # the same row, imputed before and after a move: which one stays is not promised
            if name not in best or (
                self.world.mode != "sensors" and rule.order(self._full(row)) > rule.order(self._full(best[name]))
            ):
                best[name] = row
        return list(best.values())

    def _differ(self, one: Row, other: Row) -> bool:
        return any(self._full(one)[name] != self._full(other)[name] for name in self.query.attributes)

    def _life(self) -> Any:
        return self.window.get("lifetime")

    def _count(self, due: list[Row], taken: list[Row], health: Row, broken: int) -> None:
        """Late, expired and rejected rows, where none was left out before it came here."""
        if self.world.screens or self.lateness or self.world.mode in ("sensors", "ahead"):
            return
        late = [row for row in taken if self.clock is not None and row["t"] < self.clock]
        again = [row for row in taken if row["t"] == self.clock and (row["id"], row["t"]) in self.seen]
        expected = broken + len(due) - len(taken) + len(late) + len(again)
        counted = health["late"] + health["rejected"]
        assert counted == expected, f"{counted} rows are late or rejected, and should be {expected}"
        if "last" not in self.window:
            gone = [row for row in late if self._until(row) <= self.clock]
            known = [row for row in gone if (row["id"], row["t"]) in self.seen]  # a copy is rejected, if it is known
            assert len(gone) - len(known) <= health["expired"] <= len(gone), (
                f"{health['expired']} rows had expired, and should be {len(gone) - len(known)} to {len(gone)}"
            )

    def _until(self, row: Row) -> Any:
        return row["e"] if "expires" in self.window else row["t"] + self.window["lifetime"]

    # --- All of it

    def _full(self, row: Row) -> Row:
        return completed(row, row["repository"]) if self.world.repositories and self.world.mode != "carry" else row

    def judge(self) -> None:
        """Every answer after a batch, and every tick where these are reported, is the oracle's."""
        if self.monitor is not None or self.world.mode == "sensors" or not self.marks:
            return
        by_call: list[list[Any]] = [[] for _ in self.calls]
        for tick in self._ticks():
            by_call[tick.call].append(tick)
        done, truth = 0, dict[Any, Fraction]()
        for upto, since, changes in self.marks:
            ticks = [tick for call in by_call[done:upto] for tick in call]
            for k, tick in enumerate(ticks):
                if self.world.how["every"] == "tick" or k + 1 == len(ticks):
                    truth = members(tick.probabilities, self.alpha)
                    until = math.inf if k + 1 == len(ticks) else tick.time
                    agree(
                        net(changes, since, latest=self.query.latest, id_name=self.query.id, until=until),
                        truth,
                        2.5 * CLOSE,
                    )
            if not ticks:
                agree(net(changes, since, latest=self.query.latest, id_name=self.query.id), truth, 2.5 * CLOSE)
            done = upto

    def _ticks(self) -> Any:
        query = self.query
        calls: Any = [(now, [self._full(row) for row in rows]) for now, rows in self.calls]
        if not query.latest:
            return oracle.replay(calls, query.attributes, **self.window)
        remember = length_of(query.remember_removed)
        remember = self._life() if remember is None else remember
        if self.world.mode == "carry":
            more = {} if query.remember_removed is None else {"remember_removed": remember}
            calls = carried(calls, {**self.window, **more})
        return oracle.Latest(calls, query.attributes, remember=remember, **self.window).ticks()

    def now(self) -> None:
        """Where a monitor judges, its answer is the one that was reported."""
        if self.monitor is not None and self.known:
            rows = self.monitor.answer().to_pylist()
            agree(self.answer, {(row[self.query.id], row["t"]): row["probability"] for row in rows}, 2.5 * CLOSE)


def net(changes: Sequence[Row], since: Answer, *, latest: bool, until: Any = math.inf, id_name: str = "id") -> Answer:
    """Changes add up, each where it stands."""
    answer = dict(since)
    for row in changes:
        if number_of(row["time"]) > until:
            continue
        name = row[id_name], number_of(row["t"])
        there = (
            next((each for each in answer if each[0] == name[0]), None) if latest else name if name in answer else None
        )
        if row["change"] == "leave":
            assert there is not None, f"{name} left an answer that it was not in"
            del answer[there]
            continue
        assert (row["change"] == "update") == (there is not None), f"{name}: {row['change']}, {answer}"
        if there is not None:
            del answer[there]
        answer[name] = row["probability"]
    return answer


class Judge:
    """Follows all groups of all queries."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.courses: dict[Group, Course] = {}
        self.over: list[Course] = []
        self.counts = {"rows": 0, "rejected": 0, "held": 0}

    def hold_to(self, number: int, batch: Sequence[Sequence[Row]], report: BatchResult, groups: set[str]) -> None:
        """What a batch has reported; `groups`: those that have a state now."""
        changes, healths = self._by_group(rows_of(report, CHANGES)), self._by_group(rows_of(report, HEALTH))
        rejects = self._by_group(rows_of(report, REJECTS))
        id_name, _ = self.world.names
        rows = [
            row | {"id": row[id_name], "repository": int(number >= self.world.border)} for part in batch for row in part
        ]
        for name, query in self.world.queries.items():
            for value in {row["g"] if query.by else None for row in rows} | {g for n, g in healths if n == name}:
                group = name, value
                came = [row for row in rows if not query.by or row["g"] == value]
                course = self.courses.setdefault(group, Course(self.world, name))
                held = [_named(each["row"]) for each in rejects.get(group, []) if each["reason"].startswith("held:")]
                shown = len(rejects.get(group, [])) - len(held)
                assert shown == sum(each["rejected"] for each in healths.get(group, [])), "rejects are not as counted"
                course.take(healths.get(group, []), came, changes.pop(group, []), held)
                course.now()
                key = f"{name}{json.dumps([value])}" if query.by else f"{name}[]"
                if key not in groups:
                    assert not course.answer, f"{group} was forgotten with an answer"
                    self.over.append(self.courses.pop(group))
        assert not changes, f"changes of groups without health: {changes}"

    def judge(self) -> None:
        for course in [*self.over, *self.courses.values()]:
            course.judge()

    def _by_group(self, rows: Sequence[Row]) -> dict[Group, list[Row]]:
        out: dict[Group, list[Row]] = {}
        for row in rows:
            out.setdefault((row.get("query", ""), row.get("g")), []).append(row)
        return out


def _named(shown: str) -> tuple[Any, Any]:
    row: Mapping[str, Any] = json.loads(shown)
    return row.get("id"), row.get("t")
