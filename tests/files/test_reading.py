"""Is every row of a file there, in the columns of its stream, and what cannot be read put aside by line?"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import QueryError
from fogline.files.blocks import CORRUPT, FILE, LINE, ORIGIN, WHY
from fogline.files.layout import Layout, layout_of
from fogline.files.listing import files_of
from fogline.files.options import Options
from fogline.files.reading import batches, table

QUERY = fl.Query(attributes={"x": "max", "y": "min"}, id="s", time="t", last=100)
ROWS = [{"s": "007", "t": "1", "x": "1.5", "y": "2"}, {"s": "b", "t": "2", "x": None, "y": "3"}]


def rows_of(
    path: Path | str, layout: Layout | None = None, query: fl.Query = QUERY, **options: Any
) -> list[dict[str, Any]]:
    layout = layout or layout_of(str(path), query, Options(**options))
    found = [batch for file in files_of(str(path)) for batch in batches(str(file), layout)]
    assert all(batch.schema.equals(layout.schema) for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ORIGIN.names} for row in rows]


@pytest.mark.parametrize("name", ORIGIN.names)
def test_a_column_with_a_name_of_our_own_is_refused_by_that(tmp_path, name):
    (tmp_path / "a.csv").write_text(f"s,t,x,y,{name}\n007,1,1.5,2,\n")
    with pytest.raises(QueryError, match=f"has the column '{name}': Fogline itself calls a column so"):
        layout_of(str(tmp_path), QUERY, Options())


def test_csv_tsv_json_and_parquet_give_the_same_rows_of_a_stream(tmp_path):
    (tmp_path / "a.csv").write_text("s,t,x,y\n007,1,1.5,2\nb,2,,3\n")
    (tmp_path / "a.tsv").write_text("s\tt\tx\ty\n007\t1\t1.5\t2\nb\t2\t\t3\n")
    (tmp_path / "a.jsonl").write_text('{"s":"007","t":1,"x":1.5,"y":2}\n{"s":"b","t":2,"x":null,"y":3}\n')
    (tmp_path / "b.json").write_text(json.dumps([{"s": "007", "t": 1, "x": 1.5, "y": 2}, {"s": "b", "t": 2, "y": 3}]))
    for name in ("a.csv", "a.tsv", "a.jsonl", "b.json"):
        assert plain(rows_of(tmp_path / name)) == ROWS, name
    pq.write_table(pa.table({"s": ["007", "b"], "t": [1, 2], "x": [1.5, None], "y": [2, 3]}), tmp_path / "a.parquet")
    found = rows_of(tmp_path / "a.parquet")
    assert plain(found) == [{"s": "007", "t": 1, "x": 1.5, "y": 2}, {"s": "b", "t": 2, "x": None, "y": 3}]
    assert [row[LINE] for row in found] == [None, None]
    assert [row[LINE] for row in rows_of(tmp_path / "a.csv")] == [2, 3]
    assert [row[LINE] for row in rows_of(tmp_path / "a.jsonl")] == [1, 2]
    mixed = rows_of(tmp_path)
    assert plain(mixed) == ROWS * 5
    assert {row[FILE] for row in mixed} == {"a.csv", "a.tsv", "a.jsonl", "b.json", "a.parquet"}


def test_a_layout_is_the_same_after_it_was_written_down(tmp_path):
    (tmp_path / "a.csv").write_text("s;t;x;y\n007;01.05.2024 12:00;1,5;2\n")
    layout = layout_of(str(tmp_path), QUERY, Options(zone="Europe/Berlin"))
    again = Layout.from_dict(json.loads(json.dumps(layout.to_dict())), str(tmp_path))
    assert again == layout
    assert layout.clock == "timestamp"
    assert layout.options.time_format == "%d.%m.%Y %H:%M"
    [row] = rows_of(tmp_path, again)
    assert row["t"] == "2024-05-01 10:00:00Z"
    assert row["x"] == "1.5"


def test_lines_that_cannot_be_read_are_put_aside_with_their_numbers(tmp_path):
    (tmp_path / "a.csv").write_text('s,t,x,y\na,1,1,1\n\nb,1\n"c,2,1,1\nd,2,1,1,9\n"e ""1""",3,1,1\n')
    found = rows_of(tmp_path)
    assert [(row["s"], row[LINE]) for row in found if row[WHY] is None] == [("a", 2), ('e "1"', 7)]
    assert {(row[CORRUPT], row[WHY], row[LINE]) for row in found if row[WHY] is not None} == {
        ("b,1", "the line cannot be read: it has 2 cells, and the file 4 columns", 4),
        ('"c,2,1,1', "the line cannot be read: it has a quote that is not closed", 5),
        ("d,2,1,1,9", "the line cannot be read: it has 5 cells, and the file 4 columns", 6),
    }
    (tmp_path / "a.csv").unlink()
    (tmp_path / "a.jsonl").write_text('{"s":"a","t":1,"x":1,"y":1}\n\n{torn\n5\n{"s":"b","t":"2","x":"n/a","y":1}\n')
    found = rows_of(tmp_path)
    assert [(row["s"], row["x"], row[LINE]) for row in found if row[WHY] is None] == [("a", "1", 1), ("b", None, 5)]
    assert [(row[CORRUPT], row[LINE]) for row in found if row[WHY]] == [("{torn", 3), ("5", 4)]


