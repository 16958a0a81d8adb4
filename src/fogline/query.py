"""The query, and what may be asked.

A `Query` and a `Rule` are checked once, when they are made; every room relies on it. A field that is wrong, and fields
that contradict each other, are errors that name what was there and the way out.

The rules for single values stand here too, since limits and durations need them: which numbers a float holds
(`as_real`), which texts are lengths of time (`duration`), and how a value is written (`as_text`).
"""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeGuard

import numpy as np
import yaml
from numpy.typing import NDArray

from fogline.documents import read_document
from fogline.errors import QueryError, RuleError, did_you_mean
from fogline.show import UNITS, call, in_words, quoted

MAX_SENSORS = 100_000
TOLERANCE = 1e-9  # a probability this close to alpha counts as equal to it, hence out
NO_VALUE = "the repository has no value for it"  # why a row with a gap is rejected
NO_REPOSITORY = "there is no repository to impute it from"
UNHELD = "which float64 cannot hold exactly; subtract an offset from it, or make a float of it yourself"

LEAVING = ("reason", "beaten_by", "beaten_by_time")  # columns of changes that only a leave fills
OF_CHANGES = ("change", *LEAVING)  # columns that an answer does not have
CHANGE_COLUMNS = ("time", "change", "probability", "probability_error", *LEAVING)  # beside the user's own
TICK, ARRIVED = "time", "arrived"  # of a row's own time, where its column is called as that of the tick
RANGE = ("low", "high", "mean")  # of a cell; behind the name of its attribute and a dot, a column of `near/`
ADDED = {*CHANGE_COLUMNS, "certainty", "stands_for", "row", "batch", "position", "inside", "why"}  # by any output
_OF_CELLS = {
    "rank",
    "attribute",
    "changes",
    *RANGE,
    "sentence",
    "value",
    "rule",
}  # beside a row's name, where cells are listed

WINDOWS = ("expires", "lifetime", "last")  # the fields of which one states how long a row counts
_WAYS = ("min", "max")
_OTHER_WORDS = {"low": "min", "lower": "min", "high": "max", "higher": "max", "maximize": "max", "minimize": "min"}
_ONLY_LATEST = ("gone", "version", "carry", "remember_removed")
_LONGEST = 200  # characters of a duration
_DIGITS = 15  # fractions of so many digits stay apart as floats
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
    """A row is in the answer when the probability that no other beats it is above this."""
    skyband: int = 1
    """… or, with more than 1, that fewer than so many others beat it: the k-skyband."""
    by: Sequence[str] = ()
    """One independent skyline per combination of these columns."""
    keep: Sequence[str] | bool = ()
    """Other columns of a row that come along into answers and changes, as they came; True or 'all': every column that
    holds single values."""
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
        put("keep", keep_of(self.keep))
        put("lifetime", length_of(self.lifetime))
        put("remember_removed", length_of(self.remember_removed))
        put("gone", gone_of(self.gone))
        put("last", self.last.item() if isinstance(self.last, np.integer) else self.last)
        put("alpha", alpha_of(self.alpha))
        put("skyband", count_in(self.skyband, "skyband"))
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
        return frozenset((*self.by, *self.names, *self.kept, *(name for name in own if name is not None)))

    @property
    def kept(self) -> tuple[str, ...]:
        """The other columns that come along, by name; of `keep=True` none is known before rows are seen."""
        return () if self.keep is True else tuple(self.keep or ())

    def keeping(self, there: Iterable[str]) -> Query:
        """The same query; where it keeps all columns, it names them: those of `there` that it has no other use for."""
        if self.keep is not True:
            return self
        shown = {self.id, self.time, *self.by, *self.names}
        return replace(self, keep=tuple(name for name in there if name not in shown))

    @property
    def arrived(self) -> str:
        """The column of outputs with a row's own time: the user's, unless that is called `time`, as the tick is; then
        `arrived`.
        """
        return ARRIVED if self.time.lower() == TICK else self.time

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
    def longest_life(self) -> float | None:
        """How long a row may live, in units of the clock: of timestamps microseconds. None: the query does not bound
        it by time."""
        return None if self.lifetime is None else _units(self.lifetime)

    def expiries(self, arrived: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) when rows of these arrivals expire, as far as that follows from the arrival; inf: it does not.

        >>> of = Query(attributes={"a": "max"}, id="id", time="t", lifetime="1 second")
        >>> of.expiries(np.array([5.0])), of.longest_life, of.clock_meaning
        (array([1000005.]), 1000000.0, 'timestamp')
        """
        life = self.longest_life
        return arrived + (np.inf if life is None else life)

    @property
    def clock_meaning(self) -> str | None:
        """What the query's lengths of time show its times to be: "number" or "timestamp"; None: there are none."""
        return None if self.lifetime is None else "number" if is_number(self.lifetime) else "timestamp"

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
            raise QueryError(
                f"the query has no {' and no '.join(lacking)}; add {'them' if len(lacking) > 1 else 'it'}."
            )
        return cls(**values)

    @classmethod
    def load(cls, path: str | Path) -> Query:
        """A query from a YAML (or JSON) file with the fields of this class.

        `source` and `name`, which commands read, may be there too.
        """
        try:
            values = read_document(path, names=("id", "time", "expires", "by", "keep", "gone", "version", "carry"))
        except FileNotFoundError:
            raise QueryError(f"there is no query file {str(path)!r}.") from None
        except yaml.YAMLError as error:
            raise QueryError(f"{str(path)!r} is not YAML: {error}") from None
        if isinstance(values, dict):
            values.pop("source", None)
            values.pop("name", None)
            values |= {"keep": True} if values.get("keep") == "true" else {}  # a text, as names of columns are
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
        plain |= {"skyband": self.skyband} if self.skyband > 1 else {}
        plain |= {"by": list(self.by)} if self.by else {}
        plain |= {"keep": True if self.keep is True else list(self.kept)} if self.keep else {}
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
    """By how much two rows may differ in each of these columns …"""
    then: str
    """… for the rule to state that they differ in this one …"""
    within: float
    """… by at most so much."""

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


