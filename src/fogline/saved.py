"""Is a JSON document that was written here still what was written?

It has a checksum of all else that is in it, under a name of its own. One flipped byte of a number would otherwise still
be a number, and another answer. What was written before there were checksums has none, and is read as it is.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.errors import FoglineError, SnapshotError, other_format

CHECKSUM = "checksum"
_HEX = re.compile("[0-9a-f]{8}")


def sealed(values: Mapping[str, Any]) -> str:
    """The values as JSON, with their checksum.

    >>> opened(sealed({"a": 1})), opened(sealed({"a": 1}).replace("1", "2", 1))
    ({'a': 1}, None)
    """
    plain = {name: value for name, value in values.items() if name != CHECKSUM}
    return json.dumps({**plain, CHECKSUM: _checksum(plain)}, indent=1)


def opened(text: str | bytes) -> dict[str, Any] | None:
    """The values of a JSON object, without their checksum; None: it is none, or not what was written."""
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


# --- packing ---
# How do arrays become one bytes object, and arrays again?
#
# A magic word with the version of the format, a checksum, a JSON header that lists the arrays, then their bytes.
# Snapshots of monitors, parcels between stages and the state of sensors are all such objects.

_MISFITS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
    struct.error, pa.ArrowException,
)  # fmt: skip
MAGIC = b"FOGLINE\x08"  # the last byte is the version of the format
COARSE_SUMS = 7  # up to this version sums had one word; the rest of it is the same

Arrays = dict[str, NDArray[Any]]


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """One bytes object of a header (JSON) and named arrays; objects are not allowed, see `as_bytes`."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    listing = [[name, array.dtype.str, list(array.shape)] for name, array in plain.items()]
    head = json.dumps({**header, "arrays": listing}).encode()
    body = b"".join((struct.pack("<Q", len(head)), head, *(array.tobytes() for array in plain.values())))
    return MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def unpack(saved: Any, what: str = "snapshot of a monitor") -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays again: `pack`'s inverse. The arrays may be written to."""
    if not isinstance(saved, bytes | bytearray | memoryview) or bytes(saved[:7]) != MAGIC[:7]:
        raise SnapshotError(f"this is no {what}.")
    saved = bytes(saved)
    version = (saved[7:8] or b"\0")[0]
    if version not in (COARSE_SUMS, MAGIC[7]):
        raise SnapshotError(other_format(f"this {what}", version, MAGIC[7], "begin anew without it"))
    if saved[8:12] != struct.pack("<I", zlib.crc32(saved[12:])):
        raise SnapshotError(f"this {what} is cut short or damaged.")
    with whole(what):
        (length,) = struct.unpack_from("<Q", saved, 12)
        header = json.loads(saved[20 : 20 + length])
        arrays, at = {}, 20 + length
        for name, kind, shape in header["arrays"]:
            arrays[name] = np.frombuffer(saved, kind, math.prod(shape), at).reshape(shape).copy()  # what is not there
            at += arrays[name].nbytes  # is not read: a length beyond the end is an error, and takes no memory
        if version == COARSE_SUMS and "logs" in arrays:
            forget_sums(arrays)
        return header, arrays


def forget_sums(arrays: Arrays) -> None:
    """Sums that are too coarse to go on with: a count of -1 states that they are to be made anew."""
    arrays["logs"] = np.zeros((len(arrays["logs"]), 2), np.int64)
    arrays["zeros"] = np.full(len(arrays["zeros"]), -1, np.int64)


@contextmanager
def whole(what: str) -> Iterator[None]:
    """What is saved is opened here: if its parts do not fit each other, it is damaged, whatever its checksum is."""
    try:
        yield
    except FoglineError:
        raise
    except _MISFITS as error:
        raise SnapshotError(f"this {what} is damaged: its parts do not fit each other.") from error


def as_bytes(values: Any, kind: pa.DataType | None) -> NDArray[np.uint8]:
    """Python values of one Arrow type as an array of bytes."""
    batch = pa.record_batch([pa.array(values, kind)], names=["values"])
    return table_as_bytes(pa.Table.from_batches([batch]))


def from_bytes(saved: NDArray[np.uint8]) -> tuple[list[Any], pa.DataType]:
    """The inverse of `as_bytes`."""
    column = table_from_bytes(saved).column(0)
    return column.to_pylist(), column.type


def table_as_bytes(table: pa.Table) -> NDArray[np.uint8]:
    """A table as an array of bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def table_from_bytes(saved: Any) -> pa.Table:
    """The inverse of `table_as_bytes`; of an array or of a bytes object."""
    return pa.ipc.open_stream(pa.py_buffer(saved)).read_all()
