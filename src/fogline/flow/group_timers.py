"""When does time alone change a group, and when is there nothing left of it to remember?"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.engine.current import LatestGroup
from fogline.flow.cache import LoadedGroup
from fogline.flow.plan import Plan
from fogline.flow.watermark import later, reached, timer
from fogline.query import duration


class GroupTimers:
    """The timers of the groups of a plan; `longest`: for how long readings are kept that lie with their group."""

    def __init__(self, plan: Plan, longest: float) -> None:
        self.plan, self.longest = plan, longest

    def next(self, then: LoadedGroup, watermark: int | None) -> int | None:
        """When time alone changes something: the next expiry, a waiting row that becomes due, or the group's end."""
        plan, instants = self.plan, [slot.first for slot in then.slots]
        if then.empty and plan.query.last is None:
            instants.append(self._end(then))
        elif plan.idle is None:
            return None  # the others do not move it
        elif plan.query.last is None:
            if isinstance(then.group, LatestGroup):
                then.group.live.look_at_expiries()
            instants.append(then.group.live.next_expiry)
        if then.waiting is not None:
            instants.append(float(then.waiting.arrived.min()))
        soon = timer(plan.kind, later(min(instants, default=np.inf), plan.idle or 0.0))
        if soon is not None and watermark is not None and not plan.moves_idle:
            return max(soon, watermark + 1)  # it fires when the watermark moves again, by a query that moves groups on
        return soon

    def outlived(self, loaded: LoadedGroup, clock: float, watermark: int | None) -> bool:
        """Whether there is nothing to remember of an empty group: no row was ever taken, or that was long ago."""
        if watermark is None:
            return not np.isfinite(clock)
        passed = reached(self.plan.kind, watermark) - (self.plan.idle or 0.0)
        return self.plan.moves_idle and passed >= self._end(loaded)

    def of(self, clock: float, newest: float, first: float) -> int | None:
        """When time alone changes a group of which nothing is kept but live rows: `first` of these expires (inf: there
        are none), `newest` arrived last."""
        plan = self.plan
        if not np.isfinite(first):
            first = self._gone(clock, newest)
        elif plan.idle is None:
            return None
        return timer(plan.kind, later(first, plan.idle or 0.0))

    def _end(self, empty: LoadedGroup) -> float:
        """Where the watermark must be for an empty group to be forgotten."""
        kept = 0.0 if empty.sensors is None else self.longest
        marked = self.plan.remember_removed if isinstance(empty.group, LatestGroup) else 0.0
        return self._gone(empty.clock, empty.group.newest, max(kept, marked))

    def _gone(self, clock: float, newest: float, kept: float = 0.0) -> float:
        """The same of a group that is not kept for longer than that."""
        life: Any = self.plan.query.lifetime
        if life is None:
            life = clock - newest if np.isfinite(newest) else 0.0
        elif isinstance(life, str):
            life = duration(life)
        return clock + self.plan.lateness + max(float(life), kept)
