"""What does the folder of a run hold: now, at an earlier instant, and since a reader last looked?

`OutputReader` is the one reader of such a folder: commands, the page, notebooks and the demo ask it. It needs no
engine, and a run may go on meanwhile: where files that were listed have been joined, they are listed again.

Changes add up: for each row the last change up to an instant decides whether it is in the answer. Now and then a run
writes down what they add up to (an answer checkpoint, `output.compaction`), so that only what came since has to be
read. A batch counts for a reader who follows when its health is there, which a run writes after its changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike, fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import FoglineError
from fogline.files.listing import absolute, is_local
from fogline.impute.scores import Sums
from fogline.output.about import asked_in, read_about, read_alarms, zone_in
from fogline.output.compaction import AnswerCheckpoint, add_scores, answer_checkpoints, read_answer_checkpoint
from fogline.output.files import Held, KeptFile, counted, refuse_hole
from fogline.output.folder import Folder, LocalFolder, again
from fogline.output.views import near_at, next_at
from fogline.pipeline.limits import Full
from fogline.pipeline.names import CHANGES, HEALTH, HERE, REJECTS
from fogline.pipeline.rejects import kind_of_reason
from fogline.queries import QUERY, Asked, each_of
from fogline.query import Query
from fogline.rows.changes import answer_columns, answer_of, of_query, standing
from fogline.rows.clock import as_instant, read_times

MANY = 1_000_000  # changes that are held at once
Kept = tuple[Held, list[KeptFile]]  # which batches, and their files


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer, and of when it is."""

    rows: pa.Table
    instant: Any
    """Of which instant it is; None: no row has come."""
    reached: Any
    """The instant that the run has reached."""
    batch: int
    """The last batch of the run; -1: there is none."""
    query: Query
    expired: int = 0
    """How many rows have expired between what their groups have reached and the instant: they are not among these."""

    @property
    def beyond(self) -> bool:
        """Whether the instant is later than all that the run has seen."""
        return self.instant is not None and self.reached is not None and bool(self.instant > self.reached)


@dataclass(frozen=True, slots=True)
class News:
    """What a folder has come to hold since a reader last looked."""

    about: dict[str, Any]
    batch: int
    """The newest batch; -1: there is none yet."""
    whole: bool
    """Whether this is all that there is: what was read before is to be forgotten."""
    health: Iterable[pa.Table]
    changes: Iterable[tuple[int, pa.Table]]
    """With their batch; where this is the whole, what earlier changes add up to comes first."""
    reasons: Iterable[pa.Table]
    """The column `reason` of rejects."""


