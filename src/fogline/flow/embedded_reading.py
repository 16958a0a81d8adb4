"""Which rows of files does a batch read, if it may read only so many?

File after file, and where the limit lies within a file, up to there: the next batch goes on with the row behind it. The
file stays open meanwhile; after a restart the rows that were taken are skipped. A file gives the same rows every time,
so it does not matter which of the two it was; one that is no longer the same is an error (`files.mark`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from fogline.errors import FoglineError
from fogline.files.mark import WHOLE, FileMark, MarkedFile, Span
from fogline.files.reading import batches
from fogline.files.settled import Layout


class Cut(NamedTuple):
    """A file of which some rows were taken."""

    path: str
    rows: int  # that were taken
    mark: FileMark | None = None  # by which the file is known; None: it is there no longer
    span: Span = WHOLE  # the part of it that was being read


class FileRows:
    """Rows of files, some at a time. After `take` is through, `cut` is the file that it stopped in."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.cut: Cut | None = None
        self._rest: list[pa.RecordBatch] = []  # of the file that was cut: what is left of the batch that was read, …
        self._open: Iterator[pa.RecordBatch] = iter(())  # … and those after it
        self._file = MarkedFile("")

    def take(
        self, paths: Iterable[str], skip: int, most: int, mark: FileMark | None = None, spans: Sequence[Span] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Up to `most` rows of these files, of each those in its span.

        Of the first one, known by its mark, `skip` rows were taken before.
        """
        going_on, self.cut, taken = self.cut, None, 0
        for k, path in enumerate(paths):
            before, span = skip if k == 0 else 0, spans[k] if spans else WHOLE
            if k or going_on is None or going_on[:2] != (path, skip):
                added = FileMark(span.end, span.checksum) if span.begin and span.end is not None else None
                self._file, self._rest = MarkedFile(path, mark if before else added), []
                before = self._begin(path, before, span)
            elif before:
                self._file.check()
            for batch in chain(self._rest, self._open):
                some = batch.slice(0, most - taken)
                if some.num_rows:
                    yield some
                taken, before = taken + some.num_rows, before + some.num_rows
                if some.num_rows < batch.num_rows:
                    self.cut, self._rest = Cut(path, before, self._file.note(), span), [batch.slice(some.num_rows)]
                    return

    def _begin(self, path: str, skip: int, span: Span) -> int:
        """Open a file; returns how many of its rows were taken before, which is none of a reject that stands for it."""
        if skip and not Path(path).exists():
            self._open = _gone(batches(path, self.layout), path)
            return 0
        self._file.check()
        self._open = _behind(batches(path, self.layout, span=span), skip, path)
        return skip


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
