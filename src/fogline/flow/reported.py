"""What has a batch reported of each kind, as sinks get it?

First what the driver holds, then what lies in files that workers wrote, read one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.journal import CHANGES, HEALTH, REJECTS
from fogline.flow.named import schema_of
from fogline.flow.names import KINDS, VIEWS
from fogline.flow.plans import AnyPlan
from fogline.flow.sink import BATCH
from fogline.flow.stages import opened

ROWS = 65_536  # of a record batch that is read from a file, at most
_SECONDS = "seconds"  # the column of health with what its batch took


class Reported:
    """An iterator over the record batches of one kind.

    A sink may also look at `table` (what is at hand, None: nothing) and `files` (names in `place`), instead.
    """

    def __init__(self, place: Folder, kind: str, number: int, table: pa.Table | None, files: list[str]) -> None:
        self.place, self.kind, self.number, self.table, self.files = place, kind, number, table, files
        self._left = self._batches()

    def __iter__(self) -> Reported:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._left)

    def again(self) -> Reported:
        """From the beginning, for a sink that has to try again."""
        return Reported(self.place, self.kind, self.number, self.table, self.files)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.table is not None:
            yield from self.table.to_batches(max_chunksize=ROWS)
        for name in self.files:
            for each in file_of(self.place, name).iter_batches(batch_size=ROWS):
                yield numbered_rejects(each, self.number) if self.kind == REJECTS else each


def file_of(place: Folder, name: str) -> Any:
    """A Parquet file that has no place yet."""
    found = place.open(name)
    if found is None:
        raise FoglineError(
            f"a worker has written {name!r} into the output folder, where the driver does not see it: "
            "the output must lie in a folder that all machines share, or in a file system such as hdfs://."
        )
    return pq.ParquetFile(found)


def tables_of(
    journals: Iterable[pa.RecordBatch], number: int, seconds: float, health: Iterable[pa.Table] = ()
) -> dict[str, pa.Table]:
    """The tables of a batch by their kinds, from packed journals; health with the batch's number and seconds."""
    batches = list(journals)
    found = {kind: list(opened(batches, kind)) for kind in (*KINDS, *VIEWS)}
    found[HEALTH] += health
    parts = {kind: pa.concat_tables(tables) for kind, tables in found.items() if tables}
    if HEALTH in parts:
        whole = parts[HEALTH]
        about = {BATCH: pa.repeat(number, whole.num_rows), _SECONDS: pa.repeat(seconds, whole.num_rows)}
        parts[HEALTH] = pa.table({**about, **dict(zip(whole.schema.names, whole.columns, strict=True))})
    if REJECTS in parts:
        parts[REJECTS] = numbered_rejects(parts[REJECTS], number)
    return parts


def numbered_rejects(rejects: Any, number: int) -> Any:
    """Rejects, a table or a record batch, with the number of their batch."""
    return rejects.append_column(
        pa.field(BATCH, pa.int64()), pa.repeat(pa.scalar(number, pa.int64()), rejects.num_rows)
    )


def schemas_of(plan: AnyPlan) -> dict[str, pa.Schema]:
    """The columns of what sinks get, by kind."""
    about = pa.schema([(BATCH, pa.int64()), (_SECONDS, pa.float64())])
    return {
        CHANGES: schema_of(plan, CHANGES),
        REJECTS: schema_of(plan, REJECTS).append(pa.field(BATCH, pa.int64())),
        HEALTH: pa.schema([*about, *schema_of(plan, HEALTH)]),
    }
