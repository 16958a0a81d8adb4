"""How does a monitor outlive its process?

Everything a monitor knows as flat arrays in one bytes object: a magic word with the version, a JSON header that lists
the arrays, then their bytes. Only the live set is state, with the members' sums of logarithms: integers, so that a
restored monitor goes on bit for bit.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.errors import SnapshotError
from fogline.model import Query
from fogline.repository.sensors.state import READINGS, SensorState

MAGIC = b"FOGLINE\x03"  # the last byte is the version of the format

Arrays = dict[str, NDArray[Any]]


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """One bytes object of a header (JSON) and named arrays; objects are not allowed, see `as_bytes`."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    listing = [[name, array.dtype.str, list(array.shape)] for name, array in plain.items()]
    head = json.dumps({**header, "arrays": listing}).encode()
    body = b"".join((struct.pack("<Q", len(head)), head, *(array.tobytes() for array in plain.values())))
    return MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def unpack(saved: bytes, query: Query) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays again, if they belong to this query."""
    if not isinstance(saved, bytes | bytearray | memoryview) or bytes(saved[:7]) != MAGIC[:7]:
        raise SnapshotError("this is no snapshot of a monitor.")
    saved = bytes(saved)
    if saved[7:8] != MAGIC[7:]:
        raise SnapshotError(f"this snapshot has format {saved[7:8]!r}; this version of Fogline reads {MAGIC[7:]!r}.")
    if saved[8:12] != struct.pack("<I", zlib.crc32(saved[12:])):
        raise SnapshotError("this snapshot is cut short or damaged.")
    (length,) = struct.unpack_from("<Q", saved, 12)
    header = json.loads(saved[20 : 20 + length])
    arrays, at = {}, 20 + length
    for name, kind, shape in header["arrays"]:
        arrays[name] = np.frombuffer(saved, kind, int(np.prod(shape)), at).reshape(shape).copy()
        at += arrays[name].nbytes
    if header["query"] != query.fingerprint():
        raise SnapshotError(
            "this snapshot answers another query.\n"
            f"  it was made for {header['query']}\n  this query is    {query.fingerprint()}"
        )
    return header, arrays


def as_bytes(values: Any, kind: pa.DataType | None) -> NDArray[np.uint8]:
    """Python values of one Arrow type as an array of bytes."""
    column = pa.array(values, kind)
    batch = pa.record_batch([column], names=["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), np.uint8)


def from_bytes(saved: NDArray[np.uint8]) -> tuple[list[Any], pa.DataType]:
    """The inverse of `as_bytes`."""
    column = pa.ipc.open_stream(pa.py_buffer(saved.tobytes())).read_all().column(0)
    return column.to_pylist(), column.type


def pack_memory(memory: SensorState) -> bytes:
    """What sensors said, in one bytes object."""
    when, said = memory.arrays()
    names = json.dumps([*memory.number]).encode()
    head = struct.pack("<QQQ", len(names), len(when), memory.d)
    return b"".join((head, names, when.tobytes(), said.tobytes()))


def unpack_memory(saved: bytes, into: SensorState) -> SensorState:
    """The memory again: one of the same kind, with what was saved in it."""
    size, sensors, width = struct.unpack_from("<QQQ", saved)
    names = [tuple(each) for each in json.loads(saved[24 : 24 + size])]
    at = 24 + size
    shape = sensors, width, READINGS
    when = np.frombuffer(saved, np.float64, sensors * width * READINGS, at)
    said = np.frombuffer(saved, np.float64, sensors * width * READINGS, at + when.nbytes)
    return into.holding(names, when.reshape(shape), said.reshape(shape))
