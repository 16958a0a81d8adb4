"""What should be reported of a stream, intake included?

The whole semantics, plainly: which rows of a call are taken, and as what; what their gaps are; who is in the window;
what the answer is at the end of every tick. Written from docs/reference.md, for a dozen rows; nothing here imports
fogline. `tests/oracle.py` begins where rows are complete and chosen; this begins where they come in.

One call to a group is one pure step: each row is judged by what is known of earlier instants, in the order of time;
what is rejected leaves no trace. So all that a decision rests on is here, in `Group`.

What the docs leave open raises `Unstated`, with the row; a generator of streams does without such rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import product
from math import inf, prod
from typing import Any

Row = Mapping[str, Any]
Pairs = tuple[tuple[float, float], ...]  # (value, weight), larger is better, weights add up to 1
Cell = Pairs | None  # None: a gap
Answer = dict[tuple[Any, Any], float]  # (id, arrived) -> probability
CLOSE = 1e-9
KEPT = 8  # readings of an attribute that a sensor's memory holds


class Unstated(Exception):
    """The docs do not state what becomes of this row."""

    def __init__(self, place: Any, why: str) -> None:
        super().__init__(f"{why}: {place}")
        self.place = place


@dataclass(frozen=True)
class Question:
    """What is asked: the fields of a query."""

    attributes: Mapping[str, str]
    id: str = "id"
    time: str = "t"
    expires: str | None = None
    lifetime: float | None = None
    last: int | None = None
    latest: bool = False
    gone: str | None = None
    version: str | None = None
    carry: Sequence[str] = ()
    remember_removed: float | None = None
    alpha: float = 0.5
    by: Sequence[str] = ()
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    outside: str = "missing"
    max_sensors: int | None = None  # None: more than there are
    skyband: int = 1

    @property
    def remember(self) -> float:
        """For how long a marker is kept."""
        given = self.lifetime if self.remember_removed is None else self.remember_removed
        return inf if given is None else given

    def sign(self, name: str) -> int:
        return 1 if self.attributes[name] == "max" else -1


@dataclass(frozen=True)
class Imputing:
    """What a gap may be, by whom: a function of the user's own, the sensor's last reading, what history holds."""

    own: Callable[[Row], Mapping[str, Any]] | None = None  # of the row with gaps -> what it knows, None: nothing
    last: bool = False
    whole: Mapping[str, Sequence[float]] = field(default_factory=dict)  # an attribute's values in history
    late: bool = False  # whether the user's own is asked only when it matters: copies are chosen before


# --- Rows as they come ------------------------------------------------------------------------------------------------


@dataclass
class Read:
    """A row that can be read."""

    place: Any  # which row of the stream it is
    row: Row
    group: tuple[Any, ...]
    id: Any
    t: float
    until: float
    version: int = 0
    gone: bool = False
    cells: dict[str, Cell] = field(default_factory=dict)  # gaps are None, what is outside its limits among them
    filled: dict[str, Pairs] = field(default_factory=dict)  # with what was imputed

    @property
    def stamp(self) -> tuple[float, int]:
        return self.t, self.version

    @property
    def name(self) -> tuple[Any, Any]:
        return self.id, self.t


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def held(value: Any) -> bool:
    """Whether float64 holds a number, so that it is taken for no other one."""
    if isinstance(value, Decimal) and value != value.to_integral_value():
        return len("".join(map(str, value.as_tuple().digits)).strip("0")) <= 15
    return isinstance(value, float) or float(value) == value


def infinite(value: Any) -> bool:
    return number(value) and math.isinf(value)


REMOVES = {True: True, "true": True, "1": True, False: False, "false": False, "0": False, "": False}  # 1 is True


def read(question: Question, place: Any, row: Row) -> Read | str:
    """The row in numbers, or the kind of reason for which it is rejected."""
    name: Any = row.get(question.id)
    t: Any = row.get(question.time)
    if missing(name):
        return "id"
    if not isinstance(name, str | int | float | Decimal) or infinite(name):
        return "id"
    group = tuple(None if missing(row.get(column)) else row[column] for column in question.by)
    if any(isinstance(part, list) or infinite(part) for part in group):
        return "group"
    if missing(t) or not number(t) or math.isinf(t):
        return "time"
    out = Read(place, row, group, name, t, inf)
    if question.version is not None:
        version: Any = row.get(question.version)
        if not missing(version) and (not number(version) or version != int(version)):
            return "version"
        out.version = -(2**63) if missing(version) else int(version)
    if question.gone is not None:
        given = row.get(question.gone)
        if not missing(given) and (isinstance(given, list) or given not in REMOVES):
            return "gone"
        out.gone = not missing(given) and REMOVES[given]
        if out.gone:
            return out
    return _expiry(question, out) or _cells(question, out) or out


def _expiry(question: Question, out: Read) -> str | None:
    if question.expires is not None:
        until: Any = out.row.get(question.expires)
        if missing(until) or not number(until) or math.isinf(until):
            return "expiry"
        if until < out.t:
            return "expiry"
        out.until = until
    elif question.lifetime is not None:
        out.until = out.t + question.lifetime
    return None


def _cells(question: Question, out: Read) -> str | None:
    for name in question.attributes:
        found = _cell(question, name, out.row.get(name))
        if isinstance(found, str):
            return found
        out.cells[name] = found
    return None


def _cell(question: Question, name: str, given: Any) -> Cell | str:
    came = given if isinstance(given, list) else [] if missing(given) else [(given, 1)]
    for value, weight in came:
        if not number(value) or not math.isfinite(value) or not held(value):
            return "value"
        if not number(weight) or not math.isfinite(weight) or weight <= 0:
            return "value"
    pairs = [(float(value), weight) for value, weight in came]
    low, high = question.limits.get(name, (-inf, inf))
    inside = [(value, weight) for value, weight in pairs if low <= value <= high]
    if len(inside) < len(pairs) and question.outside == "reject":
        return "value"
    return distribution(inside, question.sign(name)) if inside else None


def distribution(pairs: Sequence[tuple[float, float]], sign: int) -> Pairs:
    """Equal values merged, weights that add up to 1, larger is better."""
    total, merged = sum(weight for _, weight in pairs), dict[float, float]()
    for value, weight in pairs:
        merged[sign * value + 0.0] = merged.get(sign * value + 0.0, 0) + weight
    return tuple((value, weight / total) for value, weight in sorted(merged.items()))


def rank(question: Question, row: Read) -> tuple[Any, ...]:
    """Greater for the copy that counts: better in the first attribute in which copies differ, a number before a gap or
    a distribution; then the longer-lived; then a distribution before a gap. (Beyond that: values, then weights, from
    the worst on.)"""
    cells = [row.cells[name] for name in question.attributes]
    numbers = [-inf if each is None or len(each) > 1 else each[0][0] for each in cells]
    lists = [
        ([v for v, _ in each], [round(w, 12) for _, w in each]) if each is not None and len(each) > 1 else ([], [])
        for each in cells
    ]
    given: list[Any] = [row.row.get(name) for name in question.attributes]  # of equal ones: what is beyond its limits
    came = [
        -inf if missing(value) else question.sign(name) * float(value) if number(value) else known
        for name, value, known in zip(question.attributes, given, numbers, strict=True)
    ]
    return numbers, row.until, lists, came


@dataclass(frozen=True)
class Kinds:
    """Of which kind the values of a column are that name rows or groups: settled by the first call that has any."""

    of: Mapping[str, type] = field(default_factory=dict)

    def after(self, column: str, values: Sequence[Any]) -> Kinds:
        """With what most of these are; of as many, what came first."""
        names = [value for value in values if isinstance(value, str | int | float | Decimal) and not missing(value)]
        types = [type(value) for value in names]
        return self if column in self.of or not types else Kinds({**self.of, column: max(types, key=types.count)})

    def has(self, column: str, value: Any) -> bool:
        """Whether a value is of the column's kind; of numbers, whether one of that kind is the same."""
        kind = self.of.get(column)
        if kind is None or missing(value) or type(value) is kind:
            return True
        if not number(value) or kind in (bool, str):
            return False
        if kind is float:
            return held(value)
        return bool(value == (int(value) if kind is int else round(Decimal(value), 2)))


