"""What may each missing value of a stream be, written out?

One line per possible value, as `fogline.impute.written` writes it, from decoded rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.flow.piece import SLICE, Decoder, Piece, slices
from fogline.flow.plan import Plan
from fogline.impute.protocol import Evidence
from fogline.impute.written import CELLS, times_of, written


def imputed_schema(plan: Plan) -> pa.Schema:
    """by…, id, time, attribute, value, probability, rule."""
    head = [*zip(plan.query.by, plan.by, strict=True), ("id", plan.id), ("time", plan.kind)]
    return pa.schema([*head, *CELLS])


def imputed(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The distributions of the rows of a partition."""
    decoder = Decoder(plan)
    for each in slices(batches, SLICE):
        yield from impute_piece(plan, decoder.decode(each), None).to_batches()


def impute_piece(plan: Plan, piece: Piece, context: Floats | None) -> pa.Table:
    """The distributions of decoded rows; `context`: (n, w) what their sensors have read before."""
    chain, rows, query = plan.chain, piece.rows, plan.query
    assert chain is not None
    left = rows.left()
    which = np.arange(len(rows.arrived)) if left is None else left
    uncertain = rows.uncertain.part(which)
    gaps = np.isnan(uncertain.lo)
    near = None if context is None else context[which]
    evidence = Evidence(chain.values(uncertain, rows.raw[which]), gaps, rows.source, which, near)
    columns = piece.block.columns
    names = {name: columns.column(name) for name in query.by} | {"id": columns.column(query.id)}
    names["time"] = times_of(rows, plan.kinds)
    answers = list(chain.search(chain.evidence(evidence), gaps))
    return written(answers, which, names, chain).cast(imputed_schema(plan))
