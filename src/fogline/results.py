"""What a monitor gives back: changes, rejects, explanations, and their sentences.

Rows are named by their id and their arrival, since an id may have several. Values are as the user sees them, not
oriented: a distribution is a list of (value, weight), its weights adding up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from html import escape
from typing import Any, Literal, NamedTuple

import numpy as np

from fogline.query import TOLERANCE, Query, as_text
from fogline.rows.clock import instant, time_text
from fogline.show import count_of, quoted

_SIDES = {"<": "below {}", "<=": "{} or less", ">=": "{} or more", ">": "above {}"}
_NAMED = 2  # that a sentence names


@dataclass(frozen=True, slots=True)
class Change:
    """One row entered or left the answer, or its probability moved. Adding changes up gives the answer again."""

    time: Any
    """The instant of the change."""
    by: tuple[Any, ...]
    """The group's values, in the order of the query's `by`."""
    id: Any
    """The row's id."""
    arrived: Any
    """The row's own time."""
    change: Literal["enter", "leave", "update"]
    """What happened."""
    probability: float | None
    """That no other row beats it, or in a skyband fewer than so many; None: it has left."""
    probability_error: float | None
    """How far the truth may lie from the probability; 0: it is exact. None, like the probability, of a leave."""
    attributes: Mapping[str, float | None]
    """The row's attributes as they came; None: missing, or outside its limits."""
    reason: str | None = None
    """Of a leave: 'expired'; 'beaten', by a row that surely beats it, or in a skyband by so many; 'less likely', its
    probability fell to alpha or below without that; where rows are replaced 'replaced', by a row that is not in, or
    'removed'; and on a pipeline 'begun anew': its group's clock had run ahead, and its rows come again or are held."""
    beaten_by: tuple[Any, Any] | None = None
    """The id and the arrival of the row that surely beats it, or with 'replaced' the row in its place; of several the
    first in that order."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Other columns that come along with the row: see `Query.keep`."""


