"""What is answered if gaps are revised as soon as their sensors are read again?

A chain with hindsight goes along a case as a monitor would: rows come with what their sensors read before, they get
bounds, what matters is filled, and a later reading of a sensor revises the open gaps of its earlier rows, at its own
tick. The case counts ticks and has a number for every row, while sensors are known by name and read at times of their
own; here the two are brought together.

An answer at a tick depends on what had arrived by then, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fogline.arrays import Batch, Flags, Floats, Revisions, objects
from fogline.impute.chain import Chain
from fogline.impute.imputer import Evidence
from fogline.lab.case import Case
from fogline.lab.imputers.between import WAYS, Between
from fogline.lab.imputers.default import begun, default_chain, filled
from fogline.lab.imputers.fittable import evidence_of
from fogline.lab.imputers.sensor_numbers import names_of, times_of
from fogline.lab.maintainers.protocol import TickAnswer
from fogline.lab.maintainers.tree import PLACES, members
from fogline.repository.sensors.gaps import Gaps, Revised
from fogline.repository.sensors.state import Name, SensorState
from fogline.rows.reader import Kinds, Reader
from fogline.skyline.group import Group


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
    names = case.query.names
    state = SensorState(len(names), hindsight=True)
    rows = evidence_of(case.rows, names)
    return Remembering(
        Chain([Between(way, case.history, case.query)], case.query), filled(state, case.history, rows, names)
    )


REVISING: dict[str, Callable[[Case], Remembering]] = {
    "Fogline": fogline,
    **{way: partial(between, way) for way in WAYS},
}
"""Those whose answers change when sensors are read again."""


class Replay:
    """A case on its way through a chain and a live set; `leap` takes any number of ticks at once."""

    def __init__(self, case: Case, begun: Remembering) -> None:
        self.case, self.chain, self.state = case, begun.chain, begun.state
        query, chain = case.query, begun.chain
        self.reader, self.kinds = Reader(query), Kinds()
        rows = evidence_of(case.rows, query.names)
        self.values, self.names = rows.values, names_of(rows)
        self.at = times_of(rows) if begun.state is not None else np.empty(0)
        self.group = Group(
            len(query.names), query.alpha, None, PLACES, chain.width, chain.fill_sharing, chain.shared, self._note
        )
        self.tick = -1
        self.revised = np.zeros(case.gaps.shape, np.bool_)  # which cells have been revised so far
        self._open: dict[tuple[Name, float], list[int]] = {}

    def leap(self, tick: int) -> TickAnswer:
        """Take the ticks up to this one, and give its answer."""
        theta = self.case.settings.theta
        first, last = (self.tick + 1) * theta, (tick + 1) * theta
        batch, revised = self._take(first, last)
        self.group.advance(float(self.tick), float(tick), batch, False, self._events(revised, first))
        self.tick = tick
        return members(self.group.live)

    def _take(self, first: int, last: int) -> tuple[Batch, Revised | None]:
        """The rows with their bounds, and which gaps they revise."""
        named = self.reader.read(self.case.rows.slice(first, last - first), self.kinds)
        self.kinds, batch = named.kinds, named.batch()
        missing = np.isnan(batch.clouds.lo)
        context, revised, now = None, None, slice(first, last)
        if self.state is not None:
            names, at, opened = self.names[now], self.at[now], missing & self.chain.opens
            context, revised = look_back(self.state, names, at, self.values[now], missing, opened)
            for row in np.flatnonzero(opened.any(axis=1)).tolist():
                self._open.setdefault((names[row], float(at[row])), []).append(first + row)
        known = self.chain.evidence(Evidence(batch.raw, missing, named.rows.source, None, context))
        return batch._replace(known=known, clouds=self.chain.bound(batch.clouds, known, missing)), revised

    def _events(self, revised: Revised | None, first: int) -> Revisions | None:
        """The revisions of rows by their numbers. Their time is that of the reading, for `_note`: they happen now."""
        rows: list[int] = []
        events: list[int] = []
        for k, reading in enumerate([] if revised is None else (revised.reading + first).tolist()):
            assert revised is not None
            for row in self._open.get((self.names[reading], float(revised.target[k])), ()):
                if (self.case.gaps[row] & revised.cells[k]).any():
                    rows.append(row)
                    events.append(k)
        if revised is None or not rows:
            return None
        target, event = np.array(rows), np.array(events)
        cells, came = revised.cells[event] & self.case.gaps[target], revised.reading[event] + first
        np.logical_or.at(self.revised, target, cells)
        tick = (target // self.case.settings.theta).astype(np.float64)
        return Revisions(objects(rows), tick, self.at[came], cells, self.values[came])

    def _note(self, known: Floats, revisions: Revisions) -> Floats:
        """Ages are those of readings, not of ticks."""
        return self.chain.note(known, revisions._replace(target=self.at[revisions.id.astype(np.int64)]))


def look_back(
    state: SensorState, names: list[Name], at: Floats, values: Floats, wanted: Flags, opened: Flags
) -> tuple[Floats, Revised]:
    """(n, w) what the sensors of rows with `wanted` cells have read before, and which open gaps these rows revise.

    `opened` (n, d): the gaps that stay open from now on.
    """
    which = np.asarray(wanted.any(axis=1))
    context = np.full((len(at), state.width), np.nan)
    context[which], revised = state.watch(names, at, values, which, None, Gaps(opened, np.full(len(at), np.inf)))
    return context, revised


def replayed(case: Case, begun: Remembering, stops: Iterable[int]) -> dict[int, TickAnswer]:
    """Tick -> answer at these ticks, in order; between them it leaps."""
    replay = Replay(case, begun)
    return {k: replay.leap(k) for k in stops}
