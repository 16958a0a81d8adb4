"""What is asked, and in which words do the rooms talk to each other?

`Query` is the question, validated once; the rest are small frozen values. No module of the package is below this one
but `errors` and `documents`, so everything here can be read without knowing how any of it is computed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import yaml

from fogline.documents import read_document
from fogline.errors import QueryError, RuleError, did_you_mean

TOLERANCE = 1e-9  # a probability this close to alpha counts as equal to it, hence out

_CHANGE_COLUMNS = ("time", "id", "arrived", "change", "probability", "exact", "within")
_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
}


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
    alpha: float = 0.5
    by: Sequence[str] = ()
    """One independent skyline per combination of these columns."""
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Plausible values; what lies outside is treated as missing …"""
    outside: Literal["missing", "reject"] = "missing"
    """… or rejects the row."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)  # frozen: set once, here

        put("attributes", MappingProxyType(_attributes(self.attributes)))
        put("by", (self.by,) if isinstance(self.by, str) else tuple(self.by or ()))
        put("lifetime", _lifetime(self.lifetime))
        put("last", self.last.item() if isinstance(self.last, np.integer) else self.last)
        put("alpha", _alpha(self.alpha))
        put("limits", MappingProxyType(_limits(self.limits, self.attributes)))
        _expiry(self)
        _columns(self)
        if self.outside not in ("missing", "reject"):
            raise QueryError(f"outside is {self.outside!r}; it may be 'missing' or 'reject'.")

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes, in their order."""
        return tuple(self.attributes)

    @property
    def signs(self) -> tuple[float, ...]:
        """+1 where more is better, -1 where less is: multiplied in, larger is better everywhere."""
        return tuple(1.0 if way == "max" else -1.0 for way in self.attributes.values())

    @property
    def lifetime_us(self) -> int | None:
        """The lifetime in microseconds, when it is a duration."""
        return None if self.lifetime is None or _is_number(self.lifetime) else duration(self.lifetime)

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
        """A query from a YAML (or JSON) file with the fields of this class."""
        try:
            values = read_document(path, names=("id", "time", "expires", "by"))
        except FileNotFoundError:
            raise QueryError(f"there is no query file {str(path)!r}.") from None
        except yaml.YAMLError as error:
            raise QueryError(f"{str(path)!r} is not YAML: {error}") from None
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` turns into this query again; what is at its default is left out."""
        plain: dict[str, Any] = {"attributes": dict(self.attributes), "id": self.id, "time": self.time}
        if self.lifetime is not None:
            plain["lifetime"] = self.lifetime
        plain |= {name: getattr(self, name) for name in ("expires", "last") if getattr(self, name) is not None}
        plain |= {"alpha": self.alpha}
        plain |= {"by": list(self.by)} if self.by else {}
        plain |= {"limits": {name: list(pair) for name, pair in self.limits.items()}} if self.limits else {}
        plain |= {"outside": self.outside} if self.outside != "missing" else {}
        return plain

    def fingerprint(self) -> str:
        """The same text for the same query, however it was written down."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Query.from_dict, (self.to_dict(),))

    def __hash__(self) -> int:
        return hash(self.fingerprint())


def duration(text: object) -> int:
    """A duration in microseconds.

    >>> duration("5 minutes"), duration("1 hour 30 min"), duration("250ms")
    (300000000, 5400000000, 250000)
    """
    if isinstance(text, timedelta):
        return round(text / timedelta(microseconds=1))
    parts = re.findall(r"([0-9.]+)\s*([a-zA-Zµ]+)", str(text))
    if not parts or re.sub(r"([0-9.]+)\s*([a-zA-Zµ]+)|[\s,]", "", str(text)):
        raise QueryError(f"{text!r} is not a duration; write for instance '30 seconds', '5 minutes' or '1 day'.")
    total = 0.0
    for number, unit in parts:
        word = unit.lower().replace("µ", "u")
        word = word.removesuffix("s") if len(word) > 2 else word
        word = _SHORT.get(word, word)
        if word not in _UNITS:
            raise QueryError(f"{unit!r} in {text!r} is not a unit of time; known are {', '.join(_UNITS)}.")
        try:
            total += float(number) * _UNITS[word]
        except ValueError:
            raise QueryError(f"{number!r} in {text!r} is not a number.") from None
    return round(total)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _lifetime(given: Any) -> Any:
    """A number as it is, a duration in words that are the same for the same duration."""
    if given is None:
        return None
    return float(given) if _is_number(given) else f"{duration(given)} microseconds"


def _attributes(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or not given:
        raise QueryError("attributes maps each attribute to 'max' or 'min', for instance {'temperature': 'max'}.")
    for name, way in given.items():
        if way not in ("max", "min"):
            raise QueryError(f"attribute {name!r} is {way!r}; it may be 'max' (more is better) or 'min'.")
    return {str(name): str(way) for name, way in given.items()}


def _alpha(given: object) -> float:
    if not _is_number(given) or not 0 <= float(given) < 1:  # type: ignore[arg-type]
        raise QueryError(
            f"alpha is {given!r}; it is a probability threshold in [0, 1): 0.5 means 'more likely than not'."
        )
    return float(given)  # type: ignore[arg-type]


def _limits(given: object, attributes: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    if not isinstance(given, Mapping):
        raise QueryError("limits maps attributes to (lowest, highest) plausible value.")
    limits = {}
    for name, pair in given.items():
        if name not in attributes:
            raise QueryError(
                f"limits name {name!r}, which is no attribute of the query; it has {', '.join(attributes)}."
                f"{did_you_mean(str(name), attributes)}"
            )
        try:
            low, high = (float(value) for value in pair)
        except (TypeError, ValueError):
            raise QueryError(f"the limits of {name!r} are {pair!r}; write (lowest, highest).") from None
        if not low <= high:
            raise QueryError(f"the limits of {name!r} are ({low:g}, {high:g}): nothing lies between them.")
        limits[str(name)] = (low, high)
    return limits


def _expiry(query: Query) -> None:
    kinds = {name: getattr(query, name) for name in ("expires", "lifetime", "last")}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise QueryError(
            "a row's expiry has one source: expires (a column), lifetime (a duration) or last (a count); "
            f"found {found}."
        )
    if query.last is not None and (not isinstance(query.last, int) or isinstance(query.last, bool) or query.last < 1):
        raise QueryError(f"last is {query.last!r}; it counts rows, so it is a whole number of at least 1.")
    if query.lifetime is not None:
        length = float(query.lifetime) if _is_number(query.lifetime) else float(duration(query.lifetime))  # type: ignore[arg-type]
        if not (0 < length < math.inf):
            raise QueryError(f"lifetime is {query.lifetime!r}; a row must live for some time, and not for ever.")


def _columns(query: Query) -> None:
    roles: dict[str, str] = {}
    for role, names in (("attribute", query.names), ("id", (query.id,)), ("time", (query.time,)), ("by", query.by)):
        for name in names:
            if not isinstance(name, str) or not name:
                raise QueryError(f"{role} names a column, so it is a text, not {name!r}.")
            if name in roles:
                raise QueryError(f"column {name!r} is used twice: as {roles[name]} and as {role}.")
            roles[name] = role
    if query.expires is not None and (not isinstance(query.expires, str) or query.expires in roles):
        raise QueryError(f"expires names a column of its own, not {query.expires!r}.")
    for name in (*query.names, *query.by):
        if name in _CHANGE_COLUMNS:
            raise QueryError(
                f"{roles[name]} {name!r} would collide with the column {name!r} of the changes; rename it."
            )


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
        if not self.given:
            raise RuleError(f"the rule for {self.then!r} has nothing given.")
        for name, radius in (*self.given.items(), (self.then, self.within)):
            if not _is_number(radius) or not 0 <= radius < math.inf:
                raise RuleError(f"{name}({radius}) in the rule for {self.then!r}: a distance is a number from 0 on.")
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

    def __str__(self) -> str:
        first, now = f"{_shortly(self.first)} (by {self.first_by})", f"{_shortly(self.now)} (by {self.now_by})"
        later = "" if first == now else f", since its sensor has spoken again {now}"
        return f"{self.attribute} is missing: {first}{later}{', still open' if self.open else ''}"


def _shortly(pairs: tuple[tuple[float, float], ...]) -> str:
    """A distribution in a few numbers: its ends, and where its middle lies."""
    if len(pairs) == 1:
        return f"{pairs[0][0]:g}"
    middle = next(value for k, (value, _) in enumerate(pairs) if math.fsum(w for _, w in pairs[: k + 1]) >= 0.5)
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
        )
        for row in rows
    ]
