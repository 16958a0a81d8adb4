"""Who keeps the group of a key, where a stream has several queries?

A keeper of its query, which sees the group's own key; what it reports gets the name of the query. With one query there
is one keeper, and nothing is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fogline.flow.cache import LoadedGroup
from fogline.flow.journal import Journal
from fogline.flow.keeper import Keeper, Outcome
from fogline.flow.named import Naming
from fogline.flow.parcel import Parcel
from fogline.flow.plan import Plan
from fogline.flow.plans import AnyPlan, Plans, shelf_plan, split_key
from fogline.rows.names import Key


class Keepers:
    """The keepers of all queries of a stream; each is made when its first group is met."""

    def __init__(self, plan: AnyPlan) -> None:
        self.plan = plan
        self.known: dict[str | None, Keeper] = {}
        self.naming = Naming(plan) if isinstance(plan, Plans) else None

    def keeper(self, name: str | None, plan: Plan) -> Keeper:
        """The keeper of one query's groups."""
        if name not in self.known:
            self.known[name] = Keeper(plan)
        return self.known[name]

    def of_shelf(self, shelf: int) -> Keeper:
        """The keeper of the groups on a shelf."""
        return self.keeper(*shelf_plan(self.plan, shelf))

    def named(self, shelf: int, report: Journal) -> Journal:
        """What the keeper of a shelf reports, with the name of its query, if it has one."""
        name, _ = shelf_plan(self.plan, shelf)
        return report if name is None or self.naming is None else self.naming.named(name, report)

    def take(self, key: Key, state: bytes | LoadedGroup | None, parcels: Sequence[Parcel] = (), **how: Any) -> Outcome:
        """As `Keeper.take`, for the group of any query."""
        name, plan, own = split_key(self.plan, key)
        outcome = self.keeper(name, plan).take(own, state, parcels, **how)
        if name is None or self.naming is None:
            return outcome
        return replace(outcome, journal=self.naming.named(name, outcome.journal))
