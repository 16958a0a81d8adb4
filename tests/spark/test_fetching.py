"""Streams, outputs and repositories that only Hadoop reaches: are they listed, fetched, and found missing in words?"""

from __future__ import annotations

import os

import pytest

import fogline as fl
from fogline.errors import FoglineError, HistoryError
from fogline.files.options import Options
from fogline.output.answers import read_answer
from fogline.repository import cache
from fogline.runs.config import RunConfig
from fogline.spark import files
from fogline.spark.hadoop import HadoopFolder, folder
from fogline.spark.running import Run
from fogline.spark.share import is_sent
from tests.spark.elsewhere import elsewhere

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=40)
ROWS = [{"id": f"s{k % 7}", "t": k, "a": float(k % 11), "b": float(k % 5)} for k in range(60)]


def write(path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
    path.write_text("\n".join([",".join(rows[0]), *cells]) + "\n")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.PLACE, str(tmp_path / "cache"))
    made = fl.Repository.fit(ROWS, QUERY, rules=["a(1) -> b(1)"])
    made.save(tmp_path / "there" / "r")
    return made


def test_a_stream_an_output_and_a_repository_elsewhere_give_the_same_answer(spark, tmp_path, repository):
    rows = [{**row, "b": None if row["t"] % 4 == 0 else row["b"]} for row in ROWS]
    for k in range(2):
        write(tmp_path / "there" / "in" / f"day={k}" / "rows.csv", rows[k * 30 : k * 30 + 30])
        os.utime(tmp_path / "there" / "in" / f"day={k}" / "rows.csv", (1e9 + k, 1e9 + k))
    write(tmp_path / "there" / "in" / "notes.txt", rows[:1])
    write(tmp_path / "there" / "in" / "_tmp" / "part.csv", rows[:1])
    root, remarks = elsewhere(spark, tmp_path / "there"), []
    known = fl.spark.repository(f"{root}/r", spark)
    config = RunConfig(f"{root}/in", f"{root}/out", QUERY, known)
    run = Run(spark, config, remark=remarks.append)
    run.start(files_per_batch=1).awaitTermination()
    run.look()
    run.close()
    monitor = fl.Monitor(QUERY, repository=repository)
    monitor.advance(ROWS[-1]["t"], rows)
    found = read_answer(folder(f"{root}/out", spark), "out").to_pylist()
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in monitor.answer().to_pylist())
    assert remarks == ["not read, since their names end in none of csv, tsv, json, jsonl, parquet: notes.txt."]


def test_a_repository_is_fetched_once_and_is_the_same(spark, tmp_path, repository, monkeypatch):
    root = elsewhere(spark, tmp_path / "there")
    known = fl.spark.repository(f"{root}/r", spark)
    assert known.fingerprint == repository.fingerprint
    assert known.folder == tmp_path / "cache" / known.fingerprint
    assert not is_sent(known, spark)  # tasks of a local master see the cache
    monkeypatch.setattr(HadoopFolder, "fetch", pytest.fail)
    assert fl.spark.repository(f"{root}/r", spark).fingerprint == known.fingerprint
    assert fl.spark.repository(str(tmp_path / "there" / "r"), spark).folder == tmp_path / "there" / "r"
    with pytest.raises(HistoryError, match=r"there is no repository in 'viewfs://\w+/data/none': it has no manifest"):
        fl.spark.repository(f"{root}/none", spark)
    (tmp_path / "there" / "r" / "manifest.json").write_text("{")
    with pytest.raises(HistoryError, match=r"manifest.json.* cannot be read: .*Copy its folder again"):
        fl.spark.repository(f"{root}/r", spark)


def test_what_is_not_there_is_named_with_its_address(spark, tmp_path):
    root = elsewhere(spark, tmp_path / "there")
    with pytest.raises(FoglineError, match=rf"^there is no file '{root}/none'\.$"):
        files.settle(spark, f"{root}/none", QUERY, Options())
    (tmp_path / "there" / "in" / "sub").mkdir(parents=True)
    write(tmp_path / "there" / "in" / "sub" / "a.txt", ROWS)
    with pytest.raises(FoglineError, match="does not show what it holds"):
        files.settle(spark, f"{root}/in", QUERY, Options())


def test_files_of_this_machine_may_be_named_with_their_scheme(tmp_path):
    config = RunConfig(f"file://{tmp_path}/in", f"file:{tmp_path}/out", QUERY)
    assert (config.stream, config.output) == (f"{tmp_path}/in", f"{tmp_path}/out")
