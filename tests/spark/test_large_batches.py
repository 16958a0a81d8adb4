"""A batch that is too large for the driver, and outputs in other file systems."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.errors import FoglineError
from fogline.output.answers import read_answer
from fogline.output.files import KeptFile, counted
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import file_of
from fogline.runs.config import RunConfig
from fogline.saved import table_as_bytes
from fogline.spark import writing
from fogline.spark.hadoop import HadoopFolder, folder
from fogline.spark.running import Run
from tests.spark.elsewhere import elsewhere

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=40, by=["g"], alpha=0.1)


def write_stream(folder: Path, rows: int = 3000) -> list[dict]:
    """Three sites; every fiftieth row cannot be taken."""
    made = [
        {"id": f"s{k % 97}", "g": "xyz"[k % 3], "t": k // 6, "a": float(k * 7919 % 1009), "b": float(k * 104729 % 1013)}
        for k in range(rows)
    ]
    for row in made[::50]:
        row["id"] = None
    folder.mkdir()
    for k in range(2):
        pq.write_table(pa.Table.from_pylist(made[k * rows // 2 : (k + 1) * rows // 2]), folder / f"{k}.parquet")
    return made


def answer(place, at=None) -> list[dict]:
    found = read_answer(place, "out", at).to_pylist()
    return sorted(found, key=lambda row: (row["g"], row["id"], row["t"]))


def test_what_is_too_much_for_the_driver_is_written_into_files_once_and_whole(spark, tmp_path, monkeypatch):
    made = write_stream(tmp_path / "in")
    monitor = fl.Monitor(QUERY)
    monitor.advance((len(made) - 1) // 6, [row for row in made if row["id"] is not None])
    true = {(row["g"], row["id"], row["t"]) for row in monitor.answer().to_pylist()}
    folders, there = {}, elsewhere(spark, tmp_path)
    for name, output, limit, at_once in [
        ("plain", f"{tmp_path}/plain", 2**20, None),
        ("parts", f"{tmp_path}/parts", 20_000, 1),
        ("hadoop", f"{there}/hadoop", 20_000, None),
    ]:
        monkeypatch.setattr(writing, "COLLECTED", limit)
        stream = f"{there if name == 'hadoop' else tmp_path}/in"
        run = Run(spark, RunConfig(stream, output, QUERY))
        run.start(files_per_batch=at_once).awaitTermination()
        assert (run.status.total, run.status.rejected) == (len(made), 60)
        place = folders[name] = tmp_path / name
        assert run.status.changes == pq.read_table(place / "changes").num_rows
        assert sum(pq.read_table(place / "health")["rows"].to_pylist()) == len(made)
        assert pq.read_table(place / "rejects").num_rows == 60
        assert name != "parts" or not (place / ".pieces").exists()
        assert {(row["g"], row["id"], row["t"]) for row in answer(LocalFolder(place))} == true
    held = {name: counted(LocalFolder(place).listing("changes")) for name, place in folders.items()}
    assert [len(each.names) for each in held["plain"] + held["hadoop"]] == [1, 1]
    assert [len(each.names) > 1 for each in held["parts"]] == [True, True]
    for at in ("100", "249", "400"):
        assert answer(LocalFolder(folders["parts"]), at) == answer(LocalFolder(folders["plain"]), at)
        assert answer(folder(f"{there}/hadoop", spark), at) == answer(LocalFolder(folders["plain"]), at)
    printed = CliRunner().invoke(app, ["answer", f"{there}/hadoop", "--json"]).stdout.splitlines()
    assert {(row["g"], row["id"], row["t"]) for row in map(json.loads, printed)} == true


class Refusing:
    """A file system that returns false, as Hadoop's do when something has not happened."""

    def __init__(self, system, *words: str) -> None:
        self.system, self.words = system, words

    def __getattr__(self, name: str):
        return (lambda *_: False) if name in self.words else getattr(self.system, name)


def test_what_a_file_system_refuses_is_an_error_and_the_old_file_stays(spark, tmp_path):
    place = HadoopFolder(spark, f"file://{tmp_path}/out")
    place.put("changes/x", b"old")
    system, context = place.system, place.context
    for has_context in (True, False):
        place.context = context if has_context else None
        place.system = Refusing(system, "rename", "delete")
        with pytest.raises(FoglineError, match=r"could not be deleted: the file system refused"):
            place.delete(["changes/x"])
        if not has_context:
            with pytest.raises(FoglineError, match="the file system refused"):
                place.put("changes/x", b"new")
        place.system = system
        assert place.get("changes/x") == b"old"
        place.put("changes/x", b"new")
        assert place.get("changes/x") == b"new"
        place.put("changes/x", b"old")
    place.context = None
    place.system = Refusing(system, "rename")
    with pytest.raises(FoglineError, match=r"refused to rename .* The batch is not committed"):
        place.put("changes/y", b"new")
    with pytest.raises(FoglineError, match=r"hdfs://nowhere.invalid/x could not be reached"):
        HadoopFolder(spark, "hdfs://nowhere.invalid/x")


def test_a_file_that_a_worker_wrote_elsewhere_is_missed(tmp_path):
    with pytest.raises(FoglineError, match="a folder that all machines share"):
        file_of(LocalFolder(tmp_path), ".pieces/x.parquet")


class _Written:
    """A batch of Spark's, as far as it is written into a folder."""

    def __init__(self, packed: pa.Table) -> None:
        self.packed, self.write = packed, self

    def mode(self, _: str) -> _Written:
        return self

    def parquet(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        pq.write_table(self.packed, Path(path, "part-0.parquet"))


@pytest.mark.parametrize("most", [2**20, 0])
def test_what_spark_writes_for_the_driver_is_read_whole_and_has_checksums_where_it_stays(tmp_path, most):
    place, health = LocalFolder(tmp_path), pa.table({"rows": [3]})
    kinds = [("changes", pa.table({"x": np.arange(1000.0)})), ("health", health)]
    packed = pa.table({"kind": [kind for kind, _ in kinds], "part": [table_as_bytes(t).tobytes() for _, t in kinds]})
    batch = _Written(packed.cast(pa.schema([("kind", pa.string()), ("part", pa.binary())])))
    found = writing.collect_through_files(batch, place, str(tmp_path), most)
    assert bool(found)
    if most:
        assert not place.listing(".pieces/batch")  # all is at hand
        return
    [(kind, name)] = found.files
    assert (kind, KeptFile(place, name).read().num_rows) == ("changes", 1000)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(FoglineError, match="is damaged"):
        KeptFile(place, name).read()
