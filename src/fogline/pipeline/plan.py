"""What must every worker know before it sees a row?

The query, the types of the stream, how far the clock is held back and how to open the repository: one small frozen
value that travels with the code. Everything else comes with the rows or from the state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.errors import QueryError
from fogline.impute.chain import Chain, chain_of
from fogline.impute.own import ImputeFunction, as_imputer
from fogline.impute.protocol import Imputer
from fogline.pipeline.watermark import AUTO, ahead_of, idle_of, lateness_of
from fogline.query import Query, must_be_query
from fogline.repository.repository import Repository
from fogline.rows.cells import REAL, is_text
from fogline.rows.clock import CLOCKS, INTEGER, STAMP, meant_by
from fogline.rows.kept import Kept, kept_types, singles
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader, life_of, remembered
from fogline.rows.table import usual_schema

Every = Literal["tick", "batch"]
BUCKETS = 8  # of sensors, and shards of groups, at least

# Fields of a plan that are described in words of their own, or that state does not depend on.
_OTHERWISE = (
    "formers",
    "query",
    "kind",
    "id",
    "by",
    "opened",
    "imputer",
    "buckets",
    "idle",
    "moves_idle",
    "hindsight",
    "versions",
    "kept",
    "explain",
    "views",
    "max_state",
)


class Former(NamedTuple):
    """A repository that a run had before."""

    digest: bytes  # of the plan with it
    opened: Callable[[], Repository] | None  # gives it; None: there was none


@dataclass(frozen=True)
class Plan:
    """How one stream is watched."""

    query: Query
    kind: pa.DataType  # of the clock: int64, float64 or timestamp('us', zone)
    id: pa.DataType
    by: tuple[pa.DataType, ...]
    every: Every = "tick"
    lateness: float = 0.0  # in units of the clock: microseconds where that is a timestamp
    opened: Callable[[], Repository] | None = None  # gives the repository, if there is one
    imputer: Imputer | ImputeFunction | None = None  # the user's own, asked first
    ahead: float = np.inf  # how far a row may run ahead of its group, in units of the clock; inf: as far as it likes
    idle: float | None = None  # how far the clock of a silent group stays behind that of the query; None: it stands
    moves_idle: bool = True  # whether silent groups are moved on at all: not while old rows are read
    hindsight: bool | None = None  # whether gaps are revised by later readings; None: where that was learnt
    buckets: int = BUCKETS  # of sensors, and shards of groups: so many work in parallel; as long as a checkpoint lives
    versions: pa.DataType | None = None  # what versions are: whole numbers or timestamps; None: there are none
    kept: Kept = ()  # names and types of what else comes along with a row
    formers: tuple[Former, ...] = ()  # the repositories that the run had before this one, the first one first
    explain: bool = False  # whether changes have the column `why`
    views: bool = False  # and whether near rows and cells to measure next are reported as well
    max_state: int | None = None  # bytes that a group may take; a large one is reported (`pipeline.limits`)

    @cached_property
    def formers_by_digest(self) -> dict[bytes, Plan]:
        """The plans that the run had before this one: some state may still be theirs."""
        before = enumerate(self.formers)
        return {each.digest: replace(self, opened=each.opened, formers=self.formers[:k]) for k, each in before}

    @property
    def begun(self) -> Plan:
        """The plan that the run was begun with."""
        return self.formers_by_digest[self.formers[0].digest] if self.formers else self

    @cached_property
    def described(self) -> dict[str, str]:
        """All that state depends on, in words: state of a plan that is described otherwise is refused."""
        words: dict[str, Any] = dict(self.query.to_dict())
        words |= {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _OTHERWISE}
        words |= {"clock": str(self.kind), "type of id": str(self.id)}
        words |= {"types of by": [str(each) for each in self.by]} if self.by else {}
        words |= {"types of keep": [str(kind) for _, kind in self.kept]} if self.kept else {}
        if self.repository is not None:
            words["repository"] = self.repository.fingerprint
        if self.imputer is not None:
            words["imputer"] = as_imputer(self.imputer, self.query).name
        if self.chain is not None and self.chain.sensors is not None:
            words["hindsight"] = self.chain.hindsight
        if self.versions is not None:
            words["versions"] = str(self.versions)
        if self.deals or self.by:
            words["buckets"] = self.buckets
        return {name: each if isinstance(each, str) else json.dumps(each) for name, each in words.items()}

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that are the same for the same description only, and after the same repositories: a run that comes
        back to one of them goes on with no state of that time as if it had never left."""
        words = json.dumps(self.described, sort_keys=True).encode()
        return blake2b(words + b"".join(each.digest for each in self.formers), digest_size=16).digest()

    @cached_property
    def repository(self) -> Repository | None:
        """What missing values may be."""
        return None if self.opened is None else self.opened()

    @cached_property
    def chain(self) -> Chain | None:
        """The imputers in the order in which they are asked."""
        own = None if self.imputer is None else as_imputer(self.imputer, self.query)
        return chain_of(self.repository, self.query, own, hindsight=self.hindsight)

    @cached_property
    def signs(self) -> Floats:
        """(d,) multiplied in, larger is better everywhere."""
        return np.array(self.query.signs)

    @property
    def width(self) -> int:
        """How many numbers imputers keep of a row."""
        return 0 if self.chain is None else self.chain.width

    @property
    def remembers(self) -> bool:
        """Whether rows must know what their sensors have read before."""
        return self.chain is not None and self.chain.sensors is not None

    @property
    def latest(self) -> bool:
        """Whether only the newest row of each id counts."""
        return self.query.latest

    @property
    def shards(self) -> int:
        """On how many shards groups lie: the only group of a query without groups lies on one."""
        return self.buckets if self.by else 1

    @property
    def at_end(self) -> bool:
        """Whether all of a batch is there when its answer counts, and no answer before it."""
        return self.every == "batch" and self.lateness == 0

    @property
    def scores(self) -> bool:
        """Whether known values are hidden now and then, to keep score; of imputers of the user's own it is not kept."""
        return self.repository is not None and self.imputer is None

    @property
    def settles(self) -> bool:
        """Whether gaps are imputed when rows are due, where their group is.

        Others of their sensors may come before; or a row may carry values over from the one that it replaces.
        """
        return bool(self.query.carry) or (self.remembers and self.lateness > 0)

    @property
    def deals(self) -> bool:
        """Whether rows get their contexts as they come, in the buckets of their sensors."""
        return self.remembers and not self.settles

    @cached_property
    def remember_removed(self) -> float:
        """How long an id that was removed is known to be so, in units of the clock."""
        return remembered(self.query, self.kind)

    @property
    def kinds(self) -> Kinds:
        """The types in which changes are reported."""
        return Kinds(self.kind, self.id, self.by, kept=self.kept)

    @property
    def extra(self) -> tuple[str, ...]:
        """Columns beside id, time and attributes that the rules ask for."""
        asked = {self.query.id, self.query.time, *self.query.names}
        return () if self.repository is None else tuple(n for n in self.repository.determinants if n not in asked)

    def reader(self) -> Reader:
        """A reader of this stream's rows, whose clock is settled."""
        return Reader(self.query, self.kind)

    def columns(self, there: list[str]) -> list[str]:
        """The columns of a stream that are read, of those that are there: the others need not travel.

        An imputer of the user's own may ask for any of them.
        """
        query = self.query
        if self.imputer is not None:
            return there
        asked = {*query.columns, *self.extra}
        return [name for name in there if name in asked]

    def following(self, follows: bool) -> Plan:
        """The same, where silent groups are moved on, or are not."""
        return replace(self, moves_idle=follows)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: self.__dict__[each.name] for each in fields(self)}  # what was worked out stays at home


