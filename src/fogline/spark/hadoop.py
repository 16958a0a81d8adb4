"""How is a small file put into a folder that only Spark reaches? Through the file systems of Hadoop."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from fogline.flow.folder import Folder, LocalFolder, is_local


def folder(path: str, spark: SparkSession) -> Folder:
    """The folder of a path, wherever it lies."""
    return LocalFolder(path) if is_local(path) else HadoopFolder(spark, path)


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
