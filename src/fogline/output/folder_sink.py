"""How do batches become files of a folder, exactly once?

One Parquet file per batch in each of `changes/`, `rejects/` and `health/`, named by the batch's number; more than one
where workers have written parts of it (`runs.spill`), and one for many as time goes by (`output.compaction`). A batch
that is done again after a crash has the same number and the same content, and replaces what is there of it.

`Reported` is what a batch has reported of one kind, as sinks get it: what the driver holds, then what lies in files
that workers wrote. `BatchFolder` is the part of a run's own folder that holds batches; files of workers lie in it
already, and get their names. `FolderSink` is a folder elsewhere, which `fogline answer` reads too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.files.listing import absolute, is_local
from fogline.output.about import read_about, write_about
from fogline.output.compaction import Compaction
from fogline.output.current import CurrentAnswer
from fogline.output.files import CHECKED, KeptFile, Note, batch_name, counted, last_before, note_of, of_batch, part_name
from fogline.output.folder import Folder, LocalFolder
from fogline.output.sink import BATCH, Batches, RunInfo, refuse_gap, refuse_loss
from fogline.pipeline.names import ABOUT, CHANGES, CHECKPOINT, HEALTH, KINDS, LOCK, REJECTS, VIEWS
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import schema_of
from fogline.pipeline.stages import opened
from fogline.queries import Asked

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
    results: Iterable[pa.RecordBatch], number: int, seconds: float, health: Iterable[pa.Table] = ()
) -> dict[str, pa.Table]:
    """The tables of a batch by their kinds, from packed results; health with the batch's number and seconds."""
    batches = list(results)
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


def schemas_of(plan: Plans) -> dict[str, pa.Schema]:
    """The columns of what sinks get, by kind."""
    about = pa.schema([(BATCH, pa.int64()), (_SECONDS, pa.float64())])
    return {
        CHANGES: schema_of(plan, CHANGES),
        REJECTS: schema_of(plan, REJECTS).append(pa.field(BATCH, pa.int64())),
        HEALTH: pa.schema([*about, *schema_of(plan, HEALTH)]),
    }


_NONE = pa.table({})


