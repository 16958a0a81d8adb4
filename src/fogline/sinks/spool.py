"""How can record batches that come once be read several times, however many there are? They lie in a file meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa

from fogline.flow.sink import Batches


class Spool:
    """Record batches that were written to a file."""

    def __init__(self, file: IO[bytes], rows: int) -> None:
        self.file, self.rows = file, rows

    def read(self) -> Batches:
        """All of them, from the first on."""
        if not self.rows:
            return
        self.file.seek(0)
        with pa.ipc.open_stream(pa.PythonFile(self.file, "r")) as reader:
            yield from reader


@contextmanager
def spooled(batches: Batches) -> Iterator[Spool]:
    """The batches, to be read as often as needed."""
    with TemporaryFile(prefix="fogline-sink-") as file:
        writer, rows = None, 0
        for batch in batches:
            if writer is None:
                writer = pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
        yield Spool(file, rows)
