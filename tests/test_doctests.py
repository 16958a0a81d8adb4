"""Is every example in a docstring true?"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import fogline
import lab

OPTIONAL = {"fogline.spark": "pyspark", "lab": "sklearn"}  # parts, and a package that they need


def module_names() -> list[str]:
    """Every module of the package and of the lab; the name of a file is enough, nothing is imported."""
    inside = (pkgutil.walk_packages(room.__path__, f"{room.__name__}.") for room in (fogline, lab))
    return ["fogline", "lab", *(each.name for walked in inside for each in walked if _there(each.name))]


def _there(name: str) -> bool:
    needs = [package for part, package in OPTIONAL.items() if name == part or name.startswith(part + ".")]
    return all(importlib.util.find_spec(package) for package in needs)


@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings_are_true(name):
    if importlib.util.find_spec("pyspark") is None and name.startswith("fogline.spark"):
        pytest.skip("pyspark is not installed")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_no_module_is_left_out():
    files = [path for room in (fogline, lab) for path in Path(room.__path__[0]).rglob("*.py")]
    assert len(module_names()) == len(files)