# --- Probability ------------------------------------------------------------------------------------------------------


def beats(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x >= y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))


def surely(one: Sequence[Pairs], other: Sequence[Pairs]) -> bool:
    """Does the worst of one beat the best of the other?"""
    return beats([cell[0][0] for cell in one], [cell[-1][0] for cell in other])


def probability(which: int, rows: Sequence[Sequence[Pairs]], skyband: int = 1) -> float:
    """That fewer than `skyband` other rows beat it, wherever each turns out to be."""
    total = 0.0
    others = [row for k, row in enumerate(rows) if k != which]
    for instance in product(*rows[which]):
        fewer = [prod(weight for _, weight in instance)] + [0.0] * (skyband - 1)  # that none, that one, … beat it
        for other in others:
            pairs = list(zip(other, instance, strict=True))
            at_least = prod(sum(w for v, w in cell if v >= x) for cell, (x, _) in pairs)
            equal = prod(sum(w for v, w in cell if v == x) for cell, (x, _) in pairs)
            p = min(1.0, at_least - equal)
            fewer = [a * (1 - p) + b * p for a, b in zip(fewer, [0.0, *fewer[:-1]], strict=True)]
        total += sum(fewer)
    return total


def answer(question: Question, window: Sequence[Read]) -> Answer:
    """Rows whose probability is above alpha; as close as 1e-9 is equal; for alpha 0 those that fewer than `skyband`
    rows surely beat."""
    uncertain = [[row.filled[name] for name in question.attributes] for row in window]
    out: Answer = {}
    for k, row in enumerate(window):
        if sum(surely(other, uncertain[k]) for other in uncertain) >= question.skyband:
            continue
        p = probability(k, uncertain, question.skyband)
        if p > question.alpha + CLOSE or not question.alpha:
            out[row.name] = p
    return out


