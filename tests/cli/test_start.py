"""Do commands start at once: is nothing imported that they do not need?"""

from __future__ import annotations

import subprocess
import sys
from operator import attrgetter

import pytest

from tests.cli.test_answer import NUMBERS, written

HEAVY = ("numba", "pandas", "pyarrow", "pyspark", "numpy")
CODE = """
import sys
from fogline.cli import app
try:
    app()
finally:
    print("imported:", *[name for name in {names} if name in sys.modules], file=sys.stderr)
"""


def imported(*words: str, names: tuple[str, ...] = HEAVY) -> tuple[str, list[str]]:
    """What a command prints, and which of these packages it has imported."""
    code = CODE.format(names=repr(names))
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["fit", "--help"], ["run", "--help"], ["demo", "--help"]])
def test_help_needs_none_of_the_packages_that_take_long(words):
    printed, there = imported(*words)
    assert "fogline" in printed or "Usage" in printed
    assert there == []


def test_an_answer_needs_neither_a_compiler_nor_spark(tmp_path):
    output = written(tmp_path, NUMBERS, [1, 5, 9], 11)
    printed, there = imported("answer", output, "--at", "6", "--where", "heat > 5", names=("numba", "pyspark"))
    assert "the answer at 6" in printed
    assert there == []


def test_the_package_and_a_query_need_no_compiler():
    code = (
        "import sys, fogline as fl; fl.Query; fl.FoglineError; print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_names_of_the_package_are_there_whatever_was_imported_before():
    code = (
        "import fogline.engine.live, fogline.impute.row as room; import fogline as fl;"
        "from fogline.impute import knn;"
        "print(callable(fl.skyline), callable(knn), 'Monitor' in dir(fl), fl.errors.FoglineError is fl.FoglineError)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4


def test_a_name_that_is_not_there_is_an_attribute_error():
    import fogline as fl

    with pytest.raises(AttributeError, match="module 'fogline' has no attribute 'Nothing'"):
        attrgetter("Nothing")(fl)
