"""What is answered if gaps are revised as soon as their sensors are read again?

A chain with hindsight goes along a case as a monitor would. Rows come with what their sensors read before; they get
bounds; what matters is filled. A later reading of a sensor revises the open gaps of its earlier rows, at its own tick.

The case counts ticks and numbers its rows, while sensors have names and are read at times of their own. This module
translates between the two.

An answer at a tick depends on what had arrived by then, and on nothing else. With `early`, for comparison, a row knows
as it comes what its sensor will read next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Batch, Flags, Floats, Ints, Revisions, UncertainRows, objects
from fogline.engine.group import Incoming, WindowGroup
from fogline.engine.live import LiveSet
from fogline.impute.chain import Chain
from fogline.impute.protocol import Evidence
from fogline.repository.sensors.gaps import Gaps
from fogline.repository.sensors.state import Name, SensorRows, SensorState
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader
from lab.case import Case
from lab.imputers.fittable import evidence_of, names_of, times_of
from lab.imputers.sensors import WAYS, Between, begun, default_chain, filled
from lab.maintainers import TickAnswer, members


@dataclass(frozen=True, eq=False)
class Remembering:
    """A chain, and the state of sensors with which a stream begins."""

    chain: Chain
    state: SensorState | None  # None: no sensor is remembered, and nothing is revised


def fogline(case: Case, *, hindsight: bool | None = None) -> Remembering:
    """What Fogline does by itself; with `hindsight`, if it was learnt."""
    chain = default_chain(case.history, case.query, hindsight=hindsight)
    return Remembering(chain, begun(chain, case.history, evidence_of(case.rows, case.query.names), case.query.names))


def between(way: str, case: Case) -> Remembering:
    """A rival that looks at both sides."""
    names, chain = case.query.names, Chain([Between(way, case.history, case.query)], case.query)
    state = SensorState(len(names), hindsight=True)
    return Remembering(chain, filled(state, case.history, evidence_of(case.rows, names), names))


REVISING: dict[str, Callable[[Case], Remembering]] = {
    "Fogline": fogline,
    **{way: partial(between, way) for way in WAYS},
}
"""Those whose answers change when sensors are read again."""


class Later(NamedTuple):
    """Readings that follow gaps, in the order in which they come."""

    row: Ints  # (e,) the row with the gap …
    reading: Ints  # (e,) … and the row of the reading
    cells: Flags  # (e, d) which of the gaps

    def part(self, which: Any) -> Later:
        """Some of them (a slice, flags or indices)."""
        return Later(self.row[which], self.reading[which], self.cells[which])


class LookedBack(NamedTuple):
    """Rows, and what sensors know of them."""

    context: Floats  # (n, w) what was read before those with gaps; NaN for others
    later: Later


def look_back(
    state: SensorState, names: list[Name], at: Floats, values: Floats, gaps: Flags, opens: Flags
) -> LookedBack:
    """Rows (n, d) join the state as they come. `opens` (d,): attributes that a later reading may revise.

    Within a call the state puts rows in the order of their times; where they come in another, there are several calls.
    """
    wanted, opened = np.asarray(gaps.any(axis=1)), gaps & opens
    context = np.full((len(at), state.width), np.nan)
    waits: dict[tuple[Name, float], int] = {}
    parts = [Later(np.empty(0, np.int64), np.empty(0, np.int64), opened[:0])]
    cuts = [0, *(np.flatnonzero(np.diff(at) < 0) + 1).tolist(), len(at)]
    for a, b in pairwise(cuts):
        forever = np.full(b - a, np.inf)
        some = wanted[a:b]
        rows = SensorRows(names[a:b], at[a:b], values[a:b], some, gaps=Gaps(opened[a:b], forever))
        context[a:b][some], (reading, target, row, cells), _ = state.take(rows)
        before = [waits.get((names[k], x), -1) for k, x in zip((reading + a).tolist(), target.tolist(), strict=True)]
        parts.append(Later(np.where(row >= 0, row + a, before).astype(np.int64), reading + a, cells))
        waits.update(((names[k], at[k]), k) for k in (np.flatnonzero(opened[a:b].any(axis=1)) + a).tolist())
    return LookedBack(context, Later(*(np.concatenate(each) for each in zip(*parts, strict=True))))


def noted(chain: Chain, known: Floats, later: Later, at: Floats, values: Floats) -> tuple[Floats, Flags]:
    """What is kept of rows after these readings, and which cells (n, d) are known better.

    known (n, width), at (n,) and values (n, d): of all rows that `later` speaks of.
    """
    out, better = known.copy(), np.zeros(values.shape, np.bool_)
    order = np.argsort(later.row, kind="stable")  # those of one row stay in the order of time
    turn = np.arange(len(order)) - np.searchsorted(later.row[order], later.row[order], "left")
    for k in range(int(turn.max(initial=-1)) + 1):
        row, reading, cells = later.part(order[turn == k])
        out[row] = chain.note(out[row], Revisions(objects(row.tolist()), at[row], at[reading], cells, values[reading]))
        better[row] |= cells
    return out, better


class Replay:
    """A case on its way through a chain and a live set; `leap` takes any number of ticks at once."""

    def __init__(self, case: Case, begun: Remembering, *, early: bool = False) -> None:
        self.case, self.chain, self.early = case, begun.chain, early
        query, rows = case.query, evidence_of(case.rows, case.query.names)
        self.values, self.revised = rows.values, np.zeros(case.gaps.shape, np.bool_)  # so far
        self.at, context = np.zeros(len(rows.values)), None
        self.later = Later(np.empty(0, np.int64), np.empty(0, np.int64), self.revised[:0])
        if begun.state is not None:
            self.at = times_of(rows)
            opens = self.chain.opens
            context, self.later = look_back(begun.state, names_of(rows), self.at, rows.values, case.gaps, opens)
        which = np.flatnonzero(case.incomplete)
        some = Evidence(rows.values, case.gaps, rows.source, None, context).part(which)
        self.known = np.full((len(rows.values), self.chain.width), np.nan)
        self.known[which] = self.chain.evidence(some)
        self.reader, self.kinds = Reader(query), Kinds()
        live = LiveSet(
            len(query.names), query.alpha, known=self.chain.width, fill=self.chain.fill_sharing, note=self._note,
            shared=self.chain.shared,
        )  # fmt: skip
        self.group = WindowGroup(live)
        self.tick = -1

    def leap(self, tick: int) -> TickAnswer:
        """Take the ticks up to this one, and give its answer."""
        theta = self.case.settings.theta
        now = slice((self.tick + 1) * theta, (tick + 1) * theta)
        self.group.advance(
            float(self.tick), float(tick), Incoming(self._rows(now), self._revisions(self._since(now))), False
        )
        self.tick = tick
        return members(self.group.live)

    def _rows(self, now: slice) -> Batch:
        """The rows, with boxes for their gaps."""
        named = self.reader.read(self.case.rows.slice(now.start, now.stop - now.start), self.kinds)
        self.kinds, batch = named.kinds, named.batch()
        uncertain = self.chain.bound(batch.uncertain, self.known[now], self.case.gaps[now])
        return batch._replace(known=self.known[now], uncertain=uncertain)

    def _since(self, now: slice) -> Later:
        """What was read since: readings that came, or with `early`, those that rows will get."""
        when = self.later.row if self.early else self.later.reading
        return self.later.part((when >= now.start) & (when < now.stop))

    def _revisions(self, later: Later) -> Revisions:
        """As the live set takes them, at the tick at which it is. Their time is that of the reading, for `_note`."""
        np.logical_or.at(self.revised, later.row, later.cells)
        tick = (later.row // self.case.settings.theta).astype(np.float64)
        names = objects(later.row.tolist())
        return Revisions(names, tick, self.at[later.reading], later.cells, self.values[later.reading])

    def _note(self, known: Floats, revisions: Revisions) -> Floats:
        """Ages are those of readings, not of ticks."""
        return self.chain.note(known, revisions._replace(target=self.at[revisions.id.astype(np.int64)]))

    def imputed(self, which: Ints, tick: int | None) -> UncertainRows:
        """The clouds of some rows as they are at a tick, needed or not; None: when all has been read."""
        until = len(self.at) if tick is None else (tick + 1) * self.case.settings.theta
        few = self.later.part((self.later.reading < until) & np.isin(self.later.row, which))
        known, better = noted(self.chain, self.known, few, self.at, self.values)
        gaps = self.case.gaps[which]
        sign = np.array(self.case.query.signs)
        box = self.chain.bound(points(self.values[which] * sign), self.known[which], gaps)
        first = self.chain.fill(box, self.known[which], gaps & ~better[which])
        return self.chain.fill(first, known[which], gaps & better[which])


def points(values: Floats) -> UncertainRows:
    """Rows (n, d), larger is better, with nothing in their gaps (NaN)."""
    n, d = values.shape
    none = np.empty(0)
    start, size = np.full((n, d), -1, np.int64), np.ones((n, d), np.int64)
    return UncertainRows(values + 0.0, values + 0.0, start, size, none, none, none)


def replayed(case: Case, begun: Remembering, stops: Iterable[int], *, early: bool = False) -> dict[int, TickAnswer]:
    """Tick -> answer at these ticks, in order; between them it leaps."""
    replay = Replay(case, begun, early=early)
    return {k: replay.leap(k) for k in stops}