# --- What sensors have read -------------------------------------------------------------------------------------------


class Memory:
    """The newest eight values of each attribute of each sensor of a group; of `most` sensors, those heard last."""

    def __init__(self, corrects: bool, most: int | None = None) -> None:
        self.corrects, self.most = corrects, most  # `corrects`: whether readings of the newest instant are replaced
        # sensor -> attribute -> (time, version, value, the number of the call that it came in)
        self.read: dict[Any, dict[str, list[tuple[float, int, float, int]]]] = {}
        self.call = 0

    def newest(self, sensor: Any) -> float:
        """When the sensor was heard last."""
        return max((each[-1][0] for each in self.read.get(sensor, {}).values()), default=-inf)

    def leave(self, t: float) -> None:
        """An instant is past: of too many sensors, those silent longest leave, and begin anew."""
        if self.most is not None and all(self.newest(sensor) < t for sensor in self.read):
            heard = sorted(self.read, key=lambda sensor: (self.newest(sensor), str(sensor)))
            for sensor in heard[: -self.most]:
                del self.read[sensor]

    def before(self, sensor: Any, name: str, t: float) -> float | None:
        """The last value that is older than that."""
        older = [value for time, _, value, _ in self.read.get(sensor, {}).get(name, []) if time < t]
        return older[-1] if older else None

    def join(self, sensor: Any, t: float, version: int, values: Mapping[str, float]) -> None:
        """A reading: in its place. Of an instant that has a value, that one stays, unless the new one is of no smaller
        version and the instant is the sensor's newest one; of older instants the greatest version of a call counts."""
        if not values:
            return
        newest, known = self.newest(sensor), self.read.setdefault(sensor, {})
        for name, value in values.items():
            some = known.setdefault(name, [])
            there = [each for each in some if each[0] == t]
            may = self.corrects and (t == newest or (bool(there) and there[0][3] == self.call))
            if there and not (may and there[0][1] <= version):
                continue
            known[name] = sorted([each for each in some if each not in there] + [(t, version, value, self.call)])[
                -KEPT:
            ]


