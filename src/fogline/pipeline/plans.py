"""How are several queries answered over one stream?

`Plans` holds a plan for each, by name. A group's key begins with the name of its query, so that each query has states,
timers and changes of its own, and a query reports what it would report alone.

What comes before the groups is shared. Rows are read once, and each column is decoded once (`rows.reader`). Queries
that differ in alpha alone see the same rows survive: they are *kin*, and have one screening, one memory of sensors and
one imputation for all. So are those that differ in their lifetime as well, where every row of a query lives equally
long and the clock counts exactly: what one kin may drop, the rest may, if it is chosen well. Where only the end of a
batch is reported that is the one with the longest life (what has expired at the end for it, has for all); else that
with the shortest (what is covered all its life by others that live as briefly, is covered by those that live longer).
With hindsight gaps stay open for as long as their rows live, so there kin have one lifetime.

`ahead` belongs to the stream: where each query would have one of its own, the longest holds for all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from fogline.errors import FoglineError, QueryError
from fogline.pipeline.exchange import Parcel, from_crate
from fogline.pipeline.names import refuse_taken
from fogline.pipeline.plan import Plan, make_plan, with_formers
from fogline.pipeline.watermark import AUTO
from fogline.queries import OPENS, Asked, Queries
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.rows.cells import REAL
from fogline.rows.names import Key
from fogline.rows.reader import lifetime_of


@dataclass(frozen=True)
class Kin:
    """Queries that share all stages before their groups."""

    plan: Plan  # of those stages: that of one of them
    members: tuple[tuple[str, Plan], ...] = ()  # by name; empty: the one query of a stream, which has none
    numbers: tuple[int, ...] = (0,)  # of the members among all queries

    @cached_property
    def lives_differ(self) -> bool:
        """Whether rows live longer for some of the queries than for others."""
        return len({plan.query.lifetime for _, plan in self.members}) > 1

    def keys(self, key: Key) -> list[Key]:
        """The keys of a group, one for each query."""
        return [f"{name}{key}" for name, _ in self.members] if self.members else [key]


@dataclass(frozen=True)
class Plans:
    """Plans of several queries over one stream, by their names."""

    named: tuple[tuple[str, Plan], ...]

    @cached_property
    def kin(self) -> tuple[Kin, ...]:
        """The queries in kin, in the order in which their first ones were given."""
        found: dict[str, list[tuple[str, Plan]]] = {}
        for name, plan in self.named:
            found.setdefault(_kinship(plan), []).append((name, plan))
        order = {name: k for k, (name, _) in enumerate(self.named)}
        return tuple(
            Kin(_leader([plan for _, plan in each]), tuple(each), tuple(order[name] for name, _ in each))
            for each in found.values()
        )

    @cached_property
    def plans(self) -> dict[str, Plan]:
        """The plans by name."""
        return dict(self.named)

    @cached_property
    def kin_of(self) -> dict[str, Kin]:
        """By the name of a query."""
        return {name: kin for kin in self.kin for name, _ in kin.members}

    @cached_property
    def described(self) -> dict[str, str]:
        """All that state depends on, in words."""
        return {f"{word} of {name}": text for name, plan in self.named for word, text in plan.described.items()}

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that are the same for the same description only."""
        return blake2b(json.dumps(self.described, sort_keys=True).encode(), digest_size=16).digest()

    @property
    def begun(self) -> Plans:
        """The plans that the run was begun with."""
        return Plans(tuple((name, plan.begun) for name, plan in self.named))

    @property
    def first(self) -> Plan:
        """One of them, for what they all have."""
        return self.named[0][1]

    @property
    def kind(self) -> pa.DataType:
        """What the clock shows."""
        return self.first.kind

    @property
    def ahead(self) -> float:
        """How far a row may run ahead of its group."""
        return self.first.ahead

    @property
    def lateness(self) -> float:
        """How far clocks are held back."""
        return self.first.lateness

    @property
    def moves_idle(self) -> bool:
        """Whether silent groups are moved on at all."""
        return self.first.moves_idle

    @property
    def latest(self) -> bool:
        """Whether only the newest row of each id counts, for any of the queries."""
        return any(plan.latest for _, plan in self.named)

    @property
    def grouped(self) -> bool:
        """Whether there may be many groups."""
        return True

    @property
    def remembers(self) -> bool:
        """Whether rows must know what their sensors have read before."""
        return self.first.remembers

    @property
    def settles(self) -> bool:
        """Whether gaps are imputed when rows are due."""
        return self.first.settles

    @property
    def deals(self) -> bool:
        """Whether rows get their contexts as they come, in the buckets of their sensors."""
        return self.first.deals

    @property
    def buckets(self) -> int:
        """Into how many the sensors of each kin are dealt."""
        return self.first.buckets

    @property
    def all_buckets(self) -> int:
        """How many buckets there are."""
        return len(self.kin) * self.buckets

    @property
    def all_shelves(self) -> int:
        """How many shelves of groups there are."""
        return len(self.named) * self.buckets

    def columns(self, there: list[str]) -> list[str]:
        """The columns of a stream that are read, of those that are there."""
        asked = {name for _, plan in self.named for name in plan.columns(there)}
        return [name for name in there if name in asked]

    def following(self, follows: bool) -> Plans:
        """The same, where silent groups are moved on, or are not."""
        return Plans(tuple((name, plan.following(follows)) for name, plan in self.named))

    def __getstate__(self) -> dict[str, Any]:
        return {"named": self.named}  # what was worked out stays at home