def changes_of(rows: Iterable[Mapping[str, Any]], query: Query) -> list[Change]:
    """The rows of a table of changes, as values."""
    return [
        Change(
            time=row["time"],
            by=tuple(row[name] for name in query.by),
            id=row[query.id],
            arrived=row[query.arrived],
            change=row["change"],
            probability=row["probability"],
            probability_error=row["probability_error"],
            attributes={name: row[name] for name in query.names},
            reason=row.get("reason"),
            beaten_by=None if row.get("beaten_by_time") is None else (row["beaten_by"], row["beaten_by_time"]),
            kept={name: row[name] for name in query.kept if name in row},
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not be taken, as it came, and why."""

    row: Mapping[str, Any]
    """As it came."""
    reason: str
    """Why it could not be taken, in words."""


@dataclass(frozen=True, slots=True)
class Node:
    """A live row in the skyline tree (paper, section 5.1, corrected).

    Rows of layer 1 have no guard. A shadow is guarded by a row that expires no earlier: it has no layer, and will never
    be in the answer. A row that was forgotten is not in the tree.
    """

    by: tuple[Any, ...]
    """The group's values."""
    id: Any
    """The row's id."""
    arrived: Any
    """The row's own time."""
    layer: int | None
    """1: it has no guard; else one more than its parent's. None: a shadow."""
    parent: tuple[Any, Any] | None
    """The id and the time of the row that guards it."""
    shadow: bool
    """Whether it will never be in the answer."""


@dataclass(frozen=True, slots=True)
class UncertainRow:
    """A row whose values may be uncertain: for each attribute its distribution; a known value has a list of one.

    Attributes are independent of each other.
    """

    values: Mapping[str, tuple[tuple[float, float], ...]]
    """By attribute: the values that it may have, with their weights."""

    @property
    def instances(self) -> int:
        """How many combinations of values it has."""
        return math.prod(len(pairs) for pairs in self.values.values())


@dataclass(frozen=True, slots=True)
class ImputedCell:
    """A missing value of a row: the distribution that was imputed first, and the one that is now."""

    attribute: str
    """The attribute that the row lacks."""
    first: tuple[tuple[float, float], ...]
    """The values that were imputed when the row came, with their weights."""
    first_by: str
    """The rule or imputer that gave it."""
    now: tuple[tuple[float, float], ...]
    """The values that are imputed now, with their weights."""
    now_by: str
    """The rule or imputer that gives it now."""
    open: bool
    """Whether a later reading of the sensor may still change it."""
    imputer: str = ""
    """The imputer that gives it now."""
    rows: int | None = None
    """How many rows of history it rests on, where that is known."""

    @property
    def low(self) -> float:
        """The least value that it may be now."""
        return self.now[0][0]

    @property
    def high(self) -> float:
        """The greatest value that it may be now."""
        return self.now[-1][0]

    @property
    def mean(self) -> float:
        """Its mean now."""
        return math.fsum(value * weight for value, weight in self.now)

    @property
    def rule(self) -> str:
        """The rule that gives it now; empty: an imputer without rules does."""
        return "" if self.now_by == self.imputer else self.now_by

    @property
    def source(self) -> str:
        """What gives it now, in words."""
        by = f"rule {self.rule}" if self.rule else self.now_by
        return by if self.rows is None else f"{by}, {count_of(self.rows, 'row')} of history"

    def __str__(self) -> str:
        first, now = f"{_shortly(self.first)} (by {self.first_by})", f"{_shortly(self.now)} (by {self.now_by})"
        later = "" if first == now else f", since its sensor has spoken again {now}"
        return f"{self.attribute} is missing: {first}{later}{', still open' if self.open else ''}"


def _shortly(pairs: tuple[tuple[float, float], ...]) -> str:
    """A distribution in a few numbers: its ends, and where its middle lies."""
    if len(pairs) == 1:
        return f"{pairs[0][0]:g}"
    middle = next(
        value for k, (value, _) in enumerate(pairs) if math.fsum(w for _, w in pairs[: k + 1]) > 0.5 - TOLERANCE
    )
    return f"{pairs[0][0]:g} to {pairs[-1][0]:g}, about {middle:g}"


# --- Explanations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a row is in the answer, or out of it."""

    by: tuple[Any, ...]
    """The group's values."""
    id: Any
    """The row's id."""
    arrived: Any
    """The row's own time; None: it is not known."""
    inside: bool
    """Whether it is in the answer."""
    reason: str
    """Why, in a few words."""
    probability: float
    """That no other row beats it; in a skyband, that fewer than so many do."""
    probability_error: float
    """How far the truth may lie from the probability; 0: it is exact."""
    row: UncertainRow
    """What its values may be."""
    beaten_by: tuple[Dominator, ...]
    """The rows that may beat it, the likeliest first; ten at most."""
    imputed: tuple[ImputedCell, ...] = ()
    """What was imputed for each of its missing values."""
    certainty: str = ""
    """`certain`, `likely` or `possible`; empty: it cannot be in."""
    flips: tuple[Flip, ...] = ()
    """Its own cells, the nearest first; then missing cells of rows that may beat it, the likeliest first."""
    decisive: Decisive | None = None
    """None: no missing value would move it."""
    approximate: bool = False
    """Whether the row has too many combinations of values: flips, and what is decisive, are those of a coarser row."""
    alpha: float = 0.0
    """What its probability is compared with."""
    outside: tuple[Outside, ...] = ()
    """Its values that are treated as missing, since they were outside their limits."""
    live: bool = True
    """Whether it is a live row. If not, it is out, and nothing but `reason` is known."""
    skyband: int = 1
    """It is in where fewer than so many others beat it; with more than 1, flips and what is decisive are not known."""

    @property
    def gaps(self) -> tuple[ImputedCell, ...]:
        """Its cells that are not simply known, in the order of the attributes: what was imputed, what was outside its
        limits, and what came as a distribution."""
        known, outside = {each.attribute: each for each in self.imputed}, {each.attribute for each in self.outside}
        cells = [
            known.get(name) or ImputedCell(name, pairs, "", pairs, "", False)
            for name, pairs in self.row.values.items()
            if name in known or name in outside or len(pairs) > 1
        ]
        return tuple(cells)

    @property
    def sentence(self) -> str:
        """One plain sentence."""
        return sentence_of(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values: ids as they are where JSON can hold them, instants as texts."""
        return self._as_dict(plain)

    def _as_dict(self, shown: Callable[[Any], Any]) -> dict[str, Any]:
        """All of it; `shown`: how ids, instants and measured values are written."""

        def named(each: Any) -> dict[str, Any]:
            return {"id": shown(each.id), "arrived": shown(each.arrived)}

        most = self.decisive
        return named(self) | {
            "by": [shown(each) for each in self.by],
            "inside": self.inside,
            "certainty": self.certainty,
            "probability": self.probability,
            "probability_error": self.probability_error,
            "approximate": self.approximate,
            "reason": self.reason,
            "sentence": self.sentence,
            "beaten_by": [named(each) | {"probability": each.probability} for each in self.beaten_by],
            "imputed": [imputed_dict(each) for each in self.gaps],
            "outside": [dict(zip(Outside._fields, map(shown, each), strict=True)) for each in self.outside],
            "flips": [
                named(each)
                | {"attribute": each.attribute, "value": each.value, "side": each.side, "missing": each.missing}
                | {"to": each.to, "probability": each.probability, "chance": each.chance, "own": each.own}
                for each in self.flips
            ],
            "decisive": None
            if most is None
            else named(most) | {"attribute": most.attribute, "moves": most.moves, "own": most.own},
            **({"skyband": self.skyband} if self.skyband > 1 else {}),
        }

    def tables(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The same as small tables of texts: a title, and rows of two cells; only those that have any."""
        chance = f", P = {number(self.probability)}{_error(self.probability_error)}" if self.live else ""
        parts = self._as_dict(lambda value: value)
        parts["imputed"] = [
            each | {"later": _later(cell)} for each, cell in zip(parts["imputed"], self.gaps, strict=True)
        ]
        return [("row", [(where(self), f"{self.certainty or 'out'}{chance}")]), *tables_of(parts)]

    def __str__(self) -> str:
        lines = [self.sentence, *([f"  {where(self)}: {self.reason}"] if self.live else [])]
        for title, rows in self.tables()[1:]:
            lines += [f"  {title}:", *(f"    {': '.join(cells)}" for cells in rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><th>{'' if k else escape(title)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
            for title, some in self.tables()
            for k, cells in enumerate(some)
        ]
        return f"<p>{escape(self.sentence)}</p><table>{''.join(rows)}</table>"


class Dominator(NamedTuple):
    """A row that may beat another."""

    id: Any
    """The id of that row."""
    arrived: Any
    """Its own time."""
    probability: float
    """How likely it beats it."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A value of one cell, of the row itself or of one that may beat it, at which the row would enter or leave.

    All other cells stay as they are.
    """

    id: Any
    """The id of the row whose cell it is."""
    arrived: Any
    """Its own time."""
    attribute: str
    """The attribute of the cell."""
    value: float
    """The value at which the row would enter or leave."""
    side: str
    """Which values do so: ">=", ">", "<=" or "<" that value; of a cell of another row, those that it may have."""
    missing: bool
    """Whether the cell is missing, so that a measurement could show it."""
    to: bool
    """Whether the row is in then."""
    probability: float
    """Of the row, if the cell has just that value, or for ">" and "<" one close to it."""
    chance: float | None = None
    """How likely the cell has such a value, if it is missing."""
    own: bool = True
    """Whether it is a cell of the row itself."""


class Decisive(NamedTuple):
    """The missing cell, of the row or of one that may beat it, whose knowledge would move its probability most."""

    id: Any
    """The id of the row whose cell it is."""
    arrived: Any
    """Its own time."""
    attribute: str
    """The attribute of the cell."""
    moves: float
    """By how much, as a mean over the values that the cell may have: the expected |P then - P now|."""
    own: bool = True
    """Whether it is a cell of the row itself."""


class Outside(NamedTuple):
    """A value that was measured outside the limits of its attribute, and is treated as missing."""

    attribute: str
    """The attribute."""
    value: float
    """What was measured."""
    low: float
    """The least plausible value."""
    high: float
    """The greatest plausible value."""

    def __str__(self) -> str:
        """
        >>> str(Outside("temperature", 133.4, 5, 60))
        '133.4 was outside 5…60 and is treated as missing'
        """
        return f"{self.value:.9g} was outside {self.low:.9g}…{self.high:.9g} and is treated as missing"


# --- As plain values --------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as JSON holds it: numbers, truth values and texts as they are, all else as text.

    >>> plain(3), plain("a"), plain(float("inf")), plain(datetime(2024, 5, 1)), plain(b"x")
    (3, 'a', 'inf', '2024-05-01 00:00:00', 'x')
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date) and (read := instant(value)) is not None:
        return time_text(*read)
    return as_text(value)


def imputed_dict(cell: ImputedCell) -> dict[str, Any]:
    """An imputed cell as plain JSON values."""
    return {"attribute": cell.attribute, "low": cell.low, "high": cell.high, "mean": cell.mean} | {
        "imputer": cell.imputer, "rule": cell.rule, "rows": cell.rows
    }  # fmt: skip


def _error(error: float) -> str:
    return f" ± {error:.2g}" if error else ""


# --- As small tables --------------------------------------------------------------------------------------------------


def tables_of(why: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """An explanation, as `to_dict` gives it, as small tables of texts: a title, and rows of two cells; only those that
    have any."""
    outside = {each["attribute"]: Outside(**each) for each in why["outside"]}
    found = [
        ("missing", [_missing(each, outside.get(each["attribute"])) for each in why["imputed"]]),
        ("beaten by", [(_named(each), f"with probability {number(each['probability'])}") for each in why["beaten_by"]]),
        ("what would change it", [_flip(each) for each in why["flips"]]),
    ]
    if (most := why["decisive"]) is not None:
        moves = f"would move its probability by {number(most['moves'])} on average"
        found.append(("measure first", [(_cell(most), moves)]))
    return [(title, rows) for title, rows in found if rows]


def _named(each: Mapping[str, Any]) -> str:
    return row_text(each["id"], each["arrived"])


def _cell(each: Mapping[str, Any]) -> str:
    return f"its {each['attribute']}" if each["own"] else f"{each['attribute']} of {_named(each)}"


def _missing(cell: Mapping[str, Any], measured: Outside | None) -> tuple[str, str]:
    by = f"rule {cell['rule']}" if cell["rule"] else cell["imputer"]
    rows = "" if cell["rows"] is None else f", {count_of(cell['rows'], 'row')} of history"
    what = f"{cell['attribute']} is missing" if measured is None else f"{cell['attribute']} of {measured}"
    mean = f"mean {number(cell['mean'])}{by and f', by {by}'}{rows}{cell.get('later', '')}"
    return what, f"{_span(cell['low'], cell['high'])}, {mean}"


def _later(cell: ImputedCell) -> str:
    """What a later reading of the sensor has changed of a cell, and whether one still may."""
    first = "" if cell.first == cell.now else f" (at first {_span(*_ends(cell.first))}, by {cell.first_by})"
    return f"{first}{', still open' if cell.open else ''}"


def _ends(pairs: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    return pairs[0][0], pairs[-1][0]


def _span(low: float, high: float) -> str:
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"


def _flip(flip: Mapping[str, Any]) -> tuple[str, str]:
    chance = "" if flip["chance"] is None else f" (chance {number(flip['chance'])})"
    then = f"{'in' if flip['to'] else 'out'}, P = {number(flip['probability'])}"
    return f"{_cell(flip)} {flip['side']} {number(flip['value'])}", f"{then}{chance}"


# --- In one sentence --------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """A number in four digits.

    >>> number(0.83333), number(861.0), number(12345.6), number(-0.0)
    ('0.8333', '861', '1.235e+04', '0')
    """
    return f"{value + 0.0:.4g}"


def where(row: Any) -> str:
    """A row by its id and its arrival, where that is known."""
    return row_text(row.id, row.arrived)


def row_text(id: Any, arrived: Any) -> str:
    """A row by its id and its arrival, where that is known."""
    return quoted(id) if arrived is None else f"{quoted(id)} (arrived {arrived})"


def sentence_of(row: Explanation) -> str:
    """Why the row is in or out, and what would change that."""
    if not row.live:
        return f"{_verdict(row)}: {row.reason}."
    measured = {each.attribute: each for each in row.outside}
    parts = [*(_gap(each, measured.get(each.attribute)) for each in row.gaps), _beaten_by(row)]
    if (own := next((each for each in row.flips if each.own), None)) is not None:
        parts.append(_flip_sentence(own))
    if row.decisive is not None:
        parts.append(_decisive(row))
    rest = "; ".join(part for part in parts if part)
    coarse = " (approximately: it may have too many values for more)" if row.approximate else ""
    return f"{_verdict(row)}: {rest}{coarse}."


def _verdict(row: Explanation) -> str:
    name, chance = quoted(row.id), f"{_close(row.probability, row.alpha)}{_error(row.probability_error)}"
    if row.certainty == "certain":
        return f"{name} is in the answer under every value that was imputed"
    if row.inside:
        return f"{name} is in the answer with probability {chance}"
    if not row.certainty:
        return f"{name} is out of the answer"
    return f"{name} is out of the answer with probability {chance}, which is not above {number(row.alpha)}"


def _close(probability: float, alpha: float) -> str:
    """A probability in four digits, or in as many as it takes to see that it is not alpha, and not 1."""
    text = number(probability)
    if text in (number(alpha), "1") and probability not in (alpha, 1.0):
        return f"{probability:.9g}"
    return text


def _gap(cell: ImputedCell, measured: Outside | None) -> str:
    span = f"{number(cell.low)}" if cell.low == cell.high else f"{number(cell.low)} to {number(cell.high)}"
    by = f" ({cell.source})" if cell.source else ""
    if measured is not None:
        return f"its {cell.attribute} of {measured}, likely {span}{by}"
    return f"its missing {cell.attribute} is likely {span}{by}"


def _beaten_by(row: Explanation) -> str:
    if not row.beaten_by:
        return "no row beats it"
    if row.skyband > 1:
        each = [_beats_it(each, row) for each in row.beaten_by[: min(row.skyband, _NAMED + 1)]]
        return f"{', '.join(each)}; fewer than {row.skyband} may"
    sure = [each for each in row.beaten_by if each.probability >= 1.0]
    if sure:
        return f"{_other(sure[0], row)} surely beats it"
    return " and ".join(_beats_it(each, row) for each in row.beaten_by[:_NAMED])


def _beats_it(each: Dominator, row: Explanation) -> str:
    if each.probability >= 1.0:
        return f"{_other(each, row)} surely beats it"
    return f"{_other(each, row)} beats it with probability {number(each.probability)}"


def _other(named: Any, row: Explanation) -> str:
    """Another row, by its id; by its arrival, too, if that is the id of the row itself."""
    return where(named) if named.id == row.id else quoted(named.id)


def _flip_sentence(flip: Flip) -> str:
    side = _SIDES[flip.side].format(number(flip.value))
    return f"it would {'enter' if flip.to else 'leave'} if its {flip.attribute} were {side}"


def _decisive(row: Explanation) -> str:
    most = row.decisive
    assert most is not None
    cell = f"its {most.attribute}" if most.own else f"the {most.attribute} of {_other(most, row)}"
    return f"to know {cell} would move it most, by {number(most.moves)} on average"