def must_be_query(given: object, who: str) -> None:
    """A query; of anything else an error with the way out."""
    if isinstance(given, Query):
        return
    way = "give Query(…) or Query.load(path)"
    if isinstance(given, str | PathLike):
        way = f"give Query.load({str(given)!r})"
    elif isinstance(given, Mapping) and not any(isinstance(each, Query) for each in given.values()):
        way = "give Query.from_dict(…)"  # a query's fields
    elif isinstance(given, Mapping):
        way = "fl.run and fl.spark.watch answer several queries by their names; give one of them"
    elif isinstance(given, Iterable):
        way = "give one; fl.run and fl.spark.watch answer several by their names: {'fire': query, …}"
    elif hasattr(given, "determinants"):
        way = "the query comes first, then the repository"
    raise QueryError(f"{who} is a Query, not {type(given).__name__}; {way}.")


# --- The fields of a query --------------------------------------------------------------------------------------------


def attributes_of(given: object) -> dict[str, str]:
    """What counts, and which way."""
    if not isinstance(given, Mapping) or not given:
        raise QueryError("attributes maps each attribute to 'max' or 'min', for instance {'temperature': 'max'}.")
    for name, way in given.items():
        _check_way(way, f"attribute {name!r}")
    return {str(name): str(way) for name, way in given.items()}


def _check_way(way: object, what: str) -> None:
    """Is it 'min' or 'max'? Words of other libraries get a guess."""
    if way not in _WAYS:
        word = str(way).lower()
        guess = _OTHER_WORDS.get(word) or (word if word in _WAYS else None)
        hint = f"\nDid you mean {guess!r}?" if guess else did_you_mean(word, _WAYS)
        raise QueryError(f"{what} is {quoted(way)}; it may be 'max' (more is better) or 'min'.{hint}")


def alpha_of(given: object) -> float:
    """A threshold."""
    if not is_number(given) or not 0 <= float(given) < 1:
        raise QueryError(
            f"alpha is {quoted(given)}; it is a probability threshold in [0, 1): 0.5 means 'more likely than not'."
        )
    return float(given)


def count_in(given: object, name: str) -> int:
    """A whole number, from 1 on; beyond 2^62 there is nothing to count."""
    if isinstance(given, np.integer):
        given = given.item()
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= 2**62:
        raise QueryError(f"{name} is {quoted(given)}; it is a whole number, from 1 on (2^62 at most).")
    return given


