"""How does an output stay small and quick to read, however long a run goes on?

Every hundred batches their files become one, every ten thousand those become one again, as long as it is not large; and
the answer after the last of them is written down, with what the scores of rules add up to, so that a reader needs only
what came since. The rows of the files stay as they are, so that the answer at any past instant does too.

Only batches that the engine has committed are touched: while batch n is written, those before it are. Each step may
be the last before a crash: a new file is complete, and on disk, before those that it stands for go; until they are
gone no reader counts them (`fogline.output.files`); and what was begun is ended with the next run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.errors import FoglineError, other_format
from fogline.impute.scores import Sums, add, from_plain, to_plain
from fogline.output.files import (
    CHECKED,
    Held,
    KeptFile,
    Note,
    batch_name,
    counted,
    joined_note,
    refuse_hole,
    superseded,
)
from fogline.output.folder import Folder
from fogline.output.views import fold
from fogline.pipeline.names import ANSWERS, CHANGES, HEALTH, KINDS, SCORES, VIEWS
from fogline.queries import Asked
from fogline.rows.changes import standing
from fogline.saved import opened, sealed

BLOCK = 100  # so many files become one
LARGE = 128 * 2**20  # bytes: files are not joined beyond
ROWS = 131_072  # of a row group in a joined file
FORMAT = 1  # of an answer checkpoint
_ABOUT = b"fogline"


@dataclass(frozen=True, slots=True)
class AnswerCheckpoint:
    """What all batches up to one add up to."""

    number: int  # of the last batch
    until: Any  # the latest time of a change so far; None: there was none
    scores: Sums
    removed: int  # the first batch whose changes are kept
    answer: pa.Table | None  # the last change of each row in the answer; None: there was no change


class Compaction:
    """Joins the files of an output as it grows."""

    def __init__(
        self, place: Folder, query: Asked, name: str = "the output", *, block: int = BLOCK, keep: int | None = None
    ) -> None:
        self.place, self.query, self.name, self.block, self.keep = place, query, name, block, keep
        self.next = 0  # the first batch that no checkpoint covers

    def resume(self) -> None:
        """End what an earlier run has begun."""
        for kind in (*KINDS, *VIEWS):
            self.place.delete(superseded(self.place.listing(kind)))
        checkpoints = answer_checkpoints(self.place)
        if checkpoints:
            newest = read_answer_checkpoint(self.place, checkpoints[max(checkpoints)], answer=False)
            self._end(newest.number, newest.removed)
        self.next = max(checkpoints, default=-1) + 1

    def before(self, number: int) -> None:
        """All batches before this one are committed: join what is due."""
        while self.next + self.block <= number:
            self._take(self.next + self.block - 1)
            self.next += self.block

    def _take(self, last: int) -> None:
        """The block that ends with this batch, and larger ones that end with it too."""
        checkpoints = answer_checkpoints(self.place)
        before = read_answer_checkpoint(self.place, checkpoints[max(checkpoints)]) if checkpoints else None
        removed = self._removed(last, list(checkpoints), before)
        refuse_hole(self.place, self.name, after=max(checkpoints, default=-1), upto=last, kinds=KINDS[:-1])
        checkpoint = self._checkpoint(
            before, last, removed
        )  # before files are joined: then only those since the last are read
        gone: list[str] = []
        for size in self._sizes(last):
            notes = {run[0].first: joined_note(self.place, run) for run in self._runs(HEALTH, last + 1 - size, last)}
            for kind in KINDS:
                gone += self._join(kind, last + 1 - size, last, notes if kind == HEALTH else {})
        for kind in VIEWS:
            gone += fold(self.place, kind, self.query, last - self.block)
        write_answer_checkpoint(self.place, checkpoint)
        self.place.delete(gone)
        self._end(last, removed)

    def _sizes(self, last: int) -> list[int]:
        """Of the blocks that end with this batch."""
        sizes, size = [], self.block
        while (last + 1) % size == 0:
            sizes.append(size)
            size *= self.block
        return sizes

    def _end(self, last: int, removed: int) -> None:
        """The newest checkpoint is written: those that it replaces go, and what was before the first batch to keep."""
        first = min((last + 1 - size for size in self._sizes(last) if size > self.block), default=last)
        checkpoints = answer_checkpoints(self.place)
        checkpoints.pop(removed - 1, None)  # stays: the kept changes begin there
        self.place.delete(name for number, name in checkpoints.items() if first <= number < last)
        if removed:
            self._remove(removed)

    def _runs(self, kind: str, first: int, last: int) -> list[list[Held]]:
        """Files that may become one."""
        return list(runs([h for h in counted(self.place.listing(kind)) if first <= h.first and h.last <= last]))

    def _join(self, kind: str, first: int, last: int, notes: Mapping[int, Note]) -> list[str]:
        """Neighbouring files become one, with a note if there is one; returns those that are superseded."""
        gone: list[str] = []
        for run in self._runs(kind, first, last):
            names = [name for held in run for name in held.names]
            if len(names) > 1:
                join(self.place, names, batch_name(kind, run[0].first, run[-1].last), notes.get(run[0].first))
                gone += names
        return gone

    def _checkpoint(self, before: AnswerCheckpoint | None, last: int, removed: int) -> AnswerCheckpoint:
        answer, until = (None, None) if before is None else (before.answer, before.until)
        scores = {} if before is None else dict(before.scores)
        for table in tables(self.place, CHANGES, after=-1 if before is None else before.number, upto=last):
            latest = pc.max(table["time"]).as_py()
            until = latest if until is None or (latest is not None and latest > until) else until
            answer = standing([*([] if answer is None else [answer]), table], self.query)
        add_scores(scores, self.place, after=-1 if before is None else before.number, upto=last)
        return AnswerCheckpoint(last, until, scores, removed, answer)

    def _removed(self, last: int, checkpoints: list[int], before: AnswerCheckpoint | None) -> int:
        """The first batch to keep: what is before a checkpoint may go once that is old enough."""
        already = 0 if before is None else before.removed
        old = [] if self.keep is None else [number + 1 for number in checkpoints if number + self.keep <= last]
        return max([already, *old])

    def _remove(self, first: int) -> None:
        for kind in KINDS:
            old = [held for held in counted(self.place.listing(kind)) if held.last < first]
            self.place.delete([name for held in old for name in held.names])
        self.place.delete([name for number, name in answer_checkpoints(self.place).items() if number < first - 1])


def runs(held: Iterable[Held]) -> Iterator[list[Held]]:
    """Neighbours that are not large together."""
    run: list[Held] = []
    for each in held:
        if run and sum(other.size for other in run) + each.size > LARGE:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def join(place: Folder, names: list[str], name: str, note: Note | None = None) -> None:
    """One file with the rows of several, in their order, and a note beside their columns."""
    files = [KeptFile(place, each) for each in names]
    schema = pa.unify_schemas([file.schema_arrow for file in files], promote_options="permissive")
    schema = schema.with_metadata(None if note is None else note.to_metadata())
    with place.filling(name) as path, pq.ParquetWriter(path, schema, **CHECKED) as writer:
        waiting: list[pa.Table] = []
        for file in files:
            for k in range(file.num_row_groups):
                waiting.append(_as(file.read_row_group(k), schema))
                if sum(table.num_rows for table in waiting) >= ROWS:
                    writer.write_table(pa.concat_tables(waiting).combine_chunks(), row_group_size=ROWS)
                    waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting).combine_chunks(), row_group_size=ROWS)


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    empty = schema.empty_table()
    return pa.concat_tables([empty, table], promote_options="permissive").select(schema.names).cast(schema)


def tables(place: Folder, kind: str, *, after: int, upto: int | None = None, columns: Any = None) -> Iterator[pa.Table]:
    """The row groups of a kind in the batches after one, in their order; a file may also hold some of before."""
    for held in counted(place.listing(kind)):
        if held.last > after and (upto is None or held.last <= upto):
            for name in held.names:
                file = KeptFile(place, name)
                for k in range(file.num_row_groups):
                    yield file.read_row_group(k, columns=columns)


def add_scores(sums: Sums, place: Folder, *, after: int, upto: int | None = None) -> None:
    """Add what the batches after one have found out about rules."""
    for table in tables(place, HEALTH, after=after, upto=upto, columns=["batch", SCORES]):
        for scored in table.filter(pc.greater(table["batch"], after)).column(SCORES).drop_null().to_pylist():
            add(sums, from_plain(json.loads(scored)))


def answer_checkpoints(place: Folder) -> dict[int, str]:
    """The answer checkpoints of an output, by the last batch that they cover."""
    return {held.last: held.names[0] for held in counted(place.listing(ANSWERS))}


def write_answer_checkpoint(place: Folder, checkpoint: AnswerCheckpoint) -> None:
    """As a table of changes, with the rest beside its schema."""
    until = None
    if checkpoint.answer is not None:
        kind = checkpoint.answer.schema.field("time").type
        until = pa.scalar(checkpoint.until, kind).cast(pa.int64() if _is_stamp(kind) else pa.float64())
    table = pa.table({"none": pa.array([], pa.null())}) if checkpoint.answer is None else checkpoint.answer
    about = {
        "format": FORMAT,
        "until": None if until is None else until.as_py(),
        "scores": to_plain(checkpoint.scores),
        "removed": checkpoint.removed,
        "table": _shape(table.schema, table.num_rows),
    }
    with place.filling(batch_name(ANSWERS, checkpoint.number)) as path:
        pq.write_table(table.replace_schema_metadata({_ABOUT: sealed(about)}), path, **CHECKED)


def _shape(schema: pa.Schema, rows: int) -> list[Any]:
    """What a footer, which has no checksum of its own, states of its table; types are not always read as written."""
    return [rows, *schema.names]


def _is_stamp(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def read_answer_checkpoint(place: Folder, name: str, *, answer: bool = True) -> AnswerCheckpoint:
    """The inverse of `write_answer_checkpoint`; without the answer, if that is not asked for."""
    file = KeptFile(place, name)
    about = _about(file)
    until = about["until"]
    if until is not None:
        kind = file.schema_arrow.field("time").type
        stored = pa.scalar(until, pa.int64() if _is_stamp(kind) else pa.float64())
        with file.named():
            until = stored.cast(kind).as_py()
    (number,) = (held.last for held in counted({name: 0}))
    table = file.read().replace_schema_metadata() if answer and about["until"] is not None else None
    return AnswerCheckpoint(number, until, from_plain(about["scores"]), about["removed"], table)


def _about(file: KeptFile) -> dict[str, Any]:
    """What lies beside the schema of a checkpoint. (Earlier versions wrote it without a checksum.)"""
    about = opened((file.schema_arrow.metadata or {}).get(_ABOUT, b""))
    if about is not None and (found := about.get("format", FORMAT)) != FORMAT:
        raise FoglineError(other_format(f"{file.name!r} of the output", found, FORMAT, "choose another output"))
    there = _shape(file.schema_arrow, file.metadata.num_rows)
    if about is None or not {"until", "scores", "removed"} <= about.keys() or about.get("table", there) != there:
        raise file.damaged("it is not what a run has written")
    return about
