"""Which rows of files does a batch read, if it may read only so many?

File after file, and where the limit lies within a file, up to there: the next batch goes on with the row behind it. The
file stays open meanwhile; after a restart the rows that were taken are skipped. A file gives the same rows every time,
so it does not matter which of the two it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from fogline.errors import FoglineError
from fogline.files.reading import batches
from fogline.files.settled import Layout


class Cut(NamedTuple):
    """A file of which some rows were taken."""

    path: str
    rows: int  # that were taken


class FileRows:
    """Rows of files, some at a time. After `take` is through, `cut` is the file that it stopped in."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.cut: Cut | None = None
        self._rest: list[pa.RecordBatch] = []  # of the file that was cut: what is left of the batch that was read, …
        self._open: Iterator[pa.RecordBatch] = iter(())  # … and those after it

    def take(self, paths: Iterable[str], skip: int, most: int) -> Iterator[pa.RecordBatch]:
        """Up to `most` rows of these files; of the first one `skip` rows were taken before."""
        going_on, self.cut, taken = self.cut, None, 0
        for k, path in enumerate(paths):
            before = skip if k == 0 else 0
            if k == 0 and going_on == Cut(path, skip):
                rest, rows = self._rest, self._open
            elif before and not Path(path).exists():
                before, rest, rows = 0, [], _gone(batches(path, self.layout), path)
            else:
                rest, rows = [], _behind(batches(path, self.layout), before, path)
            for batch in chain(rest, rows):
                some = batch.slice(0, most - taken)
                if some.num_rows:
                    yield some
                taken, before = taken + some.num_rows, before + some.num_rows
                if some.num_rows < batch.num_rows:
                    self.cut, self._rest, self._open = Cut(path, before), [batch.slice(some.num_rows)], rows
                    return


def _gone(rows: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    """The reject of a file that is there no longer; an error, if it was only away: its first rows were taken."""
    for batch in rows:
        if Path(path).exists():
            raise FoglineError(f"{path!r} was away for a moment. The same command goes on where it stopped.")
        yield batch


def _behind(rows: Iterator[pa.RecordBatch], skip: int, path: str) -> Iterator[pa.RecordBatch]:
    """All but the first rows."""
    left = skip
    for batch in rows:
        if left < batch.num_rows:
            yield batch.slice(left)
        left = max(left - batch.num_rows, 0)
    if left:
        raise FoglineError(
            f"{path!r} has {skip - left:,} rows, and {skip:,} were taken of it before: it was changed while it was "
            "being read. Put it back as it was; what is new belongs into a new file."
        )