# --- A group ----------------------------------------------------------------------------------------------------------


@dataclass
class Stamp:
    """What befell an id last, and its row, if it has one."""

    t: float
    version: int
    row: Read | None


@dataclass
class Outcome:
    """What a call has to report of a group."""

    ticks: list[tuple[float, Answer]] = field(default_factory=list)
    rejects: dict[Any, set[str]] = field(default_factory=dict)  # row -> kinds of reasons, one of which is given
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("late", "stale", "expired", "late and expired"), 0)
    )
    loose: set[str] = field(default_factory=set)  # counters of which the docs leave open what they count
    maybe: set[Any] = field(default_factory=set)  # rows of which the docs leave open whether they are rejected
    taken: list[Read] = field(default_factory=list)


class Group:
    """One group: its window, the newest of its ids, what its sensors have read."""

    def __init__(self, question: Question, imputing: Imputing, *, pipeline: bool = False) -> None:
        self.question, self.imputing, self.pipeline = question, imputing, pipeline
        self.window: list[Read] = []
        self.seen: set[Any] = set()  # (id, time) of all that was taken
        self.stamps: dict[Any, Stamp] = {}
        self.memory = Memory(question.latest, question.max_sensors)

    def take(self, clock: float, until: float, rows: Sequence[Read]) -> Outcome:
        """The rows that are due, and time up to `until`: first what expires, then what comes, then the answer."""
        outcome = Outcome()
        self.memory.call += 1
        self._forget(clock)
        ordered = sorted(rows, key=lambda row: (*row.stamp, row.gone))
        while True:
            instants = [max(row.t, clock) for row in ordered[:1]]
            instants += [row.until for row in self.rows() if row.until <= until]
            if not instants:
                break
            t = min(instants)
            self._expire(t)
            while ordered and ordered[0].t <= t:
                first = ordered[0]
                if first.t < clock and self.question.max_sensors is not None:
                    raise Unstated(first.place, "a late row where sensors leave")
                self.memory.leave(first.t)
                same = [row for row in ordered if (row.id, row.t, row.version) == (first.id, *first.stamp)]
                ordered = [row for row in ordered if not any(row is each for each in same)]
                (self._come_latest if self.question.latest else self._come)(same, t, clock, outcome)
            outcome.ticks.append((t, answer(self.question, self.rows())))
        self._forget(until)
        return outcome

    def rows(self) -> list[Read]:
        """Who is in the window."""
        if self.question.latest:
            return [stamp.row for stamp in self.stamps.values() if stamp.row is not None]
        if self.question.last is not None:
            return sorted(self.window, key=lambda row: (row.t, row.id))[-self.question.last :]
        return self.window

    def _expire(self, t: float) -> None:
        self.window = [row for row in self.rows() if row.until > t] if not self.question.latest else []
        for stamp in self.stamps.values():
            if stamp.row is not None and stamp.row.until <= t:
                stamp.row = None

    def _forget(self, clock: float) -> None:
        """Markers go when the clock has passed them by long enough."""
        remember = self.question.remember
        self.stamps = {k: s for k, s in self.stamps.items() if s.row is not None or clock <= s.t + remember}

    # --- Every row counts for itself

    def _come(self, copies: list[Read], at: float, clock: float, outcome: Outcome) -> None:
        """Rows of one id and time."""
        if self._there(copies[0], clock):
            for row in copies:
                outcome.rejects[row.place] = {"copy"} | ({"gap"} if self._gaps(row) else set())
            return
        best = self._chosen(copies, outcome, {"copy"})
        if best is None:
            return
        outcome.taken.append(best)
        self.seen.add(best.name)
        outcome.counts["late"] += best.t < clock
        self._impute(best)
        self._remember(best)
        if best.until <= at:
            outcome.counts["expired"] += 1
            outcome.counts["late and expired"] += best.t < clock
        else:
            self.window.append(best)
            outcome.counts["expired"] += best not in self.rows()

    def _there(self, row: Read, clock: float) -> bool:
        """Has a row of that name been taken?"""
        if row.name not in self.seen:
            return False
        if row.t >= clock:
            return True
        for each in self.rows():
            if each.name == row.name:
                cells = list(each.filled.values())
                over = [o for o in self.rows() if o.until >= each.until and surely(list(o.filled.values()), cells)]
                if len(over) < self.question.skyband or self.question.last is not None:
                    return True
        raise Unstated(row.place, "a late copy of a row that may be forgotten")

    # --- The newest row of each id

    def _come_latest(self, same: list[Read], at: float, clock: float, outcome: Outcome) -> None:
        """Rows and removals of one id, time and version: a removal wins over rows."""
        rows, removals = [row for row in same if not row.gone], [row for row in same if row.gone]
        last = self.stamps.get(same[0].id)
        if last is not None and same[0].stamp < (last.t, last.version):
            outcome.counts["stale"] += len(same)
            outcome.counts["late"] += len(same) if same[0].t < clock else 0
            if self.pipeline and len(same) > 1:
                outcome.loose |= {"stale", "late"}
            self._stale(rows)
            return
        there = None if last is None else last.row
        for row in rows:
            for name in self.question.carry:
                if row.cells[name] is None and there is not None:
                    row.cells = row.cells | {name: there.cells[name]}
        best = self._chosen(rows, outcome, set())
        outcome.counts["late"] += len(removals) + (best is not None) if same[0].t < clock else 0
        if len(rows) > 1 or len(removals) > 1 or (rows and removals):
            outcome.loose |= {"late", "expired"}
        if best is not None:
            self._impute(best)
            self._remember(best)
            outcome.taken.append(best)
            outcome.counts["expired"] += best.until <= at
            self.stamps[best.id] = Stamp(*best.stamp, best if best.until > at else None)
        for row in removals:
            outcome.taken.append(row)
            self.stamps[row.id] = Stamp(*row.stamp, None)

    def _stale(self, rows: list[Read]) -> None:
        """What is stale enters its sensor's memory, and nothing else."""
        for row in rows:
            if self.pipeline and self._gaps(row):
                raise Unstated(row.place, "a stale row with a gap that no imputer can fill")
        if rows:
            self._remember(self._best(rows))

    # --- Gaps

    def _chosen(self, copies: list[Read], outcome: Outcome, reason: set[str]) -> Read | None:
        """The row that counts, of those that are not rejected for a gap; the others are rejected with the reason."""
        fine = []
        for row in copies:
            if self._gaps(row):
                outcome.rejects[row.place] = {"gap"}
            else:
                fine.append(row)
        if not fine:
            return None
        for row in copies:
            if row.place in outcome.rejects:  # for its gap; or as a copy, or, with `latest`, not at all
                outcome.rejects[row.place] |= reason
                outcome.maybe |= set() if reason else {row.place}

        best = self._best(fine)
        for row in fine:
            if row is not best and reason:
                outcome.rejects[row.place] = set(reason)
        return best

    def _best(self, copies: list[Read]) -> Read:
        """The one that counts."""
        best = max(copies, key=self._order)
        for row in copies:
            if self._order(row)[:3] == self._order(best)[:3] and self._bare(row)[:3] != self._bare(best)[:3]:
                raise Unstated(row.place, "a copy that is the same once its gap is filled")
        return best

    def _order(self, row: Read) -> Any:
        """By what it came with; without `carry`, a list by the user's own function counts among that."""
        if self.question.carry:
            return self._bare(row)
        return rank(self.question, replace(row, cells={name: self._listed(row, name) for name in row.cells}))

    def _bare(self, row: Read) -> Any:
        """What a row came with."""
        return rank(self.question, replace(row, cells=_cells_of(self.question, row)))

    def _gaps(self, row: Read) -> list[str]:
        """The attributes that no imputer can fill."""
        return [name for name, cell in row.cells.items() if cell is None and self._imputed(row, name) is None]

    def _impute(self, row: Read) -> None:
        row.filled = {name: cell or self._imputed(row, name) or () for name, cell in row.cells.items()}

    def _imputed(self, row: Read, name: str) -> Cell:
        """What a gap may be: the first imputer that has an answer decides."""
        imputing, sign = self.imputing, self.question.sign(name)
        if (given := self._given(row, name)) is not None:
            return given
        if imputing.last:
            value = self.memory.before(row.id, name, row.t)
            if value is not None:
                return ((sign * value + 0.0, 1.0),)
        values = imputing.whole.get(name, ())
        return distribution([(value, 1) for value in values], sign) if values else None

    def _given(self, row: Read, name: str) -> Cell:
        """What a function of the user's own gives, within the limits."""
        if self.imputing.own is None:
            return None
        found = self.imputing.own(self._shown(row)).get(name)
        low, high = self.question.limits.get(name, (-inf, inf))
        pairs = found if isinstance(found, list) else [] if found is None else [(found, 1)]
        inside = [(value, weight) for value, weight in pairs if low <= value <= high]
        return distribution(inside, self.question.sign(name)) if inside else None

    def _listed(self, row: Read, name: str) -> Cell:
        """The cell, or what the user's own function gives, unless it is asked late."""
        if row.cells[name] is not None:
            return row.cells[name]
        return None if self.imputing.late else self._given(row, name)

    def _shown(self, row: Read) -> Row:
        """A row as a function of the user's sees it: its numbers, None where it has none."""
        return dict(row.row) | self._numbers(row)

    def _numbers(self, row: Read) -> dict[str, float | None]:
        return {
            name: self.question.sign(name) * cell[0][0] if cell is not None and len(cell) == 1 else None
            for name, cell in row.cells.items()
        }

    def _remember(self, row: Read) -> None:
        known = {name: value for name, value in self._numbers(row).items() if value is not None}
        self.memory.join(row.id, row.t, row.version, known)


