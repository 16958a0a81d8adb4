"""Which examples do property tests draw?

`make test` draws the same ones on every machine and in every run: the profile "fixed" derives them from each test's own
source. `make explore` draws new ones: the profile "explore" takes its seed from the command line, and a find is
repeated with the same seed. Settings that a test makes for itself, such as `max_examples`, hold in both; exploring
repeats all tests with one seed after the other, in an order that depends on the seed.

Hypothesis also tries constants that stand in our own modules, as far as they are imported by then. So all of them are
imported first: examples do not depend on which tests ran before, in which process.

`make test` uses two processes. The tests of a file stay together, since they share what takes long to make; those that
share a Spark session stay together too, and begin, for they take longest.
"""

from __future__ import annotations

import pkgutil
import random
from importlib import import_module
from typing import Any

import pytest
from hypothesis import settings

import fogline
import lab

SPARK = "tests/spark/"  # also where a command makes the session: a process has one JVM

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")  # `--hypothesis-profile` has the last word


for room in (fogline, lab):
    for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        import_module(each.name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which tests stay in one process; the largest lot begins. (Marks of groups are not seen by every xdist.)"""
    from xdist.scheduler import LoadScopeScheduling

    def lot_of(nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SPARK if file.startswith(SPARK) else file

    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = lot_of
    return scheduling


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When exploring, another order each time: where time ends first, every test has its turn in some round."""
    if config.getoption("--hypothesis-profile") == "explore":
        random.Random(config.getoption("--hypothesis-seed")).shuffle(items)
