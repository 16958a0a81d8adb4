"""How does a repository reach the driver, and how do workers get at it?

The driver opens a folder of this machine, or fetches the newest version from a file system that only Spark reaches into
this machine's cache, once.

A worker gets the name of the folder and the fingerprint: each worker process maps the repository into memory once, and
processes of one machine share the pages. Whatever has been saved into the folder since, a worker opens the version that
the query was started with, or none. A repository that lies in no folder yet is saved into a temporary one.

A repository that workers of a cluster cannot have under that path, since it was fetched or lies in a temporary folder,
is sent to them with the job, packed: each machine unpacks it once, into its cache, by its fingerprint
(`fogline.repository.cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from fogline.errors import FoglineError, HistoryError
from fogline.files.listing import is_local as is_here
from fogline.repository import cache, store
from fogline.repository.repository import Repository
from fogline.spark.hadoop import HadoopFolder
from fogline.spark.partitions import context_of, is_local, master_of
from fogline.spark.session import session
from fogline.spark.workers import scratch


def shared(repository: Repository, spark: SparkSession | None = None) -> Callable[[], Repository]:
    """A function that a worker calls for the repository; without a session, of the one that is active."""
    mark, spark = repository.fingerprint, spark or SparkSession.getActiveSession()
    if spark is not None and is_sent(repository, spark):
        name = _send(repository, spark)
        return lambda: _unpacked(name, mark)
    folder = str(repository.folder or _saved(repository))
    return lambda: _load(folder, mark)


def is_sent(repository: Repository, spark: SparkSession) -> bool:
    """Whether workers of this session get it with the job, since they cannot have it under its path."""
    if is_local(master_of(spark)):
        return False
    return repository.folder is None or cache.holds(repository.folder)


@lru_cache(maxsize=4)
def _load(folder: str, mark: str) -> Repository:
    return Repository.load(folder, mark)


@lru_cache(maxsize=4)
def _unpacked(name: str, mark: str) -> Repository:
    return Repository.load(cache.unpacked(mark, lambda: Path(SparkFiles.get(name))), mark)


_temporary: dict[str, Path] = {}  # fingerprint -> folder
_sent: set[tuple[str, str]] = set()  # application, name of the file


def _saved(repository: Repository) -> Path:
    mark = repository.fingerprint
    if mark not in _temporary:
        folder = temporary_folder()
        repository.save(folder)
        _temporary[mark] = folder
    return _temporary[mark]


def _send(repository: Repository, spark: SparkSession) -> str:
    """Give the packed repository to the session, which carries it to each executor; the name of the file there."""
    context = context_of(spark)
    if context is None:
        raise FoglineError(
            "the workers cannot read this repository: it lies in no folder that they see, and Spark Connect "
            "cannot send it. Save it into a folder that all machines see under the same path, and load it from "
            "there."
        )
    name = f"{repository.fingerprint}.tar"
    if (context.applicationId, name) not in _sent:
        packed = temporary_folder() / name
        cache.pack(repository.folder or _saved(repository), repository.fingerprint, packed)
        context.addFile(str(packed))
        _sent.add((context.applicationId, name))
    return name


def temporary_folder() -> Path:
    """An empty folder that goes when this process ends."""
    return Path(mkdtemp(suffix=".repo", dir=scratch()))


def repository(path: str, spark: SparkSession | None = None) -> Repository:
    """The repository of a folder, wherever it lies: `hdfs://…`, `s3a://…`, or on this machine.

    It is fetched through the session, by default the one that runs, and kept in this machine's cache by its
    fingerprint. Workers of a cluster get it with the first query, each machine once.
    """
    if is_here(path):
        return Repository.load(path)
    there = HadoopFolder(spark or session(), path)
    newest = store.newest_in(_read(there, store.MANIFEST), there.root)
    mark = str(_read(there, f"{newest}/{store.MANIFEST}")["fingerprint"])
    return Repository.load(cache.kept(mark, lambda folder: there.fetch(newest, folder / newest)), mark)


def _read(there: HadoopFolder, name: str) -> dict[str, Any]:
    """A manifest, if it is one of this format."""
    content = there.get(name)
    if content is None:
        raise HistoryError(
            f"there is no repository in {there.root!r}: it has no {name}. Copy a folder there that `fogline fit` made."
        )
    return store.manifest_of(content, f"{there.root}/{name}", there.root)
