"""`answer/current.parquet`: the answer as one file, one row for each member, for any tool that reads Parquet.

It has the columns of `fogline answer` but for `certainty`, in no stated order, and `batch`: the last batch that has
changed the answer, as it stands in the file's metadata too (`fogline.batch`, and `fogline.time`, the instant that the
run had come to). It is replaced as a whole, after the files of a batch and before the batch counts as done. A batch
that is done again puts the same rows there.

The answer is held in memory, where the changes of a batch are added to it: what was reported before is read once, when
a run starts. Writing all members takes time, 50 ms for 100,000. So up to `ALWAYS` members the file is written with
every batch that changes something; with more so often that it takes at most a tenth of the time, and once more when no
batch has followed. No reader of Fogline's rests on the file. Where what was reported before cannot be read, since files
of the output are missing or damaged, the next batch with changes fails and names them: such an output is not whole, and
the file stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import RLock, Timer
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.arrays import CHANGES as WORDS
from fogline.arrays import ENTER
from fogline.errors import FoglineError
from fogline.output.answers import OutputReader
from fogline.output.files import CHECKED, counted
from fogline.output.folder import Folder
from fogline.output.sink import BATCH
from fogline.pipeline.names import CHANGES, CURRENT
from fogline.queries import QUERY, Asked, Queries, each_of
from fogline.query import Query
from fogline.rows.changes import answer_columns, of_query, standing
from fogline.show import instant_text

ALWAYS = 20_000  # members up to which every batch writes the file
SHARE = 10  # with more, the file takes one part in so many of the time
CHUNKS = 64  # of a table, before they become one
BATCH_KEY, TIME_KEY = b"fogline.batch", b"fogline.time"


class CurrentAnswer:
    """The answer of a run that goes on, and its file."""

    def __init__(self, folder: Folder, asked: Asked, name: str) -> None:
        self.folder, self.asked, self.name = folder, asked, name
        self.members: dict[str | None, pa.Table] | None = None  # of each query; None: not yet read
        self.waiting: list[pa.Table] = []  # changes that are still to be added to them
        self.batch, self.time = -1, None
        self.lock = RLock()  # held while the members change, or are written
        self.due = 0.0  # when a large answer may be written again
        self.later: Timer | None = None
        self.failed: Exception | None = None  # what has gone wrong in the timer's thread

    def resume(self) -> None:
        """Write the file anew, where a run ended before it could do so.

        What is wrong with files is not stated here, but by the next batch with changes.
        """
        with self.lock:
            self._cancel()
            self.members, self.waiting, self.failed = None, [], None
            with suppress(FoglineError):
                if self._newest() > batch_of_current(self.folder):
                    self._load()
                    self._write()

    def add(self, number: int, time: Any, changes: Sequence[pa.Table]) -> None:
        """A batch has reported these changes; its files are written. `time`: what the run has come to by then."""
        with self.lock:
            if self.failed is not None:
                raise self.failed
            if time is not None and (self.time is None or time > self.time):
                self.time = time
            if not changes:
                return
            if self.members is None:
                self._load()  # this batch is among what is read
            else:
                self.waiting += changes
            self.batch = number
            if sum(table.num_rows for table in self.waiting) > ALWAYS:
                self._add_up()
            self._write_when_due()

    def close(self) -> None:
        """Nothing more comes: what was put off is written, and what could not be written late is tried again."""
        with self.lock:
            if self.later is not None or self.failed is not None:
                self._write()

    def _newest(self) -> int:
        """The newest batch with changes; -1: there is none."""
        return max((held.last for held in counted(self.folder.listing(CHANGES))), default=-1)

    def _load(self) -> None:
        """All that the run has reported before. Where that cannot be read, nothing is changed."""
        reader = OutputReader(self.folder, self.name)
        there = reader.standing(self.asked)
        assert there is not None, "there are changes"
        members = {
            name: (there if name is None else of_query(there, name)).select(answer_columns(query))
            for name, query in each_of(self.asked).items()
        }
        self.batch, self.time, self.members = self._newest(), reader.reached(), members

    def _add_up(self) -> None:
        """The changes that wait are added to the members."""
        assert self.members is not None
        if not self.waiting:
            return
        changes, members = pa.concat_tables(self.waiting, promote_options="permissive"), dict(self.members)
        for name, query in each_of(self.asked).items():
            own = changes if name is None else of_query(changes, name)
            own = own.select([*answer_columns(query), "change"])
            before = members.get(name, own.slice(0, 0).select(answer_columns(query)))
            members[name] = _added(before, own, query) if own.num_rows else before
        self.members, self.waiting = members, []

    def _write_when_due(self) -> None:
        assert self.members is not None
        wait = self.due - perf_counter()
        if wait <= 0 or sum(table.num_rows for table in self.members.values()) <= ALWAYS:
            self._write()
        elif self.later is None:
            self.later = Timer(wait, self._write_late)
            self.later.daemon = True
            self.later.start()

    def _write_late(self) -> None:
        with self.lock:
            if self.later is not None:
                try:
                    self._write()
                except Exception as error:  # the next batch raises it; the end tries again
                    self.failed = error

    def _cancel(self) -> None:
        """What was put off is not written by the timer."""
        if self.later is not None:
            self.later.cancel()
            self.later = None

    def _write(self) -> None:
        self._cancel()
        began = perf_counter()
        self._add_up()
        rows = self._rows()
        about = {BATCH_KEY: str(self.batch), TIME_KEY: "" if self.time is None else instant_text(self.time)}
        rows = rows.replace_schema_metadata(about)
        few = [name for name in (QUERY, rows.schema.names[-1]) if name in rows.schema.names]  # of few values
        with self.folder.filling(CURRENT) as path:
            pq.write_table(rows, path, use_dictionary=few, **CHECKED)
        self.due = perf_counter() + (SHARE - 1) * (perf_counter() - began)

    def _rows(self) -> pa.Table:
        """The members of all queries, with the batch beside them."""
        assert self.members is not None
        if isinstance(self.asked, Queries):
            named = [
                table.append_column(QUERY, pa.repeat(pa.scalar(name), table.num_rows))
                for name, table in self.members.items()
            ]
            rows = pa.concat_tables(named, promote_options="permissive")
            rows = rows.select([name for name in answer_columns(self.asked) if name in rows.schema.names])
        else:
            rows = self.members[None]
        batch = pa.repeat(pa.scalar(self.batch, pa.int64()), rows.num_rows)
        return rows.append_column(BATCH, batch)


def batch_of_current(folder: Folder) -> int:
    """The batch that the file states; -1: there is no file, or none that states it."""
    found = folder.open(CURRENT)
    if found is None:
        return -1
    try:
        with found:
            return int((pq.read_schema(found).metadata or {}).get(BATCH_KEY, -1))
    except (pa.ArrowException, OSError, ValueError):
        return -1


def _added(members: pa.Table, changes: pa.Table, query: Query) -> pa.Table:
    """The members after these changes: the last change decides of those whose ids are named; the others stay."""
    try:
        named = pc.is_in(members[query.id], changes[query.id].combine_chunks())
        others, touched = members.filter(pc.invert(named)), members.filter(named)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):  # of ids that Arrow does not compare
        others, touched = members.slice(0, 0), members
    touched = touched.append_column("change", pa.repeat(WORDS[ENTER], touched.num_rows))
    there = standing([touched, changes], query)
    assert there is not None
    found = pa.concat_tables([others, there.select(members.schema.names)], promote_options="permissive")
    return found.combine_chunks() if max(column.num_chunks for column in found.columns) > CHUNKS else found