class OutputReader:
    """The folder of a run, to be read: `OutputReader("OUT").answer()`.

    `place`: a path of this machine, or a `Folder`; `name`: what errors call it.
    """

    def __init__(self, place: Folder | str | PathLike[str], name: str | None = None) -> None:
        if isinstance(place, str | PathLike):
            path = fspath(place)
            if not is_local(path):
                raise FoglineError(f"{path!r} does not lie on this machine; `fogline answer` reads it through Spark.")
            place, name = LocalFolder(absolute(path)), name or path
        self.place, self.name = place, name or "the output"

    def _repr_html_(self) -> str:
        """In a notebook: the answer of each query, as it is now."""
        from fogline.notebook import html_of

        return "".join(html_of(each.rows) for each in self.shown().values())

    def __repr__(self) -> str:
        from fogline.notebook import text_of

        parts = [(name, text_of(each.rows)) for name, each in self.shown().items()]
        return "\n".join(text if name is None else f"{name}:\n{text}" for name, text in parts)

    # What the run is about

    def begun(self) -> bool:
        """Whether a run was begun there."""
        return read_about(self.place) is not None

    def about(self) -> dict[str, Any]:
        """What the folder knows of its run; an error, where there is none, or where its batches go elsewhere."""
        about = read_about(self.place)
        if about is None:
            raise FoglineError(f"{self.name!r} is not an output folder of `fogline run`.")
        sinks = about.get("sinks", [HERE])
        if HERE not in sinks:
            where = ", ".join(sinks) or "the sinks that the run was given"
            raise FoglineError(f"{self.name!r} holds the checkpoint of a run alone; its answer is in {where}.")
        return about

    def asked(self) -> Asked:
        """The query, or the queries by their names."""
        return asked_in(self.about())

    @property
    def zone(self) -> str | None:
        """The zone that the times of the run's stream carry; empty: none; None: not known."""
        return zone_in(self.about())

    @property
    def explained(self) -> bool:
        """Whether the run explains its rows (--explain)."""
        return bool(self.about().get("explain", False))

    # The answer

    def answer(self, at: str | None = None) -> pa.Table:
        """The answer at the end of what the run has seen, or at an instant."""
        asked = self.asked()
        return again(lambda: answer_of(self._standing(asked, at), asked, at))

    def shown(self, at: str | None = None) -> dict[str | None, Shown]:
        """The answer and of when it is, of each query by its name; a query alone has none.

        After what a run has seen, rows leave as they expire; none can come in.
        """
        asked = self.asked()

        def read() -> dict[str | None, Shown]:
            health = counted(self.place.listing(HEALTH))
            reached, batch = self.reached(), health[-1].last if health else -1
            rows = answer_of(self._standing(asked, at), asked, at)

            def shown(rows: pa.Table, query: Query) -> Shown:
                if at is None or reached is None:
                    return Shown(rows, reached if at is None else at, reached, batch, query)
                there = _unexpired(rows, query, at)
                instant = as_instant(at, pa.scalar(reached).type if _is_stamp(reached) else pa.float64()).as_py()
                return Shown(there, instant, reached, batch, query, rows.num_rows - there.num_rows)

            return {name: shown(_own(rows, name, query), query) for name, query in each_of(asked).items()}

        return again(read)

    def standing(self, asked: Asked) -> pa.Table | None:
        """The last change of each member of these queries' answers, as it was reported; None: there was no change."""
        return again(lambda: standing(self._standing(asked, None), asked))

    def _standing(self, asked: Asked, at: str | None) -> list[pa.Table]:
        """Changes that add up to the answer at an instant, or now."""
        checkpoint = self._checkpoint(at)
        after = -1 if checkpoint is None else checkpoint.number
        refuse_hole(self.place, self.name, after=after, kinds=[CHANGES])
        found = [] if checkpoint is None or checkpoint.answer is None else [checkpoint.answer]
        instant = None
        for _, files in self.files(CHANGES, after=after):
            for file in files:
                if at is not None and instant is None:
                    instant = as_instant(at, file.schema_arrow.field("time").type).as_py()
                for k in _until(file, instant):
                    found.append(file.read_row_group(k))
                    if sum(table.num_rows for table in found[1:]) > MANY:
                        found = [standing(found, asked, at)]
        return found

    def _checkpoint(self, at: str | None) -> AnswerCheckpoint | None:
        """The last answer checkpoint before which every change lies, up to the instant."""
        checkpoints = sorted(answer_checkpoints(self.place).items())
        if not checkpoints:
            return None
        newest = read_answer_checkpoint(self.place, checkpoints[-1][1], answer=at is None)
        if at is None:
            return newest
        if newest.until is None:
            return None
        kind = KeptFile(self.place, checkpoints[-1][1]).schema_arrow.field("time").type
        instant = as_instant(at, kind).as_py()

        def until(pair: tuple[int, str]) -> tuple[bool, Any]:
            found = read_answer_checkpoint(self.place, pair[1], answer=False).until
            return found is not None, found  # where there was no change, any instant is later

        chosen = bisect_right(checkpoints, (True, instant), key=until) - 1
        if newest.removed and (chosen < 0 or checkpoints[chosen][0] < newest.removed - 1):
            oldest = next(name for number, name in checkpoints if number >= newest.removed - 1)
            begin = read_answer_checkpoint(self.place, oldest, answer=False).until
            raise FoglineError(
                f"the changes of {self.name!r} before {begin} have been removed (--keep-batches); "
                f"ask for an instant from there on, not for {at}."
            )
        return read_answer_checkpoint(self.place, checkpoints[chosen][1]) if chosen >= 0 else None

    def reached(self) -> Any:
        """The latest instant that any group's clock has come to; None: there is none."""
        latest = None
        for _, files in self.files(HEALTH):
            for file in files:
                for k in range(file.num_row_groups):
                    found = _greatest(file, k)
                    latest = found if latest is None or (found is not None and found > latest) else latest
        return latest

    def batch_at(self, at: str) -> int:
        """The last batch that a reader sees who looks at an instant; -1: there is none by then."""
        instant, last = None, -1
        for held, files in self.files(HEALTH):
            for file in files:
                rows = file.read(columns=["batch", "time"])
                instant = as_instant(at, rows.schema.field("time").type).as_py() if instant is None else instant
                later = rows.filter(pc.greater(rows["time"], instant))
                if later.num_rows:
                    return max(last, int(pc.min(later["batch"]).as_py()) - 1)
            last = held.last
        return last

    # What else the run has found out

    def near(self, batch: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The possible rows of each group, members first, now or at the end of a batch; see `pipeline.names`."""
        return near_at(self.place, batch, columns)

    def next(self, batch: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The cells to measure next of each group, by their rank, now or at the end of a batch."""
        return next_at(self.place, batch, columns)

    def alarms(self) -> list[Full]:
        """The groups that are near a limit, or beyond it."""
        return read_alarms(self.place)

    def scores(self) -> Sums:
        """What the run has found out about its rules."""
        self.about()

        def read() -> Sums:
            checkpoints = answer_checkpoints(self.place)
            newest = None
            if checkpoints:
                newest = read_answer_checkpoint(self.place, checkpoints[max(checkpoints)], answer=False)
            sums = {} if newest is None else dict(newest.scores)
            refuse_hole(self.place, self.name, after=-1 if newest is None else newest.number)
            add_scores(sums, self.place, after=-1 if newest is None else newest.number)
            return sums

        return again(read)

    def rejected(self, reason: str | None = None, query: str | None = None) -> Counter[str]:
        """How many rows were rejected, by the kind of reason: of those whose reason holds this text, of one query."""
        self.about()

        def read() -> Counter[str]:
            found = Counter[str]()
            for _, files in self.files(REJECTS):
                for file in files:
                    names = [name for name in (QUERY, "reason") if name in file.schema_arrow.names]
                    for k in range(file.num_row_groups):
                        rows = _holding(file.read_row_group(k, names), reason, query)
                        for each in pc.value_counts(rows["reason"]).to_pylist():
                            found[kind_of_reason(each["values"])] += each["counts"]
            return found

        return again(read)

    def rejects(self, most: int | None = None, reason: str | None = None, query: str | None = None) -> pa.Table:
        """Rejected rows with their batches, the newest first, at most so many; of those that `rejected` counts.

        Only as many files are read as are needed. Where no row was ever rejected the table has no columns.
        """
        self.about()

        def read() -> pa.Table:
            found: list[pa.Table] = []
            left = most
            for rows in self._rejects_newest_first():
                found.append(_holding(rows, reason, query).slice(0, left))
                left = None if left is None else left - found[-1].num_rows
                if left == 0:
                    break
            return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})

        return again(read)

    def _rejects_newest_first(self) -> Iterator[pa.Table]:
        for _, files in self.files(REJECTS, newest_first=True):
            for file in reversed(files):
                for k in reversed(range(file.num_row_groups)):
                    rows = file.read_row_group(k)
                    yield rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))

    # As the run goes on

    def follow(self, after: int | None = None) -> News | None:
        """What came after a batch, or all that there is; None: no batch is new.

        Raises `GoneError` where files were joined meanwhile: then nothing is known, and the caller asks again. Where
        batches that were seen have been joined with some that were not, all is read anew.
        """
        about = self.about()
        there = counted(self.place.listing(HEALTH))
        newest = there[-1].last if there else -1
        if after is None:
            return self._whole(about, newest)
        if newest <= after:
            return None
        again(lambda: refuse_hole(self.place, self.name, after=after, kinds=[CHANGES]))
        kinds = {kind: list(self.files(kind, after=after, upto=newest)) for kind in (HEALTH, CHANGES, REJECTS)}
        if any(held.first <= after for kind in (HEALTH, CHANGES) for held, _ in kinds[kind]):
            return self._whole(about, newest)
        health = [table for _, table in _tables(kinds[HEALTH])]
        reasons = [table for _, table in _tables(kinds[REJECTS], ["reason"])]
        return News(about, newest, False, health, list(_tables(kinds[CHANGES])), reasons)

    def _whole(self, about: dict[str, Any], newest: int) -> News:
        checkpoint = self._checkpoint(None)
        after = -1 if checkpoint is None else checkpoint.number
        again(lambda: refuse_hole(self.place, self.name, after=after, kinds=[CHANGES]))
        before = [] if checkpoint is None or checkpoint.answer is None else [(after, checkpoint.answer)]
        return News(
            about,
            newest,
            True,
            (table for _, table in _tables(self.files(HEALTH, upto=newest))),
            chain(before, _tables(self.files(CHANGES, after=after, upto=newest))),
            (table for _, table in _tables(self.files(REJECTS, upto=newest), ["reason"])),
        )

    def files(
        self, kind: str, *, after: int = -1, upto: int | None = None, newest_first: bool = False
    ) -> Iterator[Kept]:
        """The files of a kind with batches after one, up to another, in their order; a file may also hold earlier."""
        listed = counted(self.place.listing(kind))
        for held in reversed(listed) if newest_first else listed:
            if held.last > after and (upto is None or held.last <= upto):
                yield held, [KeptFile(self.place, name) for name in held.names]

    def changes_newest_first(self) -> Iterator[KeptFile]:
        """The files in which the last change of each member is found: those since the answer checkpoint, and that."""
        checkpoints = answer_checkpoints(self.place)
        after = max(checkpoints, default=-1)
        for _, files in self.files(CHANGES, after=after, newest_first=True):
            yield from reversed(files)
        if checkpoints:
            yield KeptFile(self.place, checkpoints[after])


