"""How do workers get at the repository?

By the name of its folder and its fingerprint: each worker process maps it into memory once, and processes of one
machine share the pages. Whatever has been saved into the folder since, a worker opens the version that the query was
started with, or none. A repository that lies in no folder yet is saved into a temporary one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from fogline.repository.repository import Repository
from fogline.spark.scratch import scratch


def shared(repository: Repository) -> Callable[[], Repository]:
    """A function that a worker calls for the repository."""
    folder = repository.folder or _saved(repository)
    mark = repository.fingerprint

    def opened() -> Repository:
        return _load(str(folder), mark)

    return opened


@lru_cache(maxsize=4)
def _load(folder: str, mark: str) -> Repository:
    return Repository.load(folder, mark)


_temporary: dict[str, Path] = {}  # fingerprint -> folder


def _saved(repository: Repository) -> Path:
    mark = repository.fingerprint
    if mark not in _temporary:
        folder = temporary_folder()
        repository.save(folder)
        _temporary[mark] = folder
    return _temporary[mark]


def temporary_folder() -> Path:
    """An empty folder that goes when this process ends."""
    return Path(mkdtemp(suffix=".repo", dir=scratch()))
