"""What is the true answer?

Written as the definitions read, in fractions, for a handful of rows: every place of every
cloud is looked at.  Nothing here imports fogline, so that the two can only agree by both being right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any

Point = tuple[Fraction, ...]
Cell = tuple[tuple[Fraction, Fraction], ...]  # (value, weight), larger is better, weights sum to 1
Row = Mapping[str, Any]
Calls = Sequence[tuple[Any, Sequence[Row]]]  # (now, rows), as `advance` takes them


@dataclass(frozen=True, eq=False)
class Revise:
    """From `time` on, or the clock of its call, some cells of a row that is there by then have other distributions."""

    id: Any
    arrived: Any
    time: Any
    cells: Mapping[str, Any]  # attribute -> a number or a list of (value, weight)
    call: int  # the call it came with
    group: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Cloud:
    """A row with its possible places, and its time in the window."""

    id: Any
    arrived: Any
    until: Any  # when it leaves: its expiry; in a count window, where rows leave in this order, (arrived, id)
    cells: tuple[Cell, ...]
    group: tuple[Any, ...] = ()
    enters: Any = None  # its arrival, or for a late row the clock it met
    call: int = 0  # the call it came with
    beaten: dict[Point, Fraction] = field(default_factory=dict, repr=False)  # remembers `chance_against`

    @property
    def key(self) -> tuple[Any, ...]:
        return (*self.group, self.id, self.arrived)

    @cached_property
    def places(self) -> list[tuple[Point, Fraction]]:
        """Every combination of values, one per attribute, with the product of their weights."""
        return [
            (tuple(value for value, _ in combination), prod((weight for _, weight in combination), start=Fraction(1)))
            for combination in product(*self.cells)
        ]


def cell(given: Any, direction: str) -> Cell:
    """A number or a list of (value, weight), as a distribution: merged, normalised, turned so that larger is better."""
    pairs = given if isinstance(given, list | tuple) else [(given, 1)]
    sign = {"max": 1, "min": -1}[direction]
    total = sum(Fraction(weight) for _, weight in pairs)
    merged: dict[Fraction, Fraction] = {}
    for value, weight in pairs:
        merged[sign * Fraction(value)] = merged.get(sign * Fraction(value), Fraction(0)) + Fraction(weight) / total
    return tuple(sorted(merged.items()))


# --- Dominance and probability ----------------------------------------------------------------------------------------


def beats(a: Point, b: Point) -> bool:
    """Is `a` at least as good everywhere and better somewhere?"""
    return all(x >= y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))


def chance_against(cloud: Cloud, point: Point) -> Fraction:
    """Pr{cloud beats point}, by looking at every place of the cloud."""
    if point not in cloud.beaten:
        cloud.beaten[point] = sum((weight for place, weight in cloud.places if beats(place, point)), Fraction(0))
    return cloud.beaten[point]


def chance(a: Cloud, b: Cloud) -> Fraction:
    """Pr{a beats b}."""
    return sum((weight * chance_against(a, place) for place, weight in b.places), Fraction(0))


def probability(cloud: Cloud, window: Sequence[Cloud], k: int = 1) -> Fraction:
    """That fewer than k other clouds beat the place where the cloud turns out to be.

    For k = 1, where none may, this is the skyline probability in its product form.
    """
    others = [other for other in window if other is not cloud]
    return sum(
        (weight * chance_of_fewer([chance_against(other, place) for other in others], k)
         for place, weight in cloud.places),
        Fraction(0),
    )  # fmt: skip


def chance_of_fewer(chances: Sequence[Fraction], k: int) -> Fraction:
    """That fewer than k of some independent events happen, from the chance of each: how many do is counted whole."""
    counts = [Fraction(1)]  # [that so many of those so far happen]
    for p in chances:
        none, one = [c * (1 - p) for c in counts], [c * p for c in counts]
        counts = [a + b for a, b in zip([*none, Fraction(0)], [Fraction(0), *one], strict=True)]
    return sum(counts[:k], Fraction(0))


def worlds(window: Sequence[Cloud]) -> Iterator[tuple[tuple[Point, ...], Fraction]]:
    """Every possible world: one place for each cloud, with the probability of the whole."""
    for chosen in product(*(cloud.places for cloud in window)):
        yield tuple(place for place, _ in chosen), prod((weight for _, weight in chosen), start=Fraction(1))


def probability_over_worlds(cloud: Cloud, window: Sequence[Cloud], k: int = 1) -> Fraction:
    """The worlds in which fewer than k others beat the cloud; k = 1: the skyline probability as the paper defines it
    (Definition 6)."""
    index = window.index(cloud)
    return sum(
        (weight for world, weight in worlds(window) if sum(beats(place, world[index]) for place in world) < k),
        Fraction(0),
    )


def answer(probabilities: Mapping[Any, Fraction], alpha: Fraction) -> set[Any]:
    return {key for key, p in probabilities.items() if p > alpha}


# --- The window, tick by tick -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """One instant of one call, after its expiries and arrivals: the window of each group."""

    call: int
    time: Any
    windows: Mapping[tuple[Any, ...], tuple[Cloud, ...]]
    removed: frozenset[Any] = frozenset()  # where rows are replaced: (group…, id) of what was removed last
    skyband: int = 1  # a row is in where fewer than so many others beat it

    @cached_property
    def probabilities(self) -> dict[tuple[Any, ...], Fraction]:
        """(group…, id, arrived) -> the probability that it is in the skyband, for every row in a window."""
        found = [_probabilities(window, self.skyband) for window in self.windows.values()]
        return {key: p for each in found for key, p in each.items()}


@lru_cache(maxsize=512)
def _probabilities(window: tuple[Cloud, ...], k: int) -> dict[tuple[Any, ...], Fraction]:
    return {cloud.key: probability(cloud, window, k) for cloud in window}


def clouds(
    calls: Calls, attributes: Mapping[str, str], by: Sequence[str] = (), *, expires=None, lifetime=None, last=None
) -> Iterator[Cloud]:
    """The rows of all calls (columns `id` and `t`) as clouds; a row older than the clock meets that clock."""
    clock = None
    for call, (now, rows) in enumerate(calls):
        for row in rows:
            name, arrived = row["id"], row["t"]
            until = row[expires] if expires else (arrived, name) if last else arrived + lifetime
            cells = tuple(cell(row[attribute], direction) for attribute, direction in attributes.items())
            enters = arrived if clock is None else max(arrived, clock)
            yield Cloud(name, arrived, until, cells, tuple(row[column] for column in by), enters, call)
        clock = now


def window(entered: Sequence[Cloud], t: Any, last: int | None = None) -> tuple[Cloud, ...]:
    """Who of one group is in the window at `t`: what came and has not expired, or the newest `last`."""
    if last:
        return tuple(sorted((c for c in entered if c.enters <= t), key=lambda c: c.until)[-last:])
    return tuple(c for c in entered if c.enters <= t < c.until)


def happens(event: Revise, calls: Calls) -> tuple[int, Any]:
    """The call and the instant of a revision: its time, or the clock that it met."""
    return event.call, max(event.time, calls[event.call - 1][0]) if event.call else event.time


class Versions:
    """Clouds as they are at an instant, by the revisions that have happened; the same object for the same ones."""

    def __init__(self, calls: Calls, attributes: Mapping[str, str], revisions: Sequence[Revise]) -> None:
        self.attributes = attributes
        self.made: dict[tuple[Any, ...], Cloud] = {}
        self.events = sorted(((happens(event, calls), event) for event in revisions), key=lambda both: both[0])

    def at(self, cloud: Cloud, call: int, t: Any) -> Cloud:
        known = [
            event
            for (its_call, then), event in self.events
            if (its_call, then) <= (call, t)
            and (event.id, event.arrived, event.group) == (cloud.id, cloud.arrived, cloud.group)
            and cloud.call <= its_call
            and cloud.enters <= then
        ]
        if not known:
            return cloud
        if (cloud, *known) not in self.made:
            cells = dict(zip(self.attributes, cloud.cells, strict=True))
            for event in known:
                cells |= {name: cell(given, self.attributes[name]) for name, given in event.cells.items()}
            self.made[cloud, *known] = replace(cloud, cells=tuple(cells.values()), beaten={})
        return self.made[cloud, *known]


def replay(
    calls: Calls,
    attributes: Mapping[str, str],
    by: Sequence[str] = (),
    revisions: Sequence[Revise] = (),
    *,
    expires=None,
    lifetime=None,
    last=None,
    skyband: int = 1,
) -> Iterator[Tick]:
    """Every tick of every call: an instant at which a row arrives or is revised, or one of the window expires."""
    everything = list(clouds(calls, attributes, by, expires=expires, lifetime=lifetime, last=last))
    versions = Versions(calls, attributes, revisions)
    for call, (now, _) in enumerate(calls):
        known = [c for c in everything if c.call <= call]
        groups = {c.group: [k for k in known if k.group == c.group] for c in known}
        instants = {c.enters for c in known if c.call == call}
        instants |= {happens(event, calls)[1] for event in revisions if event.call == call}
        if not last:
            clock = calls[call - 1][0] if call else None
            instants |= {c.until for c in known if c.enters < c.until <= now and (clock is None or clock < c.until)}
        for t in sorted(instants):
            there = {group: window(entered, t, last) for group, entered in groups.items()}
            revised = {g: tuple(versions.at(c, call, t) for c in some) for g, some in there.items()}
            yield Tick(call, t, revised, skyband=skyband)


# --- The guard tree ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    layer: int | None  # None for a shadow
    parent: tuple[Any, Any] | None  # (id, arrived)
    shadow: bool


def live(window: Sequence[Cloud], k: int = 1) -> list[Cloud]:
    """The clouds that fewer than k others that expire no earlier surely beat."""
    return [c for c in window if sum(n.until >= c.until and chance(n, c) == 1 for n in window if n is not c) < k]


def tree(window: Sequence[Cloud], alpha: Fraction) -> dict[tuple[Any, ...], Node]:
    """Who guards whom: edges run from the latest of the guards that expire earlier."""
    alive = live(window)
    guards = {c: [g for g in alive if g is not c and chance(g, c) >= 1 - alpha] for c in alive}
    shadow = {c: any(g.until >= c.until for g in guards[c]) for c in alive}
    earlier = {c: [g for g in guards[c] if g.until < c.until] for c in alive}
    parent = {c: max(earlier[c], key=lambda g: (g.until, g.arrived, g.id), default=None) for c in alive}

    def layer(c: Cloud) -> int | None:
        above = parent[c]
        if shadow[c]:
            return None
        return 1 if above is None else 1 + (layer(above) or 1)  # a child of a shadow has layer 2

    def name(c: Cloud | None) -> tuple[Any, Any] | None:
        return None if c is None else (c.id, c.arrived)

    return {c.key: Node(layer(c), name(parent[c]), shadow[c]) for c in alive}


# --- The newest row per id --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stamp:
    """What came last of an id, and its row, if it has one."""

    time: Any
    version: Any
    row: Cloud | None
    gone: bool = False  # it was a removal


class Latest:
    """Each id has one current row: the newest, unless it was removed or has expired.

    Rows have columns `id`, `t`, perhaps `v` (a version) and `gone` (true: the id is removed). Nothing but the newest of
    an id counts; of an id without a row it is remembered until the clock has passed its time by `remember`.
    """

    def __init__(self, calls: Calls, attributes: Mapping[str, str], by: Sequence[str] = (), *, expires=None,
                 lifetime=None, remember=None, skyband: int = 1) -> None:  # fmt: skip
        self.calls, self.attributes, self.by = calls, attributes, tuple(by)
        self.expires, self.lifetime, self.remember, self.skyband = expires, lifetime, remember, skyband
        self.stamps: dict[tuple[Any, ...], Stamp] = {}  # (group…, id)
        self.stale = 0

    def ticks(self) -> Iterator[Tick]:
        """Every tick of every call: an instant at which something that is not stale comes, or a row expires."""
        clock = None
        for call, (now, rows) in enumerate(self.calls):
            self.forget(clock)
            waiting = sorted(rows, key=self.order)
            while True:
                instants = [row["t"] if clock is None else max(row["t"], clock) for row in waiting[:1]]
                instants += [c.until for c in self.current() if c.until is not None and c.until <= now]
                if not instants:
                    break
                t = min(instants)
                changed = self.expire(t)
                while waiting and (waiting[0]["t"] <= t):
                    changed |= self.take(waiting.pop(0), t, call)
                if changed:
                    removed = frozenset(key for key, stamp in self.stamps.items() if stamp.gone)
                    yield Tick(call, t, self.windows(), removed, self.skyband)
            clock = now
        self.forget(clock)

    def current(self) -> list[Cloud]:
        return [stamp.row for stamp in self.stamps.values() if stamp.row is not None]

    def windows(self) -> dict[tuple[Any, ...], tuple[Cloud, ...]]:
        found = self.current()
        return {group: tuple(c for c in found if c.group == group) for group in {c.group for c in found}}

    def markers(self) -> int:
        return sum(stamp.row is None for stamp in self.stamps.values())

    def forget(self, clock: Any) -> None:
        for key, stamp in list(self.stamps.items()):
            if stamp.row is None and self.remember is not None and clock > stamp.time + self.remember:
                del self.stamps[key]

    def expire(self, t: Any) -> bool:
        """Rows whose expiry has come leave. Was there any?"""
        over = [key for key, s in self.stamps.items() if s.row and s.row.until is not None and s.row.until <= t]
        self.stamps |= {key: replace(self.stamps[key], row=None) for key in over}
        return bool(over)

    def take(self, row: Row, t: Any, call: int) -> bool:
        """A row, or a removal, unless it is stale."""
        key, version = (*(row[column] for column in self.by), row["id"]), row.get("v", 0)
        last = self.stamps.get(key)
        if last is not None and (row["t"], version) < (last.time, last.version):
            self.stale += 1
            return False
        cloud = None if row.get("gone") else self.cloud(row, t, call)
        if cloud is not None and cloud.until is not None and cloud.until <= t:
            cloud = None
        self.stamps[key] = Stamp(row["t"], version, cloud, bool(row.get("gone")))
        return True

    def cloud(self, row: Row, t: Any, call: int) -> Cloud:
        cells = tuple(cell(row[attribute], direction) for attribute, direction in self.attributes.items())
        return Cloud(row["id"], row["t"], self.until(row), cells, tuple(row[c] for c in self.by), t, call)

    def until(self, row: Row) -> Any:
        return row[self.expires] if self.expires else None if self.lifetime is None else row["t"] + self.lifetime

    def order(self, row: Row) -> tuple[Any, ...]:
        """In which order what befalls an id is taken: by time, version, rows before removals, then by content.

        The better row in the first attribute in which they differ comes later, a number after a gap; then what stays
        longer.
        """
        if row.get("gone"):
            return row["t"], row.get("v", 0), True
        cells = [cell(row[attribute], direction) for attribute, direction in self.attributes.items()]
        numbers = [(1, each[0][0]) if len(each) == 1 else (0, 0) for each in cells]
        ends = [each[0][0] for each in cells], [each[-1][0] for each in cells]
        lists = [([v for v, _ in each], [w for _, w in each]) if len(each) > 1 else ([], []) for each in cells]
        until = self.until(row)
        return row["t"], row.get("v", 0), False, numbers, until if until is not None else 0, *ends, lists
