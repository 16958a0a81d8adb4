"""Why is a row in or out, as a run with --explain has written it down?

`near/` holds why rows are in, and why the likeliest of the others are out; `changes/` what was reported of each row. A
row that never was in and is not among the likeliest is not in an output: for that the stream is played again
(`replay`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import FoglineError, RowsError, did_you_mean
from fogline.output.answers import OutputReader
from fogline.output.folder import again
from fogline.pipeline.names import CHANGES, REJECTS, WHY
from fogline.queries import each_of
from fogline.query import Query, as_text
from fogline.results import Change, changes_of
from fogline.rows.changes import of_query
from fogline.rows.clock import all_in_zone, as_instant, in_zone
from fogline.story import RowKey, RowStory, Story, by_row, in_zone_of, replaced

Row = Mapping[str, Any]


def recorded(output: OutputReader, id: str, query: str | None = None, at: str | None = None, most: int = 20) -> Story:
    """What an output knows of the rows of an id, now or at an instant: of its newest changes so many, at most."""
    asked = each_of(output.asked())
    if query not in asked:
        names = ", ".join(str(name) for name in asked)
        raise FoglineError(f"{output.name!r} answers several queries; name one of them with --query: {names}.")
    return again(lambda: _Recorded(output, query, asked[query]).story(id, at, most))


class _Recorded:
    """The output of one query."""

    def __init__(self, output: OutputReader, name: str | None, query: Query) -> None:
        self.output, self.name, self.query = output, name, query
        self.zone = output.zone

    def story(self, id: str, at: str | None, most: int) -> Story:
        """Of the rows with this id."""
        rows, more = self._changes(id, at, most)
        changes = changes_of(rows, self.query)
        near = self._near(id, at)
        whys = {self._key(row): row.get(WHY) for row in rows}  # the newest of each
        there, newer = by_row(changes), replaced(changes) if self.query.latest else {}
        known = {self._key(row): row for row in near}
        found = [
            self._row(key, there.get(key, []), known.get(key), whys.get(key), newer.get(key))
            for key in {**there, **known}
        ]
        found.sort(key=lambda each: each.arrived, reverse=True)
        rejected = tuple(self._rejected(id, most))
        if not found and not rejected:
            raise RowsError(self._nothing(id))
        times = [row["time"] for row in (*rows, *near)]
        return Story(self._until(at, times), tuple(found[:most]), rejected, bool(found), more or len(found) > most)

    def _key(self, row: Row) -> RowKey:
        return tuple(row[name] for name in self.query.by), row[self.query.id], row[self.query.arrived]

    def _row(self, key: RowKey, changes: list[Change], near: Row | None, why: str | None, newer: Any) -> RowStory:
        """One row: as it is near the answer, unless something was reported of it since; else as was reported last."""
        last = changes[-1] if changes else None
        if near is not None and (last is None or not last.time > near["time"]):
            inside, probability, why = (
                near["inside"],
                near["probability"],
                near[WHY] or (why if near["inside"] else None),
            )
        else:
            assert last is not None
            inside = last.change != "leave" and newer is None
            probability, why = (last.probability, why) if inside else (None, None)
        known = None if why is None else in_zone_of(key[2], json.loads(why))
        return RowStory(*key, tuple(changes), known, inside, probability, newer=newer)

    # What the files hold

    def _changes(self, id: str, at: str | None, most: int) -> tuple[list[Row], bool]:
        """The newest changes of the id up to an instant, in their order; whether there are older ones."""
        found: list[Row] = []
        for _, files in self.output.files(CHANGES, newest_first=True):
            for file in reversed(files):
                for k in reversed(range(file.num_row_groups)):
                    same = _named(file.read_row_group(k, columns=[self.query.id])[self.query.id], id)
                    if pc.any(same).as_py():
                        found += reversed(self._own(file.read_row_group(k).filter(same), at))
                    if len(found) > most:
                        return found[:most][::-1], True
        return found[::-1], False

    def _near(self, id: str, at: str | None) -> list[Row]:
        """Its rows that are in or may be in."""
        if not self.output.explained:
            return []
        try:
            rows = self.output.near(None if at is None else self.output.batch_at(at))
        except FoglineError:
            if at is None:
                raise
            return []  # of so early a batch only the changes are left
        return self._own(rows.filter(_named(rows[self.query.id], id)), None) if rows.num_rows else []

    def _own(self, rows: pa.Table, at: str | None) -> list[Row]:
        """Rows of this query up to an instant, with times as clocks of the stream's zone show them."""
        rows = rows if self.name is None else of_query(rows, self.name)
        if at is not None:
            rows = rows.filter(pc.less_equal(rows["time"], as_instant(at, rows.schema.field("time").type)))
        found: list[Row] = all_in_zone(rows, self.zone).to_pylist()
        return found

    def _rejected(self, id: str, most: int) -> list[str]:
        """Why others of its rows could not be taken, the newest first."""
        found: list[str] = []
        for _, files in self.output.files(REJECTS, newest_first=True):
            for file in reversed(files):
                rows = file.read()
                rows = rows if self.name is None else of_query(rows, self.name)
                rows = rows.filter(pc.match_substring(rows["row"], json.dumps(id, ensure_ascii=False).strip('"')))
                for each in reversed(rows.to_pylist()):
                    if _id_of(each["row"], self.query) == id:
                        found.append(each["reason"])
                    if len(found) == most:
                        return found
        return found

    def _until(self, at: str | None, times: list[Any]) -> Any:
        """The instant that the story reaches."""
        reached = self.output.reached() if at is None else at
        if isinstance(reached, datetime) and reached.tzinfo is not None:
            return in_zone(pa.array([reached]), self.zone)[0].as_py()
        return max(times, default=None) if reached is None else reached

    def _nothing(self, id: str) -> str:
        ids = [as_text(each) for each in self.output.answer()[self.query.id].to_pylist()]
        return (
            f"{self.output.name!r} knows no row of {id!r}: none was in the answer, or is among the likeliest of the "
            f"others.{did_you_mean(id, ids)} To look at every row of the stream: fogline explain --replay STREAM "
            f"--query FILE --id {id}"
        )


def _named(ids: pa.ChunkedArray, wanted: str) -> Any:
    """Which ids are written so."""
    if pa.types.is_string(ids.type):
        return pc.fill_null(pc.equal(ids, wanted), False)
    return pa.array([each is not None and as_text(each) == wanted for each in ids.to_pylist()], pa.bool_())


def _id_of(text: str | None, query: Query) -> str | None:
    """The id of a rejected row, as it is written."""
    try:
        row = json.loads(text or "")
        return as_text(row[query.id])
    except (ValueError, TypeError, KeyError):
        return None
