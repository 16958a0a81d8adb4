"""Is a Parquet file of an output what was written there?

Pages are written with checksums (`CHECKED`), which are looked at whenever Fogline reads them: a damaged page is an
error that names its file, and never another answer. (Of the footer, Parquet has no checksum.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.listed import opened

CHECKED = {"write_page_checksum": True}  # how files of an output are written


class KeptFile:
    """A file that was listed, to be read as a whole or in row groups."""

    def __init__(self, place: Folder, name: str) -> None:
        self.name = name
        found = opened(place, name)
        with self.named():
            self.file = pq.ParquetFile(found, page_checksum_verification=True)
        self.metadata, self.schema_arrow = self.file.metadata, self.file.schema_arrow
        self.num_row_groups: int = self.file.num_row_groups

    def read(self, columns: list[str] | None = None) -> pa.Table:
        with self.named():
            return self.file.read(columns)

    def read_row_group(self, k: int, columns: Any = None) -> pa.Table:
        with self.named():
            return self.file.read_row_group(k, columns)

    @contextmanager
    def named(self) -> Iterator[None]:
        """What goes wrong here is damage to this file."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = next((line.strip(" .") for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise self.damaged(reason) from error

    def damaged(self, reason: str) -> FoglineError:
        """The error that names it."""
        return FoglineError(
            f"{self.name!r} of the output is damaged, and cannot be read: {reason}. Put back a good copy of it, or "
            "choose another output."
        )
