"""How bytes are framed that are saved in one piece.

A frame is a word with the version of its format as its last byte, a CRC of the content, then the content. So before
any of it is read it is known whether it is something else, of another version, or damaged. What is packed (`pack`:
snapshots, what travels between stages, cells of state) is one frame: a JSON header that lists named arrays, then their
bytes.

Documents that people and other programs read (`sealed`: manifests, notes beside an output) stay JSON. They have their
checksum under a name of its own: one flipped byte of a number would otherwise still be a number, and another answer.
Documents from before there were checksums have none, and are read as they are.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.errors import FoglineError, SnapshotError, other_format

MAGIC = b"FOGLINE\x08"  # the last byte is the version of the format
COARSE_SUMS = 7  # up to this version sums had one word; the rest of it is the same
CHECKSUM = "checksum"

_HEX = re.compile("[0-9a-f]{8}")
_CRC = struct.Struct("<I")
_MISFITS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
    struct.error, pa.ArrowException,
)  # fmt: skip

Arrays = dict[str, NDArray[Any]]


# --- Frames -----------------------------------------------------------------------------------------------------------


def framed(magic: bytes, content: bytes) -> bytes:
    """The content in a frame; `magic`: a word, and the version of the format."""
    return magic + _CRC.pack(zlib.crc32(content)) + content


def unframed(
    magic: bytes, saved: bytes, what: str, *, known: Collection[int] = (), way_out: str = "begin anew without it"
) -> tuple[int, bytes]:
    """The version and the content of a frame; an error for anything else.

    `known`: older versions that are read, too. `way_out`: what else can be done with an unknown one.

    >>> unframed(b"TEST\\x02", framed(b"TEST\\x02", b"..."), "test")
    (2, b'...')
    """
    size = len(magic)
    if saved[: size - 1] != magic[:-1]:
        raise SnapshotError(f"this is no {what}.")
    version = (saved[size - 1 : size] or b"\0")[0]
    if version != magic[-1] and version not in known:
        raise SnapshotError(other_format(f"this {what}", version, magic[-1], way_out))
    content = saved[size + _CRC.size :]
    if saved[size : size + _CRC.size] != _CRC.pack(zlib.crc32(content)):
        raise SnapshotError(f"this {what} is cut short or damaged.")
    return version, content


@contextmanager
def whole(what: str) -> Iterator[None]:
    """Within, what was saved is read: parts that do not fit each other are damage, whatever the checksum is."""
    try:
        yield
    except FoglineError:
        raise
    except _MISFITS as error:
        raise SnapshotError(f"this {what} is damaged: its parts do not fit each other.") from error


# --- Arrays -----------------------------------------------------------------------------------------------------------


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """One bytes object of a header (JSON) and named arrays of numbers; for other values see `as_bytes`."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    listing = [[name, array.dtype.str, list(array.shape)] for name, array in plain.items()]
    head = json.dumps({**header, "arrays": listing}).encode()
    return framed(MAGIC, b"".join((struct.pack("<Q", len(head)), head, *(array.tobytes() for array in plain.values()))))


def unpack(saved: Any, what: str = "snapshot of a monitor") -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays again: `pack`'s inverse. The arrays may be written to."""
    plain = bytes(saved) if isinstance(saved, bytes | bytearray | memoryview) else b""
    version, content = unframed(MAGIC, plain, what, known=(COARSE_SUMS,))
    with whole(what):
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8 : 8 + length])
        arrays, at = {}, 8 + length
        for name, kind, shape in header["arrays"]:
            arrays[name] = np.frombuffer(content, kind, math.prod(shape), at).reshape(shape).copy()  # beyond the end is
            at += arrays[name].nbytes  # an error, so a length that is too large takes no memory
        if version == COARSE_SUMS and "logs" in arrays:  # too coarse to go on with: a count of -1 has them made anew
            arrays["logs"] = np.zeros((len(arrays["logs"]), 2), np.int64)
            arrays["zeros"] = np.full(len(arrays["zeros"]), -1, np.int64)
        return header, arrays


def as_bytes(values: Any, kind: pa.DataType | None) -> NDArray[np.uint8]:
    """Python values of one Arrow type as an array of bytes."""
    batch = pa.record_batch([pa.array(values, kind)], names=["values"])
    return table_as_bytes(pa.Table.from_batches([batch]))


def from_bytes(saved: NDArray[np.uint8]) -> tuple[list[Any], pa.DataType]:
    """The values and their type again: `as_bytes`' inverse."""
    column = table_from_bytes(saved).column(0)
    return column.to_pylist(), column.type


def table_as_bytes(table: pa.Table) -> NDArray[np.uint8]:
    """A table as an array of bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def table_from_bytes(saved: Any) -> pa.Table:
    """The table again, of an array or of a bytes object: `table_as_bytes`' inverse."""
    return pa.ipc.open_stream(pa.py_buffer(saved)).read_all()


# --- Documents --------------------------------------------------------------------------------------------------------


def sealed(values: Mapping[str, Any]) -> str:
    """The values as JSON, with their checksum.

    >>> opened(sealed({"a": 1})), opened(sealed({"a": 1}).replace("1", "2", 1))
    ({'a': 1}, None)
    """
    plain = {name: value for name, value in values.items() if name != CHECKSUM}
    return json.dumps({**plain, CHECKSUM: _checksum(plain)}, indent=1)


def opened(text: str | bytes) -> dict[str, Any] | None:
    """The values of a JSON object, without their checksum; None: it is no object, or not what was written."""
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            return None
        last = found.get(next(reversed(found), ""))
        if CHECKSUM not in found and isinstance(last, str) and _HEX.fullmatch(last):  # its name is damaged
            return None
        expected = found.pop(CHECKSUM, None)
        return found if expected is None or expected == _checksum(found) else None
    except (ValueError, RecursionError):
        return None


def _checksum(values: Mapping[str, Any]) -> str:
    plain = json.dumps(json.loads(json.dumps(values)), sort_keys=True)  # as it will be read
    return f"{zlib.crc32(plain.encode()):08x}"
