"""Is every row accounted for, whatever type its cells have, and whatever a file holds?

Columns of every Arrow type in every role; pandas, Polars and Python values; files whose bytes are changed. Each row is
answered for or rejected with a reason and counted, or the call is refused by a FoglineError: rows in are rows counted.
"""

from __future__ import annotations

import gzip
import io
import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.files.layout import layout_of
from fogline.files.one_file import batches
from fogline.files.options import Options
from fogline.kernels.arrow import read
from fogline.pipeline.names import HEALTH
from fogline.pipeline.plan import make_plan
from tests.chaos.fuzz_texts import _words
from tests.chaos.mutating import mutated, refused
from tests.flow.driving import Engine, rows_of

N = 6
APPENDED: dict[str, Any] = {"attributes": {"a": "max", "b": "min"}, "id": "id", "time": "t", "by": ["g"], "lifetime": 9}
QUERIES = {
    "append": fl.Query(**APPENDED, limits={"a": (-1e300, 1e300)}),
    "latest": fl.Query(**APPENDED, latest=True, gone="gone", version="v"),
}
COLUMNS = {"append": ("a", "b", "id", "t", "g"), "latest": ("a", "id", "t", "g", "gone", "v")}
PAIRS = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))


def good() -> dict[str, pa.Array]:
    """Columns of a stream in which nothing is odd."""
    whole = pa.array(range(N), pa.int64())
    return {
        "id": pa.array([f"r{k}" for k in range(N)]), "t": whole, "g": pa.array(["x", "y"] * (N // 2)), "v": whole,
        "a": pa.array([float(k) for k in range(N)]), "b": pa.array([0.5] * N), "gone": pa.array([False] * N),
    }  # fmt: skip


def _union(kind: str) -> pa.Array:
    types = pa.array([0, 1, 0, 1, 0, 1], pa.int8())
    children = [pa.array([1.0] * N), pa.array(["x"] * N)]
    if kind == "sparse":
        return pa.UnionArray.from_sparse(types, children)
    return pa.UnionArray.from_dense(types, pa.array([0, 0, 1, 1, 2, 2], pa.int32()), children)


ARROW: dict[str, Callable[[], pa.Array]] = {
    "null": lambda: pa.nulls(N),
    "bool": lambda: pa.array([True, False, None] * 2),
    "int8": lambda: pa.array([-128, 127, 0, 1, None, 3], pa.int8()),
    "uint64": lambda: pa.array([2**64 - 1, 0, 2**53, 2**53 + 1, None, 1], pa.uint64()),
    "int64": lambda: pa.array([-(2**63), 2**63 - 1, 0, 1, None, 2**53 + 1], pa.int64()),
    "half": lambda: pa.array(np.array([1, np.inf, np.nan, -0.0, 6e-8, 65504], np.float16)),
    "float32": lambda: pa.array([1.5, math.inf, math.nan, -0.0, 1e-45, None], pa.float32()),
    "float64": lambda: pa.array([5e-324, -math.inf, math.nan, -0.0, 1.8e308, None]),
    "decimal128": lambda: pa.array([Decimal("1.5"), Decimal("-9" * 1), None, Decimal("1e20"), Decimal(0), Decimal(3)],
                                   pa.decimal128(38, 5)),
    "decimal256": lambda: pa.array([Decimal("1e60"), None, Decimal("-1e60"), Decimal(1), Decimal(2), Decimal(3)],
                                   pa.decimal256(76, 5)),
    "date32": lambda: pa.array([date.min, date.max, None, date(2024, 1, 1), date(1970, 1, 1), date(2000, 2, 29)]),
    "date64": lambda: pa.array([0, 2**62, -(2**62), None, 86_400_000, 1], pa.int64()).view(pa.date64()),
    "time64": lambda: pa.array([time(12), None, time.min, time.max, time(1), time(2)], pa.time64("us")),
    "timestamp s": lambda: pa.array([0, 2**62, -(2**62), None, 1, 2], pa.int64()).view(pa.timestamp("s")),
    "timestamp ns": lambda: pa.array([0, 2**62, -(2**62), None, 1, 2], pa.int64()).view(pa.timestamp("ns", "UTC")),
    "timestamp odd zone": lambda: pa.array([0, 1, 2, None, 4, 5], pa.int64()).view(pa.timestamp("us", "+23:59")),
    "timestamp no zone": lambda: pa.array([0, 1, 2, None, 4, 5], pa.int64()).view(pa.timestamp("us", "No/Where")),
    "duration": lambda: pa.array([timedelta(1), None, timedelta(-1), timedelta(0), timedelta(2), timedelta(3)]),
    "interval": lambda: pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval()),
    "string": lambda: pa.array(["1", "nan", "", " 7 ", None, "x\x00\x1b[31m"]),
    "large string": lambda: pa.array(["1e5", "-inf", "2024-01-01", "7", None, "9" * 400], pa.large_string()),
    "string view": lambda: pa.array(["1", "a longer text than fits", "", "7", None, "x"], pa.string_view()),
    "no text": lambda: pa.array([b"\xff", b"1", b"\xc3(", None, b"2", b"3"]).view(pa.string()),
    "binary": lambda: pa.array([b"\xff", b"1", b"", None, b"2", b"3"]),
    "fixed binary": lambda: pa.array([b"1234"] * N, pa.binary(4)),
    "binary view": lambda: pa.array([b"1", b"a longer one than fits", None, b"", b"2", b"3"], pa.binary_view()),
    "dictionary": lambda: pa.array(["a", "b", "a", None, "", "1"]).dictionary_encode(),
    "dictionary of numbers": lambda: pa.array([1.0, 2.0, 1.0, None, 3.0, 1.0]).dictionary_encode(),
    "dictionary with a null": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None, 1, 0]),
                                                                     pa.array(["a", None])),
    "list": lambda: pa.array([[1, 2], [], None, [3], [4], [5]]),
    "large list": lambda: pa.array([["x"], [], None, ["y"], ["z"], ["z"]], pa.large_list(pa.string())),
    "list view": lambda: pa.array([[1.0], [], None, [2.0], [3.0], [4.0]], pa.list_view(pa.float64())),
    "fixed list": lambda: pa.array([[1.0, 2.0]] * N, pa.list_(pa.float64(), 2)),
    "pairs": lambda: pa.array([[(1, 1), (2, 3)], [(math.inf, 1)], [(1, -1)], None, [], [(2, 1), (2, 1)]], PAIRS),
    "large pairs": lambda: pa.array([[(1, 1)], [], None, [(2, 1)], [(1, 0)], [(5, 2)]],
                                    pa.large_list(PAIRS.value_type)),
    "struct": lambda: pa.array([{"x": 1}, None, {"x": 2}, {"x": 3}, {"x": 4}, {"x": None}]),
    "map": lambda: pa.array([[("k", 1)], None, [], [("k", 2)], [("k", 3)], []], pa.map_(pa.string(), pa.int64())),
    "sparse union": lambda: _union("sparse"),
    "dense union": lambda: _union("dense"),
    "run-end encoded": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([2, 6], pa.int32()), pa.array([1.0, 2.0])),
    "run-end texts": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([2, 6], pa.int32()), pa.array(["a", None])),
    "uuid": lambda: pa.array([bytes(range(16))] * N, pa.binary(16)).cast(pa.uuid()),
    "bool8": lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 2, -1, None, 1], pa.int8())),
    "json": lambda: pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["1", "{}", None, "x", "", "2"])),
}  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 7, 2**53 + 1, 2**63, 10**400, -(10**5000), 0.5, -0.0, 5e-324, math.nan, math.inf, -math.inf,
    1e308, "", " ", "7", "1e999", "nan", "x", "\x1b[2J", "\ud800", "a\x00b", "9" * 500, b"", b"\xff", b"7", date.min,
    date.max, datetime.min, datetime.max, datetime(2024, 1, 1, tzinfo=UTC), time(1), timedelta.max, Decimal("NaN"),
    Decimal("1E+999999"), Decimal("1.5"), 1j, [], [1.0], [(1.0, 1.0), (2.0, 1.0)], [(math.nan, 1)], {}, {"x": 1}, set(),
    object(), range(3), np.float32(1), np.int8(1), np.datetime64("NaT"), np.array([1.0]), pd.NA, pd.NaT,
    pd.Timestamp.max, pd.Timedelta(1), lambda: 0, type, NotImplemented, ...,
)  # fmt: skip


