"""How does a repository lie on disk?

A folder: `manifest.json` says what there is, and in which subfolder every array lies as a .npy file. Loading maps the
files into memory: nothing is copied, and processes of one machine share the pages.

Saving never writes into a file that may be mapped: arrays go into a new subfolder, the manifest is exchanged at once,
then the old subfolder goes. So a repository can be saved over the one it was loaded from; a crash leaves one of both.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fogline.errors import HistoryError
from fogline.kernels.sorted import Sorted
from fogline.model import Rule
from fogline.repository.history import Column, History
from fogline.repository.index import Index
from fogline.repository.lattice import Choice, Lattice
from fogline.repository.paths import IndexPath, SortedPath, readonly
from fogline.repository.paths import Path as Way

VERSION = 1


def save(folder: str | Path, history: History, rules: tuple[Rule, ...], lattices: Mapping[str, Lattice]) -> None:
    """Write everything; a folder that holds a repository is overwritten, any other is refused."""
    root = Path(folder)
    if root.exists() and any(root.iterdir()) and not (root / "manifest.json").exists():
        raise HistoryError(f"{str(root)!r} is not empty and holds no repository; choose another folder.")
    arrays = next(name for k in count() if not (root / (name := f"arrays-{k}")).exists())
    files = Files(root / arrays)
    manifest = {
        "format": VERSION,
        "arrays": arrays,
        "rows": history.rows,
        "columns": {
            name: {"values": files.put(column.values), "words": column.words}
            for name, column in history.columns.items()
        },
        "rules": [{"given": dict(rule.given), "then": rule.then, "within": rule.within} for rule in rules],
        "lattices": {name: _lattice(each, files) for name, each in lattices.items()},
    }
    fresh = root / "manifest.json.new"
    fresh.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    fresh.replace(root / "manifest.json")
    for old in root.glob("arrays-*"):
        if old.name != arrays:
            shutil.rmtree(old)


def load(folder: str | Path) -> tuple[History, tuple[Rule, ...], dict[str, Lattice]]:
    """The repository of a folder, mapped into memory."""
    root = Path(folder)
    try:
        manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HistoryError(
            f"there is no repository in {str(root)!r}; make one with Repository.fit(…).save(folder)."
        ) from None
    if manifest["format"] != VERSION:
        raise HistoryError(f"{str(root)!r} has format {manifest['format']}; this version of Fogline reads {VERSION}.")
    files = Files(root / manifest["arrays"])
    columns = {
        name: Column(files.get(each["values"]), None if each["words"] is None else tuple(each["words"]))
        for name, each in manifest["columns"].items()
    }
    rules = tuple(Rule(**each) for each in manifest["rules"])
    ways: dict[str, Way] = {}
    lattices = {name: _read_lattice(name, each, rules, files, ways) for name, each in manifest["lattices"].items()}
    return History(columns, manifest["rows"]), rules, lattices


class Files:
    """Arrays by number, and the paths made of them: one that several combinations share is written once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.ways: dict[int, dict[str, Any]] = {}

    def put(self, array: NDArray[Any]) -> str:
        """Write an array; returns its name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.count}.npy"
        np.save(self.folder / name, array)
        self.count += 1
        return name

    def get(self, name: str) -> NDArray[Any]:
        """An array, read-only and not copied. (An empty one cannot be mapped.)"""
        path = self.folder / name
        array = np.load(path, mmap_mode="r") if path.stat().st_size > 128 else np.load(path)
        return np.asarray(array)


def _lattice(lattice: Lattice, files: Files) -> dict[str, Any]:
    return {
        "values": files.put(lattice.values),
        "counts": files.put(lattice.counts),
        "choices": [
            {
                "rules": each.rules,
                "given": dict(each.given),
                "expected": each.expected,
                "path": _way(each.path, files),
            }
            for each in lattice.choices
        ],
    }


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
        Choice(tuple(each["rules"]), each["given"], each["expected"], _read_way(each["path"], files, ways))
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
