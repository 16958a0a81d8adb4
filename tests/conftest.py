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

import pytest
from hypothesis import settings

import fogline

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")  # `--hypothesis-profile` has the last word


for each in pkgutil.walk_packages(fogline.__path__, "fogline."):
    import_module(each.name)


@pytest.hookimpl(tryfirst=True)  # before marks are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When exploring, another order each time: where time ends first, every test has its turn in some round."""
    if config.getoption("--hypothesis-profile") == "explore":
        random.Random(config.getoption("--hypothesis-seed")).shuffle(items)
        return
    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if _shares_spark(item) else item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: not _shares_spark(item))


def _shares_spark(item: pytest.Item) -> bool:
    """Also where a command makes the session: a process has one JVM."""
    return item.path.parent.name == "spark"
