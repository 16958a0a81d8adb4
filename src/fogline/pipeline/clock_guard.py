"""Which rows run so far ahead of their group that they are held?

A row up to one time bucket beyond its group's frontier (`time_buckets`) is taken. A row beyond is *held*: it is kept,
and reported at once, and it enters, at its own time, when the frontier has followed. When the frontier has moved on
by two buckets and a held row is still beyond, its group has gone on without it, and it is given up; so is what is
farthest ahead where too many are held.

The frontier of a group begins with the earliest bucket heard. Rows that were taken while one id alone had been heard
are kept for a while: if others then come from far behind, it was that id that ran ahead, and the group begins anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Revisions
from fogline.pipeline import exchange as blocks
from fogline.pipeline.exchange import (
    GroupRows,
    RowBlock,
    concat,
    joined_revisions,
    revisions_from_arrays,
    revisions_to_arrays,
    some_revisions,
)
from fogline.pipeline.plan import Plan
from fogline.pipeline.rejects import HELD, RejectedRow, as_json
from fogline.pipeline.time_buckets import BucketColumns, BucketStatistics, TimeBuckets, buckets_of, joined, moved
from fogline.pipeline.watermark import length_text
from fogline.rows.clock import time_text
from fogline.saved import Arrays

MOST = 100_000  # rows held for one group
FIRST = 64  # rows of one id that are kept in case it was that id that ran ahead
_HELD, _FIRST = "held ", "first "  # before the names of arrays
_REVISED = ("revised if held ", "revised at first ")


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is kept of a group between calls, to know who runs ahead."""

    frontier: float = -math.inf
    heard: dict[float, BucketStatistics] = field(default_factory=dict)  # from the bucket before the frontier on
    since: dict[float, float] = field(default_factory=dict)  # bucket that is held -> the frontier back then
    counts: dict[float, int] = field(default_factory=dict)  # bucket that is held -> how many rows, screened ones too
    held: RowBlock | None = None
    first: RowBlock | None = None  # all rows that were taken, as long as they are of one id, and few
    held_revisions: Revisions | None = None  # those of held readings
    first_revisions: Revisions | None = None  # and of the first rows

    @property
    def holds_nothing(self) -> bool:
        """Whether no row and no revision is kept: only what was heard."""
        rows = self.held, self.first, self.held_revisions, self.first_revisions
        return not self.since and all(each is None for each in rows)

    def to_arrays(self, signs: Floats, id: pa.DataType) -> Arrays:
        """As flat arrays; none where nothing is kept. `id`: the type of the ids."""
        if not self.heard:
            return {}
        held = [[s, then, float(self.counts.get(s, 0))] for s, then in self.since.items()]
        arrays: Arrays = {"ahead": np.array([[self.frontier] * 3, *held]), **BucketColumns.of([self.heard]).to_arrays()}
        for prefix, rows in ((_HELD, self.held), (_FIRST, self.first)):
            if rows is not None:
                arrays |= {f"{prefix}{name}": array for name, array in blocks.to_arrays(rows, signs).items()}
        for prefix, events in zip(_REVISED, (self.held_revisions, self.first_revisions), strict=True):
            arrays |= revisions_to_arrays(events, id, prefix)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, signs: Floats, width: int) -> Ahead:
        """The inverse of `to_arrays`, among other arrays."""
        if "ahead" not in arrays:
            return cls()
        (frontier, *_), *held = arrays["ahead"].tolist()
        found: list[RowBlock | None] = []
        for prefix in (_HELD, _FIRST):
            part = {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}
            found.append(blocks.from_arrays(part, signs, width) if part else None)
        since, counts = {s: then for s, then, _ in held}, {s: int(count) for s, _, count in held}
        held_rows, first = found
        events = (revisions_from_arrays(arrays, prefix) for prefix in _REVISED)
        return cls(frontier, BucketColumns.from_arrays(arrays).by_bucket(), since, counts, held_rows, first, *events)


@dataclass(frozen=True, slots=True)
class Sifted:
    """What becomes of the rows of a call."""

    state: Ahead
    newest: float  # the greatest time of the rows that were ever taken, as far as it is known
    taken: list[RowBlock]
    held: RowBlock | None  # from now on
    unseen: list[tuple[BucketStatistics, int]]  # rows that are held from now on, but were screened: bucket, how many
    released: int  # rows that enter now, screened ones included
    anew: bool  # the rows that were taken so far are among the others again: the group begins anew
    revisions: Revisions | None  # whose readings are taken

    @property
    def screened(self) -> int:
        """Rows that are held from now on, though screened."""
        return sum(count for _, count in self.unseen)

    @property
    def newly_held(self) -> int:
        """Rows that are held from now on."""
        return self.screened + (0 if self.held is None else len(self.held.arrived))