def try_arrow(seed: int, count: int) -> tuple[int, int]:
    """A column of every type in every role, through a monitor, the stages of a pipeline, and in one line."""
    rng, tried, stated = random.Random(seed), 0, 0
    cases = [(kind, mode, column) for kind in ARROW for mode in QUERIES for column in COLUMNS[mode]]
    for kind, mode, column in rng.sample(cases, min(count, len(cases))):
        table = pa.table(good() | {column: ARROW[kind]()})
        form = rng.choice(("whole", "sliced", "chunked"))
        table = _formed(table, form)
        what = f"{kind} as {column} of {mode}, {form}"
        stated += _counted(what, through_monitor, QUERIES[mode], table)
        stated += _counted(what, through_stages, QUERIES[mode], table)
        if column in "ab":
            stated += _counted(what, _in_one_line, table)
        tried += 3 * table.num_rows
    return tried, stated


def _formed(table: pa.Table, form: str) -> pa.Table:
    if form == "whole":
        return table
    if form == "sliced":
        return table.slice(1, N - 2)
    return pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1)])


def try_values(seed: int, count: int) -> tuple[int, int]:
    """Rows of Python values, as dicts and as frames of pandas and Polars."""
    rng, tried, stated = random.Random(seed), 0, 0
    for _ in range(count):
        mode = rng.choice(list(QUERIES))
        rows = pa.table(good()).to_pylist()
        for _ in range(rng.randint(1, 4)):
            rng.choice(rows)[rng.choice([*COLUMNS[mode]])] = rng.choice(VALUES)
        if rng.random() < 0.2:
            del rng.choice(rows)[rng.choice([*COLUMNS[mode]])]
        what = f"{mode}: {_words(rows)[:1500]}"
        table = rng.choice((_as_they_are, _pandas, _polars))(rows)
        if table is not None:
            stated += _counted(what, through_monitor, QUERIES[mode], table)
            stated += _counted(what, _in_one_line, table)
            tried += N
    return tried, stated


