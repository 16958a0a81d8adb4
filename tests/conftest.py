"""Which examples do property tests draw?

`make test` draws the same ones on every machine and in every run: the profile "fixed" derives them from each test's own
source. `make explore` draws new ones: the profile "explore" takes its seed from the command line, and a find is
repeated with the same seed. Settings that a test makes for itself, such as `max_examples`, hold in both; exploring
repeats all tests with one seed after the other, in an order that depends on the seed.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")  # `--hypothesis-profile` has the last word


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When exploring, another order each time: where time ends first, every test has its turn in some round."""
    if config.getoption("--hypothesis-profile") == "explore":
        random.Random(config.getoption("--hypothesis-seed")).shuffle(items)
