"""Are null words missing values, in whatever a cell comes, and nowhere else?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.files.layout import layout_of
from fogline.files.options import Options
from fogline.files.reading import batches, table

WORDS = ["n/a", "NA", "N/A", "NULL", "null", "None", "-", "--", "?", "k.A.", "NaN", "nan", "#N/A", "", " n/a "]
PANDAS = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
QUERY = fl.Query(attributes={"x": "max"}, id="s", time="t", last=100)


def values(path: Path, **stated: Any) -> list[Any]:
    """The cells of x, as they are compared."""
    layout = layout_of(str(path), QUERY, Options(**stated))
    return [cell for batch in batches(str(path), layout) for cell in batch.column("x").to_pylist()]


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def csv_of(path: Path, cells: list[str]) -> Path:
    path.write_text("s;t;x\n" + "".join(f"a{k};{k};{cell}\n" for k, cell in enumerate(cells)))
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "dictionary"])
def test_null_words_are_missing_in_every_kind_of_file(tmp_path, kind):
    cells = [*WORDS, *PANDAS, "1.5", "broken"]
    rows = {"s": [f"a{k}" for k in range(len(cells))], "t": list(range(len(cells))), "x": cells}
    path = tmp_path / f"in.{kind.replace('dictionary', 'parquet')}"
    if kind == "csv":
        csv_of(path, cells)
    elif kind == "jsonl":
        path.write_text(
            "".join(json.dumps(dict(zip(rows, row, strict=True))) + "\n" for row in zip(*rows.values(), strict=True))
        )
    else:
        x = pa.array(cells) if kind == "parquet" else pa.array(cells).dictionary_encode()
        pq.write_table(pa.table(rows | {"x": x}), path)
    assert values(path) == [None] * (len(cells) - 2) + ["1.5", "broken"]


def test_what_is_stated_is_missing_too_and_a_number_in_every_way_to_write_it(tmp_path):
    path = csv_of(tmp_path / "in.csv", ["-999", "-999,0", "-999,00", "err", "ERR ", "n/a", "99,9", "1,5", "9"])
    assert values(path, nulls=["-999", "ERR"]) == [None] * 6 + ["99.9", "1.5", "9"]
    assert values(path, nulls=["99,9"])[-3:] == [None, "1.5", "9"]
    pq.write_table(pa.table({"s": ["a", "b"], "t": [1, -999], "x": [-999.0, 2.0]}), tmp_path / "in.parquet")
    layout = layout_of(str(tmp_path / "in.parquet"), QUERY, Options(nulls=("-999",)))
    (batch,) = batches(str(tmp_path / "in.parquet"), layout)
    assert batch.select(["t", "x"]).to_pydict() == {"t": [1, -999], "x": [None, 2.0]}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.decimal128(6, 1)])
def test_a_number_that_is_stated_is_found_in_columns_of_numbers_as_they_round_it(tmp_path, kind):
    pq.write_table(
        pa.table({"s": ["a", "b"], "t": [1, 2], "x": pa.array([-99.9, 1.5]).cast(kind)}), tmp_path / "a.parquet"
    )
    found = values(tmp_path / "a.parquet", nulls=("-99.9",))
    assert [None if cell is None else float(cell) for cell in found] == [None, 1.5]


def test_what_names_rows_is_never_a_null_word(tmp_path):
    (tmp_path / "in.csv").write_text("s,t,x\n-,1,1\nNA,2,2\n,3,3\n")
    found = table(str(tmp_path / "in.csv"), QUERY, Options(nulls=("NA",)))
    assert found["s"].to_pylist() == ["-", "NA", None]


@pytest.mark.parametrize("cells", [WORDS, pa.array(WORDS), pd.Series(WORDS)], ids=["dicts", "arrow", "pandas"])
def test_null_words_are_missing_in_the_tables_of_python_as_well(cells):
    texts = list(cells.to_pylist() if isinstance(cells, pa.Array) else cells)
    n = len(texts)
    given: Any = pa.table({"s": [f"a{k}" for k in range(n + 2)], "x": [*texts, "1", "3"], "y": [1.0] * n + [5.0, 4.0]})
    if isinstance(cells, list):
        given = given.to_pylist()
    elif isinstance(cells, pd.Series):
        given = given.to_pandas()
    found = fl.skyline(given, {"x": "max", "y": "max"}, alpha=0.9)
    shown = (
        found if isinstance(found, list) else found.to_dict("records") if hasattr(found, "iloc") else found.to_pylist()
    )
    assert {"a15", "a16"} <= {row["s"] for row in shown}
    monitor = fl.Monitor(QUERY, fl.Repository.fit([{"x": "1"}, {"x": "?"}], QUERY, rules=[]))
    monitor.advance(
        1, [{"s": "a", "t": 1, "x": "k.A."}, {"s": "b", "t": 1, "x": "0"}, {"s": "c", "t": 1, "x": "broken"}]
    )
    assert [each.reason for each in monitor.rejects] == ["'x' is 'broken', which is not a number"]
    assert monitor.explain("a")[0].row.values["x"] == ((1.0, 1.0),)


def test_fit_check_run_and_explain_take_them_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text("attributes: {x: max, y: max}\nid: s\ntime: t\nlifetime: 100\nsource: {nulls: [-999]}\n")
    lines = [f"{'-' if k % 5 == 0 else f's{k % 5}'};{k};{k * 37 % 101}.5;{k * 74 % 103}.5" for k in range(300)]
    gaps = [f"g;{10 * k};{k}.5;{WORDS[k % len(WORDS)] if k % 2 else '-999.0'}" for k in range(30)]
    for folder, rows in (("past.csv", lines[:200] + gaps), ("in.csv", lines[200:] + gaps)):
        Path(folder).write_text("\n".join(["s;t;x;y", *rows, ""]))
    assert "texts" not in run("fit", "past.csv", "-q", "q.yaml", "-o", "past.repo")
    checked = run("check", "in.csv", "-q", "q.yaml", "-r", "past.repo")
    assert "complete 100" in checked
    assert "with gaps 30" in checked
    assert "rejected 0" in checked
    run("run", "in.csv", "-q", "q.yaml", "-r", "past.repo", "-o", "out", "--engine", "embedded")
    assert not Path("out/rejects").exists()
    assert "'-' at" in run("explain", "--replay", "in.csv", "-q", "q.yaml", "-r", "past.repo", "--id", "-")
    more = run("check", "in.csv", "-q", "q.yaml", "-r", "past.repo", "--null", "100.5")
    assert "with gaps 3" in more  # 100.5 besides what the query states
    assert "rejected 0" in more
