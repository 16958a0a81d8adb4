"""What do rows look like when each gap is one number?

A gap gets the median of its distribution: as likely too low as too high. A column beside the rows names the cells that
were filled, each with the rule or imputer that gave its distribution. What one number cannot say is how sure it is; for
that the distributions themselves are there (`fogline.impute.table`), and they are what answers are made of.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.errors import RowsError
from fogline.impute.chain import Answer
from fogline.impute.table import DistributionTable
from fogline.model import Query
from fogline.repository.repository import Repository

FILLED = "filled"  # the column that names what was filled


def completed(rows: pa.Table, query: Query, repository: Repository) -> pa.Table:
    """The rows with each gap filled, in their order and with all their columns; what was filled stands in `filled`.

    A value outside the query's limits is a gap. A row that cannot be taken, such as one without a time, stays as it is.
    """
    for name in query.names:
        if name in rows.schema.names and pa.types.is_nested(rows.schema.field(name).type):
            raise RowsError(f"{name!r} holds distributions; rows are completed where cells are numbers or missing.")
    maker = DistributionTable(query, repository)
    named, which, answers = maker.search(rows)
    values, notes = named.rows.raw.copy(), [""] * rows.num_rows
    for each in answers:
        name, row = query.names[each.attribute], which[each.rows]
        values[row, each.attribute] = medians(each)
        sources = list(each.imputer.sources(each.attribute))
        for at, source in zip(row.tolist(), each.found.source.tolist(), strict=True):
            notes[at] += f"{'; ' if notes[at] else ''}{name} by {sources[source]}"
    for j, name in enumerate(query.names):
        column = pa.array(values[:, j], mask=np.isnan(values[:, j]))
        there = rows.schema.get_field_index(name)
        rows = rows.append_column(name, column) if there < 0 else rows.set_column(there, name, column)
    filled = pa.array([each or None for each in notes], pa.string())
    return rows.append_column(f"{FILLED}_" if FILLED in rows.schema.names else FILLED, filled)


def incomplete(rows: pa.Table, query: Query) -> int:
    """How many of such rows still have a gap."""
    gaps = [rows.column(name).is_null().to_numpy() for name in query.names]
    return int(np.any(gaps, axis=0).sum())


def medians(answer: Answer) -> Floats:
    """(q,) the least value of each distribution that half of it does not exceed."""
    start, size, value, often, _ = answer.found
    ends = np.cumsum(size)
    at = np.repeat(start - (ends - size), size) + np.arange(int(ends[-1]) if len(ends) else 0)
    total = np.cumsum(often[at])
    before = np.concatenate(([0.0], total))[ends - size]
    half = before + (total[ends - 1] - before) / 2
    found = np.clip(np.searchsorted(total, half * (1 - 1e-12)), ends - size, ends - 1)
    return np.asarray(value[at[found]])
