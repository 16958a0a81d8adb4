"""Which examples do property tests draw?

`make test` draws the same ones on every machine and in every run: the profile "fixed" derives them from each test's own
source. `make explore` draws new ones: the profile "explore" takes its seed from the command line, and a find is
repeated with the same seed. Settings that a test makes for itself, such as `max_examples`, hold in both; exploring
repeats all tests with one seed after the other, in an order that depends on the seed.

Hypothesis also tries constants that stand in our own modules, as far as they are imported by then. So all of them are
imported first: examples do not depend on which tests ran before, in which process.

`FOGLINE_EXAMPLES` scales how many examples each test draws, never below `LEAST`: 0.1 is a tenth of what it states.
`make test` draws a quarter of them, `make test EXAMPLES=1` and `make explore` all.
Without the tests that are `slow` (`make quick`), PySpark is not imported, nor what imports it.

`make test` uses two processes. The tests of a file stay together, since they share what takes long to make; those that
share a Spark session stay together too, and begin, for they take longest.
"""

from __future__ import annotations

import os
import random
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

import fogline

SPARK = "tests/spark/"  # also where a command makes the session: a process has one JVM
SCALE = float(os.environ.get("FOGLINE_EXAMPLES", "1"))
LEAST = 5
WITH_SPARK = ("fogline.spark", "fogline.demo")

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")  # `--hypothesis-profile` has the last word


def scaled(examples: int, scale: float) -> int:
    """How many examples a test draws that names this number of them."""
    return max(min(LEAST, examples), round(scale * examples))


def pytest_configure(config: pytest.Config) -> None:
    """Import every module, or every one of a quick look."""
    every = "not slow" not in config.getoption("-m")
    folders = [Path(str(fogline.__file__)).parent, Path("lab")]  # the lab lies in a checkout alone
    for folder in folders if every else folders[:1]:
        for path in sorted(folder.rglob("*.py")):
            name = ".".join((folder.name, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
            if path.stem != "__main__" and (every or not name.startswith(WITH_SPARK)):
                import_module(name)


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
    """Scale examples. When exploring, another order each time, so that every test has its turn in some round."""
    for test in {item.obj for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}:
        own = test._hypothesis_internal_use_settings  # a second `settings` on one test would be refused
        test._hypothesis_internal_use_settings = settings(own, max_examples=scaled(own.max_examples, SCALE))
    if config.getoption("--hypothesis-profile") == "explore":
        random.Random(config.getoption("--hypothesis-seed")).shuffle(items)
