"""How tables look in a notebook: as HTML, or as lines of text.

HTML has no scripts and no style sheet: colours are translucent, so that it reads on light and on dark, and all that
comes from data is escaped. A probability has a bar, a gap a mark, a change its sign; columns that state nothing (all
null, or an error of 0) are left out.

    fl.show(monitor.answer())        an object that a notebook renders
    %load_ext fogline                from then on every Arrow table is rendered so
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import FoglineError
from fogline.query import CHANGE_COLUMNS, LEAVING, RANGE
from fogline.show import count_of

GAP = "gap"
MOST = 50  # rows that are shown
_LONGEST = 80  # characters of a cell
_BAR = "rgba(0,114,178,.28)"  # blue of the palette of Okabe and Ito
_GAP = '<span style="border:1px dashed;border-radius:3px;padding:0 4px;opacity:.75" title="missing">gap</span>'
_SIGNS = {"enter": "▲ enter", "leave": "▽ leave", "update": "· update"}
_OWN = (*CHANGE_COLUMNS, "changes", *RANGE)  # columns that are no attributes
_BARS = ("probability",)
_SILENT = ("probability_error", *LEAVING)  # left out where they state nothing


class Rendering:
    """Something that shows itself: as HTML in a notebook, as text elsewhere."""

    def __init__(self, parts: Sequence[Any], rows: int) -> None:
        self.parts, self.rows = parts, rows

    def _repr_html_(self) -> str:
        return "".join(html_of(each, self.rows) for each in self.parts)

    def __repr__(self) -> str:
        return "\n".join(text_of(each, self.rows) for each in self.parts)


def show(thing: Any, rows: int = MOST) -> Rendering:
    """An answer, changes, an explanation or a list of them, or a monitor, as a notebook renders it.

    >>> show(pa.table({"id": ["a", "b"], "probability": [1.0, 0.75], "gas": [1.2, None]}))
    id  probability  gas
    a   1            1.2
    b   0.75         gap
    """
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise FoglineError(f"rows is {rows!r}; it is how many rows are shown at most, a whole number from 1 on.")
    if isinstance(thing, pa.RecordBatch):
        thing = pa.Table.from_batches([thing])
    parts = thing if isinstance(thing, list | tuple) else [thing]
    for each in parts:
        if not isinstance(each, pa.Table) and not hasattr(each, "_repr_html_"):
            raise FoglineError(
                f"{type(each).__name__} cannot be shown; give an answer, changes, explanations or a monitor."
            )
    return Rendering(parts, rows)


def html_of(thing: Any, rows: int = MOST) -> str:
    """A table, or whatever renders itself, as HTML."""
    if not isinstance(thing, pa.Table):
        return str(thing._repr_html_())
    names, cells, gaps = _cells(thing, rows)
    note = "" if thing.num_rows <= rows else f"… {thing.num_rows - rows:,} more"
    return html_table(names, cells, title=_title(thing), note=note, bars=_BARS, gaps=gaps)


def text_of(thing: Any, rows: int = MOST) -> str:
    """A table as lines of text."""
    if not isinstance(thing, pa.Table):
        return str(thing)
    names, cells, gaps = _cells(thing, rows)
    if not names:
        return "no columns"

    def text(name: str, value: Any) -> str:
        return (GAP if name in gaps else "") if value is None else " ".join(cell_text(value).split())

    lines = [names] + [[text(name, value) for name, value in zip(names, row, strict=True)] for row in cells]
    wide = [max(len(line[k]) for line in lines) for k in range(len(names))]
    shown = ["  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip() for line in lines]
    return "\n".join(shown if thing.num_rows <= rows else [*shown, f"… {thing.num_rows - rows:,} more"])


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext fogline`: Arrow tables are rendered as answers and changes are."""
    _formatter(shell).for_type(pa.Table, html_of)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext fogline`: as it was."""
    _formatter(shell).pop(pa.Table, None)


def _formatter(shell: Any) -> Any:
    return shell.display_formatter.formatters["text/html"]


def _title(table: pa.Table) -> str:
    names = table.schema.names
    if "change" in names and "probability" in names:
        return count_of(table.num_rows, "change")
    if "probability" in names:
        possible = table["certainty"].to_pylist().count("possible") if "certainty" in names else 0
        more = f", {possible:,} more possible" if possible else ""
        return f"{count_of(table.num_rows - possible, 'row')} in the answer{more}"
    return count_of(table.num_rows, "row")


def _cells(table: pa.Table, rows: int) -> tuple[list[str], list[list[Any]], list[str]]:
    """The columns that are shown, their cells row by row, and the columns in which null is a gap."""
    kept = [k for k, field in enumerate(table.schema) if not (field.name in _SILENT and _silent(table.column(k)))]
    table = table.select(kept)
    few = table.slice(0, rows)
    columns = [_values(field.name, few.column(k)) for k, field in enumerate(table.schema)]
    gaps = [f.name for f in table.schema if pa.types.is_floating(f.type) and f.name not in _OWN]
    names = list(table.schema.names)
    return names, [list(row) for row in zip(*columns, strict=True)], gaps


def _silent(column: pa.ChunkedArray) -> bool:
    """Null, or off by nothing, everywhere."""
    if pa.types.is_floating(column.type):
        return not bool(pc.any(pc.not_equal(column, 0.0), min_count=0).as_py())
    return bool(column.null_count == len(column))


def _values(name: str, column: pa.ChunkedArray) -> Iterable[Any]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):  # instants that Python has no value for
        values = column.cast(pa.string()).to_pylist()
    if name == "change":
        return [_SIGNS.get(each, each) for each in values]
    return [_sentence(each) for each in values] if name == "why" else values


def _sentence(why: str | None) -> str | None:
    """Of an explanation as JSON its sentence."""
    try:
        return None if why is None else str(json.loads(why)["sentence"])
    except (ValueError, KeyError, TypeError):
        return why


# --- HTML -------------------------------------------------------------------------------------------------------------


def html_table(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str = "",
    note: str = "",
    bars: Sequence[str] = ("probability",),
    gaps: Sequence[str] = (),
) -> str:
    """A table, with a title above and a note below; `bars` are columns of probabilities, `gaps` those where None is a
    missing value (in the others it is left empty).

    >>> print(html_table(["id"], [["<b>"]]).count("&lt;b&gt;"))
    1
    """
    head = "".join(f'<th style="text-align:left">{escape(str(name))}</th>' for name in names)
    lines = []
    for row in rows:
        cells = (_cell(value, name in bars, name in gaps) for name, value in zip(names, row, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    above = f"<div><b>{escape(title)}</b></div>" if title else ""
    below = f'<div style="opacity:.75">{escape(note)}</div>' if note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>" if names else ""
    return f"<div>{above}{table}{below}</div>"


def _cell(value: object, bar: bool, gap: bool) -> str:
    if value is None or (gap and isinstance(value, float) and math.isnan(value)):
        return f"<td>{_GAP if gap else ''}</td>"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return f'<td style="text-align:left">{escape(cell_text(value))}</td>'
    style = "text-align:right"
    if bar and 0 <= value <= 1:
        part = f"{100 * value:.1f}%"
        style += f";background:linear-gradient(90deg,{_BAR} {part},transparent {part})"
    return f'<td style="{style}">{escape(cell_text(value))}</td>'


def cell_text(value: object) -> str:
    """A value as one reads it: few digits, and not too long.

    >>> cell_text(0.123456789), cell_text(3.0), cell_text("x" * 99)[-3:]
    ('0.123457', '3', 'xx…')
    """
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
