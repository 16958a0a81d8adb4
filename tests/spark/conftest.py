"""One small Spark session for all tests of this folder; without Java they are skipped, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest

import fogline
from fogline.errors import FoglineError
from fogline.spark.java import find_java
from fogline.spark.session import BRISK_JVM, session
from tests.conftest import SCALE

# Machine code that is optimised for long, and code that Spark generates for every plan, cost more than they gain here:
# no query of a test lasts. With all examples, as before a release, Spark is as users have it.
BRISK = {**BRISK_JVM, "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ROOTS = (Path(__file__).parents[2], Path(fogline.__file__).parents[1])  # where `tests` and `fogline` are imported from


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A quiet session on two cores, shared: leave no query running in it, and no setting changed."""
    try:
        find_java()
    except FoglineError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH")
        paths = [*map(str, ROOTS), *(before.split(os.pathsep) if before else [])]
        patch.setenv("PYTHONPATH", os.pathsep.join(dict.fromkeys(paths)))  # Python workers inherit it
        with pytest.MonkeyPatch.context() as starting:
            if SCALE < 1:
                starting.setenv("SPARK_HOME", str(unpacked(tmp_path_factory.mktemp("home"))))
            spark = session(master="local[2]", name="tests", settings=BRISK if SCALE < 1 else {})
        yield spark
        spark.stop()


def unpacked(home: Path) -> Path:
    """Spark's home, with the package in place of its archive.

    Every stateful query starts a Python, which compiles what it imports from the archive: half a second each time.
    """
    package = Path(pyspark.__file__).parent
    archive = home / "python" / "lib" / "pyspark.zip"
    archive.mkdir(parents=True)
    (archive / "pyspark").symlink_to(package)
    for path in (*package.iterdir(), *(package / "python" / "lib").glob("py4j*")):
        if not (there := home / path.relative_to(package)).exists():
            there.symlink_to(path)
    return home


@pytest.fixture
def java_or_skip():
    """For tests that start a JVM of their own."""
    try:
        return find_java()
    except FoglineError as error:
        pytest.skip(str(error))
