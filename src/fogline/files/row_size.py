"""How many bytes of its file does a row take, about?

Of Parquet the footers state it. Of text the beginning of a few files shows it; a packed one is taken to be five times
as long, unpacked.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.files.blocks import head_of
from fogline.files.listing import PACKED as ENDS
from fogline.files.listing import files_of, kind_of_file, root_of, size_of
from fogline.files.paths import is_local

LOOKED = 5  # files that are looked at
PACKED = 5  # times that a packed file is longer, unpacked


def bytes_per_row(path: str) -> float | None:
    """Of the files of a stream; None: nothing there shows it."""
    files = files_of(path) if is_local(path) else []
    some = files[:: -(-len(files) // LOOKED)] if files else []
    size = rows = 0.0
    for each in some:
        with suppress(OSError, pa.ArrowException):  # what cannot be read is a reject, later
            counted = rows_of(str(each), root_of(path))
            if counted:
                size, rows = size + size_of(each), rows + counted
    return size / rows if rows else None


def rows_of(file: str, root: str) -> float:
    """How many rows a file has, about; 0 of one without a byte."""
    if kind_of_file(file, root) == "parquet":
        return float(pq.read_metadata(file).num_rows)
    head, whole = head_of(file, None), size_of(Path(file))
    if not head:
        return 0.0
    whole *= PACKED if Path(file).suffix.lstrip(".").lower() in ENDS else 1
    lines = max(head.count(b"\n"), 1)
    return lines if whole <= len(head) else lines * whole / len(head)
