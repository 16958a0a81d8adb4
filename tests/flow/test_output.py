"""Is an output folder exact through compaction and large batches, and does it know its run?

That a fault at any operation on its files changes nothing is tried in `tests/chaos/io.py`.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from contextlib import suppress
from errno import EIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.impute.scores import Sum, Sums, to_plain
from fogline.output import answers, compaction, folder
from fogline.output.answers import OutputReader, read_answer
from fogline.output.compaction import write_answer_checkpoint
from fogline.output.files import batch_name, counted, part_name, refuse_hole
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import BatchFolder, tables_of
from fogline.pipeline.names import HEALTH
from fogline.pipeline.stages import opened
from fogline.rows.changes import answer_of
from fogline.runs import spill
from fogline.runs.config import Output, RunConfig
from fogline.runs.spill import Carrier, Spill, cut, spilled_files

QUERY = fl.Query(attributes={"x": "max"}, id="i", time="t", lifetime=9, by=["g"])
CHANGES = pa.schema(
    [("time", pa.int64()), ("g", pa.string()), ("i", pa.string()), ("t", pa.int64()), ("change", pa.string()),
     ("probability", pa.float64()), ("probability_error", pa.float64()), ("x", pa.float64())]
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_disk(request, monkeypatch):
    """Disks are slow; one test looks whether they are waited for."""
    if "disk" not in request.node.name:
        monkeypatch.setattr(folder, "to_disk", lambda path: None)


def batches(count: int, seed: int) -> list[dict[str, pa.Table]]:
    """What a run of two groups, one of which lags, reports; some batches report no changes, or no rejects."""
    rng, inside, clocks, out = random.Random(seed), {}, {"a": 10, "b": 0}, []
    for number in range(count):
        changes = []
        for _ in range(rng.choice([0, 1, 3, 5])):
            group = rng.choice("ab")
            clocks[group] += rng.choice([0, 0, 1, 4])
            name = (group, rng.choice("pqrst"), rng.choice([1, 2]))
            change = rng.choice(["update", "leave"]) if name in inside else "enter"
            p = None if change == "leave" else round(rng.random(), 3)
            inside.pop(name) if change == "leave" else inside.update({name: p})
            row = {"time": clocks[group], "g": group, "i": name[1], "t": name[2], "change": change, "x": 1.0}
            known = {"probability_error": None if p is None else 0.0}
            changes.append({**row, "probability": p, **known})
        rejects = [{"g": "a", "row": "{}", "reason": f"number {number}"}] * (number % 3 == 0)
        sums: Sums = {("x", "a(1) -> x(2)", 4.0): Sum(1, 0.5, 0.25, 1, 0, 1, 0.5)} if number % 2 else {}
        health = {
            "batch": number,
            "g": "a",
            "time": clocks["a"],
            "rows": len(changes),
            "waiting": 0,
            "live": 1,
            "answer": 1,
        }
        parts = {"changes": pa.Table.from_pylist(changes, CHANGES)}
        parts |= {"rejects": pa.Table.from_pylist(rejects)} if rejects else {}
        parts["health"] = pa.table(
            {
                **{k: [v] for k, v in health.items()},
                "scores": pa.array([json.dumps(to_plain(sums)) if sums else None], pa.string()),
            }
        )
        out.append(parts)
    return out


def expected(made: list[dict[str, pa.Table]], at: int | None = None) -> list[dict]:
    return in_order(answer_of([parts["changes"] for parts in made], QUERY, at))


def answered(place: LocalFolder, at: int | None = None) -> list[dict]:
    return in_order(read_answer(place, "out", None if at is None else str(at)))


def in_order(table: pa.Table) -> list[dict]:
    return sorted(table.to_pylist(), key=lambda row: (row["g"], row["i"], row["t"]))


def output_in(place: LocalFolder, block: int = 3, keep: int | None = None) -> Output:
    output = Output(place, RunConfig("in", str(place.root), QUERY, keep_batches=keep))
    output.folder.compaction.block = block
    return output


def begun(place: LocalFolder, block: int = 3, keep: int | None = None) -> Output:
    output = output_in(place, block, keep)
    output.begin({})
    return output


def rows_in(root: Path, kind: str) -> list[dict]:
    files = [name for held in counted(LocalFolder(root).listing(kind)) for name in held.names]
    return [row for name in files for row in pq.ParquetFile(root / name).read().to_pylist()]


def test_after_any_number_of_batches_the_answer_at_every_instant_is_that_of_all_changes(tmp_path):
    made = batches(60, seed=1)
    output = begun(LocalFolder(tmp_path))
    for number, parts in enumerate(made):
        output.folder.write(number, parts)
        assert number % 7 or answered(output.place) == expected(made[: number + 1])
    for at in range(-1, 90, 4):
        assert answered(output.place, at) == expected(made, at), at
    assert OutputReader(output.place, "out").scores() == {("x", "a(1) -> x(2)", 4.0): (30, 15.0, 7.5, 30, 0, 30, 15.0)}
    for kind in ("changes", "rejects", "health"):
        assert rows_in(tmp_path, kind) == [row for parts in made if kind in parts for row in parts[kind].to_pylist()]
        assert len(list((tmp_path / kind).iterdir())) <= 9  # 27, 27, 3, and what is left
        assert pq.read_table(tmp_path / kind).num_rows == len(rows_in(tmp_path, kind))
    assert len(list((tmp_path / "answers").iterdir())) <= 6


@pytest.mark.parametrize("keep", [None, 4])
def test_what_a_crash_has_left_after_a_stand_was_written_goes_with_the_next_start(tmp_path, monkeypatch, keep):
    made = batches(20, seed=2)
    whole, broken = begun(LocalFolder(tmp_path / "whole"), 2, keep), begun(LocalFolder(tmp_path / "broken"), 2, keep)
    for number, parts in enumerate(made):
        whole.folder.write(number, parts)
        with monkeypatch.context() as crashing, suppress(OSError):
            crashing.setattr(compaction, "write_answer_checkpoint", written_and_no_more)
            broken.folder.write(number, parts)
        broken = output_in(broken.place, 2, keep)
        broken.resume()
        assert sorted(broken.place.listing("answers")) == sorted(whole.place.listing("answers")), number
        for kind in ("changes", "rejects", "health"):
            assert sorted(broken.place.listing(kind)) == sorted(whole.place.listing(kind)), number


def written_and_no_more(place: LocalFolder, stand: compaction.AnswerCheckpoint) -> None:
    write_answer_checkpoint(place, stand)
    raise OSError(EIO, "here")


def test_files_that_are_large_together_are_not_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "MANY", 4)  # changes are added up as they are read
    monkeypatch.setattr(compaction, "LARGE", 5000)
    made = batches(30, seed=3)
    output = begun(LocalFolder(tmp_path))
    for number, parts in enumerate(made):
        output.folder.write(number, parts)
    sizes = [held.size for held in counted(output.place.listing("changes"))]
    assert 5 < len(sizes) < 30
    assert max(sizes) <= 5000
    for at in (None, 0, 14, 30):
        assert answered(output.place, at) == expected(made, at)


def test_what_is_older_than_asked_for_is_removed_and_asking_for_it_is_refused(tmp_path):
    made = batches(60, seed=4)
    output = begun(LocalFolder(tmp_path), keep=10)
    for number, parts in enumerate(made):
        output.folder.write(number, parts)
    assert answered(output.place) == expected(made)
    oldest = counted(output.place.listing("changes"))[0].first
    assert 20 < oldest <= 50
    since = max(t for parts in made[:oldest] for t in parts["changes"]["time"].to_pylist())
    for at in range(since, since + 20):
        assert answered(output.place, at) == expected(made, at)
    with pytest.raises(FoglineError, match="have been removed"):
        read_answer(output.place, "out", "3")
    assert OutputReader(output.place, "out").scores() == {("x", "a(1) -> x(2)", 4.0): (30, 15.0, 7.5, 30, 0, 30, 15.0)}


def test_a_reader_lists_again_where_files_are_joined_meanwhile(tmp_path):
    made = batches(4, seed=5)
    output = begun(LocalFolder(tmp_path))
    for number in range(3):
        output.folder.write(number, made[number])

    class Late(LocalFolder):
        def open(self, name: str) -> pa.NativeFile | None:
            if not output.folder.compaction.next:
                output.folder.write(3, made[3])
            return super().open(name)

    assert answered(Late(tmp_path)) == expected(made)


def kept_at_least(place: LocalFolder) -> int:
    """Below which batch no reader looks for changes: what they add up to by then is written down."""
    return max((held.last for held in counted(place.listing("answers"))), default=-1)


@pytest.mark.parametrize("keep", [None, 10])
@pytest.mark.parametrize("restarted", [False, True])
def test_every_file_that_an_answer_rests_on_and_that_is_missing_is_an_error(tmp_path, keep, restarted):
    made, place = batches(29, seed=7), LocalFolder(tmp_path)
    output = begun(place, 9, keep)
    for number, parts in enumerate(made):
        if restarted:
            output = output_in(place, 9, keep)
            output.resume()
        if number % 5 != 4:  # some batches report nothing at all
            output.folder.write(number, parts)
    made = [parts for number, parts in enumerate(made) if number % 5 != 4]
    assert answered(place) == expected(made)
    seen = 0
    for kind in ("changes", "health"):
        for held in counted(place.listing(kind)):
            saved = {name: (tmp_path / name).read_bytes() for name in held.names}
            place.delete(saved)
            newest = kind == "health" and held.last == 28
            if held.last <= kept_at_least(place) or newest:  # written down; or nothing knows of it
                assert answered(place) == expected(made)
            else:
                seen += 1
                stated = (
                    rf"^'out' is not whole: of batch \d+ the run has written a file in {kind}/, which is missing. Put"
                )
                reader = OutputReader(place, "out")
                for read in (reader.answer, reader.scores) if kind == "health" else (reader.answer,):
                    with pytest.raises(FoglineError, match=stated):
                        read()
            for name, content in saved.items():
                place.put(name, content)
    assert seen > 1
    assert answered(place) == expected(made)


def test_a_file_that_is_missing_when_others_are_joined_stops_the_run_and_is_not_joined_away(tmp_path):
    made = batches(60, seed=8)
    for kind in ("changes", "rejects", "health"):
        place = LocalFolder(tmp_path / kind)
        output = begun(place, 10)
        for number in range(10):
            output.folder.write(number, made[number])
        place.delete([next(name for name in place.listing(kind) if name > batch_name(kind, 0))])
        with pytest.raises(FoglineError, match=f"is not whole: of batch . the run has written a file in {kind}/"):
            output.folder.write(10, made[10])
        assert not place.listing("answers")


@pytest.mark.parametrize("kind", ["changes", "health"])
def test_a_file_of_joined_batches_that_is_missing_is_known_however_files_are_joined_later(tmp_path, kind):
    made, place = batches(60, seed=9), LocalFolder(tmp_path)
    output = begun(place, 3)
    for number in range(7):
        output.folder.write(number, made[number])
    place.delete(name for held in counted(place.listing(kind)) if 3 <= held.first <= 5 for name in held.names)
    assert answered(place) == expected(made[:7])  # what they add up to is written down
    with pytest.raises(FoglineError, match=f"of batch . the run has written a file in {kind}/"):
        read_answer(place, "out", "11")
    for number in range(7, 12):  # nine are joined
        output.folder.write(number, made[number])
    assert [held.last for held in counted(place.listing("answers"))] == [8]
    assert answered(place) == expected(made[:12])
    with pytest.raises(FoglineError, match=f"of batch . the run has written a file in {kind}/"):
        read_answer(place, "out", "11")


def test_a_reader_meanwhile_never_misses_what_a_batch_that_is_done_again_replaces(tmp_path, monkeypatch):
    made, place = batches(3, seed=5), LocalFolder(tmp_path)
    output = begun(place)
    for number in range(3):
        output.folder.write(number, made[number])
    looked: list[list[dict]] = []
    delete = LocalFolder.delete

    def deleted(folder: LocalFolder, names: Iterable[str]) -> None:
        delete(folder, names)
        looked.append(answered(place))

    monkeypatch.setattr(LocalFolder, "delete", deleted)
    again = output_in(place)
    again.resume()
    again.folder.write(2, made[2])
    assert len(looked) > 2
    assert all(found in (expected(made), expected(made[:2])) for found in looked)
    assert answered(place) == expected(made)


def test_files_without_notes_as_earlier_versions_wrote_them_are_read(tmp_path):
    made, place = batches(8, seed=3), LocalFolder(tmp_path)
    output = begun(place, 3)
    for number, parts in enumerate(made):
        output.folder.write(number, parts)
        for path in (tmp_path / "health").iterdir():
            if number < 5:
                pq.write_table(pq.read_table(path).replace_schema_metadata(), path)
    assert answered(place) == expected(made)


def test_files_and_their_folders_are_on_disk_before_a_batch_is(tmp_path, monkeypatch):
    events: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(number: int) -> None:
        events.append(f"sync {os.readlink(f'/proc/self/fd/{number}')}")
        sync(number)

    def replaced(path: Path, to: Path) -> Path:
        events.append(f"rename to {to}")
        return replace(path, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    LocalFolder(tmp_path / "out").put("changes/x", b"content")
    assert events == [
        f"sync {tmp_path}",
        f"sync {tmp_path}/out",
        f"sync {tmp_path}/out/changes/.x.new",
        f"rename to {tmp_path}/out/changes/x",
        f"sync {tmp_path}/out/changes",
    ]


def test_a_batch_in_parts_counts_when_all_are_there_and_replaces_what_a_crash_left(tmp_path):
    made = batches(12, seed=6)
    parts = {"changes": pa.concat_tables([each["changes"] for each in made]), "health": made[0]["health"]}
    whole = parts["changes"]
    place, size = LocalFolder(tmp_path), whole.num_rows // 3
    begun(place)
    for crash in (False, True):
        names = [f".pieces/{k}.parquet" for k in range(2)]
        for k, name in enumerate(names):
            with place.filling(name) as path:
                pq.write_table(whole.slice((k + 1) * size, size if k == 0 else None), path)
        here = {**parts, "changes": whole.slice(0, size)}
        spilled = [("changes", name) for name in names]
        if crash:
            place.put(part_name("changes", 0, 3, 7), b"left by an attempt that had seven parts")
            place.delete([part_name("changes", 0, 2, 3)])
            assert counted(place.listing("changes")) == []
            with pytest.raises(FoglineError, match="of batch 0 the run has written a file in changes/"):
                read_answer(place, "out")
        output_in(place).folder.write(0, here, spilled)
        assert [len(held.names) for held in counted(place.listing("changes"))] == [3]
        assert answered(place) == expected(made)
        assert rows_in(tmp_path, "changes") == whole.to_pylist()
    output_in(place).folder.write(0, {**parts})  # done again, and small this time
    assert rows_in(tmp_path, "changes") == whole.to_pylist()


def test_a_journal_is_carried_in_pieces_and_what_is_too_much_goes_into_files(tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "PIECE", 4000)
    table = pa.Table.from_pylist(
        [{"time": k, "g": "a", "i": "p" * 24, "t": k, "change": "enter"} for k in range(1000)], CHANGES
    )
    health = pa.table({"rows": [1000]})
    journal = [("changes", table), ("health", health)]
    assert max(piece.nbytes for _, piece in cut(journal, 4000)) <= 4000
    carriers = [Carrier(None), Carrier(Spill(str(tmp_path), 20_000)), Carrier(Spill(str(tmp_path), 0))]
    for carrier, files in zip(carriers, (0, 2, 2), strict=True):
        frames = [pa.record_batch(frame) for frame in carrier.carry(journal)]
        carrier.close()
        assert max(frame.nbytes for frame in frames) < 12_000
        named = spilled_files(frames)
        assert len(named) == files
        carried = list(opened(frames, "changes"))
        written = [pq.read_table(tmp_path / name) for kind, name in named if kind == "changes"]
        assert pa.concat_tables([*carried, *written]).equals(table)
    parts = tables_of(frames, 4, 0.5, [pq.read_table(tmp_path / name) for kind, name in named if kind == "health"])
    assert parts["health"].to_pylist() == [{"batch": 4, "seconds": 0.5, "rows": 1000}]


def test_an_output_knows_its_checkpoint_and_its_stream(tmp_path):
    place = LocalFolder(tmp_path / "out")
    output = begun(place)
    assert output_in(place).shape() is None  # no batch was begun: it begins now
    place.put("checkpoint/offsets/0", b"")
    assert output_in(place).shape() == {}
    output.folder.write(0, batches(1, seed=7)[0])
    assert output_in(place).shape() == {}
    output.folder.write(1, batches(2, seed=7)[1])
    with pytest.raises(FoglineError, match="an old copy: it knows of batches up to 0, but there are files of batch 1"):
        output_in(place).shape()
    place.put("checkpoint/offsets/1", b"")

    def other(stream: str, moved: bool = False) -> Output:
        return Output(place, RunConfig(stream, "out", QUERY, moved=moved))

    with pytest.raises(FoglineError, match=r"(?s)begun with another stream.*add --moved"):
        other("elsewhere").shape()
    assert not other("in").by_name
    assert other("elsewhere", moved=True).shape() == {}
    assert other("elsewhere").shape() == {}
    assert other("elsewhere").by_name
    mark = place.get("checkpoint/fogline.json")
    place.put("checkpoint/fogline.json", b'{"mark": "of another"}')
    with pytest.raises(FoglineError, match="belongs to another output"):
        other("elsewhere").shape()
    place.clear("checkpoint")
    with pytest.raises(FoglineError, match=r"the checkpoint of 'out' is gone.*choose another output"):
        other("elsewhere").shape()
    place.put("checkpoint/fogline.json", mark)
    place.delete(["about.json"])
    with pytest.raises(FoglineError, match=r"holds batches of a run, but no about\.json"):
        other("elsewhere").shape()


def test_a_batch_that_reports_nothing_is_no_hole(tmp_path):
    """It has no file at all, so the next batch must not state that it has one."""
    folder = BatchFolder(LocalFolder(tmp_path), QUERY, "out")
    health = pa.table({"batch": [0], "time": [0]})
    for number, parts in enumerate([{HEALTH: health}, {}, {HEALTH: health}]):
        folder.write(number, parts)
    refuse_hole(LocalFolder(tmp_path), "out", after=-1)
