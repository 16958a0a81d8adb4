"""Is a cell read as its writer meant it: numbers, nulls, times, encodings, headers?"""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError, QueryError
from fogline.files.blocks import FILE, LINE, WHY
from fogline.files.cells import as_instants, cast, format_of, parsed, with_point
from fogline.files.delimited import dialect_of
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.options import Options
from fogline.files.reading import batches
from fogline.pipeline.plan import make_plan

QUERY = fl.Query(attributes={"x": "max"}, id="s", time="t", last=100)


def read(path: Path | str, size: int = 2**20, query: fl.Query = QUERY, **options: Any) -> list[dict[str, Any]]:
    layout = layout_of(str(path), query, Options(**options))
    return [
        row
        for file in files_of(str(path))
        for batch in batches(str(file), layout, size=size)
        for row in batch.to_pylist()
    ]


def column(path: Path | str, name: str, **options: Any) -> list[Any]:
    return [row[name] for row in read(path, **options) if row[WHY] is None]


def test_a_decimal_comma_is_read_and_a_point_is_no_decimal_mark_beside_it():
    texts = ["1,5", "-0,25", " 3,5 ", "1.234,5", "12.345.678", "1e3", "1,5e3", "7", None, "x", "1.5", "1.23"]
    end = " (numbers here have a decimal comma)"
    assert with_point(pa.array(texts), strict=True).to_pylist() == [
        "1.5", "-0.25", " 3.5 ", "1234.5", "12345678", "1e3", "1.5e3", "7", None, "x", f"1.5{end}", f"1.23{end}",
    ]  # fmt: skip
    assert with_point(pa.array(["1,5", "a,b", "1.234"]), strict=False).to_pylist() == ["1.5", "a,b", "1.234"]


def test_marks_separators_and_nulls_are_looked_for_in_each_file_unless_they_are_stated(tmp_path):
    (tmp_path / "a.csv").write_text("s;t;x\na;1;1,5\nb;1;-\nc;1;N/A\nd;1;null\n")
    (tmp_path / "b.csv").write_text("s|t|x\ne|1|2.5\n")
    (tmp_path / "c.csv").write_text('s,t,x\nf,1,"3,5"\n')
    (tmp_path / "d.csv").write_text("sep=;\ns;t;x\ng;1;4.5\n")
    assert column(tmp_path, "x") == ["1.5", None, None, None, "2.5", "3.5", "4.5"]
    assert [row[LINE] for row in read(tmp_path) if row["s"] in "ag"] == [2, 3]
    assert column(tmp_path / "a.csv", "x", decimal=".") == ["1,5", None, None, None]
    with pytest.raises(QueryError, match=r"no file .* has the column 's'; a.csv has s;t;x"):
        read(tmp_path / "a.csv", separator=",")


