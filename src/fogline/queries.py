"""Several queries over one stream, by their names.

They agree on the columns of ids, times and versions, and each column has one role for all of them. All else may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

from fogline.errors import FoglineError, QueryError
from fogline.query import RANGE, Query, must_be_query

QUERY = "query"  # the column with the name of the query, of changes, rejects and health
OPENS = "["  # how the key of a group begins; no name holds it
_SEVERAL = "queries"  # in plain values


class Queries(Mapping[str, Query]):
    """Queries by their names.

    >>> fire = Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime=5)
    >>> list(Queries({"fire": fire, "wet": Query(attributes={"damp": "max"}, id="sensor", time="t", last=9)}).names)
    ['heat', 'damp']
    """

    def __init__(self, named: Mapping[str, Query]) -> None:
        self._named = dict(named)
        _check_names(self._named)
        _check_stream(self._named)
        _check_roles(self._named)

    def __getitem__(self, name: str) -> Query:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    @property
    def id(self) -> str:
        """The column that names a row."""
        return self._any.id

    @property
    def time(self) -> str:
        """The column with a row's arrival."""
        return self._any.time

    @property
    def arrived(self) -> str:
        """The column of outputs with a row's own time: see `Query.arrived`."""
        return self._any.arrived

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of groups of any of them."""
        return self._all(lambda query: query.by)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of any of them."""
        return self._all(lambda query: query.names)

    @property
    def kept(self) -> tuple[str, ...]:
        """The other columns that come along for any of them."""
        shown = {*self.by, *self.names}
        return tuple(name for name in self._all(lambda query: query.kept) if name not in shown)

    def keeping(self, there: Iterable[str]) -> Queries:
        """The same queries; those that keep all columns name them: see `Query.keeping`."""
        attributes = {*self.names}  # of the others, too: those come out as numbers
        others = [name for name in there if name not in attributes]
        return Queries({name: query.keeping(others) for name, query in self.items()})

    @property
    def expires(self) -> str | None:
        """A column with expiries, if any has one."""
        return next((query.expires for query in self.values() if query.expires is not None), None)

    @property
    def version(self) -> str | None:
        """The column with versions, if any has one."""
        return next((query.version for query in self.values() if query.version is not None), None)

    @property
    def clock_meaning(self) -> str | None:
        """What the lengths of time of the first query that has any show the times to be; see `Query`."""
        return next((meaning for query in self.values() if (meaning := query.clock_meaning) is not None), None)

    @property
    def latest(self) -> bool:
        """Whether only the newest row of each id counts, for any of them."""
        return any(query.latest for query in self.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, of which `asked_from` makes these again."""
        return {_SEVERAL: {name: query.to_dict() for name, query in self.items()}}

    @property
    def _any(self) -> Query:
        return next(iter(self.values()))

    def _all(self, columns: Callable[[Query], Iterable[str]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for query in self.values() for name in columns(query)))

    def __repr__(self) -> str:
        return f"Queries({self._named!r})"


Asked = Query | Queries  # one query, or several by their names


def asked_of(given: Any) -> Asked:
    """What a user asks: a query, or a mapping of queries by their names."""
    if isinstance(given, Query | Queries):
        return given
    if isinstance(given, Mapping):
        return Queries(given)
    if isinstance(given, Iterable) and not isinstance(given, str | PathLike):
        raise QueryError("several queries are answered by their names: {'fire': query, 'gas': another}.")
    must_be_query(given, "what a run answers")
    raise AssertionError


def asked_from(plain: Mapping[str, Any]) -> Asked:
    """The inverse of `to_dict`."""
    if _SEVERAL in plain:
        return Queries({name: Query.from_dict(each) for name, each in plain[_SEVERAL].items()})
    return Query.from_dict(plain)


def each_of(asked: Asked) -> dict[str | None, Query]:
    """The queries by their names; a query alone has none."""
    return {None: asked} if isinstance(asked, Query) else dict[str | None, Query](asked.items())


def differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Which of several queries differ, as a text, given plain values; None where both are a query alone.

    >>> differing({"queries": {"fire": {}, "gas": {}}}, {"queries": {"fire": {"alpha": 1}, "wet": {}}})
    "in 'fire' alpha was not given and is now 1, 'gas' is missing, 'wet' is new"
    """
    if _SEVERAL not in was and _SEVERAL not in now:
        return None
    old, new = (each.get(_SEVERAL, {"": each}) for each in (was, now))
    words = []
    for name in dict.fromkeys((*old, *new)):
        called = repr(name) if name else "the query without a name"
        if name not in new:
            words.append(f"{called} is missing")
        elif name not in old:
            words.append(f"{called} is new")
        elif old[name] != new[name]:
            words.append(f"in {called} {differing_fields(old[name], new[name])}")
    return ", ".join(words)


def differing_fields(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which fields of a query differ, as a text, given plain values.

    >>> differing_fields({"id": "i", "alpha": 0.5, "last": 3}, {"id": "i", "alpha": 0.4})
    'alpha was 0.5 and is now 0.4, last was 3 and is now not given'
    """
    names = [name for name in dict.fromkeys((*now, *was)) if was.get(name) != now.get(name)]
    return ", ".join(f"{name} was {_given(was, name)} and is now {_given(now, name)}" for name in names)


def _given(values: Mapping[str, Any], name: str) -> str:
    return repr(values[name]) if name in values else "not given"


def _check_names(queries: Mapping[Any, Any]) -> None:
    if not queries:
        raise FoglineError("there is no query to answer; give at least one, by its name.")
    for name, query in queries.items():
        if not isinstance(name, str) or not name or OPENS in name or not name.isprintable():
            raise FoglineError(
                f"a query is called {name!r}; its name is a text that can be printed, without '{OPENS}', as in 'fire'."
            )
        if not isinstance(query, Query):
            must_be_query(query, f"what {name!r} names")


def _check_stream(queries: Mapping[str, Query]) -> None:
    """What holds for the stream holds for all queries."""
    (first, one), *others = queries.items()
    for name, query in others:
        for what in ("id", "time"):
            if getattr(query, what) != getattr(one, what):
                raise QueryError(
                    f"queries over one stream agree on its {what}: {first!r} has {getattr(one, what)!r}, {name!r} has "
                    f"{getattr(query, what)!r}; run them apart, or let them agree."
                )
    versions = {query.version: name for name, query in queries.items() if query.version is not None}
    if len(versions) > 1:
        (column, name), (other, second), *_ = versions.items()
        raise QueryError(
            f"queries over one stream agree on its versions: {name!r} has {column!r}, {second!r} has {other!r}; run "
            "them apart, or let them agree."
        )


def _check_roles(queries: Mapping[str, Query]) -> None:
    """Each column has one role in all queries, and none is called as the column with the query's name."""
    roles: dict[str, tuple[str, str]] = {}
    ranges = {f"{each}.{end}": (each, end) for query in queries.values() for each in query.names for end in RANGE}
    for name, query in queries.items():
        found: list[tuple[str, Iterable[str | None]]] = [("an attribute", query.names), ("a group", query.by)]
        found += [("the id", [query.id]), ("the time", [query.time])]
        found += [("the expiry", [query.expires]), ("the version", [query.version]), ("a removal", [query.gone_column])]
        for role, columns in [*found, ("kept", query.kept)]:
            for column in columns:
                if column is None:
                    continue
                if column.lower() == QUERY and role in ("an attribute", "a group", "the id", "the time", "kept"):
                    raise QueryError(
                        f"query {name!r}: its column {column!r} would collide with the column {QUERY!r} that outputs "
                        "of several queries add; give it another name in the source."
                    )
                if column in ranges:
                    attribute, end = ranges[column]
                    raise QueryError(
                        f"the column {column!r} of query {name!r} would collide with the {end} of {attribute!r} that "
                        "outputs add; give it another name in the source."
                    )
                if role == "kept":  # another query may make something of it
                    continue
                before, other = roles.setdefault(column, (role, name))
                if before != role:
                    raise QueryError(
                        f"column {column!r} is {before} of query {other!r} and {role} of {name!r}: in one run a column "
                        "is one thing; run them apart."
                    )