class BatchFolder:
    """The files of a run's batches in its folder."""

    def ask(self, query: Asked) -> None:
        """What the run answers, with the names of all columns that it keeps: known once its columns are."""
        self.compaction.query = self.current.asked = query

    def __init__(self, folder: Folder, query: Asked, name: str, keep: int | None = None) -> None:
        self.folder, self.name = folder, name
        self.compaction = Compaction(folder, query, name, keep=keep)
        self.current = CurrentAnswer(folder, query, name)
        self.fresh = True  # no batch was written since the run was started: the next one may have been, before a crash
        self.last: int | None = None  # the last batch that has health; None: it is to be looked for

    def resume(self) -> None:
        """End what an earlier run has begun."""
        self.fresh, self.last = True, None
        self.compaction.resume()
        self.current.resume()

    def close(self) -> None:
        """No more batches come."""
        self.current.close()

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        """As a sink: files that lie in this folder get their names, the rest is written."""
        reported = dict(zip(KINDS, (changes, rejects, health), strict=True))
        found = {kind: each for kind, each in reported.items() if isinstance(each, Reported)}
        if len(found) == len(reported) and all(each.place is self.folder for each in found.values()):
            parts = {kind: each.table for kind, each in found.items() if each.table is not None}
            self.write(number, parts, [(kind, name) for kind, each in found.items() for name in each.files])
            return
        self._forget_all(number)
        there = [kind for kind in KINDS[:-1] if self._stream(kind, number, reported[kind])]
        self._done(number, self._stream(HEALTH, number, reported[HEALTH], self._note(number, there)))

    def write(self, number: int, parts: dict[str, pa.Table], spilled: Sequence[tuple[str, str]] = ()) -> None:
        """One file for each kind that has rows; after it those that workers have written, by kind and name."""
        more = {kind: [name for of, name in spilled if of == kind] for kind in KINDS}
        self._forget_all(number)
        there = [kind for kind in KINDS[:-1] if self._write(kind, number, parts.get(kind), more[kind])]
        health = parts.get(HEALTH)
        if health is not None:
            health = health.replace_schema_metadata(self._note(number, there).to_metadata())
        at_hand = None if more[CHANGES] else parts.get(CHANGES, _NONE)
        self._done(number, self._write(HEALTH, number, health, more[HEALTH]), at_hand, health)

    def put_views(self, number: int, views: Mapping[str, Reported]) -> None:
        """Near rows and cells to measure next: they come before the batch itself, which counts from then on."""
        for kind, each in views.items():
            self._write(kind, number, each.table, each.files)

    def _write(self, kind: str, number: int, table: pa.Table | None, more: list[str]) -> bool:
        """One file of what is at hand, and after it those that lie in this folder; False: there is nothing."""
        first = [] if table is None or not table.num_rows else [table]
        self._forget(kind, number)
        for k, name in enumerate(more):
            place = part_name(kind, number, k + 1 + len(first), len(first) + len(more))
            if kind == REJECTS:
                self._numbered(name, place, number)
            else:
                self.folder.move(name, place)
        for each in first:
            with self.folder.filling(part_name(kind, number, 1, 1 + len(more))) as path:
                pq.write_table(each, path, **CHECKED)
        return bool(first or more)

    def _note(self, number: int, kinds: list[str]) -> Note:
        """What health will know of the files of these kinds, which are there."""
        return note_of(number, last_before(self.folder, number) if self.last is None else self.last, kinds)

    def _done(self, number: int, health: bool, changes: pa.Table | None = None, found: pa.Table | None = None) -> None:
        """The batch is written: its changes and its health, None: they are only in the files.

        One that reports nothing at all has no health either.
        """
        self.fresh, self.last = False, number if health else self.last
        times = self._files(HEALTH, number, ["time"]) if found is None else [found]
        latest = [time for each in times if (time := pc.max(each["time"]).as_py()) is not None]
        reported = list(self._files(CHANGES, number)) if changes is None else [changes] if changes.num_rows else []
        self.current.add(number, max(latest, default=None), reported)
        self.compaction.before(number)

    def _files(self, kind: str, number: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """What lies in the files of a batch."""
        for held in counted(self.folder.listing(kind)):
            if held.first == held.last == number:
                for name in held.names:
                    file = KeptFile(self.folder, name)
                    for k in range(file.num_row_groups):
                        yield file.read_row_group(k, columns)

    def _stream(self, kind: str, number: int, batches: Batches, note: Note | None = None) -> bool:
        """One file of what comes, with a note if it has one; False: nothing comes."""
        first = next((each for each in batches if each.num_rows), None)
        if first is None:
            return False
        schema = first.schema if note is None else first.schema.with_metadata(note.to_metadata())
        with (
            self.folder.filling(batch_name(kind, number)) as path,
            pq.ParquetWriter(path, schema, **CHECKED) as writer,
        ):
            for each in chain([first], batches):
                writer.write_batch(each)
        return True

    def _numbered(self, name: str, to: str, number: int) -> None:
        """What a worker has written gets its place, and the batch's number beside its rows."""
        file = KeptFile(self.folder, name)
        schema = file.schema_arrow.append(pa.field(BATCH, pa.int64()))
        with self.folder.filling(to) as path, pq.ParquetWriter(path, schema, **CHECKED) as writer:
            for k in range(file.num_row_groups):
                writer.write_table(numbered_rejects(file.read_row_group(k), number))
        self.folder.delete([name])

    def _forget_all(self, number: int) -> None:
        """The same of all kinds: health goes first, so that no reader misses what it states."""
        for kind in reversed(KINDS):
            self._forget(kind, number)

    def _forget(self, kind: str, number: int) -> None:
        """What a crash has left of this batch, which may have had other parts."""
        if self.fresh:
            self.folder.delete(of_batch(self.folder.listing(kind), number))


class FolderSink:
    """A folder that is not the run's own: changes, rejects and health, and `about.json` with the query."""

    def __init__(self, folder: Folder, path: str) -> None:
        self.folder, self.path, self.place = folder, path, path
        self.files: BatchFolder | None = None

    @classmethod
    def at(cls, path: str) -> FolderSink:
        """A folder of this machine."""
        if not is_local(path):
            raise FoglineError(f"{path!r} does not lie on this machine; only --output may lie elsewhere.")
        return cls(LocalFolder(absolute(path)), absolute(path))

    def begin(self, run: RunInfo) -> None:
        """A folder that knows another run, or other batches, is refused."""
        about = read_about(self.folder)
        own = about is not None and about["stream"] is not None  # of a run: what a sink writes states none
        if own or self.folder.listing(CHECKPOINT) or self.folder.get(LOCK) is not None:
            raise FoglineError("it is the folder of another run; choose another folder.")
        there = max((held.last for kind in KINDS for held in counted(self.folder.listing(kind))), default=None)
        if about is None and there is not None:
            raise FoglineError(f"it holds batches of a run, but no {ABOUT}; choose another folder.")
        if there is not None and about is not None and about.get("mark") != run.mark:
            raise FoglineError("it holds the batches of another run; choose another folder.")
        refuse_gap(run, there, known=about is not None and about.get("mark") == run.mark)
        refuse_loss(run, max((held.last for held in counted(self.folder.listing(HEALTH))), default=None))
        if about is None or about.get("mark") != run.mark:
            about = {"query": run.query.to_dict(), "shape": {}, "stream": None, "mark": run.mark}
            write_about(self.folder, about)
        self.files = BatchFolder(self.folder, run.query, self.place)
        self.files.resume()

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        """Write a batch, in place of what is there of it."""
        assert self.files is not None, "begin comes first"
        self.files.put(number, changes, rejects, health)

    def close(self) -> None:
        """No more batches come."""
        if self.files is not None:
            self.files.close()