def sift_ahead(state: Ahead, chunks: Sequence[GroupRows], length: float) -> Sifted:
    """Which rows are taken, which are held, and which of those held earlier are released. `length` of a bucket."""
    come = [each.rows for each in chunks if len(each.rows.arrived)]
    news = joined(each.heard for each in chunks)
    events = joined_revisions([each.revisions for each in chunks])
    if length == math.inf or not news:
        newest = max((stats.greatest for stats in news.values()), default=-math.inf)
        return Sifted(state, newest, come, None, [], 0, False, events)
    if not state.since and state.first is None and max((*news, *state.heard)) <= state.frontier:
        return _in_step(state, news, come, events)
    anew = state.first is not None and min(news, default=math.inf) < state.frontier - 1
    heard = joined([state.heard, news])
    frontier = moved(min(heard) if anew or state.frontier == -math.inf else state.frontier, heard)
    reach = frontier + 1
    near, far = _cut([*come, *([state.first] if anew and state.first is not None else [])], length, reach)
    ready, still = _cut([] if state.held is None else [state.held], length, reach)
    since = {s: frontier if anew or s in news else state.since.get(s, frontier) for s in heard if s > reach}
    since = _bounded({s: then for s, then in since.items() if frontier - then < 2}, heard)
    unseen = _unseen(news, come, length, reach)
    counts = Counter(state.counts) + _by_bucket(far, length)
    counts.update({bucket: count for bucket, _, count in unseen})
    alone = state.frontier == -math.inf or state.first is not None
    first = _first(None if anew else state.first, near, heard, reach) if alone else None
    kept = {s: c for s, c in heard.items() if s in since or (s <= reach and (first is not None or s >= frontier - 1))}
    held = _of_buckets([*still, *far], length, since)
    events = joined_revisions([state.held_revisions, events, *([state.first_revisions] if anew else [])])
    due, later = _cut_revisions(events, length, reach, since)
    begun = None if first is None else joined_revisions([None if anew else state.first_revisions, due])
    return Sifted(
        state=Ahead(frontier, kept, since, {s: counts[s] for s in since}, held, first, later, begun),
        newest=max((stats.greatest for s, stats in heard.items() if s <= reach), default=-math.inf),
        taken=[*near, *ready],
        held=concat(far) if far else None,
        unseen=[(stats, count) for _, stats, count in unseen],
        released=sum(state.counts.get(s, 0) for s in state.since if s <= reach),
        anew=anew,
        revisions=due,
    )


def _in_step(state: Ahead, news: TimeBuckets, come: list[RowBlock], events: Revisions | None) -> Sifted:
    """As nearly always: nothing runs ahead, nothing is held, and the frontier stays."""
    frontier = state.frontier
    heard = {s: stats for s, stats in joined([state.heard, news]).items() if frontier - 1 <= s}
    newest = max(*(stats.greatest for stats in heard.values()), *(stats.greatest for stats in news.values()))
    return Sifted(replace(state, heard=heard), newest, come, None, [], 0, False, events)


def _by_bucket(rows: list[RowBlock], length: float) -> Counter[float]:
    return Counter(s for each in rows for s in buckets_of(each.arrived, length).tolist())


def _cut(rows: list[RowBlock], length: float, reach: float) -> tuple[list[RowBlock], list[RowBlock]]:
    """The rows up to the bucket `reach`, and those beyond."""
    near: list[RowBlock] = []
    far: list[RowBlock] = []
    for each in rows:
        taken = buckets_of(each.arrived, length) <= reach
        for part, where in ((near, taken), (far, ~taken)):
            if where.any():
                part.append(each if where.all() else each.part(np.flatnonzero(where)))
    return near, far


def _cut_revisions(
    events: Revisions | None, length: float, reach: float, since: Mapping[float, float]
) -> tuple[Revisions | None, Revisions | None]:
    """Those whose readings are taken, and those whose readings are held; the others leave with theirs."""
    if events is None:
        return None, None
    at = buckets_of(events.time, length)
    held = np.isin(at, list(since))
    held[np.flatnonzero(held)[MOST:]] = False
    return some_revisions(events, at <= reach), some_revisions(events, held)


def _of_buckets(rows: list[RowBlock], length: float, since: Mapping[float, float]) -> RowBlock | None:
    """The rows of the buckets that are held; None if there are none."""
    if not rows:
        return None
    whole = concat(rows)
    stay = np.isin(buckets_of(whole.arrived, length), list(since))
    return (whole if stay.all() else whole.part(np.flatnonzero(stay))) if stay.any() else None


def _bounded(since: dict[float, float], heard: TimeBuckets) -> dict[float, float]:
    """Without the farthest buckets, where too many rows are held."""
    out, total = {}, 0
    for s in sorted(since):
        total += heard[s].rows
        if total <= MOST:
            out[s] = since[s]
    return out


def _unseen(
    news: TimeBuckets, come: list[RowBlock], length: float, reach: float
) -> list[tuple[float, BucketStatistics, int]]:
    """Rows beyond that were screened: they have come, but did not travel. Bucket, what was heard there, how many."""
    beyond = {s: stats for s, stats in news.items() if s > reach}
    if not beyond:
        return []
    travelled = _by_bucket(come, length)
    return [(s, stats, stats.rows - travelled[s]) for s, stats in beyond.items() if stats.rows > travelled[s]]


def _first(first: RowBlock | None, near: list[RowBlock], heard: TimeBuckets, reach: float) -> RowBlock | None:
    """All rows that were taken so far, if they are of one id, and few."""
    ids = np.unique(np.concatenate([stats.ids for s, stats in heard.items() if s <= reach]))
    rows = [*([] if first is None else [first]), *near]
    few = sum(len(each.arrived) for each in rows) <= FIRST
    return concat(rows) if len(ids) == 1 and few and rows else None


def reports(found: Sifted, plan: Plan, *, end: bool) -> list[RejectedRow]:
    """The rows that are held from now on, as JSON, with the reason. At the `end` of input no id can follow any more."""
    if not found.newly_held:
        return []
    query, limit = plan.query, length_text(plan.ahead, plan.kind)
    why = f"its time runs ahead of its group by more than {limit}"
    reason = f"{why}, and no other id followed" if end else f"{HELD}{why}; it enters if other ids follow"
    seen = [] if found.held is None else [as_json(found.held.row(i, query)) for i in range(len(found.held.arrived))]
    out = [RejectedRow(row, reason) for row in seen]
    for stats, count in found.unseen:
        times = [time_text(each, plan.kind) for each in (stats.least, stats.greatest)]
        shown = as_json({query.time: times, "rows": count})
        out.append(RejectedRow(shown, f"{reason} ({count} rows that others would cover)"))
    return out