def _copied(row: Read, rows: Sequence[Read]) -> bool:
    return any(other is not row and other.name == row.name for other in rows)


def _cells_of(question: Question, row: Read) -> dict[str, Cell]:
    """The cells with which a row came."""
    again = Read(None, row.row, (), None, row.t, row.until)
    _cells(question, again)
    return again.cells


# --- Streams ----------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What is reported of a call: the answer of each group at each of its ticks, and what became of rows."""

    ticks: list[tuple[float, tuple[Any, ...], Answer]] = field(default_factory=list)  # in the order of time
    rejects: dict[Any, set[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)
    maybe: set[Any] = field(default_factory=set)
    held: set[Any] = field(default_factory=set)  # rows that run ahead
    waiting: set[Any] = field(default_factory=set)  # copies that wait, and may be rejected before they are due

    def add(self, group: tuple[Any, ...], outcome: Outcome) -> None:
        self.ticks += [(t, group, found) for t, found in outcome.ticks]
        self.rejects |= outcome.rejects
        self.loose |= outcome.loose | ({"rejected"} if outcome.maybe else set())
        self.maybe |= outcome.maybe
        for name, count in outcome.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count


class MonitorTruth:
    """A monitor: all groups have one clock, the caller's."""

    def __init__(self, question: Question, imputing: Imputing) -> None:
        self.question, self.imputing = question, imputing
        self.groups: dict[tuple[Any, ...], Group] = {}
        self.clock = -inf
        self.kinds = Kinds()

    def call(self, now: float, rows: Sequence[tuple[Any, Row]]) -> Report:
        """Rows, each with its place in the stream."""
        report, by_group = Report(counts={"rows": len(rows)}), dict[Any, list[Read]]()
        names = (self.question.id, *self.question.by)
        for column in names:
            self.kinds = self.kinds.after(column, [row.get(column) for _, row in rows])
        for place, row in rows:
            found = read(self.question, place, row)
            if isinstance(found, Read) and found.t > now:
                found = "future"
            if unfit := [column for column in names if not self.kinds.has(column, row.get(column))]:
                reasons = {"group" if column in self.question.by else "id" for column in unfit}
                report.rejects[place] = reasons | ({found} if isinstance(found, str) else set())
                continue
            if isinstance(found, str):
                report.rejects[place] = {found}
            else:
                by_group.setdefault(found.group, []).append(found)
        for key in by_group:
            if key not in self.groups:
                self.groups[key] = Group(self.question, self.imputing)
        for key, group in self.groups.items():
            report.add(key, group.take(self.clock, now, by_group.get(key, [])))
        report.ticks.sort(key=lambda tick: tick[0])
        report.counts["rejected"] = len(report.rejects)
        self.clock = now
        return report


class Ground:
    """Who runs ahead: the stretch that the ids of a group have reached together, and what is held beyond."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.ground = -inf
        self.heard: dict[float, set[tuple[Any, float]]] = {}  # stretch -> (id, time)
        self.held: list[tuple[float, Read]] = []  # with the ground when it came
        self.taken: set[Any] = set()  # ids

    def stretch(self, row: Read) -> float:
        return math.floor(row.t / self.length)

    def sift(self, came: list[Read]) -> tuple[list[Read], list[Read], int]:
        """The rows that are taken, those held from now on, and how many are released."""
        first = min(came, key=self.stretch)
        if self.ground > -inf and len(self.taken) == 1 and self.stretch(first) < self.ground - 1:
            raise Unstated(first.place, "a group that may begin anew")
        for row in came:
            self.heard.setdefault(self.stretch(row), set()).add(row.name)
        self.ground = min(self.heard) if self.ground == -inf else self.ground
        while (then := self._after()) is not None:
            self.ground = then
        near = [row for row in came if self.stretch(row) <= self.ground + 1]
        far = [row for row in came if self.stretch(row) > self.ground + 1]
        for row in far:
            if _copied(row, [*far, *(row for _, row in self.held)]):
                raise Unstated(row.place, "a copy that is rejected as it comes, or held")
        released = [row for _, row in self.held if self.stretch(row) <= self.ground + 1]
        touched = {self.stretch(row) for row in far}  # a row that comes there keeps all of its stretch
        self.held = [(self.ground if self.stretch(row) in touched else then, row) for then, row in self.held]
        self.held += [(self.ground, row) for row in far]
        self.held = [
            (then, row) for then, row in self.held if self.stretch(row) > self.ground + 1 and self.ground - then < 2
        ]
        stay = {self.stretch(row) for _, row in self.held} | {self.ground - 1, self.ground, self.ground + 1}
        self.heard = {s: some for s, some in self.heard.items() if s in stay}
        self.taken |= {row.id for row in near + released}
        return near + released, far, len(released)

    def _after(self) -> float | None:
        """Where the ground moves next; None: it stays."""
        near = self._of(self.ground - 1, self.ground)
        coming = self._of(self.ground + 1)
        if len(_ids(coming)) > 1 or (coming and len(_ids(near)) <= 1):
            return self.ground + 1
        return next((s for s in sorted(self.heard) if s > self.ground and self._may_jump(s, near)), None)

    def _may_jump(self, s: float, near: set[tuple[Any, float]]) -> bool:
        known, single = len(_ids(near)), len(_instants(near)) <= 1
        later = [each for each in sorted(self.heard) if each >= s][:8]
        for some in [self._of(s, s + 1), *([self._of(*later)] if single else [])]:
            if len(_instants(some)) < 2:
                continue
            if len(_ids(some)) >= max(2, -(-known // 10)) or (known == 1 and _ids(some) == _ids(near)):
                return True
        if known <= 1:
            return all(each in self.heard for each in (s, s + 1, s + 2))
        return single and len(_ids(self._of(s))) >= max(2, -(-known // 2))

    def _of(self, *stretches: float) -> set[tuple[Any, float]]:
        return set().union(*(self.heard.get(s, set()) for s in stretches))


def _ids(names: set[tuple[Any, float]]) -> set[Any]:
    return {name for name, _ in names}


def _instants(names: set[tuple[Any, float]]) -> set[float]:
    return {t for _, t in names}


class PipelineTruth:
    """A pipeline: each group has a clock of its own, the greatest time taken in it minus the lateness."""

    def __init__(
        self,
        question: Question,
        imputing: Imputing,
        lateness: float = 0,
        ahead: float | None = None,
        idle: float | None = None,
    ) -> None:
        self.question, self.imputing, self.lateness, self.ahead, self.idle = question, imputing, lateness, ahead, idle
        self.heard: dict[Any, float] = {}  # (group, id) -> its newest time
        self.grounds: dict[tuple[Any, ...], Ground] = {}
        self.groups: dict[tuple[Any, ...], Group] = {}
        self.reached: dict[tuple[Any, ...], float] = {}  # the greatest time taken
        self.waiting: dict[tuple[Any, ...], list[Read]] = {}
        remembers = imputing.last
        self.settles = bool(question.carry) or (remembers and lateness > 0)  # gaps are looked at when rows are due

    def batch(self, rows: Sequence[tuple[Any, Row]]) -> Report:
        report, by_group = Report(counts={"rows": len(rows)}), dict[Any, list[Read]]()
        for place, row in rows:
            found = read(self.question, place, row)
            if isinstance(found, str):
                report.rejects[place] = {found}
            else:
                by_group.setdefault(found.group, []).append(found)
        together = self._together()
        for key, some in by_group.items():
            self._turn(key, some, report)
        if self.idle is not None and together > -inf:
            self._move_silent(together - self.idle, report)
        report.counts["rejected"] = len(report.rejects)
        report.waiting = {row.place for each in self.waiting.values() for row in each if _copied(row, each)}
        return report

    def _together(self) -> float:
        """The query's clock: where two (group, id) pairs have come together. (Of slices of a few rows.)"""
        return sorted(self.heard.values())[-2] if len(self.heard) > 1 else -inf

    def _move_silent(self, until: float, report: Report) -> None:
        """Silent groups follow the query's clock at a distance."""
        for key, group in self.groups.items():
            if until > self.reached[key] > -inf:
                report.add(key, group.take(self.reached[key], until, []))
                self.reached[key] = until

    def _turn(self, key: tuple[Any, ...], came: list[Read], report: Report) -> None:
        group = self.groups.setdefault(key, Group(self.question, self.imputing, pipeline=True))
        before = self.reached.get(key, -inf)
        clock = before - self.lateness
        if not group.rows() and self.question.last is None:
            for row in came:
                if row.t < clock or (row.t == clock and row.name in group.seen):
                    raise Unstated(row.place, "a late row of a group that may be forgotten")
        outcome = self._rejected(group, clock, came)
        rejected = outcome.rejects
        report.add(key, Outcome(rejects=rejected, maybe=outcome.maybe))
        came, heard = [row for row in came if row.place not in rejected], came
        if not self.settles:  # else gaps are looked at when the query's clock has moved
            heard = came
        if self.ahead is not None and came:
            ground = self.grounds.setdefault(key, Ground(self.ahead))
            came, held, released = ground.sift(came)
            heard = came
            report.held |= {row.place for row in held}
            report.counts["held"] = report.counts.get("held", 0) + len(held)
            report.counts["released"] = report.counts.get("released", 0) + released
        for row in heard:
            self.heard[key, row.id] = max(row.t, self.heard.get((key, row.id), -inf))
        rows = self.waiting.pop(key, []) + came
        self.reached[key] = max([before, *(row.t for row in came)])
        now = self.reached[key] - self.lateness
        self.waiting[key] = [row for row in rows if self.lateness and row.t > now]
        if now > -inf:
            report.add(key, group.take(clock, now, [row for row in rows if not self.lateness or row.t <= now]))

    def _rejected(self, group: Group, clock: float, came: list[Read]) -> Outcome:
        """The rows that are rejected as they come, and move no clock."""
        if not self.lateness and self.ahead is None:  # all are due: what would become of them?
            again = deepcopy(group)
            return again.take(clock, max(row.t for row in came), deepcopy(came))
        if self.settles:  # gaps are looked at when rows are due
            return Outcome()
        return Outcome(rejects={row.place: {"gap"} for row in came if not row.gone and group._gaps(row)})
