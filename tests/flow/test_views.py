"""Is what is shown of each group the newest, after any batch, through joined files?"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError, QueryError
from fogline.output import files as kept_file
from fogline.output import folder
from fogline.output import folder as listed
from fogline.output.files import counted
from fogline.output.folder import GoneError, LocalFolder
from fogline.output.folder_sink import Reported
from fogline.output.views import NewestTables, near_at, next_at
from fogline.pipeline.names import near_schema, next_schema
from fogline.queries import Queries
from fogline.rows.names import Kinds
from fogline.runs.config import Output, RunConfig
from tests.flow.test_output import batches

QUERY = fl.Query(attributes={"x": "max"}, id="i", time="t", lifetime=9, by=["g"])
ALONE = fl.Query(attributes={"x": "max"}, id="i", time="t", lifetime=9)
KINDS = Kinds(pa.int64(), pa.string(), (pa.string(),))
NEAR, NEXT = near_schema(QUERY, KINDS), next_schema(QUERY, KINDS)


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch):
    monkeypatch.setattr(folder, "to_disk", lambda path: None)


def reports(count: int, seed: int) -> list[dict[str, pa.Table]]:
    """Near rows and next cells of three groups: some batches concern none, some groups are empty, some are shown twice
    in one batch, at two instants."""
    rng, out = random.Random(seed), []
    for number in range(count):
        near, cells = [], []
        for group in "abc":
            for call in range(rng.choice([0, 0, 1, 1, 2])):
                same = {"g": group, "time": 10 * number + call}
                rows = [same | {"i": f"r{rng.randrange(9)}", "t": k, "x": 1.0} for k in range(rng.randrange(3))]
                near += rows or [same]
                cells += [same | {"i": "r", "rank": k, "changes": rng.random()} for k in range(rng.randrange(3))] or [
                    same
                ]
        some = {"near": pa.Table.from_pylist(near, NEAR), "next": pa.Table.from_pylist(cells, NEXT)}
        out.append({kind: table for kind, table in some.items() if table.num_rows})
    return out


def truth(made: list[dict[str, pa.Table]], kind: str) -> list[dict[str, Any]]:
    """By definition: of each group the rows of its last instant."""
    newest: dict[str, list[dict[str, Any]]] = {}
    for parts in made:
        for row in parts[kind].to_pylist() if kind in parts else ():
            if newest.get(row["g"], [{"time": None}])[0]["time"] != row["time"]:
                newest[row["g"]] = []
            newest[row["g"]].append(row)
    return in_order([row for rows in newest.values() for row in rows if row["i"] is not None])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["g"], row.get("rank") or 0, row["t"] or 0))


def seen(place: LocalFolder, kind: str, batch: int | None = None) -> list[dict[str, Any]]:
    return in_order((near_at if kind == "near" else next_at)(place, batch).to_pylist())


def output_of(place: LocalFolder, block: int = 3, query: fl.Query = QUERY) -> Output:
    output = Output(place, RunConfig("in", str(place.root), query, explain=True))
    output.folder.compaction.block = block
    return output


def put(output: Output, number: int, parts: dict[str, pa.Table], rest: dict[str, pa.Table]) -> None:
    found = {kind: Reported(output.place, kind, number, parts.get(kind), []) for kind in ("near", "next")}
    output.folder.put_views(number, found)
    output.folder.write(number, rest)


def test_after_any_batch_that_is_kept_the_newest_of_each_group_is_shown(tmp_path):
    made, rest = reports(40, 1), batches(40, 1)
    place = LocalFolder(tmp_path)
    output = output_of(place)
    output.begin({})
    for number, parts in enumerate(made):
        put(output, number, parts, rest[number])
        for kind in ("near", "next"):
            assert seen(place, kind) == truth(made[: number + 1], kind), (number, kind)
            held = counted(place.listing(kind))
            first = held[0].last if held else 0  # the first batch that may be asked for
            for batch in range(max(first, number - 2), number + 1):
                assert seen(place, kind, batch) == truth(made[: batch + 1], kind), (number, kind, batch)
            assert len(held) <= 2 * 3 + 1
            assert first <= max(0, number - 2)
    assert first > 30
    with pytest.raises(FoglineError, match=r"what near/ held before batch 3\d is no longer kept; ask for a batch"):
        near_at(place, 3)
    assert near_at(place, columns=["g", "i"]).schema.names == ["g", "i"]


@pytest.mark.parametrize("query", [QUERY, ALONE], ids=["in groups", "without groups"])
def test_one_who_follows_sees_the_newest_of_each_group_too(tmp_path, query):
    made, rest = reports(30, 5), batches(30, 5)
    place = LocalFolder(tmp_path)
    output = output_of(place, query=query)
    output.begin({})
    following = {kind: NewestTables(place, kind) for kind in ("near", "next")}
    for each in following.values():
        each.begin(query)
    for number, parts in enumerate(made):
        if not query.by:
            parts = {kind: table.drop_columns(["g"]) for kind, table in parts.items()}
        put(output, number, parts, rest[number])
        for kind, each in following.items():
            each.poll(number)
            shown = (near_at if kind == "near" else next_at)(place).to_pylist()
            found = [] if (table := each.all()) is None else table.to_pylist()
            for row in shown:
                row.pop("why", None)
            assert sorted(found, key=repr) == sorted(shown, key=repr), (number, kind)


def test_files_that_are_joined_while_they_are_read_are_listed_again(tmp_path, monkeypatch):
    made, rest = reports(4, 3), batches(4, 3)
    place = LocalFolder(tmp_path)
    output = output_of(place, 2)
    output.begin({})
    for number in range(3):
        put(output, number, made[number], rest[number])
    opened, left = listed.opened, [1]

    def joined_meanwhile(place, name):
        if left and left.pop():
            put(output, 3, made[3], rest[3])
            put(output, 4, made[3], rest[3])
            raise GoneError(name)
        return opened(place, name)

    monkeypatch.setattr(kept_file, "opened", joined_meanwhile)
    assert seen(place, "near") == truth(made, "near")
    assert not left


def test_a_query_without_groups_needs_its_last_file_alone(tmp_path, monkeypatch):
    kinds = Kinds(pa.int64(), pa.string(), ())
    schema, place = near_schema(ALONE, kinds), LocalFolder(tmp_path)
    output = output_of(place, 3, ALONE)
    output.begin({})
    assert near_at(place).num_rows == 0
    assert near_at(place).schema.names == schema.names
    for number, ids in enumerate((["a", "b"], ["c"], [])):
        rows = [{"time": number, "i": id, "t": 1} for id in ids] or [{"time": number}]
        put(output, number, {"near": pa.Table.from_pylist(rows, schema)}, batches(1, 1)[0])
    monkeypatch.setattr(kept_file, "opened", _once(listed.opened))
    assert near_at(place, 1)["i"].to_pylist() == ["c"]
    monkeypatch.undo()
    assert near_at(place).num_rows == 0  # the group is empty now
    assert near_at(place, 0)["i"].to_pylist() == ["a", "b"]


def _once(opened):
    names = set()

    def once(place, name):
        names.add(name)
        assert len(names) == 1, "only the newest file counts"
        return opened(place, name)

    return once


def test_a_run_without_explanations_has_nothing_to_show_and_states_it(tmp_path):
    place = LocalFolder(tmp_path)
    with pytest.raises(FoglineError, match="not an output folder of `fogline run`"):
        near_at(place)
    Output(place, RunConfig("in", str(tmp_path), QUERY)).begin({})
    with pytest.raises(FoglineError, match="made without --explain, so it has no next/; run it again with --explain"):
        next_at(place)


def test_an_attribute_called_as_the_range_of_another_querys_is_refused():
    one, other = (fl.Query(attributes={name: "max"}, id="i", time="t", lifetime=9) for name in ("x", "x.mean"))
    with pytest.raises(QueryError, match=r"the column 'x\.mean' of query 'other' would collide with the mean of 'x'"):
        Queries({"one": one, "other": other})