def read_answer(place: Folder, output: str, at: str | None = None) -> pa.Table:
    """The answer in a folder that `fogline run` writes, at its end or at an instant; `output` is what to call it."""
    return OutputReader(place, output).answer(at)


def _tables(kept: Iterable[Kept], columns: list[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
    """The rows of files, a row group at a time, with the last batch that the file holds."""
    for held, files in kept:
        for file in files:
            for k in range(file.num_row_groups):
                yield held.last, file.read_row_group(k, columns)


def _holding(rejects: pa.Table, reason: str | None, query: str | None) -> pa.Table:
    """The rejects of one query, whose reasons hold a text in whatever case; None: of all, for any reason."""
    rejects = rejects if query is None else of_query(rejects, query)
    if reason is None:
        return rejects
    return rejects.filter(pc.match_substring(rejects["reason"], reason, ignore_case=True))


def _own(rows: pa.Table, name: str | None, query: Query) -> pa.Table:
    """The rows of one query, in its own columns."""
    if name is None:
        return rows
    return (of_query(rows, name) if rows.num_rows else rows).select(answer_columns(query))


def _is_stamp(instant: Any) -> bool:
    return not isinstance(instant, int | float)


def _greatest(file: KeptFile, k: int) -> Any:
    """The latest time of a row group; None: there is none."""
    column = file.metadata.row_group(k).column(file.schema_arrow.get_field_index("time"))
    known = column.statistics
    if known is not None and known.has_min_max:
        return known.max
    return pc.max(file.read_row_group(k, columns=["time"])["time"]).as_py()


def _unexpired(rows: pa.Table, query: Query, at: str) -> pa.Table:
    """The rows that have not expired by then, where that follows from their arrival."""
    if query.longest_life is None or not rows.num_rows:
        return rows
    kind = rows.schema.field(query.arrived).type
    instant = read_times([as_instant(at, kind).as_py()], "the instant").value[0]
    whole = rows[query.arrived].cast(pa.int64()) if pa.types.is_timestamp(kind) else rows[query.arrived]
    arrived = whole.to_numpy().astype(np.float64)  # as `read_times`, which checks for numbers that floats cannot hold
    return rows.filter(pa.array(query.expiries(arrived) > instant))


def _until(file: KeptFile, instant: Any) -> list[int]:
    """The row groups of a file that begin before an instant, if there is one."""
    if instant is None:
        return list(range(file.num_row_groups))
    time = file.schema_arrow.get_field_index("time")
    groups = []
    for k in range(file.num_row_groups):
        known = file.metadata.row_group(k).column(time).statistics
        if known is None or not known.has_min_max or known.min <= instant:
            groups.append(k)
    return groups
