"""Where do the real sets lie? In the folder that FOGLINE_DATA names; without it, what needs them is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def real_sets() -> Path:
    """The folder with the real sets, as Parquet files."""
    named = os.environ.get("FOGLINE_DATA")
    if not named:
        pytest.skip("the real sets are not part of the project; FOGLINE_DATA may name their folder")
    return Path(named)
