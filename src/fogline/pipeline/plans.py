"""How are the queries of a stream answered together?

`Plans` holds a plan for each query, by name; a query alone has none. Each query has shards of groups, timers and
changes of its own, and reports what it would report alone.

What comes before the groups is shared. Rows are read once, and each column is decoded once (`rows.reader`). Queries
that differ in alpha alone keep the same rows when these are pruned: they have one pruning, one memory of sensors and
one imputation for all (`SharedPlan`). So have those that differ in their lifetime as well, where every row of a query
lives equally long and the clock counts exactly: rows that one of them may drop, the others may drop, too. Where only
the end of a batch is reported that is the one with the longest life (what has expired at the end for it, has for all);
else that with the shortest (what is covered all its life by others that live as briefly, is covered by those that live
longer). With hindsight gaps stay open for as long as their rows live, so there queries that share have one lifetime.

`ahead` belongs to the stream: where each query would have one of its own, the longest holds for all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa

from fogline.errors import FoglineError, QueryError
from fogline.pipeline.plan import Plan, make_plan, with_formers
from fogline.pipeline.watermark import AUTO
from fogline.queries import Asked, Queries
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.rows.cells import REAL
from fogline.rows.kept import singles
from fogline.rows.reader import life_of


class NamedPlan(NamedTuple):
    """A query of a stream."""

    name: str | None  # None: it is the only one, and has no name
    plan: Plan


@dataclass(frozen=True)
class SharedPlan:
    """Queries that share all stages before their groups."""

    plan: Plan  # of those stages: that of one of them
    queries: tuple[NamedPlan, ...]
    first_shards: tuple[int, ...]  # of each query

    @cached_property
    def lives_differ(self) -> bool:
        """Whether rows live longer for some of the queries than for others."""
        return len({plan.query.longest_life for _, plan in self.queries}) > 1


@dataclass(frozen=True)
class Plans:
    """Plans of the queries over one stream."""

    named: tuple[NamedPlan, ...]

    @classmethod
    def alone(cls, plan: Plan) -> Plans:
        """Of one query, which has no name."""
        return cls((NamedPlan(None, plan),))

    @property
    def have_names(self) -> bool:
        """Whether queries have names: what is reported has the column `query` then."""
        return self.named[0].name is not None

    @cached_property
    def shared(self) -> tuple[SharedPlan, ...]:
        """The queries by the stages that they share, in the order in which their first ones were given."""
        found: dict[str, list[int]] = {}
        for k, (_, plan) in enumerate(self.named):
            found.setdefault(_shared_by(plan), []).append(k)
        return tuple(
            SharedPlan(
                _leader([self.named[k].plan for k in each]),
                tuple(self.named[k] for k in each),
                tuple(self.first_shards[k] for k in each),
            )
            for each in found.values()
        )

    @cached_property
    def shared_by_name(self) -> dict[str | None, SharedPlan]:
        """By the name of a query."""
        return {name: shared for shared in self.shared for name, _ in shared.queries}

    @cached_property
    def first_shards(self) -> tuple[int, ...]:
        """The first shard of each query; the last number is that of all shards."""
        ends = [0]
        for _, plan in self.named:
            ends.append(ends[-1] + plan.shards)
        return tuple(ends)

    @property
    def shards(self) -> int:
        """How many shards of groups there are."""
        return self.first_shards[-1]

    def of_shard(self, shard: int) -> NamedPlan:
        """The query whose groups lie on a shard."""
        return next(each for each, end in zip(self.named, self.first_shards[1:], strict=True) if shard < end)

    @property
    def all_buckets(self) -> int:
        """How many buckets of sensors there are."""
        return len(self.shared) * self.buckets

    def of_bucket(self, bucket: int) -> tuple[int, int]:
        """Whose sensors lie in a bucket: the number of the shared plan, and which of its buckets it is."""
        return divmod(bucket, self.buckets)

    @cached_property
    def described(self) -> dict[str, str]:
        """All that state depends on, in words."""
        if not self.have_names:
            return self.first.described
        return {f"{word} of {name}": text for name, plan in self.named for word, text in plan.described.items()}

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that are the same for the same description only."""
        if not self.have_names:
            return self.first.digest
        return blake2b(json.dumps(self.described, sort_keys=True).encode(), digest_size=16).digest()

    @property
    def begun(self) -> Plans:
        """The plans that the run was begun with."""
        return self._each(lambda plan: plan.begun)

    @property
    def asked(self) -> Asked:
        """What is asked, with the names of all columns that are kept."""
        if not self.have_names:
            return self.first.query
        return Queries({str(name): plan.query for name, plan in self.named})

    @property
    def first(self) -> Plan:
        """One of them, for what they all have."""
        return self.named[0].plan

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
    def deals(self) -> bool:
        """Whether rows get their contexts as they come, in the buckets of their sensors."""
        return self.first.deals

    @property
    def buckets(self) -> int:
        """Into how many buckets sensors are dealt, for each shared plan."""
        return self.first.buckets

    def columns(self, there: list[str]) -> list[str]:
        """The columns of a stream that are read, of those that are there."""
        asked = {name for _, plan in self.named for name in plan.columns(there)}
        return [name for name in there if name in asked]

    def following(self, follows: bool) -> Plans:
        """The same, where silent groups are moved on, or are not."""
        return self._each(lambda plan: plan.following(follows))

    def _each(self, change: Callable[[Plan], Plan]) -> Plans:
        return Plans(tuple(NamedPlan(name, change(plan)) for name, plan in self.named))

    def __getstate__(self) -> dict[str, Any]:
        return {"named": self.named}  # what was worked out stays at home


def plans_of(asked: Asked, schema: pa.Schema, **how: Any) -> Plans:
    """The plans for a stream of this schema; `how`: as of `make_plan`."""
    if isinstance(asked, Query):
        return Plans.alone(make_plan(asked, schema, **how))
    return make_plans(asked, schema, **how)


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
    for name, query in Queries(queries).keeping(singles(schema)).items():
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
    made = {name: with_formers(replace(plan, kind=kind, ahead=longest), formers) for name, plan in found.items()}
    plans = Plans(tuple(NamedPlan(name, plan) for name, plan in made.items()))
    if len({plan.settles for _, plan in plans.named}) > 1:
        carrying = next(name for name, plan in plans.named if plan.query.carry)
        raise QueryError(
            f"query {carrying!r} carries values over (carry) and others do not. With a repository that remembers "
            "sensors all of them must, or none: let all carry, or run them apart."
        )
    return plans


def _shared_by(plan: Plan) -> str:
    """The same text for plans that share all stages before their groups."""
    query, words = plan.query, plan.query.to_dict()
    del words["alpha"]
    words["attributes"] = list(words["attributes"].items())  # in their order
    if _lives_may_differ(plan):
        words["lifetime"] = "any"
    return json.dumps([words, plan.idle is None, query.longest_life is None], sort_keys=True, default=str)


def _lives_may_differ(plan: Plan) -> bool:
    """Whether rows of one life drop those that rows of another life would."""
    counts_exactly = plan.kind != REAL
    revises = plan.chain is not None and plan.chain.hindsight
    return plan.query.longest_life is not None and not plan.query.latest and counts_exactly and not revises


def _leader(plans: list[Plan]) -> Plan:
    """The plan by which the others' rows may be dropped as well."""
    lives = [life_of(plan.query, plan.kind) for plan in plans]
    chosen = max(lives) if plans[0].at_end else min(lives)
    return plans[lives.index(chosen)]
