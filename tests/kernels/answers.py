"""To which bits do streams of all kinds come?

python tests/kernels/answers.py FILE           a line for each stream, with a digest of its answers
python tests/kernels/answers.py FILE --few     those that need the fewest kernels

NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name the processor whose machine code is used. It needs Fogline alone, so that it
runs in the empty environments of `tools/packaging.py`, too.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import fogline as fl
from fogline.pipeline.warm import FEW, RULES, WINDOWS, _query, _rows, _uncertain


def digests(few: bool) -> Iterator[str]:
    """Name and digest of each stream."""
    history = _rows(np.random.default_rng(1), 3000, gaps=0.0)
    repositories: dict[str, fl.Repository | None] = {"none": None}
    if not few:
        repositories["sensors"] = fl.Repository.fit(history, _query(lifetime=5))
        repositories["rules"] = fl.Repository.fit(history.slice(0, 300), _query(lifetime=5), rules=RULES)
    for name, repository in repositories.items():
        rows = _rows(np.random.default_rng(2), 300, gaps=0.2 if repository else 0.0)
        uncertain = rows.set_column(rows.schema.get_field_index("c"), "c", _uncertain(rows.column("c").to_pylist()))
        for window in WINDOWS[: 1 if few else None]:
            for kind, table in (("numbers", rows), ("distributions", uncertain)):
                monitor = fl.Monitor(_query(**window), repository, exact_limit=10**6 if few else FEW)
                tables = [monitor.advance(now, table.slice(now * 30, 30)) for now in range(10)]
                answer = monitor.answer(certainty="likely" if few else "possible")
                yield f"{name} {' '.join(window)} {kind} {digest(pa.concat_tables(tables))} {digest(answer)}"


def digest(table: pa.Table) -> str:
    """Of all bits of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(digests("--few" in sys.argv)), encoding="utf-8")
