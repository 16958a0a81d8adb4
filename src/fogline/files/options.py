"""How are files to be read, as the user states it?

In the `source:` part of the query's YAML, or on the command line, which goes first. What is not stated is looked for in
each file by itself: separator, decimal mark and encoding may differ from file to file; `time_format` is looked for in
the first files and then holds for all. A zone is never guessed: times without one are UTC.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import yaml

from fogline.documents import read_document
from fogline.errors import QueryError, did_you_mean

_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_TEXTS = ("separator", "decimal", "encoding", "nulls", "time_format", "zone", "constants")
_MOMENT = datetime(2024, 11, 25, 13, 46, 57)


@dataclass(frozen=True)
class Options:
    """How files are to be read; None: look for it.

    >>> Options(separator="tab").stated(decimal=",", zone=None).separator
    '\\t'
    """

    separator: str | None = None
    """Between cells; one character, or `tab`."""
    decimal: str | None = None
    """The mark in numbers: `.` or `,`."""
    encoding: str | None = None
    """Of the text, such as utf-8, cp1252 or utf-16."""
    nulls: tuple[str, ...] | None = None
    """Words and numbers that stand for missing values, beside the usual null words; never in what names rows."""
    header: bool | None = None
    """Whether the first line names the columns; if not, they are called column1, column2, …"""
    time_format: str | None = None
    """Of times that are not ISO 8601, such as `%d.%m.%Y %H:%M:%S`."""
    zone: str | None = None
    """Of times without one, such as Europe/Berlin; by default UTC."""
    constants: Mapping[str, str] | None = None
    """Columns that the files lack and what stands in every row of them, such as `{station: roof}`."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)  # frozen: set once, here

        for name in _TEXTS:
            given = getattr(self, name)
            if name not in ("nulls", "constants") and given is not None and not isinstance(given, str):
                raise QueryError(f"{name} is {given!r}; it is a text.")
        put("separator", _separator(self.separator))
        put("nulls", _nulls(self.nulls))
        put("constants", _constants(self.constants))
        put("encoding", _encoding(self.encoding))
        if not (self.header is None or isinstance(self.header, bool)):
            raise QueryError(f"header is {self.header!r}; it is true (the first line names the columns) or false.")
        if self.decimal not in (None, ".", ","):
            raise QueryError(f"decimal is {self.decimal!r}; it is the mark in numbers, '.' or ','.")
        if self.decimal is not None and self.decimal == self.separator:
            raise QueryError(f"separator and decimal are both {self.decimal!r}: cells could not be kept apart.")
        _check_format(self.time_format)
        _check_zone(self.zone)

    @classmethod
    def from_dict(cls, values: Any) -> Options:
        """Options from plain values; an unknown one is an error with a guess."""
        if values is None:
            return cls()
        if not isinstance(values, Mapping):
            raise QueryError(
                f"source is a mapping of options, not {type(values).__name__}: source: {{separator: ';'}}."
            )
        known = [each.name for each in fields(cls)]
        for name in values:
            if name not in known:
                raise QueryError(
                    f"source has no option {name!r}; it has {', '.join(known)}.{did_you_mean(str(name), known)}"
                )
        return cls(**values)

    @classmethod
    def load(cls, path: str | Path) -> Options:
        """The `source:` part of a query's YAML; without one, nothing is stated."""
        try:
            values = read_document(path, names=_TEXTS)
        except FileNotFoundError:
            raise QueryError(f"there is no query file {str(path)!r}.") from None
        except yaml.YAMLError as error:
            raise QueryError(f"{str(path)!r} is not YAML: {error}") from None
        return cls.from_dict(values.get("source")) if isinstance(values, Mapping) else cls()

    def stated(self, **given: Any) -> Options:
        """These options, and over them those that are given and not None."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """What is stated, as plain values."""
        plain = {name: value for name, value in asdict(self).items() if value is not None}
        return plain | ({"nulls": list(self.nulls)} if self.nulls is not None else {})


def _separator(given: str | None) -> str | None:
    found = None if given is None else _WORDS.get(given, given)
    if found is not None and (len(found) != 1 or found in '"\n\r' or not found.isascii()):
        raise QueryError(f"separator is {given!r}; it is one plain character, or 'tab'.")
    return found


def _nulls(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple):
        raise QueryError(f"nulls is {given!r}; it is a list of words, such as [ERR, -999].")
    return tuple(dict.fromkeys("null" if each is None else str(each) for each in listed))


def _constants(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(each, str) and each for each in (*given, *given.values())):
        raise QueryError(f"constants is {given!r}; it names columns and their text, such as {{station: roof}}.")
    return dict(given)


def _encoding(given: str | None) -> str | None:
    try:
        return None if given is None else codecs.lookup(given).name
    except LookupError:
        known = ("utf-8", "utf-16", "cp1252", "latin-1", "iso8859-15")
        raise QueryError(
            f"encoding is {given!r}, which is none that Python knows; usual are {', '.join(known)}."
            f"{did_you_mean(given or '', known)}"
        ) from None


def _check_format(given: str | None) -> None:
    if given is None:
        return
    fraction = given.count("%f") - sum(given.count(each) for each in ("%S.%f", "%S,%f", "%T.%f", "%T,%f"))
    try:
        plain = not fraction and datetime.strptime(_MOMENT.strftime(given), given) is not None
    except ValueError:
        plain = False
    if "%" not in given or not plain:
        raise QueryError(
            f"time_format is {given!r}; write it as strptime does, such as '%d.%m.%Y %H:%M:%S' "
            "(parts of seconds: %S.%f)."
        )


def _check_zone(given: str | None) -> None:
    if given is None:
        return
    try:
        ZoneInfo(given)
    except (KeyError, ValueError, OSError):
        near = did_you_mean(given, available_timezones())
        raise QueryError(f"zone is {given!r}; it is a name such as Europe/Berlin or UTC.{near}") from None
