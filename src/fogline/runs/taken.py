"""Which rows of files does a batch read, if it may read only so many?

File after file, and where the limit lies within a file, up to there: the next batch goes on with the row behind it. The
file stays open meanwhile; after a restart the rows that were taken are skipped. A file gives the same rows every time,
so it does not matter which of the two it was; one that is no longer the same is an error (`files.mark`). So it is where
a batch is done again, of all its files: sinks may have the changes of the rows that they held.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from fogline.durable import checksum
from fogline.errors import FoglineError
from fogline.files.listing import files_of
from fogline.files.mark import WHOLE, FileMark, MarkedFile, Span, added_to, changed_since, is_same
from fogline.files.reading import batches
from fogline.files.settled import Layout
from fogline.files.unread import Taken
from fogline.runs.embedded_state import EmbeddedState, Intent
from fogline.state.sqlite import FileTaken


class Cut(NamedTuple):
    """A file of which some rows were taken."""

    path: str
    rows: int  # that were taken
    mark: FileMark | None = None  # by which the file is known; None: it is there no longer
    span: Span = WHOLE  # the part of it that was being read


class FileRows:
    """Rows of files, some at a time.

    After `take` is through, `cut` is the file that it stopped in, and `marks` are by what the files are known that it
    has read; None: it could not be read.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.cut: Cut | None = None
        self.marks: list[FileMark | None] = []
        self._rest: list[pa.RecordBatch] = []  # of the file that was cut: what is left of the batch that was read, …
        self._open: Iterator[pa.RecordBatch] = iter(())  # … and those after it
        self._file = MarkedFile("")

    def take(
        self,
        paths: Iterable[str],
        skip: int,
        most: int,
        mark: FileMark | None = None,
        spans: Sequence[Span] = (),
        had: Sequence[FileMark | None] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Up to `most` rows of these files, of each those in its span.

        Of the first one, known by its mark, `skip` rows were taken before. A batch that is done again states the
        `marks` that its files had: another file, or one that is gone or has come since, is an error.
        """
        going_on, self.cut, self.marks, taken = self.cut, None, [], 0
        for k, path in enumerate(paths):
            before, span = skip if k == 0 else 0, spans[k] if spans else WHOLE
            if k < len(had) and not is_same(path, had[k]):
                raise changed_since(path)
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
                    self.marks.append(self._file.note())
                    self.cut, self._rest = Cut(path, before, self.marks[-1], span), [batch.slice(some.num_rows)]
                    return
            self.marks.append(self._file.note())
            if k < len(had) and span.end is None and self.marks[k] != had[k]:
                raise changed_since(path)

    def _begin(self, path: str, skip: int, span: Span) -> int:
        """Open a file; returns how many of its rows were taken before, which is none of a reject that stands for it."""
        if skip and not Path(path).exists():
            self._file = MarkedFile(path)
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


# --- Which files were taken -------------------------------------------------------------------------------------------
#
# Each file once, in the order of the times at which they were last changed, then of their paths; a file of lines again
# where lines were added to it, and then those. Which were taken is a table of the checkpoint: a file is in it when the
# batch that read it is committed, and is looked up by its path (where the stream was moved, by its name). Of a file
# that was too long for one batch it is known how many of its rows were taken, and by what it is known again; the next
# batch begins with it.

BATCH = 256 * 2**20  # bytes of files in one batch, at most, …
ROWS = 1_000_000  # … and rows, unless stated
_CUT = "cut file"


class FoundFile(NamedTuple):
    """A file that has yet to be taken."""

    when: int  # it was last changed, in milliseconds
    path: str
    size: int
    span: Span | None = None  # what was added to a file that was taken; None: it is a new one


class CutFile(NamedTuple):
    """A file of which some rows were taken."""

    path: str
    rows: int
    when: int  # it was last changed, in milliseconds
    batch: int  # that took the last of them
    mark: FileMark | None = None  # by which it is known; None: it was gone, or an earlier version has cut it
    span: Span = WHOLE  # the part of it that is being read

    @classmethod
    def from_json(cls, path: str, saved: bytes) -> CutFile:
        """The inverse of `to_json`."""
        rows, when, batch, *rest = json.loads(saved)
        known = bool(rest) and rest[0] is not None
        return cls(path, rows, when, batch, FileMark(*rest[:2]) if known else None, Span(*rest[2:]))

    def to_json(self) -> bytes:
        """All but its path."""
        return json.dumps([self.rows, self.when, self.batch, *(self.mark or (None, None)), *self.span]).encode()


class TakenFiles:
    """Which files have been taken up so far? As the state knows it."""

    def __init__(self, state: EmbeddedState, stream: str, *, by_name: bool) -> None:
        self.state, self.stream, self.by_name = state, stream, by_name
        self.way_out = "Of csv and JSON lines, whole lines that are added behind whole lines are read."
        self.checkpoint = state.checkpoint
        self.cut = next((CutFile.from_json(path, saved) for path, _, saved in state.checkpoint.all("", _CUT)), None)

    def known(self, paths: Iterable[str]) -> dict[str, Taken]:
        """Those of these files that were taken up, by their paths."""
        wanted = list(paths)
        found = {path: Taken(each.when, each.batch) for path, each in self.checkpoint.files(wanted).items()}
        if self.cut is not None and self.cut.path in wanted:
            found[self.cut.path] = Taken(self.cut.when, self.cut.batch)
        return found

    def known_names(self, names: Iterable[str]) -> set[str]:
        """Those of these names that files have which were taken up."""
        wanted = set(names)
        cut = set() if self.cut is None else {Path(self.cut.path).name} & wanted
        return cut | self.checkpoint.files_named(wanted).keys()

    def gone(self) -> list[str]:
        """The file that is to be read on, if it is no longer there; those of a batch that was begun must be."""
        if self.cut is None or self.state.intent() is not None:
            return []
        return [path for path, _ in self._here([(self.cut.path, self.cut.when)]) if not Path(path).exists()]

    def interrupted(self) -> Intent | None:
        """What a batch that was not finished was to do, with its files where they lie now; None: there is none."""
        intent = self.state.intent()
        return None if intent is None else intent._replace(files=self._here(intent.files))

    def _here(self, files: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """The same files; where the stream was moved, those of its folder that have their names."""
        if not self.by_name:
            return files
        there = {each.name: str(each) for each in files_of(self.stream)}
        return [(there.get(Path(path).name, path), when) for path, when in files]

    def reads_on(self, path: str) -> bool:
        """Whether nothing was done to a file that was taken up but adding lines, which will be read."""
        span = self._span(path, self.checkpoint.files([path]).get(path))
        if span.end is None:
            return False
        with suppress(OSError):
            if os.path.getsize(path) == span.end:
                return checksum(Path(path)) == span.checksum
        return added_to(path, span) is not None

    def take(
        self, files: Sequence[tuple[str, int]], batch: int, cut: Cut | None = None, spans: Sequence[Span] = ()
    ) -> int:
        """A batch takes these; with the one that was `cut` it ends. Returns how many of them are read."""
        if self.cut is not None:
            self.state.own.delete(_CUT, self.cut.path, 0)
            self.cut = None
        for count, (path, when) in enumerate(files):
            span = spans[count] if spans else WHOLE
            if cut is not None and (path, span) == (cut.path, cut.span):
                self.cut = CutFile(path, cut.rows, when, batch, cut.mark, cut.span)
                self.state.own.put(_CUT, path, 0, self.cut.to_json())
                return count
            self.checkpoint.take_file(FileTaken(path, when, batch, "" if span.end is None else json.dumps(span)))
        return len(files)

    def new_files(self, paths: Iterable[str]) -> list[FoundFile]:
        """Those to be read, in the order in which they will be: as old as they are, then by their paths.

        The one that was cut comes first, even if it is there no longer: then it is a reject.
        """
        found: list[FoundFile] = []
        there = list(paths)
        taken = self._taken(there)
        cut = [] if self.cut is None else [FoundFile(self.cut.when, self.cut.path, 0)]
        for path in there:
            if self.cut is not None and self._is_cut(path):
                cut = [FoundFile(self.cut.when, path, 0)]
            with suppress(FileNotFoundError):  # it is there no longer
                found += self._to_read(path, taken.get(path))
        return cut + sorted(found)

    def _taken(self, paths: list[str]) -> dict[str, FileTaken]:
        """What is known of these files: of each that of its path or, where the stream was moved, of its name."""
        if not self.by_name:
            return self.checkpoint.files(paths)
        named = self.checkpoint.files_named(Path(path).name for path in paths)
        return {path: named[name] for path in paths if (name := Path(path).name) in named}

    def _to_read(self, path: str, known: FileTaken | None) -> list[FoundFile]:
        """The file, if it is a new one, or if lines were added to it."""
        begun, before = known is not None or self._is_cut(path), self._span(path, known)
        if begun and before.end is None:
            return []
        seen = os.stat(path)
        added = added_to(path, before) if begun and seen.st_size > (before.end or 0) else None
        if begun and added is None:
            return []
        size = seen.st_size - (0 if added is None else added.begin)
        return [FoundFile(seen.st_mtime_ns // 1_000_000, path, size, added)]

    def _span(self, path: str, known: FileTaken | None) -> Span:
        """The part of a file that was read last, or is being read."""
        if self.cut is not None and self._is_cut(path):
            return self.cut.span
        return Span(*json.loads(known.span)) if known is not None and known.span else WHOLE

    def spans_of(self, files: Iterable[FoundFile]) -> list[Span]:
        """The part of each file that a batch reads: the one that was cut goes on, a new one is read as it is now."""
        behind = list(files)[0 if self.cut is None else 1 :]
        spans = [each.span or added_to(each.path) or WHOLE for each in behind]
        return [*([] if self.cut is None else [self.cut.span]), *spans]

    def _is_cut(self, path: str) -> bool:
        cut = self.cut
        return cut is not None and (path == cut.path or (self.by_name and Path(path).name == Path(cut.path).name))


def batch_of(files: list[FoundFile], most: int | None) -> int:
    """How many of these files make a batch: so many at most or, without a limit, as many as are not large together."""
    size = 0
    for count, each in enumerate(files):
        size += each.size
        if count and (count == most or (most is None and size > BATCH)):
            return count
    return len(files)
