"""Which rows of an output's answer are certain, which are likely, and which others are possible?

- *certain*: in the skyline under every value that was imputed. A run with --explain has found that out for each row;
  without, a row is taken for certain whose probability is 1 to nine digits, which is as exactly as changes hold it.
- *likely*: its probability is above alpha. Every movement of a member's probability is reported, so alpha may be
  raised afterwards; not lowered, since nothing is reported of rows that are out.
- *possible*: in under some values. Of those that are out only a run with --explain knows, of the likeliest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats, Objects
from fogline.errors import FoglineError, did_you_mean
from fogline.output.answers import OutputReader, Shown
from fogline.query import TOLERANCE, Query, is_number
from fogline.rows.changes import of_query

CERTAIN, LIKELY, POSSIBLE = CERTAINTIES = ("certain", "likely", "possible")
_CLOSE = 2 * TOLERANCE  # two reports of one probability differ by less


class _Possible(NamedTuple):
    """What is known of a possible row."""

    certainty: str
    probability: float
    means: Floats  # (d,) of what its cells may be


Known = dict[tuple[Any, ...], _Possible]  # by group, id and arrival


def check_certainty(certainty: str, output: OutputReader, at: str | None) -> None:
    """An error, where an output cannot show rows of this certainty."""
    if certainty not in CERTAINTIES:
        raise FoglineError(
            f"the certainty is {certainty!r}; it is one of {', '.join(CERTAINTIES)}."
            f"{did_you_mean(certainty, CERTAINTIES)}"
        )
    if certainty == POSSIBLE and not output.explained:
        raise FoglineError(
            f"the run in {output.name!r} was made without --explain, so nothing is known of rows that are out. "
            "Run it again with --explain, into another output, or ask for --certainty likely."
        )
    if certainty == POSSIBLE and at is not None:
        raise FoglineError(
            "rows that are out are known at the end of the run alone; leave --at out, or ask for --certainty likely."
        )


def check_alpha(alpha: float | None, query: Query) -> None:
    """An error, where the answer cannot be cut at this probability."""
    if alpha is not None and not (is_number(alpha) and query.alpha <= alpha < 1):
        raise FoglineError(
            f"alpha is {alpha:g}, and the run had {query.alpha:g}: rows below that are not in the answer. Ask for "
            "that or more, below 1, or run again with a lower alpha in the query."
        )


def near_of(output: OutputReader, name: str | None, at: str | None) -> pa.Table | None:
    """The possible rows of a query, as they are now; None: they are not known."""
    if at is not None or not output.explained:
        return None
    near = output.near()
    return near if name is None else of_query(near, name)


def with_certainty(shown: Shown, near: pa.Table | None, certainty: str, alpha: float | None) -> Shown:
    """The rows that are at least so certain, each with how certain it is; near: possible rows, see `near_of`."""
    query, rows = shown.query, shown.rows
    check_alpha(alpha, query)
    known = _known(query, near)
    names = _certain(rows, query, known, alpha)
    if near is not None and certainty == POSSIBLE:
        rows, more = _with_outside(rows, query, near)
        names = np.concatenate((names, np.full(more, POSSIBLE, object)))
    wanted = pa.array(CERTAINTIES[: CERTAINTIES.index(certainty) + 1])
    rows = rows.append_column("certainty", pa.array(names, pa.string()))
    return replace(shown, rows=rows.filter(pc.is_in(rows["certainty"], wanted)))


def values_of(shown: Shown, near: pa.Table | None) -> Floats:
    """(n, d) the values of rows, larger is better; of a gap the mean of what it may be, where that is known, or NaN."""
    query, rows = shown.query, shown.rows
    out = np.stack([_numbers(rows, name) for name in query.names], axis=1)
    known = _known(query, near)
    for k, name in enumerate(_names(rows, query)):
        if name in known:
            out[k] = np.where(np.isnan(out[k]), known[name].means, out[k])
    return np.asarray(out * np.array(query.signs), np.float64)


def _numbers(rows: pa.Table, name: str) -> Floats:
    return np.asarray(rows[name].cast(pa.float64()).to_numpy(), np.float64)


def _names(rows: pa.Table, query: Query) -> list[tuple[Any, ...]]:
    """The names of rows: group, id and arrival."""
    return list(zip(*(rows[name].to_pylist() for name in (*query.by, query.id, query.arrived)), strict=True))


def _known(query: Query, near: pa.Table | None) -> Known:
    """What is known of possible rows, by their names."""
    if near is None or not near.num_rows:
        return {}
    means = np.stack([_numbers(near, f"{name}.mean") for name in query.names], axis=1)
    about = map(_Possible, near["certainty"].to_pylist(), near["probability"].to_pylist(), means)
    return dict(zip(_names(near, query), about, strict=True))


def _certain(rows: pa.Table, query: Query, known: Known, alpha: float | None) -> Objects:
    """(n,) how certain each row of the answer is."""
    least = -1.0 if alpha is None or alpha <= query.alpha else alpha + TOLERANCE
    out = np.full(rows.num_rows, LIKELY, object)
    cells = zip(
        _names(rows, query), rows["probability"].to_pylist(), rows["probability_error"].to_pylist(), strict=True
    )
    for k, (name, probability, error) in enumerate(cells):
        near = known.get(name)
        if near is not None and abs(near.probability - probability) <= _CLOSE:
            sure = near.certainty == CERTAIN
        else:  # it is not among them, or the run has gone on meanwhile
            sure = error == 0 and probability >= 1 - TOLERANCE
        out[k] = CERTAIN if sure else LIKELY if probability > least else POSSIBLE
    return out


def _with_outside(rows: pa.Table, query: Query, near: pa.Table) -> tuple[pa.Table, int]:
    """The answer and the rows that are out, and how many these are."""
    there = set(_names(rows, query))
    names = zip(near["inside"].to_pylist(), _names(near, query), strict=True)
    outside = near.filter(pa.array([not inside and name not in there for inside, name in names], pa.bool_()))
    outside = outside.select(rows.schema.names)
    return pa.concat_tables([rows, outside], promote_options="permissive"), outside.num_rows