def _as_they_are(rows: list[dict[str, Any]]) -> Any:
    return rows


def _pandas(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in rows[0]})


def _polars(rows: list[dict[str, Any]]) -> Any:
    if any(isinstance(cell, Decimal) for row in rows for cell in row.values()):  # some make it print a panic
        return None
    try:
        return pl.DataFrame({name: pl.Series(name, [row.get(name) for row in rows], strict=False) for name in rows[0]})
    except BaseException:  # Polars takes no such values
        return None


def through_monitor(query: fl.Query, rows: Any) -> None:
    """Each row is taken or rejected, and the answer can be shown, explained and saved."""
    monitor = fl.Monitor(query)
    monitor.warned = None  # rows with gaps are rejected
    monitor.advance(N, rows)
    assert monitor.counts["rows"] == len(rows), f"{monitor.counts['rows']} rows of {len(rows)} are counted"
    assert len(monitor.rejects) == monitor.counts["rejected"], "rejects that are not counted"
    assert all(reject.reason for reject in monitor.rejects)
    monitor.answer().validate(full=True)
    monitor.check()
    repr(monitor)
    again = fl.Monitor.restore(query, monitor.snapshot())
    assert again.answer().equals(monitor.answer())


def _in_one_line(table: Any) -> None:
    fl.skyline(table, {"a": "max", "b": "min"})


def through_stages(query: fl.Query, table: pa.Table) -> None:
    """Each row is counted by the health of its group."""
    plan = make_plan(query, table.schema)
    health = rows_of(Engine(plan).batch([table]), HEALTH)
    assert sum(each["rows"] for each in health) == table.num_rows, health


def _counted(what: str, take: Callable[..., None], *given: Any) -> int:
    """1, if it was refused."""
    try:
        return int(refused(take, *given) is not None)
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {str(error)[:300]}") from error


# --- Files ------------------------------------------------------------------------------------------------------------

FILED = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=9)


def _examples() -> dict[str, bytes]:
    table = pa.table({name: each for name, each in good().items() if name in ("id", "t", "a", "b")})
    csv = b"id,t,a,b\n" + b"".join(f'"r{k}",{k},{k}.5,"1,5"\n'.encode() for k in range(N))
    lines = b"".join(f'{{"id": "r{k}", "t": {k}, "a": {k}.5, "b": null}}\n'.encode() for k in range(N))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return {
        "x.csv": csv, "x.jsonl": lines, "x.tsv": csv.replace(b",", b"\t"),
        "y.json": b"[" + lines.strip().replace(b"\n", b",") + b"]", "x.parquet": sink.getvalue(),
        "x.csv.gz": gzip.compress(csv, mtime=0), "x.jsonl.gz": gzip.compress(lines, mtime=0),
    }  # fmt: skip


