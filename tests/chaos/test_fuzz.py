"""A few of the cases of `fuzz`, the same every time; many more by `make chaos PARTS=fuzz`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import fogline as fl
from fogline.errors import QueryError, RuleError, SnapshotError
from fogline.pipeline.plan import make_plan
from fogline.query import duration
from fogline.repository import rules
from fogline.saved import pack, unpack
from fogline.state.format import from_state, from_value, to_state, to_value
from tests.chaos import fuzz_rows, fuzz_saved, fuzz_texts
from tests.chaos.fuzz_saved import Tried
from tests.flow.embedding import APPENDED, readings


@pytest.mark.parametrize(
    ("attempt", "count"),
    [
        (fuzz_texts.try_texts, 60), (fuzz_texts.try_files, 15), (fuzz_texts.try_values, 300), (fuzz_texts.try_page, 15),
        (fuzz_rows.try_arrow, 40), (fuzz_rows.try_values, 40), (fuzz_rows.try_bytes, 40), (fuzz_rows.try_memory, 40),
    ],
)  # fmt: skip
def test_whatever_comes_is_taken_or_refused_in_words(attempt, count):
    tried, _ = attempt(0, count)
    assert tried >= count


@pytest.mark.parametrize("examples", [fuzz_saved.snapshots, fuzz_saved.travelling, fuzz_saved.states])
def test_what_was_saved_and_damaged_since_is_refused_or_read_as_it_was(examples):
    tried = Tried()
    for each in examples():
        fuzz_saved.try_saved(each, random.Random(0), 30, tried)
    assert 0 < tried.refused <= tried.faults


def test_every_bit_and_every_truncation_of_something_small_is_noticed():
    plan, tried = make_plan(APPENDED, readings(1, 1).schema), Tried()
    some = fuzz_saved.travelling()[-1]
    cell = fuzz_saved.Saved("cell", to_value({"n": 1}, {}), fuzz_saved.from_cell_read)
    state = fuzz_saved.Saved("state", to_state(plan, {"n": 1}, {}), lambda saved: from_state(plan, saved, "state"))
    for each in (some, cell, fuzz_saved.compiled()):
        fuzz_saved.try_saved(each, random.Random(0), 0, tried, bits=True)
    fuzz_saved.try_saved(state, random.Random(0), 300, tried)
    assert tried.refused > 0.9 * tried.faults


def test_what_is_forged_is_refused_and_takes_no_memory():
    tried = Tried()
    fuzz_saved.try_forged(random.Random(0), 100, tried)
    assert tried.faults > 90
    for header in ({"arrays": [["a", "<f8", [2**60]]]}, {"arrays": [["a", "|O", [1]]]}, {"arrays": 7}):
        with pytest.raises(SnapshotError, match="damaged: its parts do not fit each other"):
            unpack(_with_header(header))
    with pytest.raises(SnapshotError, match=r"claims 1,152,921,504,606,846,976 bytes, which are not in it"):
        from_value((2**60).to_bytes(8, "little") + b"x" * 50, "cell")


def _with_header(header: object) -> bytes:
    """Something packed, with this for its header, and a checksum that is right."""
    import json
    import struct
    import zlib

    whole = pack({}, {})
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text
    return whole[:8] + struct.pack("<I", zlib.crc32(body)) + body


def test_a_state_whose_digest_is_damaged_is_not_called_another_query():
    plan = make_plan(APPENDED, readings(1, 1).schema)
    saved = bytearray(to_state(plan, {"n": 1}, {}))
    saved[12] ^= 1
    with pytest.raises(SnapshotError, match="its first bytes are not those that were written"):
        from_state(plan, bytes(saved), "state of a group")


def test_files_of_a_checkpoint_and_of_a_repository_are_refused_when_damaged(tmp_path):
    tried, rng = Tried(), random.Random(0)
    with fuzz_saved.checkpoint("timestamps") as (folder, read):
        fuzz_saved.try_saved(fuzz_saved.state_in(folder, read), rng, 40, tried)
        fuzz_saved.try_saved(fuzz_saved.about_of(folder), rng, 60, tried)
    rows = [{"id": str(k), "t": k, "a": float(k), "b": k * 2.0} for k in range(20)]
    small = fl.Repository.fit(rows, fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=9))
    with fuzz_saved.repository(small) as (folder, read):
        fuzz_saved.try_files(folder, read, rng, 9, tried, without=True)
    assert tried.refused > 0.8 * tried.faults


def test_documents_that_grow_without_end_are_refused(tmp_path):
    path = tmp_path / "q.yaml"
    laughs = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for content, match in (
        (laughs, "stands for more than 100,000 values"),
        ("a: &a [*a]", "stands for more than 100,000 values"),
        ("a: " + "[" * 2000, "more than 50 deep"),
        ("lifetime: " + "9" * 5000, "cannot be read: Exceeds the limit"),
        ("time: 2024-13-45", "the query has no"),
        ("id: 2024-13-45\nalpha: 2024-13-45", "cannot be read: month must be in"),
        ("attributes: !!python/object/apply:os.system [true]", "could not determine a constructor"),
    ):
        path.write_text(content)
        with pytest.raises(QueryError, match=match):
            fl.Query.load(path)
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(fl.FoglineError, match="has more than 1 MB"):
        fl.Query.load(path)


def test_texts_that_made_reading_take_hours_are_refused_at_once():
    for text in ("a" + " " * 100_000 + "(", "a(" + " " * 100_000, " " * 100_000 + "->" + " " * 100_000):
        with pytest.raises(RuleError):
            rules.parse(text)
    with pytest.raises(QueryError, match="is not a duration"):
        duration("9" * 100_000)


def test_a_packed_file_of_one_endless_line_is_one_reject(tmp_path, monkeypatch):
    import gzip

    from fogline.files import blocks
    from fogline.files.layout import layout_of
    from fogline.files.one_file import batches
    from fogline.files.options import Options

    monkeypatch.setattr(blocks, "LONGEST", 2**20)
    (tmp_path / "a.csv").write_text("id,t,a,b\nx,1,2,3\n")
    layout = layout_of(str(tmp_path), fuzz_rows.FILED, Options())
    bomb = tmp_path / "b.csv.gz"
    bomb.write_bytes(gzip.compress(b"id,t,a,b\ny,1,2,3\n" + b"x" * (20 * 2**20)))
    found = [row for batch in batches(str(bomb), layout, size=2**18) for row in batch.to_pylist()]
    assert [row["id"] for row in found] == ["y", None]
    assert "line 3 is longer than 1 MB" in str(found[1])


def test_a_path_is_made_of_names_alone(tmp_path):
    from fogline.repository import cache

    for mark in ("../../x", "/etc", "", "A" * 64, "0" * 15):
        with pytest.raises(fl.errors.HistoryError, match="is no fingerprint"):
            cache.kept(mark, lambda folder: Path(folder, "x").touch())