AnyPlan = Plan | Plans


def kin_of(plan: AnyPlan) -> tuple[Kin, ...]:
    """The queries of a stream in kin."""
    return plan.kin if isinstance(plan, Plans) else (Kin(plan),)


def kin_of_bucket(plan: AnyPlan, bucket: int) -> tuple[int, int]:
    """Whose sensors lie in a bucket, by their number among the kin, and which of theirs it is."""
    return divmod(bucket, plan.buckets) if isinstance(plan, Plans) else (0, bucket)


def split_key(plan: AnyPlan, key: Key) -> tuple[str | None, Plan, Key]:
    """The name of the query whose group this is (None: it has none), its plan, and the group's own key."""
    if not isinstance(plan, Plans):
        return None, plan, key
    at = key.index(OPENS)
    return key[:at], plan.plans[key[:at]], key[at:]


def shelf_plan(plan: AnyPlan, shelf: int) -> tuple[str | None, Plan]:
    """The name of the query whose groups lie on a shelf (None: it has none), and its plan."""
    return plan.named[shelf // plan.buckets] if isinstance(plan, Plans) else (None, plan)


def parcel_of(plan: AnyPlan, key: Key, packed: bytes) -> Parcel:
    """A parcel for the group of this key."""
    name, own, _ = split_key(plan, key)
    return _retimed(plan, name, own, Parcel.from_bytes(packed, own))


def parcels_of(plan: AnyPlan, shelf: int, crate: bytes) -> list[tuple[Key, Parcel]]:
    """The parcels of a crate for this shelf, by the groups' own keys."""
    name, own = shelf_plan(plan, shelf)
    return [(key, _retimed(plan, name, own, parcel)) for key, parcel in from_crate(own, crate)]


def _retimed(plan: AnyPlan, name: str | None, own: Plan, parcel: Parcel) -> Parcel:
    """A parcel of kin with the expiries that its rows have for one of them."""
    if name is None or not isinstance(plan, Plans) or not plan.kin_of[name].lives_differ:
        return parcel
    rows = parcel.rows
    return replace(parcel, rows=rows._replace(expires=rows.arrived + lifetime_of(own.query, own.kind)))


def plan_of(asked: Asked, schema: pa.Schema, **how: Any) -> AnyPlan:
    """The plan, or the plans, for a stream of this schema; `how`: as of `make_plan`."""
    if how.get("explain"):
        refuse_taken(asked)
    return make_plan(asked, schema, **how) if isinstance(asked, Query) else make_plans(asked, schema, **how)


def make_plans(
    queries: Mapping[str, Query],
    schema: pa.Schema,
    *,
    ahead: Any = AUTO,
    formers: Sequence[Callable[[], Repository] | None] = (),
    **how: Any,
) -> Plans:
    """Plans for a stream of this schema, if the queries fit it and each other; `how`: as of `make_plan`."""
    found = {}
    for name, query in Queries(queries).items():
        try:
            found[name] = make_plan(query, schema, ahead=ahead, **how)
        except FoglineError as error:
            raise type(error)(f"query {name!r}: {error}") from None
    kinds = {str(plan.kind): plan.kind for plan in found.values()}
    kind = next(iter(kinds.values())) if len(kinds) == 1 else REAL
    if any(pa.types.is_timestamp(each) for each in kinds.values()) and len(kinds) > 1:
        raise QueryError(
            "the queries do not agree on what times mean: "
            f"{', '.join(f'{name} takes them for {plan.kind}' for name, plan in found.items())}; "
            "give all of them lifetimes of one kind, or state clock."
        )
    longest = max(plan.ahead for plan in found.values())
    plans = Plans(
        tuple((name, with_formers(replace(plan, kind=kind, ahead=longest), formers)) for name, plan in found.items())
    )
    if len({plan.settles for _, plan in plans.named}) > 1:
        carrying = next(name for name, plan in plans.named if plan.query.carry)
        raise QueryError(
            f"query {carrying!r} carries values over (carry), and others do not, while the repository remembers "
            "sensors: what they have read is kept in different places then; let all carry, or run them apart."
        )
    return plans


def _kinship(plan: Plan) -> str:
    """The same text for plans that share all stages before their groups."""
    query, words = plan.query, plan.query.to_dict()
    del words["alpha"]
    words["attributes"] = list(words["attributes"].items())  # in their order
    if _lives_may_differ(plan):
        words["lifetime"] = "any"
    return json.dumps([words, plan.idle is None, query.lifetime is None], sort_keys=True, default=str)


def _lives_may_differ(plan: Plan) -> bool:
    """Whether rows of one life drop those that rows of another life would."""
    counts_exactly = plan.kind != REAL
    revises = plan.chain is not None and plan.chain.hindsight
    return plan.query.lifetime is not None and not plan.query.latest and counts_exactly and not revises


def _leader(plans: list[Plan]) -> Plan:
    """The plan by which the others' rows may be dropped as well."""
    if plans[0].query.lifetime is None:
        return plans[0]
    lives = [lifetime_of(plan.query, plan.kind) for plan in plans]
    chosen = max(lives) if plans[0].at_end else min(lives)
    return plans[lives.index(chosen)]
