"""What holds for all files of a stream once it has begun: columns, types, what times mean, and what the query needs."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from fogline.errors import FoglineError, other_format
from fogline.files.blocks import ORIGIN
from fogline.files.listing import root_of
from fogline.files.options import Options
from fogline.queries import Asked, Queries


class Roles(NamedTuple):
    """Columns by what they are to a query; others are read as well, and never refuse a row."""

    names: tuple[str, ...] = ()  # id, groups, removals: kept as they are
    numbers: tuple[str, ...] = ()  # attributes
    times: tuple[str, ...] = ()  # arrival, expiry, version
    required: tuple[str, ...] = ()  # without these a file has no rows of the stream

    @classmethod
    def of(cls, query: Asked | None) -> Roles:
        """What a query asks for, or several; without one, nothing."""
        if query is None:
            return cls()
        if isinstance(query, Queries):
            found = [cls.of(each) for each in query.values()]
            return cls(
                *(tuple(dict.fromkeys(name for each in parts for name in each)) for parts in zip(*found, strict=True))
            )
        names = tuple(name for name in (query.id, *query.by, query.gone_column) if name is not None)
        times = tuple(name for name in (query.time, query.expires, query.version) if name is not None)
        expiry = () if query.expires is None or query.latest else (query.expires,)
        return cls(names, query.names, times, (query.id, query.time, *query.by, *expiry))

    @property
    def all(self) -> frozenset[str]:
        """Every column that is looked at."""
        return frozenset((*self.names, *self.numbers, *self.times))


# --- What holds for all files -----------------------------------------------------------------------------------------
#
# The names and types of its columns, what its times mean, and how they are written: settled by the files that are there
# when it begins, and kept with the run. So what the query compares is text wherever a file's kind leaves that open
# (csv, json), and decoded by `fogline.rows`, which refuses a cell by its name: 2, then 2.5, then "n/a" is no line that
# cannot be read. Names keep the types of Parquet and JSON; in csv they are texts: 007 is not 7.

FORMAT = 1  # of what `to_dict` gives


@dataclass(frozen=True)
class Layout:
    """How files of one stream are read."""

    kind: str  # of its files when it began; "mixed" where they had several
    options: Options  # as stated; what is None is looked for in each file
    columns: pa.Schema  # that every batch has, without those of `files.blocks`
    roles: Roles
    clock: str = ""  # what times that are texts mean, "number" or "timestamp"; empty: they are no texts
    versions: str = ""  # the same of versions
    assumed: tuple[str, ...] = ()  # sentences: what was found by looking
    root: str = ""  # the folder that names of files are relative to
    zone: str | None = None  # in which times are shown: what they carry; empty: they carry none; None: not known

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of every batch: those of the stream, and those of `files.blocks`."""
        return pa.schema([*self.columns, *ORIGIN])

    def at(self, path: str) -> Layout:
        """The same for the stream at this path, which may have been moved."""
        return replace(self, root=root_of(path))

    def check(self, options: Options, clock: str | None, output: str) -> None:
        """Is what is stated now what the run was begun with? What is not stated now does not matter."""
        if clock is not None and clock != self.clock:
            was = self.clock or "what its column shows"
            raise FoglineError(f"{output!r} was begun with the clock {was}, not {clock}; choose another output.")
        begun = self.options.to_dict()
        for name, now in options.to_dict().items():
            if begun.get(name) != now:
                was = f"{name} {begun[name]!r}" if name in begun else f"{name} not stated"
                raise FoglineError(f"{output!r} was begun with {was}, not {now!r}; choose another output.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` turns into this layout again."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "options": self.options.to_dict(),
            "names": self.columns.names,
            "columns": b64encode(self.columns.serialize()).decode(),
            "roles": [list(each) for each in self.roles],
            "clock": self.clock,
            "versions": self.versions,
            "assumed": list(self.assumed),
            "zone": self.zone,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str) -> Layout:
        """The layout of the stream at this path."""
        if values.get("format") != FORMAT:
            known = "choose another output"
            raise FoglineError(other_format("what the run knows of its files", values.get("format", 0), FORMAT, known))
        return cls(
            values["kind"],
            Options.from_dict(values["options"]),
            pa.ipc.read_schema(pa.py_buffer(b64decode(values["columns"]))),
            Roles(*(tuple(each) for each in values["roles"])),
            values["clock"],
            values["versions"],
            tuple(values["assumed"]),
            root_of(path),
            values.get("zone"),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "schema"}
