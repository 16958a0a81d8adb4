"""How does a repository lie on disk?

A folder: `manifest.json` says what there is, and in which subfolder every array lies as a .npy file. Loading maps the
files into memory: nothing is copied, and processes of one machine share the pages.

Saving never writes into a file that may be mapped: arrays go into a new subfolder, the manifest is exchanged at once,
then the old subfolder goes. So a repository can be saved over the one it was loaded from; a crash leaves one of both.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fogline.errors import HistoryError
from fogline.kernels.sorted import Sorted
from fogline.model import Rule
from fogline.repository.access.index import Index
from fogline.repository.access.paths import IndexPath, SortedPath, readonly
from fogline.repository.access.paths import Path as Way
from fogline.repository.history import Column, History
from fogline.repository.lattice import Choice, Lattice
from fogline.repository.sensors.model import Forest, SensorModel, Transition

VERSION = 3
MANIFEST = "manifest.json"


class Stored(NamedTuple):
    """What a folder holds."""

    history: History
    rules: tuple[Rule, ...]
    lattices: dict[str, Lattice]
    sensors: SensorModel | None
    method: str
    fingerprint: str


class Draft:
    """A repository being written: its arrays lie in a subfolder of their own, and count once `finish` names them."""

    def __init__(self, folder: str | Path) -> None:
        check_folder(folder)
        self.root = Path(folder).absolute()
        self.arrays = next(path for k in count() if not (path := self.root / f"arrays-{k}").exists())
        self.arrays.mkdir(parents=True)

    def files(self, part: str) -> Files:
        """A place for the arrays of one part; parts may be written at the same time."""
        return Files(self.arrays, part)

    def finish(
        self,
        rows: int,
        columns: Mapping[str, Any],
        rules: Sequence[Rule],
        lattices: Mapping[str, Any],
        sensors: Any,
        method: str,
        fingerprint: str,
    ) -> None:
        """Name what was written, all at once, and remove what it replaces."""
        manifest = {
            "format": VERSION,
            "arrays": self.arrays.name,
            "fingerprint": fingerprint,
            "rows": rows,
            "columns": columns,
            "rules": [_plain(rule) for rule in rules],
            "lattices": lattices,
            "sensors": sensors,
            "method": method,
        }
        fresh = self.root / f"{MANIFEST}.new"
        fresh.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        fresh.replace(self.root / MANIFEST)
        for old in self.root.glob("arrays-*"):
            if old != self.arrays:
                shutil.rmtree(old)

    def discard(self) -> None:
        """Leave things as they were."""
        shutil.rmtree(self.arrays, ignore_errors=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()


def check_folder(folder: str | Path) -> None:
    """May a repository be written here?"""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise HistoryError(f"{str(folder)!r} is a file; a repository is a folder.")
    if root.exists() and any(root.iterdir()) and not (root / MANIFEST).exists():
        raise HistoryError(f"{str(folder)!r} is not empty and holds no repository; choose another folder.")


def save(folder: str | Path, stored: Stored) -> None:
    """Write everything."""
    draft = Draft(folder)
    files = draft.files("column")
    columns = {name: put_column(column, files) for name, column in stored.history.columns.items()}
    lattices = {
        name: put_lattice(each, draft.files(f"lattice-{k}")) for k, (name, each) in enumerate(stored.lattices.items())
    }
    sensors = put_sensors(stored.sensors, draft.files("sensors"))
    draft.finish(stored.history.rows, columns, stored.rules, lattices, sensors, stored.method, stored.fingerprint)


def load(folder: str | Path) -> Stored:
    """The repository of a folder, mapped into memory."""
    root = Path(folder)
    try:
        manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HistoryError(
            f"there is no repository in {str(root)!r}; make one with `fogline fit`, or Repository.fit(…).save(folder)."
        ) from None
    if manifest["format"] != VERSION:
        raise HistoryError(f"{str(root)!r} has format {manifest['format']}; this version of Fogline reads {VERSION}.")
    files = Files(root / manifest["arrays"])
    columns = {name: get_column(each, files) for name, each in manifest["columns"].items()}
    rules = tuple(Rule(**each) for each in manifest["rules"])
    ways: dict[str, Way] = {}
    lattices = {name: _read_lattice(name, each, rules, files, ways) for name, each in manifest["lattices"].items()}
    sensors = _read_sensors(manifest["sensors"], files)
    history = History(columns, manifest["rows"])
    return Stored(history, rules, lattices, sensors, manifest["method"], manifest["fingerprint"])


class Files:
    """Arrays by number, and the paths made of them: one that several combinations share is written once."""

    def __init__(self, folder: Path, part: str = "") -> None:
        self.folder, self.part = folder, part
        self.count = 0
        self.ways: dict[int, dict[str, Any]] = {}

    def put(self, array: NDArray[Any]) -> str:
        """Write an array; returns its name."""
        name = self.name()
        np.save(self.folder / name, array)
        return name

    def name(self) -> str:
        """The name of the next array."""
        self.count += 1
        return f"{self.part}-{self.count}.npy"

    def get(self, name: str) -> NDArray[Any]:
        """An array, read-only and not copied. (An empty one cannot be mapped.)"""
        path = self.folder / name
        array = np.load(path, mmap_mode="r") if path.stat().st_size > 128 else np.load(path)
        return np.asarray(array)


def put_column(column: Column, files: Files) -> dict[str, Any]:
    """Write a column; returns its entry in the manifest."""
    return {"values": files.put(column.values), "words": column.words}


def get_column(saved: Mapping[str, Any], files: Files) -> Column:
    """The column of an entry, mapped."""
    return Column(files.get(saved["values"]), None if saved["words"] is None else tuple(saved["words"]))


def put_lattice(lattice: Lattice, files: Files) -> dict[str, Any]:
    """Write a lattice with its paths; returns its entry in the manifest."""
    return {
        "values": files.put(lattice.values),
        "counts": files.put(lattice.counts),
        "choices": [
            {
                "rules": each.rules,
                "given": dict(each.given),
                "expected": each.expected,
                "measured": dict(each.measured),
                "path": _way(each.path, files),
            }
            for each in lattice.choices
        ],
    }


def _plain(rule: Rule) -> dict[str, Any]:
    return {"given": dict(rule.given), "then": rule.then, "within": rule.within}


def put_transition(transition: Transition, files: Files) -> dict[str, Any]:
    """Write a transition; returns its entry in the manifest."""
    changes = {name: files.put(array) for name, array in transition.changes._asdict().items()}
    about = {name: getattr(transition, name) for name in ("step", "error", "without")}
    return {"changes": changes, "grid": files.put(transition.grid), **about}


def get_transition(saved: Mapping[str, Any], files: Files) -> Transition:
    """The transition of an entry, mapped."""
    changes = Forest(**{name: readonly(files.get(file)) for name, file in saved["changes"].items()})
    return Transition(changes, readonly(files.get(saved["grid"])), saved["step"], saved["error"], saved["without"])


def put_sensors(sensors: SensorModel | None, files: Files) -> dict[str, Any] | None:
    """Write sensors with what sensors said last; returns their entry in the manifest."""
    if sensors is None:
        return None
    return {
        "names": sensors.names,
        "keys": sensors.keys,
        "longest": None if np.isinf(sensors.longest) else sensors.longest,
        "transitions": {name: put_transition(each, files) for name, each in sensors.transitions.items()},
        "recent": [_plain(rule) for rule in sensors.recent],
        "time": sensors.time,
        "sensors": sensors.known_sensors,
        "times": files.put(sensors.times),
        "values": files.put(sensors.values),
    }


def _read_sensors(saved: dict[str, Any] | None, files: Files) -> SensorModel | None:
    if saved is None:
        return None
    return SensorModel(
        tuple(saved["names"]),
        tuple(saved["keys"]),
        np.inf if saved["longest"] is None else saved["longest"],
        {name: get_transition(each, files) for name, each in saved["transitions"].items()},
        tuple(Rule(**each) for each in saved["recent"]),
        saved["time"],
        tuple(tuple(each) for each in saved["sensors"]),
        files.get(saved["times"]),
        files.get(saved["values"]),
    )


def _way(path: Way, files: Files) -> dict[str, Any]:
    if id(path) not in files.ways:
        if isinstance(path, SortedPath):
            arrays = {name: files.put(array) for name, array in path.table._asdict().items()}
            about = {"lead": path.lead, "key": path.key, "others": path.others}
        else:
            assert isinstance(path, IndexPath)
            arrays = {name: files.put(array) for name, array in path.index.arrays().items()}
            about = {"names": path.names}
        files.ways[id(path)] = {"kind": type(path).__name__, "arrays": arrays, **about}
    return files.ways[id(path)]


def _read_lattice(
    then: str, saved: dict[str, Any], rules: tuple[Rule, ...], files: Files, ways: dict[str, Way]
) -> Lattice:
    mine = tuple(rule for rule in rules if rule.then == then)
    choices = tuple(
        Choice(
            tuple(each["rules"]),
            each["given"],
            each["expected"],
            _read_way(each["path"], files, ways),
            each["measured"],
        )
        for each in saved["choices"]
    )
    return Lattice(then, mine, choices, files.get(saved["values"]), files.get(saved["counts"]))


def _read_way(saved: dict[str, Any], files: Files, ways: dict[str, Way]) -> Way:
    key = json.dumps(saved, sort_keys=True)
    if key not in ways:
        arrays = {name: files.get(file) for name, file in saved["arrays"].items()}
        if saved["kind"] == "SortedPath":
            table = Sorted(**{name: readonly(array) for name, array in arrays.items()})
            ways[key] = SortedPath(table, saved["lead"], saved["key"], tuple(saved["others"]))
        else:
            ways[key] = IndexPath(Index.from_arrays(arrays), tuple(saved["names"]))
    return ways[key]