def test_a_file_that_cannot_be_read_is_one_row_with_the_reason(tmp_path):
    good = "s,t,x,y\n" + "".join(f"r{k},{k},1,{k * 7919}\n" for k in range(4000))
    (tmp_path / "a.csv").write_text("s,t,x,y\na,1,1,1\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(good.encode())[:-4000])
    (tmp_path / "c.parquet").write_bytes(b"PAR1 torn")
    (tmp_path / "d.csv").write_text("other,columns\n1,2\n")
    (tmp_path / "e.csv").write_text("\n")
    (tmp_path / "f.csv").write_text("")  # no rows, and nothing wrong
    found = rows_of(tmp_path)
    bad = {row[FILE]: row[WHY] for row in found if row[WHY] is not None}
    assert set(bad) == {"b.csv.gz", "c.parquet", "d.csv", "e.csv"}
    assert all(why.startswith("the file cannot be read: ") for why in bad.values())
    assert "it has no column 's'" in bad["d.csv"]
    taken = [row for row in found if row[WHY] is None]
    assert 100 < len(taken) < 4001
    assert all(row["y"] == str(int(row["t"]) * 7919) for row in taken[1:])  # no number is cut


GOOD = "s,t,x,y\na,1,1,1\n"
ONE_LINE = {
    "a row without a header": (b"b,2,1,1\n", "it has no column 's'; of the stream's it has none"),
    "a row without a header or a line break": (b"b,2,1,1", "it has no column 's'; of the stream's it has none"),
    "a header of other columns": (b"id,time,value\n", "it has no column 's'; of the stream's it has none"),
    "a header that lacks one": (b"s,x,y\n", "it has no column 't'; of the stream's it has s, x, y"),
    "packed, with a name that hides it": (gzip.compress(GOOD.encode()), "its bytes are packed as those of .gz files"),
    "zeros alone": (b"\0" * 300, "it begins with zero bytes, as files do after a power cut"),
    "one zero": (b"\0", "it begins with zero bytes, as files do after a power cut"),
}


@pytest.mark.parametrize("name", ["z.csv", "z.tsv"])
@pytest.mark.parametrize("case", ONE_LINE)
def test_a_file_of_one_line_that_is_no_header_of_the_stream_is_rejected_by_name(tmp_path, case, name):
    content, why = ONE_LINE[case]
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / name).write_bytes(content.replace(b",", b"\t") if name == "z.tsv" and content.isascii() else content)
    found = rows_of(tmp_path)
    assert [(row[FILE], row["s"]) for row in found] == [("a.csv", "a"), (name, None)]
    assert found[1][WHY].startswith(f"the file cannot be read: {why}")


@pytest.mark.parametrize("content", [b"b,2,1,1\n", gzip.compress(b'{"s": "a"}', mtime=0), b"\0" * 300, b"\0", b"5"])
def test_a_file_of_one_line_that_is_no_json_is_rejected_by_name(tmp_path, content):
    (tmp_path / "a.jsonl").write_text('{"s": "a", "t": 1, "x": 1, "y": 1}\n')
    (tmp_path / "z.jsonl").write_bytes(content)
    found = rows_of(tmp_path)
    assert found[0]["s"] == "a"
    assert len(found) > 1
    assert all(row[FILE] == "z.jsonl" and "cannot be read" in row[WHY] for row in found[1:])


def test_a_header_alone_is_no_reject(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("y,x,t,s\n")
    (tmp_path / "x=7").mkdir()
    (tmp_path / "x=7" / "c.csv").write_text("s,t,y")
    assert [(row[FILE], row[WHY]) for row in rows_of(tmp_path)] == [("a.csv", None)]


def test_zeros_behind_good_lines_are_rejected_by_their_line_and_the_lines_are_taken(tmp_path):
    (tmp_path / "a.csv").write_bytes(GOOD.encode() + b"\0" * 9000)
    found = rows_of(tmp_path)
    assert [(row["s"], row[LINE], row[WHY]) for row in found] == [
        ("a", 2, None), (None, 3, "the line cannot be read: it has 1 cells, and the file 4 columns"),
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_header_of_any_length_is_read_whole(tmp_path, end):
    names = [f"column_{k:0153}" for k in range(3_000)]  # 480 kB
    text = ",".join(["s", "t", *names, "x", "y"]) + "\n" + ",".join(["a", "1", *["0"] * len(names), "2", "3"]) + "\n"
    for before in ("", "sep=,\n"):
        content = (before + text).encode()
        (tmp_path / f"a.csv{end}").write_bytes(gzip.compress(content) if end else content)
        [row] = rows_of(tmp_path)
        assert (row["s"], row["t"], row["x"], row["y"], row[WHY]) == ("a", "1", "2", "3", None)


@pytest.mark.parametrize("rows", [1, 5, 5000])
@pytest.mark.parametrize("last", ["", "\n"])
def test_of_a_packed_file_with_other_bytes_behind_it_the_rows_are_taken_and_the_rest_is_named(tmp_path, rows, last):
    text = "s,t,x,y\n" + "\n".join(f"r{k},{k},1,{k * 7919}" for k in range(rows)) + last
    packed = gzip.compress(text.encode())
    (tmp_path / "a.csv.gz").write_bytes(packed + b"junk, of a download that was retried")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"s,t,x,y\nb,1,") + gzip.compress(b"1,1\n"))  # one file in two
    found = rows_of(tmp_path)
    assert [row["s"] for row in found if row[WHY] is None] == [*(f"r{k}" for k in range(rows)), "b"]
    [why] = [row[WHY] for row in found if row[WHY] is not None]
    assert why.startswith(f"the file cannot be read: behind its first {len(text):,} bytes, unpacked, it is damaged")


