"""What tests with real components share: one Spark session, one server of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.components.postgres import Postgres, postgres
from tests.spark.conftest import java_or_skip, spark

__all__ = ["java_or_skip", "spark"]


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """A PostgreSQL server, shared by the tests of a module; tests that kill it start it again."""
    with postgres() as server:
        yield server
