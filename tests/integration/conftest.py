"""What tests with real components share: one Spark session, one server of each kind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.integration.components.kafka import Broker, kafka, spark_jars
from tests.integration.components.postgres import Postgres, postgres
from tests.spark.conftest import java_or_skip, spark

__all__ = ["java_or_skip", "spark"]


@pytest.fixture(scope="session", autouse=True)
def connector() -> Iterator[None]:
    """Whatever starts Spark, in this process or in one that it starts, has the connectors that are there."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    jars = spark_jars()
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{f'--jars {jars} ' if jars else ''}pyspark-shell"
    yield
    if before is None:
        del os.environ["PYSPARK_SUBMIT_ARGS"]
    else:
        os.environ["PYSPARK_SUBMIT_ARGS"] = before


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker of Kafka, shared by all tests; those that kill it start it again."""
    with kafka() as server:
        yield server


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """A PostgreSQL server, shared by the tests of a module; tests that kill it start it again."""
    with postgres() as server:
        yield server
