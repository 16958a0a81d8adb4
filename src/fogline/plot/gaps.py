"""Where are the gaps? Of rows: which values are missing. Of a monitor: what the missing ones may be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fogline.monitor import Monitor
from fogline.plot.drawing import BLUE, ORANGE, WIDTH, altair, inline, most_of, titled
from fogline.plot.possible import attributes_of, cells_of, possible_rows
from fogline.query import Query
from fogline.rows.cells import is_missing
from fogline.rows.table import opened

PIECES = 60


def gaps(rows: Any, query: Any = None, *, most: int = 40) -> Any:
    """The gaps of rows, or of what a monitor holds, as an Altair chart.

    Of rows (any table; `query`, a mapping or a list names the attributes): for each attribute the share that is missing
    along the table, in at most 60 pieces. Of a monitor, or of a table with the ranges of its cells (`near_at` of an
    output): the missing cells of the `most` probable rows, each from the least to the greatest value that it may have,
    with its mean, beside the values that are known.
    """
    if isinstance(rows, Monitor):
        return _ranges(rows, query, most)
    frame = opened(rows)
    if any(str(name).endswith(".low") for name in frame.names):
        return _ranges(rows, query, most)
    return _shares(rows, query)


def _shares(rows: Any, query: Any) -> Any:
    """A strip for each attribute: how much is missing, from the first row to the last."""
    alt, frame = altair(), opened(rows)
    limits = query.limits if isinstance(query, Query) else {}
    size = max(1, math.ceil(frame.length / PIECES))
    cells = []
    order = []
    for name in attributes_of(frame, query):
        low, high = limits.get(name, (-math.inf, math.inf))
        missing = np.array([_missing(cell, low, high) for cell in cells_of(frame.column(name))], np.float64)
        label = f"{name} ({missing.mean() if len(missing) else 0:.0%})"
        order.append(label)
        for begin in range(0, frame.length, size):
            share = float(missing[begin : begin + size].mean())
            cells.append({"attribute": label, "from": begin, "to": min(begin + size, frame.length), "missing": share})
    colour = alt.Scale(domain=[0, 1], range=["#f0f0f0", BLUE])
    return (
        alt.Chart(inline(cells))
        .mark_rect(stroke="white", strokeWidth=0.3)
        .encode(
            x=alt.X("from:Q", title="row", scale=alt.Scale(nice=False)),
            x2="to",
            y=alt.Y("attribute:N", sort=order, title=None),
            color=alt.Color("missing:Q", scale=colour, legend=alt.Legend(format="%", title="missing")),
            tooltip=["attribute:N", "from:Q", "to:Q", alt.Tooltip("missing:Q", format=".1%")],
        )
        .properties(width=WIDTH, height=alt.Step(34), title=titled(f"Gaps in {frame.length:,} rows"))
    )


def _missing(cell: Any, low: float, high: float) -> bool:
    """None, NaN, NA, an empty text; or a value outside its limits."""
    if is_missing(cell) or (isinstance(cell, str) and not cell.strip()):
        return True
    return isinstance(cell, int | float) and not low <= cell <= high


def _ranges(source: Any, query: Any, most: int) -> Any:
    """Rows below each other, one column of the chart for each attribute."""
    alt = altair()
    rows, names = possible_rows(source, query)
    lacking = [row for row in rows if row.range]
    few = lacking[:most]
    cells, order = [], []
    for row in few:
        label = f"{row.name} ({row.certainty} {row.probability:.2f})"
        order.append(label)
        for name in names:
            known = row.value[name]
            low, high, mean = (known, known, known) if known is not None else row.range[name]
            kind = "known" if known is not None else "missing"
            cells.append({"row": label, "attribute": name, "low": low, "high": high, "value": mean, "cell": kind})
    colour = alt.Scale(domain=["known", "missing"], range=[BLUE, ORANGE])
    shape = alt.Scale(domain=["known", "missing"], range=["circle", "diamond"])
    base = alt.Chart().encode(
        y=alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=220)),
        color=alt.Color("cell:N", scale=colour, title="value"),
        tooltip=["row:N", "attribute:N", "cell:N", "low:Q", "value:Q", "high:Q"],
    )
    scale = alt.Scale(zero=False)
    whisker = base.mark_rule(strokeWidth=3, opacity=0.6).encode(x=alt.X("low:Q", title=None, scale=scale), x2="high")
    middle = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("value:Q", title=None, scale=scale), shape=alt.Shape("cell:N", scale=shape, title="value")
    )
    count = f"{len(lacking):,} possible row{'' if len(lacking) == 1 else 's'} with a gap"
    note = "from the least to the greatest value that a missing one may have, and its mean"
    cut = most_of(len(lacking), most, "rows, the most probable ones")
    each = alt.layer(whisker, middle).properties(width=WIDTH // max(1, len(names)), height=alt.Step(18))
    return (
        each.facet(data=inline(cells), column=alt.Column("attribute:N", sort=names, title=None))
        .resolve_scale(x="independent")
        .properties(title=titled(count, "; ".join(filter(None, [note, cut]))))
    )
