"""A file system that only Hadoop understands, in place of hdfs: a name for a folder of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4


def elsewhere(spark: Any, folder: Path) -> str:
    """An address under which Spark, and no Python, reaches the folder."""
    name = f"plant{uuid4().hex[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    spark.sparkContext._jsc.hadoopConfiguration().set(
        f"fs.viewfs.mounttable.{name}.link./data", f"file://{folder.absolute()}"
    )
    return f"viewfs://{name}/data"
