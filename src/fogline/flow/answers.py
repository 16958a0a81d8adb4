"""What was the answer, now or then?

Changes add up: for each row the last change up to an instant says whether it is in the answer. Only files are read;
Spark is started only where they lie in a file system that nothing else reaches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.impute.scoring import Sums, add, from_plain
from fogline.model import Query
from fogline.rows.changes import answer_of
from fogline.spark.files import absolute, is_local
from fogline.spark.folder import Folder, folder
from fogline.spark.processor import SCORES
from fogline.spark.running import ABOUT
from fogline.spark.session import for_a_while

Read = TypeVar("Read")


def read_answer(output: str, at: str | None = None) -> pa.Table:
    """The answer in a folder that `fogline run` writes, at its end or at an instant."""

    def read(place: Folder) -> pa.Table:
        query = Query.from_dict(json.loads(_about(place, output))["query"])
        return answer_of(_tables(place, "changes"), query, at)

    return _read(output, read)


def read_scores(output: str) -> Sums:
    """What the run in a folder has found out about its rules."""

    def read(place: Folder) -> Sums:
        _about(place, output)
        sums: Sums = {}
        for table in _tables(place, "health"):
            for told in table.column(SCORES).drop_null().to_pylist():
                add(sums, from_plain(json.loads(told)))
        return sums

    return _read(output, read)


def _read(output: str, read: Callable[[Folder], Read]) -> Read:
    if is_local(output):
        return read(folder(absolute(output)))
    with for_a_while() as spark:
        return read(folder(output, spark))


def _about(place: Folder, output: str) -> bytes:
    about = place.get(ABOUT)
    if about is None:
        raise FoglineError(f"{output!r} is not a folder that `fogline run` has written.")
    return about


def _tables(place: Folder, part: str) -> list[pa.Table]:
    contents = [place.get(name) for name in place.names(part)]
    return [pq.read_table(pa.BufferReader(content)) for content in contents if content is not None]
