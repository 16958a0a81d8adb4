"""Every example in a docstring is true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

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


@pytest.mark.parametrize("page", ["living.md"])
def test_examples_on_pages_are_true(page):
    outcome = doctest.testfile(str(Path(__file__).parents[1] / "docs" / page), module_relative=False)
    assert outcome.attempted > 0
    assert outcome.failed == 0
