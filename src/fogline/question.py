"""Is the question well put?

What each field of a `Query` may be. A field that is wrong, and fields that contradict each other, are errors that name
what was there and the way out.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from fogline.errors import QueryError, did_you_mean
from fogline.shown import UNITS, in_words, quoted

if TYPE_CHECKING:
    from fogline.model import Query

_LEAVING = ("reason", "rival", "rival_time")
CHANGE_COLUMNS = ("time", "id", "arrived", "change", "probability", "exact", "within", *_LEAVING)
_ONLY_LATEST = ("gone", "version", "carry", "remember_removed")
_LONGEST = 200  # letters of a duration
_DIGITS = 15  # fractions of so many digits stay apart as floats
UNHELD = "which float64 cannot hold exactly; subtract an offset from it, or make a float of it yourself"
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
}


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


def attributes_of(given: object) -> dict[str, str]:
    """What counts, and which way."""
    if not isinstance(given, Mapping) or not given:
        raise QueryError("attributes maps each attribute to 'max' or 'min', for instance {'temperature': 'max'}.")
    for name, way in given.items():
        if way not in ("max", "min"):
            raise QueryError(f"attribute {name!r} is {quoted(way)}; it may be 'max' (more is better) or 'min'.")
    return {str(name): str(way) for name, way in given.items()}


def alpha_of(given: object) -> float:
    """A threshold."""
    if not is_number(given) or not 0 <= float(given) < 1:
        raise QueryError(
            f"alpha is {quoted(given)}; it is a probability threshold in [0, 1): 0.5 means 'more likely than not'."
        )
    return float(given)


def count_in(given: object, name: str) -> int:
    """A whole number, from 1 on."""
    if isinstance(given, np.integer):
        given = given.item()
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise QueryError(f"{name} is {quoted(given)}; it is a whole number, from 1 on.")
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
    """A number that is quickly written out: one of few letters may have a thousand million digits."""
    return value.is_finite() and value.adjusted() < 40


def check_expiry(query: Query) -> None:
    """A row's expiry has one source, unless the newest row of each id counts: then it may have none."""
    given = [name for name in ("expires", "lifetime", "last") if getattr(query, name) is not None]
    if query.latest and query.last is not None:
        raise QueryError(
            f"latest keeps one row of each id, and last={quoted(query.last)} the newest rows of all; ask for one of "
            "them (with latest, lifetime or expires state when an id that has fallen silent leaves)."
        )
    if len(given) > 1 or not (given or query.latest):
        found = " and ".join(given) if given else "none"
        raise QueryError(
            "a row's expiry has one source: expires (a column), lifetime (a duration) or last (a count); "
            f"found {found}."
        )
    if query.last is not None and (not isinstance(query.last, int) or isinstance(query.last, bool) or query.last < 1):
        raise QueryError(f"last is {quoted(query.last)}; it counts rows, so it is a whole number of at least 1.")
    if query.lifetime is not None and not 0 < _units(query.lifetime) < math.inf:
        raise QueryError(
            f"lifetime is {shown_length(query.lifetime)!r}; a row must live for some time, and not for ever."
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
    """Each column has one role, and none is called as a column of the changes."""
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
    for name in (*query.names, *query.by):
        if name in CHANGE_COLUMNS:
            raise QueryError(
                f"{roles[name]} {name!r} would collide with the column {name!r} of the changes; rename it."
            )


def _must_be_attribute(name: Any, attributes: Mapping[str, str], who: str) -> None:
    if not isinstance(name, str) or name not in attributes:
        raise QueryError(
            f"{who} {quoted(name)}, which is no attribute of the query; it has {', '.join(attributes)}."
            f"{did_you_mean(str(name), attributes)}"
        )


def _units(length: Any) -> float:
    """A length of time as a number, in units of a clock."""
    return float(length) if is_number(length) else float(duration(length))