WORDS = (b",", b'"', b'""', b"\n", b"\r", b"\r\n", b"\t", b";", b"{", b"}", b"[", b"]", b"null", b"NaN", b"1e999",
         b"\\u0000", b"\\ud800", b'"id"', b'"t": ', b"\xef\xbb\xbf", b"\x00", b"PAR1", b"\x1f\x8b")  # fmt: skip


def try_bytes(seed: int, count: int) -> tuple[int, int]:
    """Files whose bytes are changed: every line becomes a row, or a reject, or the file is one reject."""
    rng, tried, stated, examples = random.Random(seed), 0, 0, _examples()
    with TemporaryDirectory() as folder:
        root = Path(folder, "in")
        root.mkdir()
        (root / "a.csv").write_bytes(examples["x.csv"])
        layout = layout_of(str(root), FILED, Options())
        for k in range(count):
            name = rng.choice(sorted(examples))
            content = mutated(examples[name], rng, WORDS)
            path = root / name.replace("x.", f"x{k}.")
            path.write_bytes(content)
            what = f"{name}: {content[:1500]!r}"
            stated += _counted(what, _read_file, path, layout)
            path.unlink()
            tried += 1
    return tried, stated


def _read_file(path: Path, layout: Any) -> None:
    found = list(batches(str(path), layout))
    for batch in found:
        batch.validate()
    table = pa.Table.from_batches(found) if found else None
    if table is not None:
        plan = make_plan(FILED, table.schema)
        health = rows_of(Engine(plan).batch([table]), HEALTH)
        assert sum(each["rows"] for each in health) == table.num_rows


# --- Arrow's memory ---------------------------------------------------------------------------------------------------


def try_memory(seed: int, count: int) -> tuple[int, int]:
    """Cells read from Arrow's memory by a kernel, and by plain Python: sliced, offset, empty, with nulls anywhere."""
    rng = random.Random(seed)
    for _ in range(count):
        n = rng.choice((0, 1, 7, 8, 9, 63, 64, 65, 200))
        numbers = [rng.choice((None, math.nan, 0.0, -0.0, 1.5, -3.0)) for _ in range(n)]
        pairs = [rng.choice((None, [], [(1.0, 1.0)], [(2.0, 1.0), (1.0, 3.0)], [(1.0, 1.0)] * 3)) for _ in range(n)]
        batch = pa.record_batch([pa.array(numbers, pa.float64()), pa.array(pairs, PAIRS)], ["a", "b"])
        batch = batch.append_column("t", pa.array(range(n), pa.int64()))
        begin = rng.randint(0, n)
        part = batch.slice(begin, rng.randint(0, n - begin))
        part = part.slice(rng.randint(0, part.num_rows))
        found = read_cells_of(part)
        expected = [_expected(row) for row in part.to_pylist()]
        assert found == expected, f"{found} of {part.to_pylist()}"
    return count, 0


def read_cells_of(batch: pa.RecordBatch) -> list[Any]:
    """What the kernel finds in the columns a and b, and in the clock t."""
    two = np.zeros(2)
    columns = (np.arange(2), np.array([0, 1]), two + 1, two - np.inf, two + np.inf)
    raw, uncertain, _, _, _, times, fine = read(batch, columns, (2, 0))
    assert times.tolist() == batch.column("t").to_pylist()
    assert fine or not batch.num_rows
    rows = []
    for i in range(batch.num_rows):
        first, size = int(uncertain.start[i, 1]), int(uncertain.size[i, 1])
        own = slice(first, first + size)
        listed = (
            list(zip(uncertain.value[own].tolist(), uncertain.weight[own].tolist(), strict=True))
            if first >= 0
            else None
        )
        lone = None if first >= 0 or np.isnan(uncertain.lo[i, 1]) else float(uncertain.lo[i, 1])
        rows.append((None if np.isnan(raw[i, 0]) else float(raw[i, 0]), listed, lone))
    return rows


def _expected(row: dict[str, Any]) -> tuple[float | None, list[tuple[float, float]] | None, float | None]:
    number = None if row["a"] is None or math.isnan(row["a"]) else row["a"]
    weights: dict[float, float] = {}
    for pair in row["b"] or []:
        weights[pair["value"]] = weights.get(pair["value"], 0.0) + pair["weight"]
    total = sum(weights.values())
    listed = [(value, weight / total) for value, weight in sorted(weights.items())]
    return (number, listed, None) if len(listed) > 1 else (number, None, listed[0][0] if listed else None)
