"""Who is on top, and how sure is that? Two attributes as a scatter."""

from __future__ import annotations

from typing import Any

from fogline.plot.drawing import CERTAINTIES, HEIGHT, WIDTH, altair, inline, most_of, titled
from fogline.plot.possible import Possible, chosen, possible_rows


def front(answer: Any, query: Any = None, *, x: str | None = None, y: str | None = None, most: int = 500) -> Any:
    """A scatter of two attributes (the first two unless `x` and `y` name others) as an Altair chart.

    `answer` is a monitor, whose near rows are drawn too, or a table: an answer, `near_at` of an output, or what
    `fl.skyline` gave, with a query, a mapping or a list that names the attributes. Colour and shape are the
    certainty, opacity the probability. A missing value is drawn at its mean, with a whisker over all that it may be;
    where that is not known, over the whole axis. The `most` probable rows are drawn.
    """
    alt = altair()
    rows, names = possible_rows(answer, query)
    across = chosen(x, names, 0, "x")
    up = chosen(y, [name for name in names if name != across], 0, "y")
    few = rows[:most]
    points = [_point(row, across, up, _extent(few, across), _extent(few, up)) for row in few]
    base = alt.Chart(inline(points)).encode(
        color=alt.Color("certainty:N", scale=_scale(0), title="certainty"),
        opacity=alt.Opacity("probability:Q", scale=alt.Scale(domain=[0, 1], range=[0.3, 1]), title="probability"),
    )
    scale = alt.Scale(zero=False, padding=12)
    middle = {
        "x": alt.X("x:Q", title=across, scale=scale),
        "y": alt.Y("y:Q", title=up, scale=scale),
    }
    tips = [alt.Tooltip(f"{name}:N") for name in ("id", "group", "certainty")]
    tips += [alt.Tooltip("probability:Q", format=".3f"), alt.Tooltip("gap:N")]
    whiskers = [
        base.transform_filter("datum.xlow != null").mark_rule(strokeWidth=1.5, strokeDash=[4, 2]).encode(
            x=alt.X("xlow:Q", title=across, scale=scale), x2="xhigh:Q", y=middle["y"]
        ),
        base.transform_filter("datum.ylow != null").mark_rule(strokeWidth=1.5, strokeDash=[4, 2]).encode(
            y=alt.Y("ylow:Q", title=up, scale=scale), y2="yhigh:Q", x=middle["x"]
        ),
    ]  # fmt: skip
    shape = alt.Shape("certainty:N", scale=_scale(1), title="certainty")
    marks = base.mark_point(filled=True, size=70).encode(**middle, shape=shape, tooltip=tips)
    note = "a dashed whisker: the value is missing, and may lie there"
    cut = most_of(len(rows), most, "rows, the most probable ones")
    title = titled(
        f"{_count(few, inside=True)} in, {_count(few, inside=False)} near", "; ".join(filter(None, [note, cut]))
    )
    return alt.layer(*whiskers, marks).properties(width=WIDTH, height=HEIGHT, title=title)


def _scale(part: int) -> Any:
    return altair().Scale(domain=list(CERTAINTIES), range=[each[part] for each in CERTAINTIES.values()])


def _count(rows: list[Possible], inside: bool) -> int:
    return sum((row.certainty != "possible") == inside for row in rows)


def _extent(rows: list[Possible], name: str) -> tuple[float, float]:
    """Between which values all known ones lie."""
    values = [row.value[name] for row in rows]
    values += [end for row in rows for end in row.range.get(name, ())[:2]]
    known = [each for each in values if each is not None]
    return (min(known), max(known)) if known else (0.0, 1.0)


def _point(row: Possible, across: str, up: str, wide: tuple[float, float], high: tuple[float, float]) -> dict[str, Any]:
    point: dict[str, Any] = {"id": row.name, "group": row.group, "certainty": row.certainty}
    point["probability"] = row.probability
    for axis, name, extent in ("x", across, wide), ("y", up, high):
        if row.value[name] is not None:
            point |= {axis: row.value[name], f"{axis}low": None, f"{axis}high": None}
            continue
        low, top, mean = row.range[name]
        low, top = (extent[0] if low is None else low), (extent[1] if top is None else top)
        point |= {axis: (low + top) / 2 if mean is None else mean, f"{axis}low": low, f"{axis}high": top}
    lacking = [name for name, value in row.value.items() if value is None]
    return point | {"gap": ", ".join(lacking) or "none"}
