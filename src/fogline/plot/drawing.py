"""What do all charts have in common? The library, the colours, and how data gets into them.

Data is put into the chart as plain values, so that neither Altair's limit of rows nor pandas matters: a chart holds at
most some thousand marks, and its title states what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from importlib import import_module
from typing import Any

from fogline.errors import FoglineError

BLUE, ORANGE, GREEN, GREY, RED = "#0072B2", "#E69F00", "#009E73", "#7f7f7f", "#D55E00"  # Okabe and Ito
CERTAINTIES = {"certain": (BLUE, "circle"), "likely": (ORANGE, "square"), "possible": (GREY, "triangle-up")}
WIDTH, HEIGHT = 520, 340


def altair() -> Any:
    """The library, or a sentence that names what to install."""
    try:
        return import_module("altair")
    except ImportError:
        raise FoglineError("charts need Altair, which is not installed: pip install 'fogline[plot]'.") from None


def inline(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as the data of a chart."""
    return altair().Data(values=list(rows))


def plain(value: Any) -> Any:
    """A value as JSON has it: an instant in ISO form, anything else that is no number as a text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)


def kind_of(values: Sequence[Any]) -> str:
    """The type of a scale: T for instants, Q for numbers, N for the rest."""
    known = [each for each in values if each is not None]
    if known and all(isinstance(each, datetime | date) for each in known):
        return "T"
    return "Q" if all(isinstance(each, int | float) and not isinstance(each, bool) for each in known) else "N"


def titled(title: str, note: str = "") -> Any:
    """A title, and below it smaller what a reader must know."""
    return altair().TitleParams(title, subtitle=[note] if note else [], anchor="start")


def most_of(count: int, most: int, what: str) -> str:
    """What was left out."""
    return "" if count <= most else f"{most:,} of {count:,} {what}"
