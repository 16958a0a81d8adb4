"""How do the rows of a file get the columns of the stream?

By name, so the order of columns does not matter; columns of the file that the stream does not have are left out, those
that it lacks are missing. Cells are written the usual way (`files.canonical`) and cast (`files.casting`). A cell of a
column that the query looks at and that does not fit refuses its row; others become null. So do null words, but in what
names rows and groups: there `-` is a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fogline.files.canonical import as_instants, with_point, without_nulls, without_thousands
from fogline.files.casting import cast, unfit
from fogline.files.origin import CORRUPT, FILE, LINE, WHY
from fogline.files.raw import Raw
from fogline.rows.cells import Reasons, is_text, mended
from fogline.show import quoted

if TYPE_CHECKING:
    from fogline.files.settled import Layout


def fitted(raw: Raw, layout: Layout, file: str | pa.Array, stated: Mapping[str, str]) -> pa.RecordBatch:
    """The rows in the columns of the layout. `stated`: what the names of folders say of all rows of the file.

    `file`: its name, or one for each row.
    """
    why: Reasons = {}
    stated = {**(layout.options.constants or {}), **stated}
    columns = [_column(raw, field, layout, stated, why) for field in layout.columns]
    reasons = pa.nulls(raw.rows, pa.string())
    if why:
        reasons = pa.array([why.get(i) for i in range(raw.rows)], pa.string())
    lines = pa.nulls(raw.rows, pa.int64()) if raw.lines is None else pa.array(raw.lines, pa.int64())
    columns += [pa.nulls(raw.rows, pa.string()), reasons, _named(file, raw.rows), lines]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema)


def _column(raw: Raw, field: pa.Field, layout: Layout, stated: Mapping[str, str], why: Reasons) -> pa.Array:
    name = field.name
    given = raw.columns.get(name)
    if given is None:
        value = stated.get(name)
        if value is None:
            return pa.nulls(raw.rows, field.type)
        given = pa.repeat(value, raw.rows)
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if is_text(given.type):
        given = _usual(_as_text(given, name, layout, why), name, raw, layout)
    if name not in layout.roles.names:
        stated_words = () if name in layout.roles.times else layout.options.nulls or ()
        given = without_nulls(given, stated_words)
    names_rows = name in layout.roles.names and name in layout.roles.required
    if names_rows and pa.types.is_boolean(given.type) and not _takes_truth(field.type):
        out, bad = pa.nulls(raw.rows, field.type), given.is_valid().to_numpy(zero_copy_only=False)  # True is not 1
    else:
        out, bad = cast(given, field.type, layout.options.zone if name in layout.roles.times else None)
    if bad is not None and name in layout.roles.all:
        for i in np.flatnonzero(bad).tolist():
            why.setdefault(i, f"{name!r} is {quoted(given[i].as_py())}, {unfit(given.type, field.type)}")
    return out


def _takes_truth(kind: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(kind) or is_text(kind))


def _as_text(given: pa.Array, name: str, layout: Layout, why: Reasons) -> pa.Array:
    """Texts whose bytes are texts; a row that the query would look at with others is refused."""
    whole, changed = mended(given)
    if changed is not None and name in layout.roles.all:
        for i in np.flatnonzero(changed).tolist():
            why.setdefault(i, f"{name!r} holds bytes that are not UTF-8 text")
    return whole


def _usual(given: pa.Array, name: str, raw: Raw, layout: Layout) -> pa.Array:
    """Texts as others write them."""
    roles, options = layout.roles, layout.options
    instants = name in roles.times and layout.clock != "number"
    if name not in roles.names and not instants:
        if raw.decimal == ",":
            given = with_point(given, strict=name in roles.numbers or name in roles.times)
        else:
            given = without_thousands(given, shown=raw.thousands)
    if instants and (options.time_format or options.zone):
        given = as_instants(given, options.time_format, options.zone)
    return given


def _named(file: str | pa.Array, rows: int) -> pa.Array:
    return pa.repeat(file, rows) if isinstance(file, str) else file


def unread(layout: Layout, file: str | pa.Array, bad: list[tuple[int | None, str, str]]) -> pa.RecordBatch:
    """Lines that cannot be read, as rows that have nothing but their text and the reason: (line, text, reason)."""
    n = len(bad)
    beside = {
        CORRUPT: pa.array([text for _, text, _ in bad], pa.string()),
        WHY: pa.array([why for *_, why in bad], pa.string()),
        FILE: _named(file, n),
        LINE: pa.array([line for line, *_ in bad], pa.int64()),
    }
    columns = [beside[field.name] if field.name in beside else pa.nulls(n, field.type) for field in layout.schema]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema)
