"""Every example in a docstring is true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import fogline

MODULES = [
    each.name
    for each in pkgutil.walk_packages(fogline.__path__, "fogline.")
    if not each.name.startswith(("fogline.spark", "fogline.lab"))  # optional parts
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0
