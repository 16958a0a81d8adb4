"""How does an array lie in a file, and is it the one that was written?

A file holds one array, as NumPy writes it. Its reference, which the manifest lists, has its size and a checksum; both
are looked at when the file is opened, so that a copy which is torn is an error and not another answer. The checksum is
of the whole file, or, where that is large, of pieces that are spread evenly over it, both ends included: opening costs
a bounded time, however long the history is.

Whatever was written is on the disk, not only on its way there, when `put` or `write` returns.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fogline.errors import FoglineError, HistoryError
from fogline.kernels.forest import Forest
from fogline.kernels.sorted import Sorted
from fogline.query import Rule
from fogline.repository.access import Access, IndexAccess, SortedAccess, readonly
from fogline.repository.history import Column, Words
from fogline.repository.index import Index
from fogline.repository.lattice import Choice, Lattice
from fogline.repository.others import ByOthers, Linear
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.transition import Transition

if TYPE_CHECKING:
    from fogline.repository.access import Access


PIECES, PIECE = 256, 65_536  # of a file that is larger than all of them together, so many are looked at

Reference = list[Any]  # name, size in bytes, checksum: as JSON has it


class Files:
    """Arrays of one folder, by reference. `part` begins the names of those that are put."""

    def __init__(self, folder: Path, part: str = "") -> None:
        self.folder, self.part = folder, part
        self.count = 0
        self.written: dict[int, dict[str, Any]] = {}  # by id: the entry of what several parts share
        self.read: dict[str, Access] = {}  # by entry: the same, read once

    def put(self, array: NDArray[Any]) -> Reference:
        """Write an array."""
        self.count += 1
        path = self.folder / f"{self.part}-{self.count}.npy"
        with path.open("wb") as file:
            np.save(file, array)
            file.flush()
            os.fsync(file.fileno())
        return [path.name, path.stat().st_size, checksum(path)]

    def get(self, reference: Reference) -> NDArray[Any]:
        """An array, read-only and not copied. (An empty one cannot be mapped.)"""
        name, size, expected = reference
        if Path(name).name != name:
            raise _torn(self.folder, f"names {name!r}, which is no file of this folder")
        path = self.folder / name
        try:
            found = path.stat().st_size
            if found != size:
                raise _torn(path, f"has {found:,} bytes where {size:,} were written")
            if checksum(path) != expected:
                raise _torn(path, f"has the {size:,} bytes that were written, but not the same ones")
            return np.asarray(np.load(path, mmap_mode="r") if size > 128 else np.load(path))
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


def must_be_writable(path: str | Path) -> None:
    """An error, before any work, where nothing could be written to this place: it need not be there yet."""
    place = Path(path).absolute()
    there = next(each for each in (place, *place.parents) if each.exists())
    if there != place and not there.is_dir():
        raise FoglineError(f"{str(path)!r} cannot be written: {str(there)!r} is a file, where a folder is needed.")
    if not os.access(there, os.W_OK):
        raise FoglineError(f"{str(path)!r} cannot be written: this user may not write to {str(there)!r}.")


def checksum(path: Path, size: int | None = None) -> int:
    """Of a file, or of its first bytes; where these are many, of pieces of them."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size if size is None else size
        if size <= PIECES * PIECE:
            return zlib.crc32(file.read(size))
        found = 0
        for k in range(PIECES):
            file.seek((size - PIECE) * k // (PIECES - 1))
            found = zlib.crc32(file.read(PIECE), found)
        return found


def write(path: Path, content: str) -> None:
    """A file that is there whole, or as it was before. Writers at the same time do not meet: the last one counts."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):  # what went wrong before is what counts
            fresh.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """A file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that has no such thing
            raise
    finally:
        os.close(opened)


def make_folder(folder: Path) -> None:
    """The folder, and those above it, are there and stay."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


# --- entries ---
# How do the parts of a repository become arrays on disk, and parts again?
#
# `put_…` writes the arrays of a part and returns its entry in the manifest, which is plain JSON; `get_…` makes the
# part
# of an entry, with its arrays mapped, not copied.

Entry = dict[str, Any]


def put_rule(rule: Rule) -> Entry:
    """The entry of a rule: Rule(**entry) is the same again."""
    return {"given": dict(rule.given), "then": rule.then, "within": rule.within}


def put_column(column: Column, files: Files) -> Entry:
    """Write a column."""
    return {
        "values": files.put(column.values),
        "words": None if column.words is None else put_words(column.words, files),
    }


def get_column(saved: Mapping[str, Any], files: Files) -> Column:
    """The column of an entry."""
    return Column(files.get(saved["values"]), None if saved["words"] is None else get_words(saved["words"], files))


def put_words(words: Words, files: Files) -> list[Reference]:
    """Write words."""
    return [files.put(array) for array in words.arrays()]


def get_words(saved: list[Reference], files: Files) -> Words:
    """The words of an entry."""
    ends, letters = map(files.get, saved)
    return Words.from_arrays(ends, letters)


def put_lattice(lattice: Lattice, files: Files) -> Entry:
    """Write a lattice with its accesses; its rules are those of the repository."""
    choices = [
        {
            "rules": each.rules,
            "given": dict(each.given),
            "expected": each.expected,
            "measured": dict(each.measured),
            "access": _put_access(each.access, files),
        }
        for each in lattice.choices
    ]
    level_0 = {"values": files.put(lattice.values), "counts": files.put(lattice.counts)}
    return {"then": lattice.then, **level_0, "choices": choices}


def get_lattice(saved: Mapping[str, Any], rules: tuple[Rule, ...], files: Files) -> Lattice:
    """The lattice of an entry, in a repository with these rules."""
    choices = tuple(
        Choice(
            tuple(each["rules"]),
            each["given"],
            each["expected"],
            _get_access(each["access"], files),
            each["measured"],
        )
        for each in saved["choices"]
    )
    usable = tuple(rule for rule in rules if rule.then == saved["then"])
    return Lattice(saved["then"], usable, choices, files.get(saved["values"]), files.get(saved["counts"]))


def _put_access(access: Access, files: Files) -> Entry:
    if id(access) not in files.written:
        if isinstance(access, SortedAccess):
            arrays = {name: files.put(array) for name, array in access.table._asdict().items()}
            about = {"kind": "sorted", "lead": access.lead, "key": access.key, "others": access.others}
        else:
            assert isinstance(access, IndexAccess)
            arrays = {name: files.put(array) for name, array in access.index.arrays().items()}
            about = {"kind": "index", "names": access.names}
        files.written[id(access)] = {"arrays": arrays, **about}
    return files.written[id(access)]


def _get_access(saved: Entry, files: Files) -> Access:
    key = json.dumps(saved, sort_keys=True)
    if key not in files.read:
        arrays = {name: files.get(file) for name, file in saved["arrays"].items()}
        if saved["kind"] == "sorted":
            table = Sorted(**{name: readonly(array) for name, array in arrays.items()})
            files.read[key] = SortedAccess(table, saved["lead"], saved["key"], tuple(saved["others"]))
        else:
            files.read[key] = IndexAccess(Index.from_arrays(arrays), tuple(saved["names"]))
    return files.read[key]


def put_forest(forest: Forest, files: Files) -> Entry:
    """Write trees."""
    return {name: files.put(array) for name, array in forest._asdict().items()}


def get_forest(saved: Mapping[str, Any], files: Files) -> Forest:
    """The trees of an entry."""
    return Forest(**{name: readonly(files.get(file)) for name, file in saved.items()})


_NUMBERS = ("step", "oldest", "pad", "error", "without", "nothing", "error_last", "error_between")  # of a transition


def put_transition(transition: Transition, files: Files) -> Entry:
    """Write a transition."""
    return {
        "before": put_forest(transition.before, files),
        "between": None if transition.between is None else put_forest(transition.between, files),
        "grid": files.put(transition.grid),
        "whole": files.put(transition.whole),
        "widths": files.put(transition.widths),
        **{name: getattr(transition, name) for name in _NUMBERS},
    }


def get_transition(saved: Mapping[str, Any], files: Files) -> Transition:
    """The transition of an entry."""
    return Transition(
        get_forest(saved["before"], files),
        None if saved["between"] is None else get_forest(saved["between"], files),
        readonly(files.get(saved["grid"])),
        whole=readonly(files.get(saved["whole"])),
        widths=readonly(files.get(saved["widths"])),
        **{name: saved[name] for name in _NUMBERS},
    )


def put_others(others: ByOthers, files: Files) -> Entry:
    """Write what other attributes explain about one."""
    trees = {name: files.put(array) for name, array in others.trees._asdict().items()}
    lines = None if others.lines is None else [files.put(array) for array in others.lines]
    about = {name: getattr(others, name) for name in ("given", "step", "error", "without", "nothing")}
    return {"trees": trees, "lines": lines, "grid": files.put(others.grid), **about}


def get_others(saved: Mapping[str, Any], files: Files) -> ByOthers:
    """What other attributes explain, of an entry."""
    trees = Forest(**{name: readonly(files.get(file)) for name, file in saved["trees"].items()})
    lines = None if saved["lines"] is None else Linear(*(readonly(files.get(file)) for file in saved["lines"]))
    grid, about = readonly(files.get(saved["grid"])), (saved[name] for name in ("step", "error", "without", "nothing"))
    return ByOthers(tuple(saved["given"]), lines, trees, grid, *about)


def put_sensors(
    sensors: SensorModel | None, files: Files, transitions: Mapping[str, Entry] | None = None
) -> Entry | None:
    """Write a model of sensors; `transitions`: their entries, where they are written already."""
    if sensors is None:
        return None
    written = {name: put_transition(each, files) for name, each in sensors.transitions.items() if transitions is None}
    return {
        "names": sensors.names,
        "keys": sensors.keys,
        "longest": None if np.isinf(sensors.longest) else sensors.longest,
        "transitions": written if transitions is None else dict(transitions),
        "recent": [put_rule(rule) for rule in sensors.recent],
        "time": sensors.time,
        "sensors": [put_words(Words(part), files) for part in sensors.known],
        "times": files.put(sensors.times),
        "values": files.put(sensors.values),
    }


def get_sensors(saved: Mapping[str, Any] | None, files: Files) -> SensorModel | None:
    """The model of an entry."""
    if saved is None:
        return None
    return SensorModel(
        tuple(saved["names"]),
        tuple(saved["keys"]),
        np.inf if saved["longest"] is None else saved["longest"],
        {name: get_transition(each, files) for name, each in saved["transitions"].items()},
        tuple(Rule(**each) for each in saved["recent"]),
        saved["time"],
        tuple(get_words(each, files).texts for each in saved["sensors"]),
        files.get(saved["times"]),
        files.get(saved["values"]),
    )
