"""How does an object show itself in a notebook?

As a small table of HTML without scripts and without a style sheet: colours are translucent, so that it reads on light
and on dark. All that comes from data is escaped. A gap is a mark of its own, a probability a number over a bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

GAP = "gap"
MOST = 50  # rows that are shown
_LONGEST = 80  # letters of a cell
_BAR = "rgba(0,114,178,.28)"  # blue of the palette of Okabe and Ito
_GAP = '<span style="border:1px dashed;border-radius:3px;padding:0 4px;opacity:.75" title="missing">gap</span>'


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
