"""What is asked, and in which words do the rooms talk to each other?

`Query` is the question, validated once; the rest are small frozen values. No module of the package is below this one
but `errors` and `documents`, so everything here can be read without knowing how any of it is computed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from fogline.documents import read_document
from fogline.errors import QueryError, RuleError, did_you_mean
from fogline.question import (
    alpha_of,
    attributes_of,
    check_columns,
    check_expiry,
    check_latest,
    count_in,
    duration,
    gone_of,
    is_number,
    length_of,
    limits_of,
    names_of,
    shown_length,
)
from fogline.shown import call, count_of, quoted

MAX_SENSORS = 100_000
TOLERANCE = 1e-9  # a probability this close to alpha counts as equal to it, hence out
NO_VALUE = "the repository has no value for it"  # why a row with a gap is rejected
NO_REPOSITORY = "there is no repository to impute it from"


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows are not beaten by any other, with probability above `alpha`?

    >>> Query(attributes={"temperature": "max", "oxygen": "min"}, id="sensor", time="ts", lifetime="5 minutes").alpha
    0.5
    """

    attributes: Mapping[str, str]
    """What counts, and whether more (`max`) or less (`min`) of it is better."""
    id: str
    """The column that names a row; when it repeats, (id, arrival) does."""
    time: str
    """The column with a row's arrival: numbers or timestamps, the stream's own clock."""
    expires: str | None = None
    """The column with a row's expiry, or …"""
    lifetime: float | str | timedelta | None = None
    """… how long each row counts (a number when time is one, else a duration such as '5 minutes'), or …"""
    last: int | None = None
    """… how many of the newest rows of the group count."""
    latest: bool = False
    """Only the newest row of each id counts: a newer one replaces it, and so does one of the same time. What falls
    silent leaves by `expires` or `lifetime`; with neither it stays."""
    gone: str | Mapping[str, Sequence[Any]] | None = None
    """With latest: the column that is true where an id is removed, or a column and its values that mean so, such as
    {'op': ['d', 'delete']}."""
    version: str | None = None
    """With latest: the column that orders rows of one id and time, whole numbers or timestamps; without, the later
    call wins."""
    carry: Sequence[str] = ()
    """With latest: attributes that, where a row lacks them, are carried over from the id's current row."""
    remember_removed: float | str | timedelta | None = None
    """With latest: for how long after its time a removal, or an expiry, keeps older rows of the id out; by default as
    long as a row lives, and where rows have no lifetime, for ever."""
    alpha: float = 0.5
    by: Sequence[str] = ()
    """One independent skyline per combination of these columns."""
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Plausible values; what lies outside is treated, and shown, as missing …"""
    outside: Literal["missing", "reject"] = "missing"
    """… or rejects the row."""
    max_sensors: int = MAX_SENSORS
    """How many sensors' readings are remembered at once, to impute missing values; those silent longest leave."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)  # frozen: set once, here

        put("attributes", MappingProxyType(attributes_of(self.attributes)))
        put("by", names_of(self.by))
        put("carry", names_of(self.carry))
        put("lifetime", length_of(self.lifetime))
        put("remember_removed", length_of(self.remember_removed))
        put("gone", gone_of(self.gone))
        put("last", self.last.item() if isinstance(self.last, np.integer) else self.last)
        put("alpha", alpha_of(self.alpha))
        put("limits", MappingProxyType(limits_of(self.limits, self.attributes)))
        put("max_sensors", count_in(self.max_sensors, "max_sensors"))
        check_latest(self)
        check_expiry(self)
        check_columns(self)
        if self.outside not in ("missing", "reject"):
            raise QueryError(f"outside is {quoted(self.outside)}; it may be 'missing' or 'reject'.")

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes, in their order."""
        return tuple(self.attributes)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it looks at."""
        own = (self.id, self.time, self.expires, self.gone_column, self.version)
        return frozenset((*self.by, *self.names, *(name for name in own if name is not None)))

    @property
    def signs(self) -> tuple[float, ...]:
        """+1 where more is better, -1 where less is: multiplied in, larger is better everywhere."""
        return tuple(1.0 if way == "max" else -1.0 for way in self.attributes.values())

    def plausible(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, d) attributes as rows came with them; NaN, as where nothing came, for what is outside its limits."""
        if not self.limits:
            return values
        low, high = np.array([self.limits.get(name, (-np.inf, np.inf)) for name in self.names]).T
        return np.where((values < low) | (values > high), np.nan, values)

    @property
    def lifetime_us(self) -> int | None:
        """The lifetime in microseconds, when it is a duration."""
        return None if self.lifetime is None or is_number(self.lifetime) else duration(self.lifetime)

    @property
    def gone_column(self) -> str | None:
        """The column that shows which rows are removals."""
        return self.gone if self.gone is None or isinstance(self.gone, str) else next(iter(self.gone))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Query:
        """A query from plain values; an unknown field is an error with a guess."""
        if not isinstance(values, Mapping):
            raise QueryError(f"a query is a mapping of fields, not {type(values).__name__}.")
        known = [each.name for each in fields(cls)]
        for name in values:
            if name not in known:
                raise QueryError(
                    f"a query has no field {name!r}; it has {', '.join(known)}.{did_you_mean(str(name), known)}"
                )
        lacking = [name for name in ("attributes", "id", "time") if name not in values]
        if lacking:
            raise QueryError(f"the query lacks {' and '.join(lacking)}.")
        return cls(**values)

    @classmethod
    def load(cls, path: str | Path) -> Query:
        """A query from a YAML (or JSON) file with the fields of this class; its `source` is `files.options`' matter.

        Its `name` counts where a command answers several.
        """
        try:
            values = read_document(path, names=("id", "time", "expires", "by", "gone", "version", "carry"))
        except FileNotFoundError:
            raise QueryError(f"there is no query file {str(path)!r}.") from None
        except yaml.YAMLError as error:
            raise QueryError(f"{str(path)!r} is not YAML: {error}") from None
        if isinstance(values, dict):
            values.pop("source", None)
            values.pop("name", None)
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` turns into this query again; what is at its default is left out."""
        plain: dict[str, Any] = {"attributes": dict(self.attributes), "id": self.id, "time": self.time}
        if self.lifetime is not None:
            plain["lifetime"] = self.lifetime
        plain |= {"latest": True} if self.latest else {}
        asked = ("expires", "last", "gone", "version", "remember_removed")
        plain |= {name: getattr(self, name) for name in asked if getattr(self, name) is not None}
        if isinstance(self.gone, Mapping):
            plain["gone"] = {column: list(values) for column, values in self.gone.items()}
        plain |= {"carry": list(self.carry)} if self.carry else {}
        plain |= {"alpha": self.alpha}
        plain |= {"by": list(self.by)} if self.by else {}
        plain |= {"limits": {name: list(pair) for name, pair in self.limits.items()}} if self.limits else {}
        plain |= {"outside": self.outside} if self.outside != "missing" else {}
        plain |= {"max_sensors": self.max_sensors} if self.max_sensors != MAX_SENSORS else {}
        return plain

    def fingerprint(self) -> str:
        """The same text for the same query, however it was written down."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def __repr__(self) -> str:
        values = self.to_dict()
        for name in ("lifetime", "remember_removed"):
            if name in values:
                values[name] = shown_length(values[name])
        return call("Query", [f"{name}={value!r}" for name, value in values.items()])

    def __reduce__(self) -> tuple[Any, ...]:
        return (Query.from_dict, (self.to_dict(),))

    def __hash__(self) -> int:
        return hash(self.fingerprint())


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows close in every `given` attribute are close in `then`: |A - A'| <= given[A]  ->  |then - then'| <= within.

    >>> print(Rule(given={"voltage": 0.01, "light": 5}, then="temperature", within=0.5))
    voltage(0.01), light(5) -> temperature(0.5)
    """

    given: Mapping[str, float]
    then: str
    within: float

    def __post_init__(self) -> None:
        if not isinstance(self.given, Mapping) or not self.given:
            raise RuleError(f"the rule for {quoted(self.then)} has nothing given.")
        for name, radius in (*self.given.items(), (self.then, self.within)):
            if not isinstance(name, str):
                raise RuleError(f"a rule speaks of columns by their names, not of {quoted(name)}.")
            if not is_number(radius) or not 0 <= radius < math.inf:
                raise RuleError(
                    f"{name}({quoted(radius)}) in the rule for {quoted(self.then)}: a distance is a number from 0 on."
                )
        if self.then in self.given:
            raise RuleError(f"a rule cannot explain {self.then!r} by itself.")
        object.__setattr__(self, "given", MappingProxyType(dict(self.given)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Rule, (dict(self.given), self.then, self.within)

    def __str__(self) -> str:
        given = ", ".join(f"{name}({radius:g})" if radius else name for name, radius in self.given.items())
        return f"{given} -> {self.then}({self.within:g})"


@dataclass(frozen=True, slots=True)
class Cloud:
    """A row's possible places: for each attribute a list of (value, weight), weights adding up to 1.

    Attributes are independent; a known value is a list of one. Values are as the user sees them, not oriented.
    """

    values: Mapping[str, tuple[tuple[float, float], ...]]

    @property
    def places(self) -> int:
        """How many combinations of values it has."""
        return math.prod(len(pairs) for pairs in self.values.values())


@dataclass(frozen=True, slots=True)
class ImputedCell:
    """A missing value of a row: what was imputed first, and what is now, each as a list of (value, weight)."""

    attribute: str
    first: tuple[tuple[float, float], ...]
    first_by: str
    """The rule or imputer that gave it."""
    now: tuple[tuple[float, float], ...]
    now_by: str
    open: bool
    """Whether a later reading of the sensor may still change it."""
    imputer: str = ""
    """The imputer that gives it now."""
    rows: int | None = None
    """How many rows of history it rests on, where that is known."""

    @property
    def low(self) -> float:
        """The least value that it may be now."""
        return self.now[0][0]

    @property
    def high(self) -> float:
        """The greatest value that it may be now."""
        return self.now[-1][0]

    @property
    def mean(self) -> float:
        """Its mean now."""
        return math.fsum(value * weight for value, weight in self.now)

    @property
    def rule(self) -> str:
        """The rule that gives it now; empty: an imputer without rules does."""
        return "" if self.now_by == self.imputer else self.now_by

    @property
    def source(self) -> str:
        """What gives it now, in words."""
        by = f"rule {self.rule}" if self.rule else self.now_by
        return by if self.rows is None else f"{by}, {count_of(self.rows, 'row')} of history"

    def __str__(self) -> str:
        first, now = f"{_shortly(self.first)} (by {self.first_by})", f"{_shortly(self.now)} (by {self.now_by})"
        later = "" if first == now else f", since its sensor has spoken again {now}"
        return f"{self.attribute} is missing: {first}{later}{', still open' if self.open else ''}"


def _shortly(pairs: tuple[tuple[float, float], ...]) -> str:
    """A distribution in a few numbers: its ends, and where its middle lies."""
    if len(pairs) == 1:
        return f"{pairs[0][0]:g}"
    middle = next(
        value for k, (value, _) in enumerate(pairs) if math.fsum(w for _, w in pairs[: k + 1]) > 0.5 - TOLERANCE
    )
    return f"{pairs[0][0]:g} to {pairs[-1][0]:g}, about {middle:g}"


@dataclass(frozen=True, slots=True)
class Change:
    """One row entered or left the answer, or its probability moved. Adding changes up gives the answer again."""

    time: Any
    by: tuple[Any, ...]
    id: Any
    arrived: Any
    change: Literal["enter", "leave", "update"]
    probability: float | None
    exact: bool | None
    within: float | None
    attributes: Mapping[str, float | None]
    reason: str | None = None
    """Of a leave: 'expired'; 'beaten', by a row that surely beats it; 'less likely', its probability fell to alpha or
    below without one such row; where rows are replaced 'replaced', by a row that is not in, or 'removed'; and on a
    pipeline 'begun anew': its group's clock had run ahead, and its rows come again or are held."""
    rival: tuple[Any, Any] | None = None
    """The id and the arrival of the row that surely beats it; of several the first in that order."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not be taken, as it came, and why."""

    row: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Node:
    """A live cloud's place in the skyline tree (paper, section 5.1, corrected).

    Layer 1 has no guard. A shadow, guarded by one that expires no earlier, has no layer and will never be an answer;
    a forgotten row is not in the tree at all.
    """

    by: tuple[Any, ...]
    id: Any
    arrived: Any
    layer: int | None
    parent: tuple[Any, Any] | None
    shadow: bool


def changes_of(rows: Iterable[Mapping[str, Any]], query: Query) -> list[Change]:
    """The rows of a table of changes, as values."""
    return [
        Change(
            time=row["time"],
            by=tuple(row[name] for name in query.by),
            id=row["id"],
            arrived=row["arrived"],
            change=row["change"],
            probability=row["probability"],
            exact=row["exact"],
            within=row["within"],
            attributes={name: row[name] for name in query.names},
            reason=row.get("reason"),
            rival=None if row.get("rival_time") is None else (row["rival"], row["rival_time"]),
        )
        for row in rows
    ]
