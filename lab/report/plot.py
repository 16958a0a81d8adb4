"""How are rows drawn, or set as tables?

A point is the mean over all rows with the same x, series and facet. Numbers keep three digits; more of them are in the
rows of the results.

A plot has one panel per facet, side by side, one line or group of bars per series, and one legend. Colours can be
distinguished by the colour-blind (after Okabe and Ito), and every series has a marker of its own; Fogline is always the
thick vermilion one. Ink (text, axes) is a colour that occurs nowhere else: on the page it becomes the colour of the
text around it, so the same drawing serves light and dark; in a file of its own it is dark, on white.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from lab.experiment import Plot
from lab.race import FOGLINE, RIVALS


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as text: the first column names its rows."""

    title: str
    head: Sequence[str]
    body: Sequence[Sequence[str]]


def select(plot: Plot, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows a plot is about: those with the values it asks for, and with something to show."""
    needed = [plot.x, plot.y, *([plot.series] if plot.series else []), *([plot.facet] if plot.facet else [])]
    if any(name not in rows for name in (*needed, *plot.where)):
        return rows.iloc[:0]
    keep = rows[plot.y].notna() & rows[plot.x].notna()
    for name, value in plot.where.items():
        wanted = value if isinstance(value, tuple) else (value,)
        keep &= rows[name].isna() if value is None else rows[name].isin(wanted)
    return rows[keep]


def values(rows: pd.DataFrame, name: str | None) -> list[Any]:
    """What occurs in a column: numbers by size, anything else as it came."""
    if name is None:
        return [None]
    found = list(rows[name].dropna().unique())
    number = pd.api.types.is_numeric_dtype(rows[name]) and not pd.api.types.is_bool_dtype(rows[name])
    return sorted(found) if number else found


def having(rows: pd.DataFrame, name: str | None, value: Any) -> pd.DataFrame:
    """The rows with this value; without a name, all."""
    return rows if name is None else rows[rows[name] == value]


def grids(plot: Plot, rows: pd.DataFrame) -> list[TextTable]:
    """A table per facet: x down, series across."""
    made = []
    for facet in values(rows, plot.facet):
        part = having(rows, plot.facet, facet)
        names = values(part, plot.series)
        head = [plot.x_label or plot.x, *(plot.y_label or plot.y if name is None else text(name) for name in names)]
        body = [
            [text(x), *(_cell(plot, having(having(part, plot.x, x), plot.series, name)) for name in names)]
            for x in values(part, plot.x)
        ]
        made.append(TextTable("" if facet is None else text(facet), head, body))
    return made


def _cell(plot: Plot, rows: pd.DataFrame) -> str:
    found = rows[plot.y]
    if found.empty:
        return "–"
    if not pd.api.types.is_numeric_dtype(found) or pd.api.types.is_bool_dtype(found):
        return ", ".join(text(value) for value in found.unique())
    if plot.per:
        found = rows.groupby(list(plot.per))[plot.y].mean()
    spread = f" ± {found.std():.2g}" if plot.spread and len(found) > 1 else ""
    return f"{text(float(found.mean()))}{spread}"


def text(value: Any) -> str:
    """
    >>> text(20_000), text(0.98765), text(0.00001234), text(True), text(None), text("DD")
    ('20,000', '0.988', '1.23e-05', 'yes', '–', 'DD')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if not isinstance(value, int | float | np.number):
        return str(value)
    number = float(value)
    if number.is_integer() and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def short(value: float) -> str:
    """For axes.

    >>> short(20_000), short(1_500_000), short(0.3), short(1e-5)
    ('20K', '1.5M', '0.3', '1e-05')
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


# -------------------------------------------------------------------------------------------------------------- drawing


INK = "#24292f"
FOGLINE_COLOUR = "#d55e00"
COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#8c6bb1", "#999933", "#a6611a")
MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "p")
ACROSS = 4  # panels in a row
NARROW, WIDE = 4.0, 11.3
CROWDED = 8  # more x values than this are not all named
LOOKS: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "svg.fonttype": "none",  # text stays text: small, searchable, in the reader's font
    "svg.hashsalt": "fogline",  # the same rows give the same file
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#8c959f",
    "grid.alpha": 0.25,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a series looks in every panel."""

    colour: str
    marker: str
    width: float
    dash: str = "-"
    front: int = 2


def draw(plot: Plot, rows: pd.DataFrame) -> str:
    """An SVG of the rows, which are not empty."""
    facets, series = values(rows, plot.facet), values(rows, plot.series)
    looks, x = styles(series), values(rows, plot.x)
    across = min(len(facets), ACROSS)
    down = -(-len(facets) // across)
    with matplotlib.rc_context(LOOKS):
        figure = Figure(figsize=(width(plot, rows), 0.5 + 2.6 * down), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False, sharey=_alike(plot, rows))
        panels: list[Axes] = list(grid.flat)
        for axes, facet in zip(panels, facets, strict=False):
            _panel(axes, plot, having(rows, plot.facet, facet), x, looks)
            if facet is not None:
                name = text(facet) if isinstance(facet, str) else f"{plot.facet} = {text(facet)}"
                axes.set_title(name, fontsize=9, fontweight="bold")
        for axes in panels[len(facets) :]:
            axes.set_visible(False)
        for axes in panels[: len(facets)]:
            _name_y(axes, plot)  # only now: panels may share the axis
        for row in grid:
            row[0].set_ylabel(plot.y_label or plot.y)
        _legend(figure, panels, series, plot)
        return _svg(figure, plot.title)


def width(plot: Plot, rows: pd.DataFrame) -> float:
    """Inches: one panel is NARROW, unless many bars need more; panels share a row, which is at most WIDE."""
    across = min(len(values(rows, plot.facet)), ACROSS)
    bars = len(values(rows, plot.x)) * (1 + len(values(rows, plot.series))) if plot.kind == "bar" else 0
    least = NARROW if across == 1 else 0.5 + 2.7 * across
    return min(max(least, 0.6 + 0.17 * bars * across), WIDE)


def styles(series: Sequence[Any]) -> Mapping[Any, Style]:
    """Fogline stands out; the paper's rivals look the same in every plot; others take what is left."""
    rivals = {name: k for k, name in enumerate(RIVALS)}
    taken = {rivals[name] for name in series if name in rivals}
    free = [k for k in range(len(COLOURS)) if k not in taken] or list(range(len(COLOURS)))
    made, others = {}, 0
    for name in series:
        if name is None or is_fogline(name):
            dash = "-" if name is None or ":" not in str(name) else "--"
            made[name] = Style(FOGLINE_COLOUR, "o", 2.4, dash, front=3)
            continue
        k = rivals[name] if name in rivals else free[others % len(free)]
        turn = 0 if name in rivals else others // len(free)
        others += name not in rivals
        made[name] = Style(COLOURS[k], MARKERS[k], 1.4, ("-", "--", ":")[turn % 3])
    return made


def is_fogline(name: Any) -> bool:
    """Is it Fogline?"""
    return str(name).lower().partition(":")[0].strip() == FOGLINE


def _alike(plot: Plot, rows: pd.DataFrame) -> bool:
    """May panels share the y axis without one of them being squeezed flat?"""
    if plot.facet is None or plot.log_y:
        return True
    tops = rows.groupby(plot.facet, sort=False)[plot.y].max()
    return bool(tops.min() > 0 and tops.max() / tops.min() < 5)


def _panel(axes: Axes, plot: Plot, rows: pd.DataFrame, x: list[Any], looks: Mapping[Any, Style]) -> None:
    number = plot.kind == "line" and all(not isinstance(value, str | bool) for value in x)
    here = [value for value in x if value in set(rows[plot.x])] if not number else x
    place = {value: float(value) if number else float(k) for k, value in enumerate(here)}
    if plot.log_y:
        axes.set_yscale("log")
    if number and plot.log_x:
        axes.set_xscale("log")
    shown = [name for name in looks if not having(rows, plot.series, name).empty]
    for k, name in enumerate(shown):
        part = having(rows, plot.series, name).astype({plot.y: float})
        points = part.groupby(plot.x, sort=False)[plot.y].agg(["mean", "std"])
        points = points.loc[[value for value in here if value in points.index]]
        at = [place[value] for value in points.index]
        label = None if name is None else text(name)
        if plot.kind == "bar":
            _bars(axes, plot, at, points, looks[name], (k, len(shown)), label)
        else:
            _line(axes, plot, at, points, looks[name], label)
    if plot.diagonal:
        axes.axline((0, 0), slope=1, color=INK, linewidth=0.8, linestyle=":")
    _name_x(axes, plot, place, number)


def _line(axes: Axes, plot: Plot, at: list[float], points: pd.DataFrame, look: Style, label: str | None) -> None:
    axes.plot(
        at, points["mean"], color=look.colour, marker=look.marker, markersize=4.5, linewidth=look.width,
        linestyle=look.dash, label=label, zorder=look.front,
    )  # fmt: skip
    if plot.spread:
        low, high = points["mean"] - points["std"].fillna(0), points["mean"] + points["std"].fillna(0)
        if plot.log_y:
            low = low.where(low > 0, points["mean"])
        axes.fill_between(at, low, high, color=look.colour, alpha=0.15, linewidth=0)


def _bars(
    axes: Axes,
    plot: Plot,
    at: list[float],
    points: pd.DataFrame,
    look: Style,
    turn: tuple[int, int],
    label: str | None,
) -> None:
    k, of = turn
    wide = 0.8 / of
    axes.bar(
        [value - 0.4 + (k + 0.5) * wide for value in at], points["mean"], wide * 0.92, color=look.colour, label=label,
        hatch={"-": "", "--": "//", ":": ".."}[look.dash], edgecolor="#ffffff", linewidth=0,
        yerr=points["std"].fillna(0) if plot.spread else None, error_kw={"ecolor": INK, "elinewidth": 0.8},
    )  # fmt: skip


def _name_x(axes: Axes, plot: Plot, place: Mapping[Any, float], number: bool) -> None:
    words = all(isinstance(value, str) for value in place)  # they speak for themselves
    axes.set_xlabel(plot.x_label or ("" if words else plot.x))
    if not number:
        names = [text(value) for value in place]
        long = max(map(len, names)) * len(names) * 0.09 > axes.bbox.width / axes.figure.dpi
        axes.set_xticks(list(place.values()), names, rotation=30 if long else 0, ha="right" if long else "center")
        axes.grid(False, axis="x")
        return
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if len(place) <= CROWDED and not plot.diagonal:
        named = _apart(list(place.values()), log=plot.log_x)
        axes.xaxis.set_major_locator(FixedLocator(named))
    if plot.log_x:
        axes.xaxis.set_minor_locator(NullLocator())


def _apart(at: list[float], *, log: bool) -> list[float]:
    """The places that can be named without running into one another; the first and the last always."""
    scaled = [math.log(value) if value > 0 else 0.0 for value in at] if log else at
    room = (scaled[-1] - scaled[0]) / 9
    kept = [0]
    for k in range(1, len(at)):
        if scaled[k] - scaled[kept[-1]] >= room:
            kept.append(k)
        elif len(kept) > 1 and len(short(at[k])) < len(short(at[kept[-1]])):
            kept[-1] = k  # of two neighbours, the rounder
    if kept[-1] != len(at) - 1:
        kept[-1:] = [len(at) - 1] if len(kept) > 1 else [kept[0], len(at) - 1]
    return [at[k] for k in kept]


def _name_y(axes: Axes, plot: Plot) -> None:
    low, high = axes.get_ylim()
    if not plot.log_y:
        if axes.dataLim.y0 >= 0 and low < 0.8 * high:  # nothing is made to look larger than it is
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        return
    if plot.kind == "bar" and low > 0:  # the least bar is still one
        low = 10 ** math.floor(math.log10(low))
        axes.set_ylim(bottom=low)
    axes.yaxis.set_major_locator(LogLocator(numticks=7))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if high / low > 100:
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.tick_params(axis="y", which="minor", labelsize=8)


def _legend(figure: Figure, panels: list[Axes], series: list[Any], plot: Plot) -> None:
    """Once for all panels, above them; bare numbers get the name of what they count."""
    found: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    labels = [text(name) for name in series if name is not None and text(name) in found]
    title = None if any(isinstance(name, str) for name in series) else plot.series
    if labels:
        room = max(1, int(figure.get_figwidth() / (0.5 + 0.075 * max(map(len, labels)))))
        lines = -(-len(labels) // room)
        figure.legend(
            [found[label] for label in labels], labels, loc="outside upper left",
            ncols=-(-len(labels) // lines), handlelength=1.8, columnspacing=1.2, title=title,
        )  # fmt: skip


def _svg(figure: Figure, title: str) -> str:
    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return drawn.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def inline(svg: str) -> str:
    """For a page: no names of other places, and the page's own ink."""
    bare = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg)
    return bare.replace("xlink:href", "href").replace(INK, "currentColor")


def standalone(svg: str) -> str:
    """For a file: dark on white."""
    end = svg.index(">") + 1
    return f'{svg[:end]}\n <rect width="100%" height="100%" fill="#ffffff"/>{svg[end:]}'
