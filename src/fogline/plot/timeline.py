"""Who was in, from when to when, how probably, and why did it leave?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fogline.errors import RowsError
from fogline.plot.drawing import BLUE, GREEN, ORANGE, RED, WIDTH, altair, inline, kind_of, most_of, plain, titled
from fogline.plot.possible import row_names
from fogline.rows.table import opened

ENDS = {  # why a row left: colour and shape
    "expired": ("#56B4E9", "circle"),
    "beaten": (RED, "cross"),
    "less likely": (ORANGE, "triangle-down"),
    "replaced": (GREEN, "diamond"),
    "removed": ("#CC79A7", "square"),
    "begun anew": ("#000000", "stroke"),
}
PIECES = 5000  # bars at most, the last ones
_NEEDED = ("time", "change", "probability")


def timeline(changes: Any, *, most: int = 40, by: Any = ()) -> Any:
    """A bar for each stay in the answer, as an Altair chart; opacity is the probability, a mark states why it ended.

    One that has just come is a tick. `changes` is a table of changes, or a list of those that `Monitor.advance` gave,
    in their order. The `most` ids that were in last are drawn; `by` names columns whose values are put before the id.
    Of many changes of probability only the last ones are drawn; the title states what is left out.
    """
    alt = altair()
    table = pa.concat_tables(changes, promote_options="permissive") if _is_list(changes) else changes
    stays, ends, kind = _stays(table, (by,) if isinstance(by, str) else tuple(by))
    order = list(dict.fromkeys(stay["name"] for stay in reversed(stays)))
    shown = order[:most]
    pieces = [stay for stay in stays if stay["name"] in set(shown)]
    left = [end for end in ends if end["name"] in set(shown)]
    base = alt.Y("name:N", sort=shown, title="id")
    bars = (
        alt.Chart(inline(pieces[-PIECES:]))
        .mark_bar(height={"band": 0.6}, color=BLUE)
        .encode(
            x=alt.X(f"since:{kind}", title="time"),
            x2="until",
            y=base,
            opacity=alt.Opacity("probability:Q", scale=alt.Scale(domain=[0, 1], range=[0.15, 1]), title="probability"),
            tooltip=["name:N", f"since:{kind}", f"until:{kind}", alt.Tooltip("probability:Q", format=".3f")],
        )
    )
    just_now = [stay for stay in pieces[-PIECES:] if stay["since"] == stay["until"]]
    entered = alt.Chart(inline(just_now)).mark_tick(color=BLUE, thickness=4).encode(x=f"since:{kind}", y=base)
    reasons = sorted({end["reason"] for end in left}, key=list(ENDS).index)
    marks = (
        alt.Chart(inline(left[-PIECES:]))
        .mark_point(filled=True, size=60, opacity=1)
        .encode(
            x=f"time:{kind}",
            y=base,
            color=alt.Color("reason:N", scale=_scale(reasons, 0), title="left, since it"),
            shape=alt.Shape("reason:N", scale=_scale(reasons, 1), title="left, since it"),
            tooltip=["name:N", f"time:{kind}", "reason:N", "beaten_by:N"],
        )
    )
    notes = (
        most_of(len(order), most, "ids, those that were in last"),
        most_of(len(pieces), PIECES, "bars, the last ones"),
        most_of(len(left), PIECES, "marks, the last ones"),
    )
    title = titled("Who was in, and when", "; ".join(filter(None, notes)))
    return alt.layer(bars, entered, marks).properties(width=WIDTH, height=alt.Step(18), title=title)


def _is_list(changes: Any) -> bool:
    return isinstance(changes, list | tuple) and bool(changes) and isinstance(changes[0], pa.Table)


def _scale(reasons: list[str], part: int) -> Any:
    return altair().Scale(domain=reasons, range=[ENDS[reason][part] for reason in reasons])


def _stays(table: Any, by: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """Pieces of equal probability, from change to change; how stays ended; and the kind of the clock."""
    frame = opened(table)
    lacking = [name for name in (*_NEEDED, *by) if name not in frame.names]
    if lacking:
        raise RowsError(f"a table of changes has the columns {', '.join(_NEEDED)}; this one lacks {lacking[0]!r}.")
    *_, id, arrived = row_names(frame.names)
    asked = [name for name in (*_NEEDED, *by, id, arrived, "reason", "beaten_by") if name in frame.names]
    columns = [frame.column(name) for name in asked]
    cells = [column.to_pylist() if isinstance(column, pa.Array) else column for column in columns]
    rows = [dict(zip(asked, row, strict=True)) for row in zip(*cells, strict=True)]
    opened_at: dict[tuple[Any, ...], dict[str, Any]] = {}
    stays: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for row in rows:
        name = ", ".join(str(row[each]) for each in (*by, id))
        key = (name, str(row.get(arrived)))
        before = opened_at.pop(key, None)
        if before is not None:
            stays.append(before | {"until": plain(row["time"])})
        if row["change"] == "leave":
            reason = row.get("reason") or "removed"
            beaten_by = plain(row.get("beaten_by"))
            ends.append({"name": name, "time": plain(row["time"]), "reason": reason, "beaten_by": beaten_by})
        else:
            opened_at[key] = {"name": name, "since": plain(row["time"]), "probability": row["probability"]}
    latest = plain(rows[-1]["time"]) if rows else None
    stays += [before | {"until": latest} for before in opened_at.values()]
    return stays, ends, kind_of([row["time"] for row in rows])
