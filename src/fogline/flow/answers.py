"""What was the answer, now or then?

Changes add up: for each row the last change up to an instant decides whether it is in the answer. Only files are read;
no engine is needed where they lie on this machine.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.journal import CHANGES, HEALTH, SCORES
from fogline.flow.output import ABOUT
from fogline.impute.scoring import Sums, add, from_plain
from fogline.model import Query
from fogline.rows.changes import answer_of


def read_answer(place: Folder, output: str, at: str | None = None) -> pa.Table:
    """The answer in a folder that `fogline run` writes, at its end or at an instant; `output` is what to call it."""
    query = Query.from_dict(json.loads(_about(place, output))["query"])
    return answer_of(_tables(place, CHANGES), query, at)


def read_scores(place: Folder, output: str) -> Sums:
    """What the run in a folder has found out about its rules."""
    _about(place, output)
    sums: Sums = {}
    for table in _tables(place, HEALTH):
        for scored in table.column(SCORES).drop_null().to_pylist():
            add(sums, from_plain(json.loads(scored)))
    return sums


def _about(place: Folder, output: str) -> bytes:
    about = place.get(ABOUT)
    if about is None:
        raise FoglineError(f"{output!r} is not a folder that `fogline run` has written.")
    return about


def _tables(place: Folder, part: str) -> list[pa.Table]:
    contents = [place.get(name) for name in place.names(part)]
    return [pq.read_table(pa.BufferReader(content)) for content in contents if content is not None]