def make_plan(
    query: Query,
    schema: pa.Schema,
    *,
    every: str = "tick",
    lateness: Any = 0,
    opened: Callable[[], Repository] | None = None,
    imputer: Imputer | ImputeFunction | None = None,
    buckets: int = BUCKETS,
    ahead: Any = AUTO,
    idle: Any = None,
    moves_idle: bool = True,
    clock: str | None = None,
    hindsight: bool | None = None,
    versions: str | None = None,
    formers: Sequence[Callable[[], Repository] | None] = (),
    explain: bool = False,
    views: bool = False,
    max_state: int | None = None,
) -> Plan:
    """A plan for a stream of this schema, if the query, the repository and the schema fit each other.

    `hindsight`: whether gaps are revised by later readings of their sensors; None: where that was learnt.
    `clock`: "number" or "timestamp", where times are texts and neither lifetime nor lateness shows what they mean.
    `versions`: the same of versions that are texts; without, they are numbers.
    `formers`: what gave the repositories that the run had before, the first one first.
    `explain`: changes have the column `why`; `views`: near rows and cells to measure next are reported, too.
    `max_state`: bytes that a group may take.
    """
    must_be_query(query, "what a run answers")
    if every not in ("tick", "batch"):
        raise QueryError(
            f"every is {every!r}; it may be 'tick' (all answers) or 'batch' (the answer after each batch)."
        )
    if not isinstance(buckets, int) or buckets < 1:
        raise QueryError(f"buckets is {buckets!r}; sensors are dealt into a whole number of them, at least 1.")
    query = query.keeping(singles(schema))
    schema = usual_schema(schema, query.columns)
    kind = _kind_of(query, Reader(query).read(_no_rows(schema), Kinds()).kinds.time, lateness, clock)
    life = life_of(query, kind)  # an error if the two do not fit
    held, silent = lateness_of(lateness, query, kind), idle_of(idle, query, kind)
    if kind == INTEGER and silent is not None:
        silent = float(np.ceil(silent))  # it may differ from run to run, and the clock may not
    if kind == INTEGER and not (held.is_integer() and (life.is_integer() or np.isinf(life))):
        kind = REAL
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp("us", "UTC")
    types = tuple(schema.field(name).type for name in query.by)
    shown = None if query.version is None else _version_kind(schema.field(query.version).type, versions)
    how = opened, imputer, ahead_of(ahead, query, kind), silent, moves_idle, hindsight, buckets, shown
    answers: Every = "tick" if every == "tick" else "batch"
    ids = schema.field(query.id).type
    plan = Plan(
        query, kind, ids, types, answers, held, *how, kept_types(query, schema), explain=explain, views=views,
        max_state=max_state,
    )  # fmt: skip
    _ = plan.chain  # imputers refuse what does not fit
    return with_formers(plan, formers)


