"""What was the answer, now or then?

Changes add up: for each row the last change up to an instant says whether it is in the answer. Only files are read;
Spark is started only where they lie in a file system that nothing else reaches.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.changes import answer_of
from fogline.errors import FoglineError
from fogline.model import Query
from fogline.spark.files import absolute, is_local
from fogline.spark.folder import Folder, folder
from fogline.spark.running import ABOUT
from fogline.spark.session import for_a_while


def read_answer(output: str, at: str | None = None) -> pa.Table:
    """The answer in a folder that `fogline run` writes, at its end or at an instant."""
    if is_local(output):
        return _read(folder(absolute(output)), output, at)
    with for_a_while() as spark:
        return _read(folder(output, spark), output, at)


def _read(place: Folder, output: str, at: str | None) -> pa.Table:
    about = place.get(ABOUT)
    if about is None:
        raise FoglineError(f"{output!r} is not a folder that `fogline run` has written.")
    names = place.names("changes")
    tables = [pq.read_table(pa.BufferReader(content)) for name in names if (content := place.get(name)) is not None]
    return answer_of(tables, Query.from_dict(json.loads(about)["query"]), at)
