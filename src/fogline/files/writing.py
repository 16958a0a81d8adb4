"""How are rows written as a folder of files of the kind that its name shows?"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from fogline.durable import make_folder, must_be_writable, sync
from fogline.errors import FoglineError
from fogline.files.listing import is_local, kind_of


def check_output(path: str, *, overwrite: bool) -> str:
    """May this be written? Returns the kind of files it will hold."""
    kind = kind_of(path, existing=False)
    if not overwrite and is_local(path) and Path(path).exists():
        raise FoglineError(f"{path!r} is there already; choose another place, or overwrite it (--overwrite).")
    if is_local(path):
        must_be_writable(path)
    return kind


def write_folder(rows: pa.Table, path: str, *, overwrite: bool) -> None:
    """The rows as a folder with one file of the kind that the folder's suffix names, all of it or nothing."""
    kind, place = check_output(path, overwrite=overwrite), Path(path)
    make_folder(place.absolute().parent)
    draft, old = (place.with_name(f".{place.name}.{word}") for word in ("new", "old"))
    _remove(draft)
    draft.mkdir()
    try:
        write_file(rows, kind, draft / f"part-00000.{kind}")
        sync(draft / f"part-00000.{kind}")
        sync(draft)
        if overwrite and place.exists():
            _remove(old)
            place.replace(old)
            sync(place.parent)  # the old ones are out of the way before the new ones come, also on disk
        _name(draft, place, old)
        sync(place.parent)
        _try_to_remove(old)
    finally:
        _try_to_remove(draft)


def _name(draft: Path, place: Path, old: Path) -> None:
    """The draft gets its name; if that fails, what was there has it again."""
    try:
        draft.replace(place)
    except OSError:
        with suppress(OSError):
            old.replace(place)
        raise


def _remove(path: Path) -> None:
    """It is there no longer."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _try_to_remove(path: Path) -> None:
    """What is hidden is in no one's way, and removed by the next one, too."""
    with suppress(OSError):
        _remove(path)


def write_file(rows: pa.Table, kind: str, path: Path) -> None:
    """One file: parquet, csv, tsv or JSON lines."""
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "json":
        with path.open("w", encoding="utf-8") as file:
            for batch in rows.to_batches():
                file.writelines(f"{json.dumps(row, default=str)}\n" for row in batch.to_pylist())
    else:
        pc.write_csv(rows, path, pc.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
