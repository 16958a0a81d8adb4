"""What was the answer, now or then?

Changes add up: for each row the last change up to an instant decides whether it is in the answer. Now and then a run
writes down what they add up to (`fogline.flow.compaction`), so that only what came since has to be read. Only files are
read; no engine is needed where they lie on this machine.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.flow.batches import counted
from fogline.flow.compaction import GoneError, Stand, add_scores, opened, read_stand, stand_names
from fogline.flow.folder import Folder
from fogline.flow.names import ABOUT, CHANGES
from fogline.impute.scores import Sums
from fogline.model import Query
from fogline.rows.changes import answer_of, standing
from fogline.rows.clock import as_instant

Read = TypeVar("Read")
MANY = 1_000_000  # changes that are held at once
_TRIES = 20  # a run that goes on meanwhile joins files once in a hundred batches


def read_answer(place: Folder, output: str, at: str | None = None) -> pa.Table:
    """The answer in a folder that `fogline run` writes, at its end or at an instant; `output` is what to call it."""
    query = Query.from_dict(json.loads(_about(place, output))["query"])
    return _again(lambda: _answer(place, output, query, at))


def read_scores(place: Folder, output: str) -> Sums:
    """What the run in a folder has found out about its rules."""
    _about(place, output)

    def read() -> Sums:
        stands = stand_names(place)
        newest = read_stand(place, stands[max(stands)], answer=False) if stands else None
        sums = {} if newest is None else dict(newest.scores)
        add_scores(sums, place, after=-1 if newest is None else newest.number)
        return sums

    return _again(read)


def _answer(place: Folder, output: str, query: Query, at: str | None) -> pa.Table:
    stand = _stand(place, output, at)
    after = -1 if stand is None else stand.number
    found = [] if stand is None or stand.answer is None else [stand.answer]
    instant = None
    for held in counted(place.listing(CHANGES)):
        for name in held.names if held.last > after else ():
            file = pq.ParquetFile(opened(place, name))
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
    kind = pq.ParquetFile(opened(place, stands[-1][1])).schema_arrow.field("time").type
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


def _again(read: Callable[[], Read]) -> Read:
    """Read anew where files were joined meanwhile."""
    for _ in range(_TRIES):
        try:
            return read()
        except GoneError:
            continue
    return read()


def _about(place: Folder, output: str) -> bytes:
    about = place.get(ABOUT)
    if about is None:
        raise FoglineError(f"{output!r} is not a folder that `fogline run` has written.")
    return about
