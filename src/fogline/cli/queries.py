"""Which queries does a command answer, and what are they called?

`--query PATH` is a query; with several, each is called as its file states (`name:`), or as the file is. `--query
NAME=PATH` states a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fogline.errors import FoglineError, QueryError

if TYPE_CHECKING:
    from fogline.files.options import Options
    from fogline.queries import Asked
    from fogline.query import Query


class GivenQuery(NamedTuple):
    """What stands behind `--query`."""

    path: Path
    name: str | None  # if it is stated there


def given(text: str) -> GivenQuery:
    """A path, or a name and a path.

    >>> given("gas=deep/gas.yaml").name, given("a=b/c.yaml").path.name, given("./a=b.yaml").name
    ('gas', 'c.yaml', None)
    """
    name, sign, path = text.partition("=")
    if not sign or not name or "/" in name or Path(text).exists():
        return GivenQuery(Path(text), None)
    return GivenQuery(Path(path), name.strip())


def queries_of(texts: list[str]) -> Asked:
    """The query, or several by their names; one alone has none, unless it is stated."""
    from fogline.queries import Queries
    from fogline.query import Query

    found = [given(text) for text in texts]
    if len(found) == 1 and found[0].name is None:
        return Query.load(found[0].path)
    named: dict[str, Query] = {}
    paths: dict[str, Path] = {}
    for path, stated in found:
        query, name = Query.load(path), stated or name_in(path)
        if name in named:
            raise QueryError(
                f"two queries are called {name!r}: {str(paths[name])!r} and {str(path)!r}; give one another name, "
                f"as in --query NAME={path}."
            )
        named[name], paths[name] = query, path
    return Queries(named)


def one_of(texts: list[str], command: str) -> Query:
    """The only query that a command answers."""
    from fogline.query import Query

    if len(texts) > 1:
        way = "; a repository for all has learnt by a query with the attributes of all" if command == "fit" else ""
        raise FoglineError(
            f"{command} looks at one query at a time, and {len(texts)} are given; name one of them{way}."
        )
    return Query.load(given(texts[0]).path)


def name_in(path: Path) -> str:
    """What a query's file calls it: its `name:`, or else the file's own name."""
    from fogline.documents import read_document

    values = read_document(path, names=("name",))
    stated = values.get("name") if isinstance(values, dict) else None
    if stated is not None and not isinstance(stated, str):
        raise QueryError(f"the name in {str(path)!r} is {stated!r}; it is a text.")
    return stated or path.stem


def options_of(texts: list[str]) -> Options:
    """How files are to be read, as the queries' files state it together."""
    from fogline.files.options import Options

    found: dict[str, tuple[object, Path]] = {}
    for path in (given(text).path for text in texts):
        for name, value in Options.load(path).to_dict().items():
            before, other = found.setdefault(name, (value, path))
            if before != value:
                raise QueryError(
                    f"the queries' files state two ways to read one stream: {name} is {before!r} in {str(other)!r} and "
                    f"{value!r} in {str(path)!r}; let them agree."
                )
    return Options.from_dict({name: value for name, (value, _) in found.items()})


@contextmanager
def named(name: str | None) -> Iterator[None]:
    """Errors name the query that they are about, where there are several."""
    try:
        yield
    except FoglineError as error:
        raise error if name is None else type(error)(f"query {name!r}: {error}") from None
