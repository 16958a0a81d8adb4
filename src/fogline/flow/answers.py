"""What was the answer, now or then?

Changes add up: for each row the last change up to an instant decides whether it is in the answer. Now and then a run
writes down what they add up to (`fogline.flow.compaction`), so that only what came since has to be read. Only files are
read; no engine is needed where they lie on this machine.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import FoglineError
from fogline.flow.about import read_about
from fogline.flow.batches import counted
from fogline.flow.compaction import Stand, add_scores, read_stand, stand_names
from fogline.flow.complete import refuse_hole
from fogline.flow.folder import Folder
from fogline.flow.kept_file import KeptFile
from fogline.flow.listed import again
from fogline.flow.names import CHANGES, HEALTH, HERE
from fogline.impute.scores import Sums
from fogline.queries import Asked, asked_from, each_of
from fogline.query import Query
from fogline.rows.changes import answer_of, of_query, standing
from fogline.rows.clock import as_instant

MANY = 1_000_000  # changes that are held at once


def read_answer(place: Folder, output: str, at: str | None = None) -> pa.Table:
    """The answer in a folder that `fogline run` writes, at its end or at an instant; `output` is what to call it."""
    query = asked_from(about_of(place, output)["query"])
    return again(lambda: _answer(place, output, query, at))


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


def read_shown(place: Folder, output: str, at: str | None = None) -> dict[str | None, Shown]:
    """The answer and of when it is, of each query by its name; a query alone has none.

    After what a run has seen, rows leave as they expire; none can come in.
    """
    asked = asked_from(about_of(place, output)["query"])

    def read() -> dict[str | None, Shown]:
        health = counted(place.listing(HEALTH))
        reached, batch = _reached(place), health[-1].last if health else -1
        rows = _answer(place, output, asked, at)

        def shown(rows: pa.Table, query: Query) -> Shown:
            if at is None or reached is None:
                return Shown(rows, reached if at is None else at, reached, batch, query)
            there = _unexpired(rows, query, at)
            instant = as_instant(at, pa.scalar(reached).type if _is_stamp(reached) else pa.float64()).as_py()
            return Shown(there, instant, reached, batch, query, rows.num_rows - there.num_rows)

        return {name: shown(_own(rows, name, query), query) for name, query in each_of(asked).items()}

    return again(read)


def _own(rows: pa.Table, name: str | None, query: Query) -> pa.Table:
    """The rows of one query, in its own columns."""
    if name is None:
        return rows
    own = [*query.by, "id", "arrived", "probability", "exact", "within", *query.names]
    return (of_query(rows, name) if rows.num_rows else rows).select(own)


def _is_stamp(instant: Any) -> bool:
    return not isinstance(instant, int | float)


def _reached(place: Folder) -> Any:
    """The latest instant that any group's clock has come to; None: there is none."""
    latest = None
    for held in counted(place.listing(HEALTH)):
        for name in held.names:
            file = KeptFile(place, name)
            for k in range(file.num_row_groups):
                found = _greatest(file, k)
                latest = found if latest is None or (found is not None and found > latest) else latest
    return latest


def _greatest(file: Any, k: int) -> Any:
    """The latest time of a row group; None: there is none."""
    column = file.metadata.row_group(k).column(file.schema_arrow.get_field_index("time"))
    known = column.statistics
    if known is not None and known.has_min_max:
        return known.max
    return pc.max(file.read_row_group(k, columns=["time"])["time"]).as_py()


def _unexpired(rows: pa.Table, query: Query, at: str) -> pa.Table:
    """The rows that have not expired by then, where their lifetime is known."""
    if query.lifetime is None or not rows.num_rows:
        return rows
    kind = rows.schema.field("arrived").type
    stamps = pa.types.is_timestamp(kind)
    length = pa.scalar(query.lifetime_us, pa.duration("us")) if stamps else float(str(query.lifetime))
    until = pc.add(rows["arrived"] if stamps else rows["arrived"].cast(pa.float64()), length)
    return rows.filter(pc.greater(until, as_instant(at, kind)))


def read_scores(place: Folder, output: str) -> Sums:
    """What the run in a folder has found out about its rules."""
    about_of(place, output)

    def read() -> Sums:
        stands = stand_names(place)
        newest = read_stand(place, stands[max(stands)], answer=False) if stands else None
        sums = {} if newest is None else dict(newest.scores)
        refuse_hole(place, output, after=-1 if newest is None else newest.number)
        add_scores(sums, place, after=-1 if newest is None else newest.number)
        return sums

    return again(read)


def _answer(place: Folder, output: str, query: Asked, at: str | None) -> pa.Table:
    stand = _stand(place, output, at)
    after = -1 if stand is None else stand.number
    refuse_hole(place, output, after=after, kinds=[CHANGES])
    found = [] if stand is None or stand.answer is None else [stand.answer]
    instant = None
    for held in counted(place.listing(CHANGES)):
        for name in held.names if held.last > after else ():
            file = KeptFile(place, name)
            if at is not None and instant is None:
                instant = as_instant(at, file.schema_arrow.field("time").type).as_py()
            for k in _until(file, instant):
                found.append(file.read_row_group(k))
                if sum(table.num_rows for table in found[1:]) > MANY:
                    found = [standing(found, query, at)]
    return answer_of(found, query, at)


def _stand(place: Folder, output: str, at: str | None) -> Stand | None:
    """The last stand before which every change lies, up to the instant."""
    stands = sorted(stand_names(place).items())
    if not stands:
        return None
    newest = read_stand(place, stands[-1][1], answer=at is None)
    if at is None:
        return newest
    if newest.until is None:
        return None
    kind = KeptFile(place, stands[-1][1]).schema_arrow.field("time").type
    instant = as_instant(at, kind).as_py()

    def until(pair: tuple[int, str]) -> tuple[bool, Any]:
        found = read_stand(place, pair[1], answer=False).until
        return found is not None, found  # where there was no change, any instant is later

    chosen = bisect_right(stands, (True, instant), key=until) - 1
    if newest.removed and (chosen < 0 or stands[chosen][0] < newest.removed - 1):
        oldest = next(name for number, name in stands if number >= newest.removed - 1)
        begin = read_stand(place, oldest, answer=False).until
        raise FoglineError(
            f"the changes of {output!r} before {begin} have been removed (--keep); "
            f"ask for an instant from there on, not for {at}."
        )
    return read_stand(place, stands[chosen][1]) if chosen >= 0 else None


def _until(file: Any, instant: Any) -> list[int]:
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


def about_of(place: Folder, output: str) -> dict[str, Any]:
    """What the folder of a run knows; an error, where it has no answer."""
    about = read_about(place)
    if about is None:
        raise FoglineError(f"{output!r} is not a folder that `fogline run` has written.")
    sinks = about.get("sinks", [HERE])
    if HERE not in sinks:
        where = ", ".join(sinks) or "the sinks that the run was given"
        raise FoglineError(f"{output!r} holds the checkpoint of a run alone; its answer is in {where}.")
    return about