def test_files_without_a_header_have_numbered_columns(tmp_path):
    (tmp_path / "a.csv").write_text("a,1,1.5\nb,2,2.5\n")
    with pytest.raises(QueryError, match=r"has the column 's'; a.csv has a, 1, 1.5.\nIf the first line is no header"):
        read(tmp_path)
    query = fl.Query(attributes={"column3": "max"}, id="column1", time="column2", last=9)
    assert column(tmp_path, "column3", query=query, header=False) == ["1.5", "2.5"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_an_encoding_is_recognised_also_behind_what_is_looked_at(tmp_path, encoding):
    rows = [f"sensor{k},{k},1" for k in range(30_000)] + ["Süd,9,1", "€ß,10,1"]
    (tmp_path / "a.csv").write_bytes("\r\n".join(["s,t,x", *rows]).encode(encoding))
    found = read(tmp_path)
    assert [row["s"] for row in found[-2:]] == ["Süd", "€ß"]
    assert found[-1][LINE] == 30_003
    assert len(found) == 30_002


def test_bytes_that_are_no_text_refuse_their_row_only(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"s,t,x\na,1,1\nb\xff\xfe,1,1\nc,1,1\n" + "dü,1,1\n".encode())
    found = read(tmp_path)
    assert [row["s"] for row in found if row[WHY] is None] == ["a", "c", "dü"]
    assert [(row[WHY], row[LINE]) for row in found if row[WHY]] == [("'s' holds bytes that are not UTF-8 text", 3)]
    assert [(row["s"], row[WHY]) for row in read(tmp_path, encoding="ascii")] == [
        ("a", None), (None, "the file cannot be read: its text is not ascii; state its encoding"),
    ]  # fmt: skip
    (tmp_path / "a.csv").write_bytes("s,t,x\ndü,1,1\n".encode())
    with pytest.raises(FoglineError, match=r"no file .*\n  a.csv: the file cannot be read: its text is not ascii"):
        read(tmp_path, encoding="ascii")


def test_times_are_read_by_a_format_in_a_zone_and_days_that_no_month_has_are_left():
    texts = pa.array(
        ["01.05.2024 12:00:00", "1.5.2024 9:05:07", "31.02.2024 12:00:00", "soon", None, "2024-05-01 12:00:00"]
    )
    assert as_instants(texts, "%d.%m.%Y %H:%M:%S", "Europe/Berlin").to_pylist() == [
        "2024-05-01 10:00:00Z", "2024-05-01 07:05:07Z", "31.02.2024 12:00:00", "soon", None,
        "2024-05-01 10:00:00Z",
    ]  # fmt: skip
    assert as_instants(texts, "%d.%m.%Y %H:%M:%S", None).to_pylist()[0] == "2024-05-01 12:00:00Z"
    odd = pa.array(
        ["2024-03-31 02:30:00", "2024-10-27 02:30", "2024-01-01", "2024-01-01T00:00:00.5", "2024-01-01T00:00Z"]
    )
    assert as_instants(odd, None, "Europe/Berlin").to_pylist() == [
        "2024-03-31 02:30:00 (clocks of Europe/Berlin leave this hour out)", "2024-10-27 00:30:00Z",
        "2023-12-31 23:00:00Z", "2023-12-31 23:00:00.500000Z", "2024-01-01T00:00Z",
    ]  # fmt: skip
    zoned = parsed(pa.array(["01.05.2024 12:00:00,123456789+0200"]), "%d.%m.%Y %H:%M:%S,%f%z")
    assert zoned.cast(pa.string()).to_pylist() == ["2024-05-01 10:00:00.123456Z"]


def test_the_usual_formats_are_recognised_and_ambiguous_ones_are_not():
    assert format_of(pa.array(["01.05.2024 12:00", "2.5.2024 13:00"])) == "%d.%m.%Y %H:%M"
    assert format_of(pa.array(["01.05.24 12:00", "02.05.24 13:00"])) == "%d.%m.%y %H:%M"
    assert format_of(pa.array(["2024/05/01 12:00:00"])) == "%Y/%m/%d %H:%M:%S"
    assert format_of(pa.array(["05/23/2024 12:00", "05/01/2024 12:00"])) == "%m/%d/%Y %H:%M"
    assert format_of(pa.array(["05/04/2024 12:00", "06/01/2024 12:00"])) is None
    assert format_of(pa.array(["soon", None])) is None


def test_ambiguous_times_are_to_be_stated(tmp_path):
    (tmp_path / "a.csv").write_text("s,t,x\na,05/04/2024 12:00,1\n")
    with pytest.raises(QueryError, match=r"texts such as '05/04/2024 12:00'.*or --time-format"):
        read(tmp_path)
    assert column(tmp_path, "t", time_format="%d/%m/%Y %H:%M") == ["2024-04-05 12:00:00Z"]


def test_nanoseconds_categories_and_zones_of_parquet_are_read(tmp_path):
    stamps = pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns"))
    names = pa.array(["a", "b"]).dictionary_encode()
    pq.write_table(pa.table({"s": names, "t": stamps, "x": pa.array([1, 2], pa.uint8())}), tmp_path / "a.parquet")
    rows = read(tmp_path)
    assert rows[0]["t"].isoformat() == "2023-11-14T22:13:20.123456"
    assert [row["s"] for row in rows] == ["a", "b"]
    berlin = read(tmp_path, zone="Europe/Berlin")
    assert berlin[0]["t"].isoformat() == "2023-11-14T21:13:20.123456+00:00"
    zoned = stamps.cast(pa.timestamp("ns", "Europe/Berlin"))
    pq.write_table(pa.table({"x": [1.5, 2], "t": zoned, "s": ["c", "d"]}), tmp_path / "b.parquet")
    assert [row["x"] for row in read(tmp_path)] == [1.0, 2.0, 1.5, 2.0]
    assert {str(layout_of(str(tmp_path), QUERY, Options()).columns.field("t").type)} == {"timestamp[us, tz=UTC]"}


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_rows_do_not_depend_on_how_many_bytes_are_read_at_once(tmp_path, size):
    lines = ["s,t,x", "a,1,1", "", 'b "', '"c ""d""",2,2', "e,3", "Süd,4,3", '"f,5,1', "g,6,1"]
    (tmp_path / "a.csv").write_text("\r\n".join(lines), encoding="utf-8")
    (tmp_path / "b.csv").write_text("\n".join(lines), encoding="utf-16")
    (tmp_path / "c.jsonl").write_text("\n".join([json.dumps({"s": f"r{k}", "t": k, "x": k}) for k in range(9)] + ["{"]))
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (tmp_path / "e.csv.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))
    found, whole = (sorted(each, key=itemgetter(FILE, LINE)) for each in (read(tmp_path, size=size), read(tmp_path)))
    assert found == whole
    assert [row["s"] for row in found if row[FILE] == "b.csv" and row[WHY] is None] == ["a", 'c "d"', "Süd", "g"]
    assert [row[LINE] for row in found if row[FILE] == "d.csv.gz"] == [2, 4, 5, 6, 7, 8, 9]


def test_folders_state_columns_and_a_file_of_its_own_has_them_otherwise(tmp_path):
    query = fl.Query(attributes={"x": "max"}, id="s", time="t", last=100, by=["site"])
    for name in ("site=north%20east/a.csv", "site=7/day=2/b.csv", "site=8/.tmp/c.csv", "site=9/c.csv.part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("s,t,x\na,1,1\n")
    (tmp_path / "none.csv").write_text("s,t,x\na,1,1\n")
    found = read(tmp_path, query=query)
    assert {(row[FILE], row["site"]) for row in found if row[WHY] is None} == {
        ("site=north%20east/a.csv", "north east"), ("site=7/day=2/b.csv", "7"),
    }  # fmt: skip
    assert [row[WHY] for row in found if row[FILE] == "none.csv"] == [
        "the file cannot be read: it has no column 'site'; of the stream's it has s, t, x"
    ]


def test_cells_that_do_not_fit_are_marked_and_those_that_mean_the_same_are_cast():
    assert np.array_equal(np.asarray(cast(pa.array([1.0, 2.5]), pa.int64())[1]), [False, True])
    assert cast(pa.array(["1", "1.5", "x"]), pa.float64())[0].to_pylist() == [1.0, 1.5, None]
    assert cast(pa.array([0.1, 1e20, None]), pa.string())[0].to_pylist() == ["0.1", "1e+20", None]
    pairs = pa.array([[{"value": 1.0, "weight": 2.0}], None])
    assert cast(pairs, pa.string())[0].to_pylist() == ['[{"value": 1.0, "weight": 2.0}]', None]
    assert np.array_equal(np.asarray(cast(pa.array([2.5]), pairs.type)[1]), [True])
    assert codecs.lookup(Options(encoding="latin-1").encoding or "").name == "iso8859-1"


def test_a_distribution_in_json_lines_stays_one(tmp_path):
    cell = [{"value": 1.0, "weight": 0.5}, {"value": 2.0, "weight": 0.5}]
    (tmp_path / "a.jsonl").write_text(json.dumps({"s": "a", "t": 1, "x": cell}) + "\n")
    assert column(tmp_path, "x") == [cell]
    big = 2**60 + 1
    (tmp_path / "a.jsonl").write_text(f'{{"s": {big}, "t": 1, "x": 1}}\n{{"s": 1.5, "t": 1, "x": 1}}\n')
    rows = read(tmp_path)
    assert [row["s"] for row in rows] == [str(big), "1.5"]
    (tmp_path / "a.jsonl").write_text(f'{{"s": {big}, "t": 1, "x": 1}}\n{{"s": 5, "t": 1, "x": 1}}\n')
    assert column(tmp_path, "s") == [big, 5]


@pytest.mark.parametrize("data", [b"s,t,x\ra,1,1\rb,2,2\r", b"s,t,x\ra,1,1\rb,2,2", b"s,t,x\ra,1,1\r\nb,2,2\n"])
def test_no_row_is_lost_where_carriage_returns_alone_end_lines(tmp_path, data):
    (tmp_path / "a.csv").write_bytes(data)
    assert [(row["s"], row["x"], row[LINE]) for row in read(tmp_path)] == [("a", "1", 2), ("b", "2", 3)]
    (tmp_path / "a.csv").write_bytes(b"s,t,x\na,1,1\rb,2\rc\n")
    assert [(row["s"], row[WHY]) for row in read(tmp_path)] == [
        ("a", None), (None, "the line cannot be read: it has 2 cells, and the file 3 columns"),
        (None, "the line cannot be read: it has 1 cells, and the file 3 columns"),
    ]  # fmt: skip


def test_a_quote_that_is_not_closed_behind_another_takes_no_line_with_it(tmp_path):
    lines = ['a"b,1,"2', "c,2,3", '"d,e",3,4', 'f"g"h,4,"5"', '"i""j",5,6', 'k,6,"7" "8']
    (tmp_path / "a.csv").write_text("\n".join(["s,t,x", *lines]))
    found = read(tmp_path)
    assert [(row["s"], row[LINE]) for row in found if row[WHY] is None] == [
        ("c", 3), ("d,e", 4), ('f"g"h', 5), ('i"j', 6),
    ]  # fmt: skip
    why = "the line cannot be read: it has a quote that is not closed"
    assert sorted((row[LINE], row[WHY]) for row in found if row[WHY]) == [(2, why), (7, why)]


def test_a_line_that_is_too_long_to_be_looked_at_harms_no_other(tmp_path):
    (tmp_path / "a.csv").write_text(f"s;t;x\na;1;2,5\nb;2;{'5' * 200_000}\nc;3;4\n")
    assert [row["s"] for row in read(tmp_path)] == ["a", "b", "c"]
    (tmp_path / "b.csv").write_text("s" * 300_000)
    assert read(tmp_path)[-1][WHY] == "the file cannot be read: its first line is too long to name columns"


def test_a_header_is_stated_as_true_or_false_alone():
    for given in (0, 1, "no"):
        with pytest.raises(QueryError, match=r"it is true .* or false"):
            Options.from_dict({"header": given})


def test_a_column_that_is_not_there_is_missed_among_those_of_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("s,t,x\na,1,1\n")
    query = fl.Query(attributes={"y": "max"}, id="s", time="t", last=9)
    layout = layout_of(str(tmp_path), query, Options())
    with pytest.raises(QueryError, match=r"no attribute 'y'; it has s, t, x\."):
        make_plan(query, layout.schema, clock="number")


def test_a_year_of_two_digits_is_none_of_four():
    assert format_of(pa.array(["15.05.24 12:00", "31.12.24 13:00"])) == "%d.%m.%y %H:%M"
    assert format_of(pa.array(["13/5/24 10:00", "1/5/24 10:00"])) is None
    texts = pa.array(["15.05.24", "15.05.2024", "15.05.0024"])
    assert [each and each.year for each in parsed(texts, "%d.%m.%Y").to_pylist()] == [None, 2024, 24]


def test_a_comma_between_thousands_is_not_taken_for_a_decimal_mark(tmp_path):
    (tmp_path / "a.csv").write_text('s,t,x\na,1,"1,234"\nb,2,7\nc,3,"12,345"\n')
    assert column(tmp_path, "x") == ["1,234", "7", "12,345"]  # these rows are refused
    assert column(tmp_path, "x", decimal=".") == ["1234", "7", "12345"]
    for shown, mark in (("12,345,678", ","), ("12,345.75", "\t"), ("-1,234,567.5", ";")):
        rows = ("s", "t", "x"), ("a", "1", "1,234"), ("b", "2", "7"), ("c", "3", shown)
        lines = [mark.join(f'"{cell}"' if mark in cell else cell for cell in row) for row in rows]
        (tmp_path / "a.csv").write_text("\n".join([*lines, ""]))
        remarks: list[str] = []
        layout_of(str(tmp_path), QUERY, Options(), remark=remarks.append)
        assert "decimal mark '.' (thousands ',')" in remarks[0]
        assert column(tmp_path, "x") == ["1234", "7", shown.replace(",", "")]
    (tmp_path / "a.csv").write_text("s;t;x;tags\na;1;21,456;100,200,300\nb;2;22,125;7\n")
    assert column(tmp_path, "x") == ["21.456", "22.125"]  # what is not compared shows nothing of numbers
    (tmp_path / "a.csv").write_text("s;t;x\na;1;1.234\nb;2;1.234.567\n")
    assert column(tmp_path, "x") == ["1234", "1234567"]
    (tmp_path / "a.csv").write_text('s,t,x\na,1,"1,234"\nb,2,"0,125"\n')
    assert column(tmp_path, "x") == ["1.234", "0.125"]


def test_decimal_commas_are_not_taken_for_separators_where_no_column_is_known():
    found = dialect_of(b"id;a;b\nx;1,5;2,5\ny;3,5;4,5\n", "a.csv", Options(), frozenset(), frozenset())
    assert (found.separator, found.decimal, found.names) == (";", ",", ("id", "a", "b"))


def test_bytes_that_an_encoding_does_not_know_harm_only_their_line(tmp_path):
    (tmp_path / "a.csv").write_bytes("s,t,x\nSüd,1,1\nx?y,2,2\nz,3,3\n".encode("cp1252").replace(b"?", b"\x81"))
    found = read(tmp_path, encoding="cp1252")
    assert [(row["s"], row[WHY] is None) for row in found][::2] == [("Süd", True), ("z", True)]
    assert (found[1][LINE], found[1][WHY]) == (3, "'s' holds bytes that are not UTF-8 text")


def test_lines_before_bytes_that_cannot_be_read_are_read(tmp_path):
    for end in (b"\x00\xdc\x41\x00", b"c"):  # half a pair, half a letter
        (tmp_path / "a.csv").write_bytes("s,t,x\na,1,1\nb,2,2\n".encode("utf-16-le") + end)
        assert [(row["s"], row[WHY]) for row in read(tmp_path)] == [
            ("a", None), ("b", None), (None, "the file cannot be read: its text is not utf-16-le; state its encoding"),
        ]  # fmt: skip


def test_one_line_of_another_encoding_does_not_change_how_the_others_are_read(tmp_path):
    lines = "s,t,x\nSüd,1,1\nÖst,2,2\n".encode() + "Nörd,3,3\n".encode("cp1252")
    (tmp_path / "a.csv").write_bytes(lines)
    assert column(tmp_path, "s") == ["Süd", "Öst"]
    assert [row[LINE] for row in read(tmp_path) if row[WHY]] == [4]


def test_a_line_that_neither_fits_nor_is_text_harms_no_other(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"s,t,x\na,1,1\n\x81\xff,2,3,4\n\xff,1,1\nb,2,2\n")
    found = read(tmp_path)
    assert [(row["s"], row[LINE]) for row in found if row[WHY] is None] == [("a", 2), ("b", 5)]
    assert sorted((row[LINE], row[WHY]) for row in found if row[WHY]) == [
        (3, "the line cannot be read: it has 4 cells, and the file 3 columns"),
        (4, "'s' holds bytes that are not UTF-8 text"),
    ]


def test_a_header_of_bytes_that_are_no_text_harms_no_other_file(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xb7\x81,\xfe\xff\n1,2\n")
    (tmp_path / "b.csv").write_text("s,t,x\na,1,1\n")
    found = read(tmp_path)
    assert [row["s"] for row in found if row[WHY] is None] == ["a"]
    assert [row[WHY].partition(";")[0] for row in found if row[WHY]] == [
        "the file cannot be read: it has no column 's'"
    ]
