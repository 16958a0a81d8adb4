"""How is a small file put into a folder that may lie anywhere?

Written beside its place and then renamed, so that a reader sees all of it or nothing, and writing it again changes
nothing. Local folders are used as they are; all others through the file systems that Spark knows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from fogline.spark.files import is_local


class Folder(Protocol):
    """A place for files by name."""

    def put(self, name: str, content: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
    def names(self, below: str) -> list[str]: ...


def folder(path: str, spark: SparkSession | None = None) -> Folder:
    """The folder of a path; one that is not local needs a session."""
    if is_local(path):
        return LocalFolder(Path(path))
    assert spark is not None, "only Spark reaches other file systems"
    return HadoopFolder(spark, path)


class LocalFolder:
    """On this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, content: bytes) -> None:
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f".{place.name}.new")
        fresh.write_bytes(content)
        fresh.replace(place)

    def get(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, below: str) -> list[str]:
        """The names in a subfolder, in their order."""
        found = (self.root / below).glob("[!._]*")
        return sorted(f"{below}/{each.name}" for each in found)


class HadoopFolder:
    """In any file system that Spark knows."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.hadoop = spark._jvm.org.apache.hadoop
        self.root = root.rstrip("/")
        self.system = self._path("").getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)

    def put(self, name: str, content: bytes) -> None:
        place = self._path(name)
        fresh = self._path("/".join([*name.split("/")[:-1], f".{name.split('/')[-1]}.new"]))
        stream = self.system.create(fresh, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        if self.system.exists(place):  # the same content: a batch that is written again
            self.system.delete(place, False)
        self.system.rename(fresh, place)

    def get(self, name: str) -> bytes | None:
        if not self.system.exists(self._path(name)):
            return None
        stream = self.system.open(self._path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def names(self, below: str) -> list[str]:
        if not self.system.exists(self._path(below)):
            return []
        found = [status.getPath().getName() for status in self.system.listStatus(self._path(below))]
        return sorted(f"{below}/{name}" for name in found if not name.startswith((".", "_")))
