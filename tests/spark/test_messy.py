"""Does one `fogline run` over a messy folder take what can be taken, and put the rest into the rejects by name?"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.files.options import Options
from fogline.rows.names import DUPLICATE
from fogline.spark import files
from tests.messy.make import QUERY, make


def test_what_can_be_taken_is_and_the_rest_is_named(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY, encoding="utf-8")
    made = make(Path("in"))
    words = ["in", "-q", "q.yaml"]
    history = ["Fühler,Zeit,Höhe,Druck", *(f"h,2024-04-01T00:00:{k},{k},{k % 7}" for k in range(10, 60))]
    Path("h.csv").write_text("\n".join(history), encoding="utf-8")
    fitted = CliRunner().invoke(app, ["fit", "h.csv", *words[1:], "-o", "repo"])
    assert fitted.exit_code == 0, fitted.output
    query, options = fl.Query.load("q.yaml"), Options.load("q.yaml")
    again = fl.spark.fit(files.table(spark, "h.csv", query, options), query)
    assert again.fingerprint == fl.Repository.load("repo").fingerprint
    done = CliRunner().invoke(
        app, ["run", *words, "-r", "repo", "-o", "out", "--engine", "spark"], env={"COLUMNS": "160"}
    )
    assert done.exit_code == 0, done.output
    assert f"names end in none of csv, tsv, json, jsonl, parquet: {', '.join(made.not_read)}." in done.output
    rejects = pq.read_table("out/rejects").to_pylist()
    found = {(row["file"], row["line"]): row["reason"] for row in rejects}
    for file, part in made.bad_files.items():
        assert part in found.pop((file, None))
    for file, line, part in made.bad_lines:
        assert part in found.pop((file, line))
    assert list(found.values()) == [DUPLICATE]  # the copy of Süd 1
    assert {row["batch"] for row in rejects} == {0}
    health = pq.read_table("out/health").to_pandas()
    torn = health["rows"].sum() - len(made.taken) - len(rejects)
    assert 0 <= torn < 3000
