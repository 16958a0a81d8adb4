"""One small Spark session for all tests of this folder; without Java they are skipped, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fogline
from fogline.errors import FoglineError
from fogline.spark.java import find_java
from fogline.spark.session import session

ROOTS = (Path(__file__).parents[2], Path(fogline.__file__).parents[1])  # where `tests` and `fogline` are imported from


@pytest.fixture(scope="session")
def spark():
    """A quiet session on two cores, shared: leave no query running in it, and no setting changed."""
    try:
        find_java()
    except FoglineError as error:
        pytest.skip(str(error))
    before = os.environ.get("PYTHONPATH")
    paths = [*map(str, ROOTS), *(before.split(os.pathsep) if before else [])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))  # Python workers inherit it
    spark = session(master="local[2]", name="tests")
    yield spark
    spark.stop()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def java_or_skip():
    """For tests that start a JVM of their own."""
    try:
        return find_java()
    except FoglineError as error:
        pytest.skip(str(error))
