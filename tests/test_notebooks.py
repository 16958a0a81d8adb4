"""Do the notebooks in examples/ run, and show what is committed with them?"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = pytest.mark.slow  # starts kernels

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["stream", "table"]


@pytest.mark.filterwarnings("ignore")  # of the machinery that starts kernels
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_committed(path):
    notebooks = tool()
    committed = nbformat.read(path, as_version=4)
    shown = notebooks.texts(committed)
    assert shown.count("picture") >= 2
    assert notebooks.texts(notebooks.run(path)) == shown, "run: python tools/notebooks.py"
    assert path.stat().st_size < 300_000