def limits_of(given: object, attributes: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Plausible values."""
    if not isinstance(given, Mapping):
        raise QueryError("limits maps attributes to (lowest, highest) plausible value.")
    limits = {}
    for name, pair in given.items():
        _must_be_attribute(name, attributes, "limits name")
        try:
            low, high = (as_real(value) for value in pair)
        except (ArithmeticError, TypeError, ValueError):
            raise QueryError(f"the limits of {name!r} are {quoted(pair)}; write (lowest, highest).") from None
        if low is None or high is None:
            raise QueryError(f"a limit of {name!r} is {quoted([*pair][low is not None])}, {UNHELD}.")
        if not low <= high:
            raise QueryError(f"the limits of {name!r} are ({low:g}, {high:g}): nothing lies between them.")
        limits[str(name)] = (low, high)
    return limits


def names_of(given: Any) -> tuple[Any, ...]:
    """Names of columns, one or many."""
    if isinstance(given, str):
        return (given,)
    if given is not None and (isinstance(given, Mapping) or not isinstance(given, Iterable)):
        raise QueryError(f"{quoted(given)} is no list of columns; write [a, b].")
    return tuple(given or ())


def keep_of(given: Any) -> tuple[Any, ...] | bool:
    """The columns that come along: their names, or True for all others.

    >>> keep_of("room"), keep_of("all"), keep_of(None)
    (('room',), True, ())
    """
    return True if given is True or given == "all" else names_of(given or ())


def gone_of(given: Any) -> str | Mapping[str, tuple[str, ...]] | None:
    """The column that removes an id where it is true; or a column and its values, as texts, that do.

    >>> gone_of({"op": ["d", 3]})
    mappingproxy({'op': ('d', '3')})
    """
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, Mapping) or len(given) != 1:
        raise QueryError(
            f"gone is {quoted(given)}; it names a column that is true where an id is removed, or maps a column to the "
            "values that mean so: gone={'op': ['d', 'delete']}."
        )
    ((column, values),) = given.items()
    listed = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if not listed or any(each is None or isinstance(each, list | dict | tuple) for each in listed):
        raise QueryError(
            f"gone maps {quoted(column)} to {quoted(values)}; it lists the values there that remove an id."
        )
    return MappingProxyType({column: tuple(as_text(each) for each in listed)})


def check_expiry(query: Query) -> None:
    """A row's expiry has one source, unless the newest row of each id counts: then it may have none."""
    given = [name for name in WINDOWS if getattr(query, name) is not None]
    if query.latest and query.last is not None:
        raise QueryError(
            f"latest keeps one row of each id, and last={quoted(query.last)} the newest rows of all; ask for one of "
            "them (with latest, lifetime or expires state when an id that has fallen silent leaves)."
        )
    if len(given) > 1 or not (given or query.latest):
        kept = "lifetime='30 minutes', last=1000, expires='column', or latest=True"
        if given:
            raise QueryError(f"{' and '.join(given)} both say how long a row counts; keep one of them.")
        raise QueryError(f"Say how long a row counts: {kept}.")
    if query.last is not None and (not isinstance(query.last, int) or isinstance(query.last, bool) or query.last < 1):
        raise QueryError(f"last is {quoted(query.last)}; it counts rows, so it is a whole number of at least 1.")
    if query.lifetime is not None and not 0 < _units(query.lifetime) < math.inf:
        raise QueryError(
            f"lifetime is {shown_length(query.lifetime)!r}; a row counts for some time, and not for ever: '30 minutes'."
        )


def check_latest(query: Query) -> None:
    """What only makes sense where each id has one current row."""
    if not isinstance(query.latest, bool):
        raise QueryError(f"latest is {quoted(query.latest)}; it is true (the newest row of each id counts) or false.")
    for name in _ONLY_LATEST:
        if not query.latest and getattr(query, name) not in (None, ()):
            raise QueryError(f"{name} is for queries in which the newest row of each id counts; add latest=True.")
    for name in query.carry:
        _must_be_attribute(name, query.attributes, "carry names")
    if len(set(query.carry)) < len(query.carry):
        raise QueryError(f"carry names an attribute twice: {', '.join(query.carry)}.")
    length, life = query.remember_removed, query.lifetime
    if length is None:
        return
    given = f"remember_removed is {shown_length(length)!r}"
    if not 0 <= _units(length) < math.inf:
        raise QueryError(f"{given}; it is a length of time from 0 on, or left out: for ever without lifetime.")
    if life is not None and is_number(life) != is_number(length):
        raise QueryError(f"{given} and lifetime {shown_length(life)!r}: both are numbers, or both are durations.")


def check_columns(query: Query) -> None:
    """Each column has one role, and none is called as a column that outputs add."""
    roles: dict[str, str] = {}
    named: list[tuple[str, Sequence[Any]]] = [("attribute", query.names), ("id", (query.id,)), ("time", (query.time,))]
    named += [("by", query.by)]
    for role, names in named:
        for name in names:
            if not isinstance(name, str) or not name:
                raise QueryError(f"{role} names a column, so it is a text, not {quoted(name)}.")
            if name in roles:
                raise QueryError(f"column {name!r} is used twice: as {roles[name]} and as {role}.")
            roles[name] = role
    for role, name in (("expires", query.expires), ("gone", query.gone_column), ("version", query.version)):
        if name is not None and (not isinstance(name, str) or not name or name in roles):
            used = f", which is the {roles[name]}" if isinstance(name, str) and name in roles else ""
            raise QueryError(f"{role} names a column of its own, not {quoted(name)}{used}.")
        roles |= {} if name is None else {name: f"column of {role}"}
    _check_kept(query, {name: role for role, names in named for name in names})
    _refuse_taken(query, dict.fromkeys(query.kept, "keep") | roles)


def _check_kept(query: Query, shown: Mapping[str, str]) -> None:
    """Kept columns are others than those that come out anyway (`shown`: their roles), in whatever case."""
    known = {name.lower(): name for name in shown}
    for name in query.kept:
        if not isinstance(name, str) or not name:
            raise QueryError(f"keep names columns, so it has texts, not {quoted(name)}; or it is 'all'.")
        if name in shown:
            raise QueryError(f"keep names {name!r}, which comes out anyway, as {shown[name]}; leave it out of keep.")
        if (other := known.setdefault(name.lower(), name)) != name or query.kept.count(name) > 1:
            raise QueryError(f"keep names {name!r} beside {other!r}; names of columns differ in more than their case.")


def _refuse_taken(query: Query, roles: Mapping[str, str]) -> None:
    """No column that comes out is called as one that outputs add, in whatever case: SQL makes no difference."""
    added = ADDED | {f"{name}.{each}".lower() for name in query.names for each in RANGE}
    shown = [query.id, *query.by, *query.kept, *query.names]
    if query.arrived == query.time:
        shown.append(query.time)
    else:
        added.add(ARRIVED)
    for name in shown:
        if name.lower() in (added if name in query.attributes or name in query.kept else added | _OF_CELLS):
            raise QueryError(
                f"the column {name!r} ({roles[name]}) would collide with the column {name.lower()!r} that outputs add; "
                f"give it another name in the source{', or do not keep it' if name in query.kept else ''}."
            )


def _must_be_attribute(name: Any, attributes: Mapping[str, str], who: str) -> None:
    if not isinstance(name, str) or name not in attributes:
        raise QueryError(
            f"{who} {quoted(name)}, which is no attribute of the query; it has {', '.join(attributes)}."
            f"{did_you_mean(str(name), attributes)}"
        )


# --- Which columns of a table count -----------------------------------------------------------------------------------


def ways_of(given: Any, known: Sequence[Any]) -> dict[Hashable, str]:
    """Which columns of a table count, and which way; each mistake is an error that shows how it is written.

    paretoset takes a list, one word per column; rPref has `high` and `low`.
    """
    if not isinstance(given, Mapping):
        raise QueryError(
            f"the second argument maps columns to 'min' or 'max': {_suggested(given, known)}; it is {_short(given)}."
        )
    if not given:
        raise QueryError("no column counts; map some to 'min' or 'max', for instance {'price': 'min'}.")
    for name, way in given.items():
        if name in _WAYS and way not in _WAYS:
            raise QueryError(f"columns are mapped to 'min' or 'max', not the other way round: {{{way!r}: {name!r}}}.")
        if way == "diff":
            raise QueryError(
                f"for a skyline of its own per value of {name!r}, leave it out here and write by={name!r}."
            )
        _check_way(way, f"column {name!r}")
    return dict(given)


def _suggested(given: Any, known: Sequence[Any]) -> str:
    """How it should be written: of a list as paretoset takes it, that very mapping."""
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(known):
        pairs = [(name, way) for name, way in zip(known, given, strict=True) if way in _WAYS]
        if len(pairs) == len(given):
            return "{" + ", ".join(f"{name!r}: {way!r}" for name, way in pairs) + "}"
    names = [given] if isinstance(given, str) else given if isinstance(given, Iterable) else ()
    names = [name for name in names if isinstance(name, Hashable) and name in known] or ["price"]
    return "{" + ", ".join(f"{name!r}: 'min'" for name in names) + "}"


def _short(given: Any) -> str:
    text = repr(given) if isinstance(given, str | list | tuple | int | float) else f"a {type(given).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- Lengths of time --------------------------------------------------------------------------------------------------


def duration(text: object) -> int:
    """A duration in microseconds.

    >>> duration("5 minutes"), duration("1 hour 30 min"), duration("250ms")
    (300000000, 5400000000, 250000)
    """
    if isinstance(text, timedelta):
        return round(text / timedelta(microseconds=1))
    short = str(text) if len(str(text)) <= _LONGEST else ""
    parts = re.findall(r"([0-9.]+)\s*([a-zA-Zµ]+)", short)
    if not parts or re.sub(r"([0-9.]+)\s*([a-zA-Zµ]+)|[\s,]", "", short):
        raise QueryError(f"{quoted(text)} is not a duration; write for instance '30 seconds', '5 minutes' or '1 day'.")
    total = 0.0
    for number, unit in parts:
        word = unit.lower().replace("µ", "u")
        word = word.removesuffix("s") if len(word) > 2 else word
        word = _SHORT.get(word, word)
        if word not in UNITS:
            raise QueryError(f"{unit!r} in {text!r} is not a unit of time; known are {', '.join(UNITS)}.")
        try:
            total += float(number) * UNITS[word]
        except ValueError:
            raise QueryError(f"{number!r} in {text!r} is not a number.") from None
    return round(total)


def length_of(given: Any) -> Any:
    """A length of time: a number as it is, a duration in words that are the same for the same duration."""
    if given is None:
        return None
    if not is_number(given) and not isinstance(given, str | timedelta):
        raise QueryError(f"{quoted(given)} is no length of time; it is a number, or a text such as '5 minutes'.")
    return float(given) if is_number(given) else f"{duration(given)} microseconds"


def shown_length(length: Any) -> Any:
    """A length of time, as `length_of` made it, as a person would write it: a duration is `'2 hours'`."""
    return length if length is None or is_number(length) else in_words(duration(length))


@lru_cache(maxsize=64)
def _units(length: Any) -> float:
    """A length of time as a number, in units of a clock."""
    return float(length) if is_number(length) else float(duration(length))


# --- Single values ----------------------------------------------------------------------------------------------------


def is_number(value: object) -> TypeGuard[float]:
    """A number, and no truth value. A whole number that is too large to be compared with others is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() <= 1023
    return isinstance(value, float | np.integer | np.floating)


def as_real(value: Any) -> float | None:
    """A number as a float, and NaN as it is; None: it would be taken for another number. ValueError: it is none.

    A whole number is held exactly or not at all; a fraction with an end has at most 15 digits, which keep such ones
    apart. A float is what it is, and a text the nearest one, unless it is a whole number.

    >>> as_real(2**53), as_real(2**53 + 1), as_real(Decimal("0.10")), as_real(Decimal("0.1234567890123456"))
    (9007199254740992.0, None, 0.1, None)
    >>> as_real("9007199254740993"), as_real("0.1234567890123456789")
    (None, 0.12345678901234568)
    """
    if isinstance(value, float):
        return float(value)
    try:
        if isinstance(value, Decimal):
            return _decimal(value)
        real = float(value)
    except OverflowError:
        return None
    if isinstance(value, numbers.Rational):
        return real if (int(value) if isinstance(value, numbers.Integral) else value) == real else None
    if isinstance(value, str) and abs(real) >= 2.0**53:
        with suppress(ValueError):
            return as_real(int(value))
    if isinstance(value, np.longdouble) and value != real and not np.isnan(value):
        return None
    return real


def _decimal(value: Decimal) -> float | None:
    if not value.is_finite() or not value:
        return float(value)
    if not -400 < value.adjusted() < 400:
        return None
    if value == value.to_integral_value():
        return as_real(int(value))
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    return float(value) if len(digits) <= _DIGITS and float(value) else None


def as_text(value: object) -> str:
    """A value as one would write it, the same whether it came as a number, a truth value or a text.

    >>> as_text(True), as_text(3.0), as_text(" d "), as_text(b"d")
    ('true', '3', 'd', 'd')
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, Decimal) and is_short(value) and value == value.to_integral_value():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace").strip()
    return str(value).strip()


def is_short(value: Decimal) -> bool:
    """A number that is quickly written out: 1e999999999 is not."""
    return value.is_finite() and value.adjusted() < 40
