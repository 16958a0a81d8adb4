"""How do the parts of a repository lie on disk, and are they what was written?

`Files.put` writes a value: its arrays into files, one each, as NumPy writes them; all else becomes an entry, which is
plain JSON. `Files.get` makes the value of an entry again, with its arrays mapped into memory, not copied. A value is an
array, texts, a number, a mapping, a sequence, or one of the classes of a repository (`CLASSES`), field by field. So a
class whose fields change needs nothing here but another version of the format (`store.FORMAT`).

The reference of a file has its size and a checksum. Both are looked at when it is opened, so that a torn copy is an
error and not another answer. The checksum is of the whole file, or, where that is large, of pieces that are spread
evenly over it, both ends included: opening takes a bounded time, however long the history is.

What was written is on the disk, not only on its way there, when `put` or `write` returns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.durable import checksum
from fogline.errors import FoglineError, HistoryError
from fogline.kernels.forest import Forest
from fogline.kernels.rtree import RTree
from fogline.kernels.sorted import Sorted
from fogline.query import Rule
from fogline.repository.access import SortedAccess, TreeAccess, readonly
from fogline.repository.history import Column, History, Words
from fogline.repository.lattice import Choice, Lattice
from fogline.repository.others import ByOthers, Linear
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.transition import Transition

ARRAY, TEXTS, MAPPING = "array", "texts", "mapping"  # what an entry {kind: content} is, if not the name of a class
_CLASSES: tuple[Any, ...] = (
    Rule, Words, Column, History, Choice, Lattice, SortedAccess, Sorted, TreeAccess, RTree, Linear, ByOthers, Forest,
    Transition, SensorModel,
)  # fmt: skip
CLASSES = {each.__name__: each for each in _CLASSES}
FIELDS = {each: getattr(each, "_fields", None) or tuple(one.name for one in fields(each)) for each in _CLASSES}

Entry = Any  # as JSON has it: None, a number, a text, a list of entries, or {kind: content}
Reference = list[Any]  # of a file: name, size in bytes, checksum


class Files:
    """The values of one folder. `part` begins the names of the files that are put."""

    def __init__(self, folder: Path, part: str = "array") -> None:
        self.folder, self.part = folder, part
        self.count = 0
        self.known: dict[int, tuple[Any, Entry]] = {}  # by id: arrays and texts that lie in the folder already
        self.read: dict[str, Any] = {}  # by entry: the same, each mapped once

    def put(self, value: Any) -> Entry:
        """The entry of a value, whose arrays are in the folder now; what is there already is not written again."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if id(value) in self.known:
            return self.known[id(value)][1]
        if isinstance(value, np.ndarray):
            return self._remember(value, {ARRAY: self._write(value)})
        if isinstance(value, pa.Array):
            return self._remember(value, {TEXTS: [self._write(array) for array in Words(value).arrays()]})
        if isinstance(value, Mapping):
            return {MAPPING: {name: self.put(each) for name, each in value.items()}}
        if type(value) in FIELDS:
            return {type(value).__name__: {name: self.put(getattr(value, name)) for name in FIELDS[type(value)]}}
        if isinstance(value, Sequence):
            return [self.put(each) for each in value]
        raise TypeError(f"{type(value).__name__} is nothing that a repository holds")

    def get(self, entry: Entry) -> Any:
        """The value of an entry; sequences are tuples, arrays read-only."""
        if isinstance(entry, list):
            return tuple(map(self.get, entry))
        if not isinstance(entry, dict):
            return entry
        ((kind, content),) = entry.items()
        if kind not in (ARRAY, TEXTS):
            values = {name: self.get(each) for name, each in content.items()}
            return values if kind == MAPPING else CLASSES[kind](**values)
        if (key := repr(entry)) not in self.read:
            array = kind == ARRAY
            value = self._read(*content) if array else Words.from_arrays(*(self._read(*each) for each in content)).texts
            self._remember(value, entry)
            self.read[key] = value
        return self.read[key]

    def _remember(self, value: Any, entry: Entry) -> Entry:
        self.known[id(value)] = value, entry  # with the value, so that nothing else gets its id
        return entry

    def _write(self, array: NDArray[Any]) -> Reference:
        self.count += 1
        path = self.folder / f"{self.part}-{self.count}.npy"
        with path.open("wb") as file:
            np.save(file, array)
            file.flush()
            os.fsync(file.fileno())
        return [path.name, path.stat().st_size, checksum(path)]

    def _read(self, name: str, size: int, expected: int) -> NDArray[Any]:
        """The array of a file, if that is the one that was written. (An empty one cannot be mapped.)"""
        if Path(name).name != name:
            raise _torn(self.folder, f"names {name!r}, which is no file of this folder")
        path = self.folder / name
        try:
            found = path.stat().st_size
            if found != size:
                raise _torn(path, f"has {found:,} bytes where {size:,} were written")
            if checksum(path) != expected:
                raise _torn(path, f"has the {size:,} bytes that were written, but not the same ones")
            return readonly(np.load(path, mmap_mode="r") if size > 128 else np.load(path))
        except FileNotFoundError:
            raise _torn(path, "is not there") from None
        except FoglineError:
            raise
        except (ValueError, EOFError):  # it holds no array, or one of objects, which are never read
            raise _torn(path, "is no array of numbers") from None


def _torn(path: Path, what: str) -> HistoryError:
    return HistoryError(
        f"the repository is damaged: {str(path)!r} {what}. Is it a copy that was not finished? Copy its folder again."
    )
