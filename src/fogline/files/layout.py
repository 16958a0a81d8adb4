"""Which columns does a stream have, and what do its times mean? Found in the files that are there when it begins."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError, QueryError, did_you_mean
from fogline.files.blocks import HEAD, ORIGIN, UNREADABLE, WHY, reason_of
from fogline.files.cells import format_of, joined_type, settled_type
from fogline.files.delimited import Dialect, opened_dialect
from fogline.files.listing import files_of, folder_values, kind_of, kind_of_file, name_in, root_of
from fogline.files.objects import sample_of, type_of
from fogline.files.one_file import batches
from fogline.files.options import Options
from fogline.files.settled import Layout, Roles
from fogline.queries import Asked
from fogline.rows.cells import is_text
from fogline.rows.clock import CLOCKS, STAMP, ZONED, meaning_of, meant_by, read_times, read_versions

FILES = 200  # that are looked at
FEW = 20  # files and …
LOOKED = 1000  # … rows of each whose times show what kind of clock it is
NAMED = 3  # files in a sentence
_OFFSET = re.compile(r"\d[T ]\d.*?([Zz]|[+-]\d\d(?::?\d\d)?)\s*$")  # behind a time of day
__all__ = ["FILES", "Layout", "layout_of"]

Remark = Callable[[str], None]
Contents = Mapping[str, bytes]


class Look(NamedTuple):
    """What the start of one file shows."""

    path: str
    kind: str
    columns: Mapping[str, pa.DataType]
    dialect: Dialect | None = None
    numeric: frozenset[str] = frozenset()  # columns of JSON that hold numbers
    zones: Mapping[str, str] = {}  # of columns of Parquet: the zone that their type carries


def layout_of(
    path: str,
    query: Asked | None,
    options: Options,
    *,
    clock: str | None = None,
    lateness: Any = 0,
    remark: Remark = lambda text: None,
    contents: Contents | None = None,
    history: bool = False,
) -> Layout:
    """How the files of a stream are read, as they are now.

    `clock`: what times that are texts mean, if the user states it; else it is looked for. `remark` gets to know what
    was found by looking. `contents`: the first files by their paths, where these are not on this machine.
    `history`: these are rows of the past, which need neither ids nor times.
    """
    if clock not in (None, *CLOCKS):
        raise QueryError(f"clock is {clock!r}; it may be 'number' or 'timestamp'.")
    roles, root = Roles.of(query), root_of(path)
    roles = roles._replace(required=()) if history else roles
    kind = kind_of(path, existing=True, others=contents or ())
    looks, failed = _looks(path, root, options, roles, contents)
    if not looks:
        raise FoglineError(_nothing(path, failed))
    found = [each for each in looks if _lacking(each, roles, options, root) is None] or looks
    assumed = [*_written(found, options, root), *_absent(found, roles, root)]
    layout = Layout(kind, options, _schema(found, roles, options, root, assumed), roles, root=root)
    _must_have(layout, path, found)
    _must_lack(layout, path)
    layout = _with_clock(layout, [each.path for each in found], query, clock, lateness, assumed, contents or {}, found)
    for text in assumed:
        remark(text)
    return replace(layout, assumed=tuple(assumed))


def _looks(
    path: str, root: str, options: Options, roles: Roles, contents: Contents | None
) -> tuple[list[Look], dict[str, str]]:
    """What the files show, and why others show nothing."""
    paths = [str(each) for each in files_of(path)] if contents is None else list(contents)
    looks, failed = [], {}
    for each in paths[:FILES]:
        kind = kind_of_file(each, root)
        if kind is None:
            continue
        try:
            looks.append(_look(each, kind, options, roles, None if contents is None else contents[each]))
        except UNREADABLE as error:
            failed[name_in(each, root)] = reason_of(error)
    return looks, failed


def _look(path: str, kind: str, options: Options, roles: Roles, content: bytes | None) -> Look:
    if kind == "parquet":
        schema = pq.read_schema(path if content is None else pa.BufferReader(content))
        zones = {field.name: field.type.tz or "" for field in schema if pa.types.is_timestamp(field.type)}
        return Look(path, kind, {field.name: settled_type(field.type) for field in schema}, zones=zones)
    if kind == "json":
        rows = sample_of(path, content, options)
        names = dict.fromkeys(name for row in rows for name in row)
        types = {name: type_of([row.get(name) for row in rows]) for name in names}
        numeric = frozenset(
            name for name, each in types.items() if pa.types.is_integer(each) or pa.types.is_floating(each)
        )
        return Look(path, kind, {name: _json_type(name, each, roles) for name, each in types.items()}, numeric=numeric)
    dialect = opened_dialect(path, content, options, roles)
    return Look(path, kind, dict.fromkeys(filter(None, dialect.names), pa.string()), dialect)


def _json_type(name: str, kind: pa.DataType, roles: Roles) -> pa.DataType:
    """A type that later lines fit as well: names keep theirs, what is compared is text, other numbers are floats."""
    if pa.types.is_nested(kind) or name in roles.names:
        return settled_type(kind)
    if name in roles.all:
        return pa.string()
    return pa.float64() if pa.types.is_integer(kind) else settled_type(kind)


def _schema(looks: list[Look], roles: Roles, options: Options, root: str, assumed: list[str]) -> pa.Schema:
    types: dict[str, pa.DataType] = {}
    for look in looks:
        stated = dict.fromkeys((*folder_values(look.path, root), *(options.constants or ())), pa.string())
        for name, kind in {**stated, **look.columns}.items():
            types[name] = joined_type(types[name], kind) if name in types else kind
    if options.zone is not None:
        zoned = pa.timestamp("us", "UTC")
        types |= {name: zoned for name in roles.times if pa.types.is_timestamp(types.get(name, pa.null()))}
    if all(look.kind == "json" for look in looks):
        for name in (each for each in roles.numbers if each not in types):
            near = did_you_mean(name, types).strip()
            assumed.append(f"no line has {name!r} yet: it counts as missing until one does. {near}".rstrip())
            types[name] = pa.string()
    return pa.schema(list(types.items()))


def _lacking(look: Look, roles: Roles, options: Options, root: str) -> str | None:
    there = {*look.columns, *folder_values(look.path, root), *(options.constants or ())}
    return next((name for name in roles.required if name not in there), None) if look.kind != "json" else None


def _must_have(layout: Layout, path: str, looks: list[Look]) -> None:
    """An error if no file has what every row needs."""
    first = looks[0]
    for name in layout.roles.required:
        if name not in layout.columns.names:
            there = ", ".join(layout.columns.names)
            header = "" if first.dialect is None else "\nIf the first line is no header, state it: --no-header."
            raise QueryError(
                f"no file of {path!r} has the column {name!r}; {name_in(first.path, layout.root)} has {there}."
                f"{did_you_mean(name, layout.columns.names)}{header}"
            )


def _must_lack(layout: Layout, path: str) -> None:
    """An error if a column is called as one that each batch has beside those of its file."""
    if taken := [name for name in ORIGIN.names if name in layout.columns.names]:
        raise QueryError(
            f"a file of {path!r} has the column {taken[0]!r}: Fogline itself calls a column so, where it keeps what "
            "cannot be read; rename that of the file."
        )


def _nothing(path: str, failed: Mapping[str, str]) -> str:
    listed = "; ".join(f"{name}: {why}" for name, why in list(failed.items())[:NAMED])
    return f"no file of {path!r} can be read.\n  {listed}"


def _written(looks: list[Look], options: Options, root: str) -> Iterator[str]:
    """How files are written, where that was looked for and is not the usual way."""
    files: dict[str, list[str]] = defaultdict(list)
    for look in looks:
        if look.dialect is not None:
            files[str(look.dialect) if _unusual(look, options) else ""].append(name_in(look.path, root))
    for text, names in files.items():
        if text:
            which = "" if len(files) == 1 else f"{_names(names)}: "
            yield f"{which}read as {text}. Change it with --separator, --decimal, --encoding."


def _unusual(look: Look, options: Options) -> bool:
    """Whether something that was not stated is not as most files have it."""
    assert look.dialect is not None
    usual = "\t" if look.kind == "tsv" else ",", ".", "utf-8"
    found = look.dialect.separator, look.dialect.decimal, look.dialect.encoding.removesuffix("-sig")
    stated = options.separator, options.decimal, options.encoding
    looked = any(a != b and c is None for a, b, c in zip(found, usual, stated, strict=True))
    return looked or (look.dialect.thousands and options.decimal is None)


def _absent(looks: list[Look], roles: Roles, root: str) -> Iterator[str]:
    """Attributes that some files have and others lack."""
    for name in roles.numbers:
        without = [look for look in looks if look.kind != "json" and name not in look.columns]
        if without and any(name in look.columns for look in looks):
            names = _names([name_in(each.path, root) for each in without])
            yield f"{names}: no column {name!r}; it counts as missing there."


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED:,} more"


def _with_clock(
    layout: Layout,
    paths: list[str],
    query: Asked | None,
    given: str | None,
    lateness: Any,
    assumed: list[str],
    contents: Contents,
    looks: list[Look],
) -> Layout:
    """The layout with what its times and versions mean, and how times are written."""
    if query is None or query.time not in layout.columns.names:
        return replace(layout, clock=given or "")
    times = query.time, *((query.expires,) if query.expires else ())
    texts = [name for name in times if name in layout.columns.names and is_text(layout.columns.field(name).type)]
    if not texts:
        carried = {look.zones[query.time] or layout.options.zone or "" for look in looks if query.time in look.zones}
        zone = carried.pop() if len(carried) == 1 else "UTC" if carried else None
        return replace(layout, clock=given or "", versions=_versions(layout, paths, query, contents), zone=zone)
    options = layout.options
    stamped = "timestamp" if options.time_format or options.zone else None
    numeric = "number" if all(query.time in look.numeric for look in looks) else None
    stated = given or stamped or numeric
    cells = pa.array([], pa.string())
    if stated != "number":
        cells = _first(replace(layout, clock="number"), paths, texts[0], contents)
    shown = meaning_of(cells.to_pylist())
    meant = stated or _unless_shown(cells, meant_by(query, lateness), shown)
    if meant != "number":
        if shown != "number" and options.time_format is None and (found := _format(cells)) is not None:
            options, shown = options.stated(time_format=found), "timestamp"
            zone, way = ("", "") if options.zone else (", in UTC", ", --zone")
            assumed.append(f"the times in {texts[0]!r} are read as {found}{zone}. Change it with --time-format{way}.")
        elif meant is None and shown is not None:
            assumed.append(
                f"the times in {query.time!r} are read as {shown}s, as the first rows show. Change it with --clock."
            )
        meant = meant or shown
    if meant is None and layout.roles.required:
        shown = f"are texts such as {cells[0].as_py()!r}" if len(cells) else "are texts, or missing"
        raise QueryError(
            f"the times in {query.time!r} {shown}, and the first rows do not show whether they mean "
            "numbers or timestamps; state it: --clock number, --clock timestamp, or --time-format (in Python clock=)."
        )
    layout = replace(layout, clock=meant or "", options=options, zone=options.zone or _zone(cells))
    return replace(layout, versions=_versions(layout, paths, query, contents))


def _unless_shown(cells: pa.Array, meant: str | None, shown: str | None) -> str | None:
    """What the rest of the query takes times for, unless the first ones are all of the other kind."""
    if meant is None or not len(cells) or not np.isnan(read_times(cells, "", CLOCKS[meant]).value).all():
        return meant
    written = shown is None and _format(cells) is not None  # as timestamps are that are not ISO 8601
    return "timestamp" if written else shown or meant


def _zone(cells: pa.Array) -> str:
    """The zone that texts carry: their one offset from UTC; UTC itself where they have several.

    >>> _zone(pa.array(["2024-03-01T10:00+02:00", "2024-03-01 11:00+0200"])), _zone(pa.array(["2024-03-01 10:00"]))
    ('+02:00', '')
    """
    found = {match[1] for text in cells.to_pylist() if text and (match := _OFFSET.search(text))}
    found = {"UTC" if each in "Zz" else f"{each[:3]}:{each[3:].removeprefix(':') or '00'}" for each in found}
    return "" if not found else found.pop() if len(found) == 1 else "UTC"


def _format(cells: pa.Array) -> str | None:
    """How the times are written that are no timestamps as they are."""
    odd = list(read_times(cells, "", ZONED).refused)
    return format_of(cells.take(pa.array(odd, pa.int64()))) if odd else None


def _versions(layout: Layout, paths: list[str], query: Asked, contents: Contents) -> str:
    """What versions that are texts mean, as the first rows show: numbers or timestamps. Empty: no texts."""
    name = query.version
    if name is None or name not in layout.columns.names or not is_text(layout.columns.field(name).type):
        return ""
    kind = read_versions(_first(layout, paths, name, contents).to_pylist(), name, None, {}).kind
    return "timestamp" if kind == STAMP else "number"


def _first(layout: Layout, paths: list[str], name: str, contents: Contents) -> pa.Array:
    """The first cells of a column, of some of the files; an error if none of these can be read."""
    found: list[pa.Array] = []
    bad: dict[str, str] = {}
    for path in paths[:FEW]:
        batch = next(batches(path, layout, content=contents.get(path), size=HEAD), None)
        if batch is not None:
            cells, why = batch.column(name).slice(0, LOOKED).drop_null(), batch.column(WHY).drop_null()
            found += [cells] if len(cells) else []
            bad |= {name_in(path, layout.root): why[0].as_py()} if len(why) else {}
    if bad and not found:
        raise FoglineError(_nothing(layout.root, bad))
    return pa.concat_arrays(found) if found else pa.array([], pa.string())
