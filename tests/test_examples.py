"""Does every run draw the same examples?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import Stream, streams


def drawn() -> list[object]:
    seen: list[object] = []

    @settings(max_examples=30)
    @given(streams(), st.floats())
    def look(stream: Stream, number: float) -> None:
        seen.append(repr((stream, number)))

    look()
    return seen


def test_two_runs_draw_the_same_examples(request):
    if request.config.getoption("--hypothesis-profile") not in (None, "fixed"):
        return  # exploring draws new ones: that is what it is for
    first, second = drawn(), drawn()
    assert len(first) >= 30
    assert first == second


LOOK = """
import sys
from hypothesis import given, settings
from hypothesis import strategies as st

@settings(max_examples=40)
@given(st.integers())
def test_look(number):
    with open("drawn", "a") as file:
        file.write("x")

def test_no_spark():
    assert "pyspark" not in sys.modules
"""


@pytest.mark.slow
def test_a_quick_look_draws_its_part_of_the_examples_and_imports_no_spark(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_look.py").write_text(LOOK)
    env = {**os.environ, "FOGLINE_EXAMPLES": "0.25"}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "test_look.py"], cwd=tmp_path, env=env, check=True
    )
    assert (tmp_path / "drawn").read_text() == "x" * 10


def test_a_test_may_fix_its_number_of_examples_and_keeps_the_profile():
    assert settings(max_examples=7).derandomize == settings().derandomize
    assert settings(max_examples=7).deadline is None
