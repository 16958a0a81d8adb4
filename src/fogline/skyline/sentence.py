"""Why is a row in or out, in one plain sentence?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fogline.rows.text import quoted

if TYPE_CHECKING:
    from fogline.model import ImputedCell
    from fogline.skyline.explanation import Explanation, Flip, Outside

_SIDES = {"<": "below {}", "<=": "{} or less", ">=": "{} or more", ">": "above {}"}
_RIVALS = 2  # that are named


def number(value: float) -> str:
    """A number in four digits.

    >>> number(0.83333), number(861.0), number(12345.6), number(-0.0)
    ('0.8333', '861', '1.235e+04', '0')
    """
    return f"{value + 0.0:.4g}"


def where(row: Any) -> str:
    """A row by its id and its arrival."""
    return f"{quoted(row.id)} (arrived {row.arrived})"


def sentence_of(row: Explanation) -> str:
    """What carries it or keeps it out, and what would change that."""
    measured = {each.attribute: each for each in row.outside}
    parts = [*(_gap(each, measured.get(each.attribute)) for each in row.gaps), _rivals(row)]
    if (own := next((each for each in row.flips if each.own), None)) is not None:
        parts.append(_flip(own))
    if row.decisive is not None:
        parts.append(_decisive(row))
    rest = "; ".join(part for part in parts if part)
    coarse = " (approximately: it may have too many values for more)" if row.approximate else ""
    return f"{_verdict(row)}: {rest}{coarse}."


def _verdict(row: Explanation) -> str:
    within = f" ± {row.within:.2g}" if row.within else ""
    name, chance = quoted(row.id), f"{_close(row.probability, row.alpha)}{within}"
    if row.front == "certain":
        return f"{name} is in the answer under every value that was imputed"
    if row.inside:
        return f"{name} is in the answer with probability {chance}"
    if not row.front:
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


def _rivals(row: Explanation) -> str:
    if not row.rivals:
        return "no row beats it"
    sure = [each for each in row.rivals if each.probability >= 1.0]
    if sure:
        return f"{_other(sure[0], row)} surely beats it"
    named = [f"{_other(each, row)} beats it with {number(each.probability)}" for each in row.rivals[:_RIVALS]]
    return " and ".join(named)


def _other(named: Any, row: Explanation) -> str:
    """Another row, by its id; by its arrival, too, if that is the id of the row itself."""
    return where(named) if named.id == row.id else quoted(named.id)


def _flip(flip: Flip) -> str:
    side = _SIDES[flip.side].format(number(flip.value))
    return f"it would {'enter' if flip.to else 'leave'} if its {flip.attribute} were {side}"


def _decisive(row: Explanation) -> str:
    most = row.decisive
    assert most is not None
    cell = f"its {most.attribute}" if most.own else f"the {most.attribute} of {_other(most, row)}"
    return f"to know {cell} would move it most, by {number(most.moves)} on average"
