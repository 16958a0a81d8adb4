"""Is it known how many bytes a row takes, whatever lies among the files?"""

from __future__ import annotations

import gzip
from pathlib import Path

from fogline.files.one_file import LOOKED, bytes_per_row

TEXT = "id,t,x\n" + "1,2,3\n" * 999


def test_rows_of_text_are_counted_by_its_lines(tmp_path: Path):
    (tmp_path / "a.csv").write_text(TEXT)
    assert bytes_per_row(str(tmp_path)) == len(TEXT) / 1000


def test_files_without_a_byte_show_nothing(tmp_path: Path):
    """A batch of 0 bytes would be one file on Spark, and a total of n / 0 rows no estimate."""
    for k in range(LOOKED):
        (tmp_path / f"{k}.csv").touch()
    assert bytes_per_row(str(tmp_path)) is None
    (tmp_path / "empty.csv.gz").write_bytes(gzip.compress(b""))
    assert bytes_per_row(str(tmp_path)) is None
