"""How are rows turned into the points of a plot or the cells of a table, and numbers into text?

A point is the mean over all rows with the same x, series and facet. Numbers keep three digits; more of
them are in the rows of the results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lab.experiment import Plot


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
