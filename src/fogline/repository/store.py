"""How does a repository lie on disk?

A folder: `manifest.json` lists what there is, and in which subfolder every array lies as a .npy file. Loading maps the
files into memory: nothing is copied, and processes of one machine share the pages.

Saving never writes into a file that may be mapped: arrays go into a new subfolder, the manifest is exchanged at once,
then the old subfolder goes. So a repository can be saved over the one it was loaded from; a crash leaves one of both.
"""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from fogline.errors import HistoryError
from fogline.model import Rule
from fogline.repository import entries
from fogline.repository.entries import Files
from fogline.repository.fit import Fitted
from fogline.repository.history import History

VERSION = 4
MANIFEST = "manifest.json"


class Entries(NamedTuple):
    """What the manifest lists of a repository's arrays."""

    columns: dict[str, Any]
    lattices: dict[str, Any]
    sensors: Any


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

    def finish(self, fitted: Fitted, fingerprint: str, written: Entries) -> None:
        """Name what was written, all at once, and remove what it replaces."""
        manifest = {
            "format": VERSION,
            "arrays": self.arrays.name,
            "fingerprint": fingerprint,
            "rows": fitted.history.rows,
            "rules": [entries.put_rule(rule) for rule in fitted.rules],
            "method": fitted.method,
            **written._asdict(),
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


def save(folder: str | Path, fitted: Fitted, fingerprint: str) -> None:
    """Write everything."""
    draft = Draft(folder)
    files = draft.files("column")
    columns = {name: entries.put_column(column, files) for name, column in fitted.history.columns.items()}
    lattices = {
        name: entries.put_lattice(each, draft.files(f"lattice-{k}"))
        for k, (name, each) in enumerate(fitted.lattices.items())
    }
    sensors = entries.put_sensors(fitted.sensors, draft.files("sensors"))
    draft.finish(fitted, fingerprint, Entries(columns, lattices, sensors))


def load(folder: str | Path) -> tuple[Fitted, str]:
    """The repository of a folder, mapped into memory, and its fingerprint."""
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
    columns = {name: entries.get_column(each, files) for name, each in manifest["columns"].items()}
    rules = tuple(Rule(**each) for each in manifest["rules"])
    lattices = {name: entries.get_lattice(each, rules, files) for name, each in manifest["lattices"].items()}
    sensors = entries.get_sensors(manifest["sensors"], files)
    history = History(columns, manifest["rows"])
    return Fitted(history, rules, lattices, sensors, manifest["method"]), manifest["fingerprint"]
