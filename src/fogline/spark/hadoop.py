"""How is a file put into a folder that only Spark reaches? Through the file systems of Hadoop.

Their methods may fail without an error: a rename or a delete that returns false has not happened. Here that is an
error, so that the batch that wanted it does not commit. A file is replaced by a rename that overwrites, which HDFS does
in one step; where a file system has none, the old file goes only when the new one is written completely.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fogline.errors import FoglineError
from fogline.files.listing import absolute, is_local
from fogline.output.folder import Folder, LocalFolder
from fogline.spark.connect import must_have_jvm


def folder(path: str, spark: SparkSession) -> Folder:
    """The folder of a path, wherever it lies."""
    return LocalFolder(absolute(path)) if is_local(path) else HadoopFolder(spark, path)


class HadoopFolder:
    """In any file system that Spark knows."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        must_have_jvm(
            spark, f"{root!r} is read by the session's JVM", "name a folder of this machine, or a cluster's master"
        )
        self.hadoop = spark._jvm.org.apache.hadoop
        self.root = root.rstrip("/")
        self.settings = spark.sparkContext._jsc.hadoopConfiguration()
        with _in_words("reached", self.root):
            self.system = self._path("").getFileSystem(self.settings)
        self.context = self._context()
        self.overwrite = spark.sparkContext._gateway.new_array(self.hadoop.fs.Options.Rename, 1)
        self.overwrite[0] = self.hadoop.fs.Options.Rename.OVERWRITE

    def _context(self) -> Any:
        """What renames over a file in one step; None where the file system has no such thing."""
        try:
            return self.hadoop.fs.FileContext.getFileContext(self._path("").toUri(), self.settings)
        except (Py4JJavaError, PySparkException):
            return None

    def _path(self, name: str) -> Any:
        return self.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)

    def put(self, name: str, content: bytes) -> None:
        with self.filling(name) as path:
            path.write_bytes(content)

    @contextmanager
    def filling(self, name: str) -> Iterator[Path]:
        *above, last = name.split("/")
        fresh = "/".join([*above, f".{last}.new"])
        with TemporaryDirectory(prefix="fogline-") as here:
            path = Path(here, last)
            yield path
            with _in_words("written", f"{self.root}/{name}"):
                self.system.copyFromLocalFile(False, True, self.hadoop.fs.Path(path.as_uri()), self._path(fresh))
        self.move(fresh, name)

    def move(self, name: str, to: str) -> None:
        source, place = self._path(name), self._path(to)
        with _in_words("written", f"{self.root}/{to}"):
            self.system.mkdirs(place.getParent())
            if self.context is not None:
                self.context.rename(source, place, self.overwrite)  # raises what goes wrong
                return
            if self.system.rename(source, place):
                return
            if not self.system.exists(source):
                raise FoglineError(
                    f"{self.root}/{to} could not be written: its temporary file is gone. Run the same command again."
                )
            self._delete(place)  # the new file lies beside it, complete
            if not self.system.rename(source, place):
                raise FoglineError(
                    f"{self.root}/{to} could not be written: the file system refused to rename {name} to it. The "
                    "batch is not committed. Make the folder writable, then run the same command again."
                )

    def get(self, name: str) -> bytes | None:
        opened = self.open(name)
        return None if opened is None else bytes(opened.read())

    def open(self, name: str) -> pa.NativeFile | None:
        if not self.system.exists(self._path(name)):
            return None
        with TemporaryDirectory(prefix="fogline-") as here:
            path = Path(here, "file")
            with _in_words("read", f"{self.root}/{name}"):
                self.system.copyToLocalFile(False, self._path(name), self.hadoop.fs.Path(path.as_uri()), True)
            return pa.OSFile(os.fspath(path))  # an open file stays when its name goes

    def listing(self, below: str) -> dict[str, int]:
        if not self.system.exists(self._path(below)):
            return {}
        with _in_words("read", f"{self.root}/{below}"):
            found = {
                status.getPath().getName(): status.getLen() for status in self.system.listStatus(self._path(below))
            }
        below = f"{below}/" if below else ""
        return {f"{below}{name}": found[name] for name in sorted(found) if not name.startswith((".", "_"))}

    def files(self) -> list[str]:
        """The files in the folder and its subfolders, or those that match, where it is a pattern; by whole paths."""
        with _in_words("read", self.root):
            roots = self.system.globStatus(self._path("")) or ()
            found = []
            for root in roots:
                each = self.system.listFiles(root.getPath(), True)
                while each.hasNext():
                    found.append(str(each.next().getPath().toString()))
        if not roots:
            raise FoglineError(f"there is no file {self.root!r}.")
        return sorted(found)

    def fetch(self, name: str, to: Path) -> None:
        """A file or a folder, with all that it holds, copied to a path of this machine."""
        with _in_words("read", f"{self.root}/{name}"):
            self.system.copyToLocalFile(False, self._path(name), self.hadoop.fs.Path(to.as_uri()), True)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with _in_words("deleted", f"{self.root}/{name}"):
                self._delete(self._path(name))

    def clear(self, below: str) -> None:
        with _in_words("deleted", f"{self.root}/{below}"):
            self._delete(self._path(below))

    def _delete(self, path: Any) -> None:
        if not self.system.delete(path, True) and self.system.exists(path):
            raise FoglineError(
                f"{path.toString()} could not be deleted: the file system refused. The batch is not committed. "
                "Make the folder writable, then run the same command again."
            )


@contextmanager
def _in_words(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        reason = error.java_exception.toString()
        raise FoglineError(f"{path} could not be {what}: {reason}") from None
    except (Py4JError, PySparkException) as error:
        raise FoglineError(f"{path} could not be {what}: {error}") from None
