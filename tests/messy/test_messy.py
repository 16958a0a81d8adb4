"""Does one `check` of a messy folder take what can be taken, and name the rest?"""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.files.blocks import FILE, LINE
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.options import Options
from fogline.files.reading import batches
from fogline.pipeline.decode import Decoder
from fogline.pipeline.plan import make_plan
from fogline.rows.clock import show_time
from tests.messy.make import QUERY, make


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY, encoding="utf-8")
    return make(Path("in"))


def test_each_row_is_read_as_its_writer_meant_it_or_named(place):
    query, remarks = fl.Query.load("q.yaml"), list[str]()
    layout = layout_of("in", query, Options.load("q.yaml"), remark=remarks.append)
    plan = make_plan(query, layout.schema, clock=layout.clock or None)
    decoder, taken, heights, bad = Decoder(plan), {}, {}, set()
    for file in files_of("in"):
        for batch in batches(str(file.absolute()), layout):
            rows = decoder.decode(pa.Table.from_batches([batch])).rows
            for i, row in enumerate(batch.to_pylist()):
                if i in rows.refused:
                    bad.add((row[FILE], row[LINE], rows.refused[i]))
                elif not row["Fühler"].startswith("T "):  # of the torn file
                    taken[row["Fühler"]] = show_time(rows.arrived[i], plan.kind).replace(tzinfo=None).isoformat()
                    heights[row["Fühler"]] = None if math.isnan(rows.raw[i, 0]) else rows.raw[i, 0]
    assert taken == place.taken
    assert heights == place.heights
    whole = {file: why for file, line, why in bad if why.startswith("the file cannot be read")}
    assert set(whole) == set(place.bad_files)
    assert all(part in whole[file] for file, part in place.bad_files.items())
    lines = {(file, line): why for file, line, why in bad if file not in whole}
    assert set(lines) == {(file, line) for file, line, _ in place.bad_lines}
    assert all(part in lines[file, line] for file, line, part in place.bad_lines)
    assert any(
        "01 Messwerte.csv: read as csv: separator ';', decimal mark ',', encoding cp1252" in each for each in remarks
    )
    assert any(
        "03 unicode.csv: read as csv: separator tab, decimal mark ',', encoding utf-16" in each for each in remarks
    )
    assert "13 100% ohne Druck.csv: no column 'Druck'; it counts as missing there." in remarks
    assert "the times in 'Zeit' are read as %d.%m.%Y %H:%M:%S. Change it with --time-format." in remarks


def test_check_names_what_cannot_be_taken(place):
    result = CliRunner().invoke(app, ["check", "in", "-q", "q.yaml"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert f"names end in none of csv, tsv, json, jsonl, parquet: {', '.join(place.not_read)}." in result.output
    for file in place.bad_files:
        assert f'for instance {file}: {{"file": "{file}"}}' in result.output
    assert (
        'for instance 01 Messwerte.csv, line 6: {"_corrupt_record": "Süd 5;01.05.2024 12:40:00;7,5"}' in result.output
    )
    assert "2: 'Zeit' is …, which is not a timestamp" in result.output
