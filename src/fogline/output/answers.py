"""What was the answer, now or then?

Changes add up: for each row the last change up to an instant decides whether it is in the answer. Now and then a run
writes down what they add up to (`output.compaction`), so that only what came since has to be read. Only files are
read; no engine is needed where they lie on this machine.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats, Objects
from fogline.errors import FoglineError, did_you_mean
from fogline.impute.scores import Sums
from fogline.output.about import read_about
from fogline.output.compaction import Stand, add_scores, read_stand, stand_names
from fogline.output.files import KeptFile, counted, refuse_hole
from fogline.output.folder import Folder, again
from fogline.output.sink import beside
from fogline.output.views import explained, near_at
from fogline.pipeline.names import CHANGES, HEALTH, HERE
from fogline.queries import Asked, asked_from, each_of
from fogline.query import TOLERANCE, Query, is_number
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


# --- fronts ---
# Which rows of an output's answer are certain, which are likely, and which others are possible?
#
# - *certain*: in the skyline under every value that was imputed. A run with --explain has found that out of each row;
#   without, a row is taken for certain whose probability is 1 to nine digits, which is as exactly as changes hold it.
# - *likely*: its probability is above alpha. Every movement of a member's probability is reported, so alpha may be
#   raised afterwards; not lowered, since of rows that are out nothing is reported.
# - *possible*: in under some values. Of those that are out only a run with --explain knows, of the likeliest.

CERTAIN, LIKELY, POSSIBLE = FRONTS = ("certain", "likely", "possible")
_CLOSE = 2 * TOLERANCE  # two reports of one probability differ by less


class _Possible(NamedTuple):
    """What is known of a possible row."""

    front: str
    probability: float
    means: Floats  # (d,) of what its cells may be


Known = dict[tuple[Any, ...], _Possible]  # by group, id and arrival


def check_front(front: str, place: Folder, output: str, at: str | None) -> None:
    """An error, where an output cannot show this front."""
    if front not in FRONTS:
        raise FoglineError(f"the front is {front!r}; it is one of {', '.join(FRONTS)}.{did_you_mean(front, FRONTS)}")
    if front == POSSIBLE and not explained(place):
        raise FoglineError(
            f"the run in {output!r} was made without --explain, so it has kept nothing of rows that are out; run it "
            "again with --explain, into another output, or ask for --front likely."
        )
    if front == POSSIBLE and at is not None:
        raise FoglineError(
            "rows that are out are known at the end of the run alone; leave --at out, or ask for --front likely."
        )


def check_alpha(alpha: float | None, query: Query) -> None:
    """An error, where the answer cannot be cut at this probability."""
    if alpha is not None and not (is_number(alpha) and query.alpha <= alpha < 1):
        raise FoglineError(
            f"alpha is {alpha:g}, and the run had {query.alpha:g}: it can be raised afterwards, up to below 1, but not "
            "lowered, since the answer has no rows below; run it again with a lower alpha in the query."
        )


def near_of(place: Folder, name: str | None, at: str | None) -> pa.Table | None:
    """The possible rows of a query, as they are now; None: they are not known."""
    if at is not None or not explained(place):
        return None
    near = near_at(place)
    return near if name is None else of_query(near, name)


def fronted(shown: Shown, near: pa.Table | None, front: str, alpha: float | None) -> Shown:
    """The rows of a front and of those above it, each with its own; near: possible rows, see `near_of`."""
    query, rows = shown.query, shown.rows
    check_alpha(alpha, query)
    known = _known(query, near)
    names = _fronts(rows, query, known, alpha)
    if near is not None and front == POSSIBLE:
        rows, more = _with_outside(rows, query, near)
        names = np.concatenate((names, np.full(more, POSSIBLE, object)))
    column, wanted = beside("front", rows.schema), pa.array(FRONTS[: FRONTS.index(front) + 1])
    rows = rows.append_column(column, pa.array(names, pa.string()))
    return replace(shown, rows=rows.filter(pc.is_in(rows[column], wanted)))


def values_of(shown: Shown, near: pa.Table | None) -> Floats:
    """(n, d) the values of rows, larger is better; of a gap the mean of what it may be, where that is known, or NaN."""
    query, rows = shown.query, shown.rows
    out = np.stack([_numbers(rows, name) for name in query.names], axis=1)
    known = _known(query, near)
    for k, name in enumerate(_names(rows, query)):
        if name in known:
            out[k] = np.where(np.isnan(out[k]), known[name].means, out[k])
    return np.asarray(out * np.array(query.signs), np.float64)


def _numbers(rows: pa.Table, name: str) -> Floats:
    return np.asarray(rows[name].cast(pa.float64()).to_numpy(), np.float64)


def _names(rows: pa.Table, query: Query) -> list[tuple[Any, ...]]:
    """The names of rows: group, id and arrival."""
    return list(zip(*(rows[name].to_pylist() for name in (*query.by, "id", "arrived")), strict=True))


def _known(query: Query, near: pa.Table | None) -> Known:
    """What is known of possible rows, by their names."""
    if near is None or not near.num_rows:
        return {}
    means = np.stack([_numbers(near, f"{name}.mean") for name in query.names], axis=1)
    about = map(_Possible, near["front"].to_pylist(), near["probability"].to_pylist(), means)
    return dict(zip(_names(near, query), about, strict=True))


def _fronts(rows: pa.Table, query: Query, known: Known, alpha: float | None) -> Objects:
    """(n,) the front of each row that is in the answer."""
    least = -1.0 if alpha is None or alpha <= query.alpha else alpha + TOLERANCE
    out = np.full(rows.num_rows, LIKELY, object)
    cells = zip(_names(rows, query), rows["probability"].to_pylist(), rows["within"].to_pylist(), strict=True)
    for k, (name, probability, within) in enumerate(cells):
        near = known.get(name)
        if near is not None and abs(near.probability - probability) <= _CLOSE:
            sure = near.front == CERTAIN
        else:  # it is not among them, or the run has gone on meanwhile
            sure = within == 0 and probability >= 1 - TOLERANCE
        out[k] = CERTAIN if sure else LIKELY if probability > least else POSSIBLE
    return out


def _with_outside(rows: pa.Table, query: Query, near: pa.Table) -> tuple[pa.Table, int]:
    """The answer and the rows that are out, and how many these are."""
    there = set(_names(rows, query))
    names = zip(near["inside"].to_pylist(), _names(near, query), strict=True)
    outside = near.filter(pa.array([not inside and name not in there for inside, name in names], pa.bool_()))
    exact = pc.equal(outside["within"], 0.0)
    outside = outside.append_column("exact", exact).select(rows.schema.names)
    return pa.concat_tables([rows, outside], promote_options="permissive"), outside.num_rows
