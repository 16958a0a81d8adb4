"""How does a text file, packed or not and of any encoding, come as blocks of whole lines in UTF-8?

A line ends with a line break, in quotes too: so each line has a number, and one that is broken harms no other. Bytes
that cp1252 does not know stay in their line, so that it is refused. When a file breaks off (a torn gzip, bytes that
another encoding does not know), the lines before come first, then the error; the line that broke off is not among them.
Where the first line shows that carriage returns alone end lines (as old programs write them), they do so in all of the
file.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints
from fogline.files.raw import Unreadable

SIZE = 8 * 2**20  # bytes of one block
STEP = 16 * 2**10  # bytes of a packed file that are unpacked at once: so many may be lost before a tear
LONGEST = 64 * 2**20  # bytes of a line: a small packed file may hold one that no memory holds
HEAD = 256 * 2**10  # bytes that are looked at before a file is read
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_AS_THEY_ARE = "surrogateescape"  # bytes that cannot be read
_BOM = codecs.BOM_UTF8


class Block(NamedTuple):
    """Whole lines."""

    data: bytes
    first: int  # the number of the first line, from 1 on

    def ends(self) -> Ints:
        """(lines,) where each line ends, before its line break."""
        breaks = np.flatnonzero(np.frombuffer(self.data, np.uint8) == 10)
        return breaks if self.data.endswith(b"\n") else np.append(breaks, len(self.data))


def opened(path: str, content: bytes | None) -> pa.NativeFile:
    """The bytes of a file, unpacked."""
    packed = _PACKED.get(Path(path).suffix.lower())
    source = pa.OSFile(path) if content is None else pa.BufferReader(content)
    return source if packed is None else pa.CompressedInputStream(source, packed)


def head_of(path: str, content: bytes | None) -> bytes:
    """The first bytes of a file, unpacked; of a torn one those before the tear; an error if there are none."""
    with opened(path, content) as source:
        return next(_pieces(source, HEAD), b"")


def _pieces(source: pa.NativeFile, size: int) -> Iterator[bytes]:
    """The bytes of a file, about so many at once; those before a tear come before its error."""
    found: list[bytes] = []
    held = 0
    while True:
        try:
            part = source.read(size if isinstance(source, pa.OSFile | pa.BufferReader) else STEP)
        except (OSError, pa.ArrowException):
            if found:
                yield b"".join(found)
            raise
        found.append(part)
        held += len(part)
        if held >= size or not part:
            yield b"".join(found)
            found, held = [], 0
        if not part:
            return


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder(encoding)(_AS_THEY_ARE if encoding == "cp1252" else "strict")


def _decoded(pieces: Iterable[bytes], decoder: codecs.IncrementalDecoder) -> Iterator[bytes]:
    """The pieces in UTF-8; what comes before bytes that cannot be read comes before their error."""
    for raw in pieces:
        state = decoder.getstate()
        try:
            text = decoder.decode(raw)
        except UnicodeDecodeError as error:
            decoder.setstate(state)
            yield decoder.decode(raw[: max(error.start - len(state[0]), 0)]).encode(errors=_AS_THEY_ARE)
            raise
        yield text.encode(errors=_AS_THEY_ARE)
    yield decoder.decode(b"", final=True).encode()


def blocks(path: str, content: bytes | None, encoding: str, size: int = SIZE) -> Iterator[Block]:
    """The lines of a file."""
    decoder = None if encoding in ("utf-8", "utf-8-sig") else _decoder(encoding)
    left, line, begun, returns = b"", 1, False, False
    with opened(path, content) as source:
        pieces = _pieces(source, size)
        for data in pieces if decoder is None else _decoded(pieces, decoder):
            if not begun and data:
                begun, data = True, data.removeprefix(_BOM)
                returns = b"\r" in data.partition(b"\n")[0][:-1]
            if returns:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            cut = data.rfind(b"\n") + 1
            if not cut:
                left += data
                if len(left) > LONGEST:
                    raise Unreadable(f"line {line:,} is longer than {LONGEST // 2**20} MB")
                continue
            whole = Block(left + data[:cut] if left else data[:cut], line)
            left = data[cut:]
            line += whole.data.count(b"\n")
            yield whole
    if left:
        yield Block(left, line)