@pytest.mark.parametrize("end", ["bz2", "zst", "lz4"])
def test_so_it_is_with_other_ways_to_pack(tmp_path, end):
    text = "s,t,x,y\n" + "".join(f"r{k},{k},1,{k}\n" for k in range(5))
    with pa.CompressedOutputStream(str(tmp_path / f"a.csv.{end}"), {"zst": "zstd"}.get(end, end)) as out:
        out.write(text.encode())
    with (tmp_path / f"a.csv.{end}").open("ab") as file:
        file.write(b"junk, of a download that was retried")
    found = rows_of(tmp_path)
    assert [row["s"] for row in found if row[WHY] is None] == [f"r{k}" for k in range(5)]
    assert [row[FILE] for row in found if row[WHY] is not None] == [f"a.csv.{end}"]


def test_a_parquet_file_that_is_cut_short_while_it_is_read_is_a_reject_and_not_the_end_of_the_process(tmp_path):
    count = 150_000
    columns = {
        "s": [f"r{k}" for k in range(count)],
        "t": list(range(count)),
        "x": np.random.default_rng(1).random(count),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({**columns, "y": columns["x"]}), path, row_group_size=50_000)
    layout = layout_of(str(path), QUERY, Options())
    if (child := os.fork()) == 0:  # the process that might end
        reading = batches(str(path), layout)
        next(reading)
        os.truncate(path, 1_000)
        *_, last = reading
        os._exit(0 if "the file cannot be read" in last[WHY][0].as_py() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_history_has_numbers_where_all_cells_are_and_names_stay_texts(tmp_path):
    (tmp_path / "h.csv").write_text("s,t,x,y,word,when\n007,1,1.5,n/a,a,2024-05-01\n008,2,2,3,7,2024-05-02\n")
    remarks: list[str] = []
    found = table(str(tmp_path), QUERY, Options(), remarks.append)
    assert {field.name: str(field.type) for field in found.schema} == {
        "s": "string", "t": "int64", "x": "double", "y": "int64", "word": "string", "when": "timestamp[us, tz=UTC]",
    }  # fmt: skip
    assert found["s"].to_pylist() == ["007", "008"]
    (tmp_path / "h.csv").write_text("s,t,x,y\n1,1,1,1\n2,2\n")
    assert table(str(tmp_path), QUERY, Options(), remarks.append).num_rows == 1
    assert remarks[-1].startswith("1 lines cannot be read and are left out, such as h.csv, line 3: the line cannot be")
    assert remarks[-1].endswith("it has 2 cells, and the file 4 columns.")


def test_options_are_stated_in_the_query_or_on_the_command_line_and_unknown_ones_are_refused(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_text(
        "attributes: {x: max}\nid: s\ntime: t\nlast: 5\n"
        "source: {separator: ;, decimal: ',', nulls: [null, NO, -1], header: no, zone: Europe/Berlin}\n"
    )
    assert fl.Query.load(path).last == 5
    assert Options.load(path) == Options(";", ",", None, ("null", "NO", "-1"), False, None, "Europe/Berlin")
    assert Options.load(path).stated(separator="tab", decimal=None).separator == "\t"
    path.write_text("source: {seperator: ';'}\n")
    with pytest.raises(QueryError, match=r"no option 'seperator'.*\nDid you mean 'separator'"):
        Options.load(path)
    for wrong, match in (
        ({"zone": "Europe/Berln"}, "Did you mean 'Europe/Berlin'"),
        ({"encoding": "utf-9"}, "none that Python knows"),
        ({"decimal": ";"}, "'.' or ','"),
        ({"separator": ";;"}, "one plain character"),
        ({"separator": ",", "decimal": ","}, "could not be kept apart"),
        ({"time_format": "dd.mm.yyyy"}, "as strptime does"),
        ({"header": "maybe"}, "true .* or false"),
        ({"constants": ["roof"]}, "it names columns and their text, such as {station: roof}"),
        ({"constants": {"station": 7}}, "it names columns and their text, such as {station: roof}"),
    ):
        with pytest.raises(QueryError, match=match):
            Options.from_dict(wrong)
