"""What does a worker see? Asked there, before the first batch, by a function that needs nothing but Python itself.

A worker may have no Fogline, or another: so `probe` is sent as code, not by name, imports what it needs where it needs
it, and refers to nothing else of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def probe(asked: dict[str, Any], numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
    """What the worker that has this number sees: its Python, versions of packages, the repository, shared folders.

    `asked`: packages, places (folders in which the driver has left a token), token, repository (folder, fingerprint).
    """
    import json
    import os
    import sys
    from importlib import import_module, metadata
    from pathlib import Path

    def version(name: str) -> str | None:
        try:
            there = name in ("fogline", "pyspark")  # these may lie in a folder or an archive on the path
            return str(import_module(name).__version__) if there else metadata.version(name)
        except (ImportError, AttributeError, metadata.PackageNotFoundError):
            return None

    def sees(place: str, number: int) -> str | None:
        """What is wrong with a folder that should be shared; None: nothing. Something is left there, too."""
        folder = Path(place)
        try:
            if (folder / "driver").read_text() != asked["token"]:
                return "not seen"
        except OSError as error:
            return "not seen" if isinstance(error, FileNotFoundError) else f"not read: {error}"
        try:
            (folder / str(number)).write_text(asked["token"])
        except OSError as error:
            return f"not written: {error}"
        return None

    def holds(folder: str, mark: str) -> str | None:
        """What is wrong with the repository there; None: nothing."""
        known = []
        for path in Path(folder).glob("version-*/manifest.json"):
            try:
                known.append(str(json.loads(path.read_text())["fingerprint"]))
            except (OSError, ValueError, KeyError):
                continue
        return None if mark in known else "other" if known else "none"

    for number in numbers:
        given = asked["repository"]
        yield {
            "number": number,
            "daemon": f"{os.uname().nodename} {os.getppid()}",  # one for each executor
            "python": ".".join(map(str, sys.version_info[:2])),
            "executable": sys.executable,
            "versions": {name: version(name) for name in asked["packages"]},
            "places": [sees(place, number) for place in asked["places"]],
            "repository": None if given is None else holds(*given),
        }