def with_formers(plan: Plan, formers: Sequence[Callable[[], Repository] | None]) -> Plan:
    """The plan of a run that had other repositories before, the first one first."""
    before: tuple[Former, ...] = ()
    for each in formers:
        before = (*before, Former(replace(plan, opened=each, formers=before).digest, each))
    return replace(plan, formers=before) if before else plan


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    readable = [field for field in schema if not pa.types.is_union(field.type)]
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in readable], schema=pa.schema(readable))


def _version_kind(kind: pa.DataType, texts: str | None) -> pa.DataType:
    """What versions are, by the type of their column; of texts, as stated: timestamps, or else whole numbers."""
    stamps = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or (is_text(kind) and texts == "timestamp")
    return STAMP if stamps else INTEGER


def _kind_of(query: Query, shown: pa.DataType | None, lateness: Any, clock: str | None) -> pa.DataType:
    """What the clock shows: what its column does or, where that holds texts, what the rest takes them for."""
    if clock not in (None, *CLOCKS):
        raise QueryError(f"clock is {clock!r}; it may be 'number' or 'timestamp'.")
    if shown is None:
        meant = clock or meant_by(query, lateness)
        if meant is None:
            raise QueryError(
                f"the times in {query.time!r} are texts, and nothing shows whether they mean numbers or timestamps; "
                "state it: clock='number' or clock='timestamp' (--clock on the command line)."
            )
        return CLOCKS[meant]
    if clock is not None and (clock == "timestamp") != pa.types.is_timestamp(shown):
        raise QueryError(f"clock is {clock!r}, but the times in {query.time!r} are {shown}; leave it out.")
    return shown
