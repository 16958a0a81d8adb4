"""Is a folder of rows there as a whole, the old one or the new one, whatever fails?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fogline.files.writing import write_folder

OLD, NEW = pa.table({"id": ["old"]}), pa.table({"id": ["new"]})


def test_rows_that_are_written_over_are_there_again_if_the_new_ones_cannot_get_their_name(tmp_path, monkeypatch):
    place = tmp_path / "rows.parquet"
    write_folder(OLD, str(place), overwrite=False)
    really = Path.replace

    def replace(path: Path, to: Path) -> Path:
        if path.name.endswith(".new"):
            raise OSError(5, "Input/output error")
        return really(path, to)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", replace)
        with pytest.raises(OSError, match="Input/output"):
            write_folder(NEW, str(place), overwrite=True)
    assert pq.read_table(place) == OLD
    assert [each.name for each in tmp_path.iterdir()] == [place.name]
    write_folder(NEW, str(place), overwrite=True)
    assert pq.read_table(place) == NEW
