"""Which columns of a file does a query look at, and as what?"""

from __future__ import annotations

from typing import NamedTuple

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
