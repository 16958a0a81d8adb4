"""How does a repository come from a file system that only Spark reaches?

Its newest version is copied into this machine's cache, once (`fogline.repository.cache`).
Workers get it with the job (`spark.share`): their Python does not reach that file system either.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from fogline.errors import HistoryError
from fogline.files.paths import is_local
from fogline.repository import cache, store
from fogline.repository.repository import Repository
from fogline.spark.hadoop import HadoopFolder
from fogline.spark.session import session


def repository(path: str, spark: SparkSession | None = None) -> Repository:
    """The repository of a folder, wherever it lies: `hdfs://…`, `s3a://…`, or on this machine.

    It is fetched through the session, by default the one that runs, and kept in this machine's cache by its
    fingerprint. Workers of a cluster get it with the first query, each machine once.
    """
    if is_local(path):
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
