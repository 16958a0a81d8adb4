"""Is a damaged file of an output an error that names it, wherever the damage lies?"""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fogline.errors import FoglineError
from fogline.output.answers import read_answer
from fogline.output.compaction import AnswerCheckpoint, read_answer_checkpoint, tables, write_answer_checkpoint
from fogline.output.folder import LocalFolder
from tests.flow.embedding import CASES, config_of, run, write_stream


def read(place: LocalFolder, truth: list[pa.Table]) -> str:
    """What is shown to those who read it; nothing, if it is the truth."""
    try:
        assert list(tables(place, "changes", after=-1)) == truth
    except FoglineError as error:
        return str(error)
    return ""


def test_a_flipped_byte_in_the_pages_is_an_error_with_the_name_of_the_file_or_changes_nothing(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    place, path = LocalFolder(tmp_path / "out"), tmp_path / "out" / "changes" / "batch-000000001.parquet"
    good, truth = path.read_bytes(), list(tables(place, "changes", after=-1))
    chance, named, pages = random.Random(1), 0, len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    for _ in range(200):
        bad = bytearray(good)
        bad[chance.randrange(pages)] ^= 1 << chance.randrange(8)
        path.write_bytes(bad)
        shown = read(place, truth)
        named += bool(shown)
        assert not shown or "'changes/batch-000000001.parquet' of the output is damaged" in shown
    assert named > 100


def test_a_flipped_byte_in_what_a_stand_knows_is_an_error_with_the_name_of_the_file_or_changes_nothing(tmp_path):
    place, name = LocalFolder(tmp_path), "answers/batch-000000007.parquet"
    answer = pa.table({"time": [1.0, 2.0], "id": ["a", "b"], "change": ["enter", "enter"]})
    write_answer_checkpoint(place, AnswerCheckpoint(7, 2.0, {}, 3, answer))
    good, truth = (tmp_path / name).read_bytes(), read_answer_checkpoint(place, name)
    named = 0
    for at in range(good.index(b"ARROW:schema"), len(good)):  # there it lies, beside the schema
        for bit in range(0, 8, 3):
            bad = bytearray(good)
            bad[at] ^= 1 << bit
            (tmp_path / name).write_bytes(bad)
            try:
                assert read_answer_checkpoint(place, name) == truth
            except FoglineError as error:
                named += f"{name!r} of the output is damaged" in str(error)
    assert named > 500


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all"])
def test_a_file_that_is_cut_or_another_is_named_by_those_who_read_the_answer(content, tmp_path):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    (tmp_path / "out" / "changes" / "batch-000000000.parquet").write_bytes(content)
    with pytest.raises(FoglineError, match=r"changes/batch-000000000\.parquet.*Put back a good copy"):
        read_answer(LocalFolder(tmp_path / "out"), "out")


def test_other_readers_of_parquet_see_the_same_rows(tmp_path):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    running = run(config_of(case, tmp_path))
    assert pq.read_table(tmp_path / "out" / "changes").num_rows == running.status.changes
