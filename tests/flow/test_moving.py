"""Does a run that moves to another repository keep what was imputed, and impute what comes by the new one?"""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.flow import embedded_batch, log, readings, waiting
from fogline.flow.embedded import Embedded
from fogline.flow.starting import ready
from tests.flow.embedding import reported, run
from tests.flow.moving import (
    BORDER,
    FILES,
    GROUPED,
    MOVES,
    Move,
    as_expected,
    by_rules,
    config_of,
    rows_with_gaps,
    write_part,
)


def moved(move: Move, root, output: str = "out", files_per_batch: int | None = 1) -> pa.Table:
    """A run that moves after some of the files, without a kill: its changes."""
    write_part(move, root / "in", range(BORDER))
    run(config_of(move, root, "before", output), files_per_batch)
    write_part(move, root / "in", range(BORDER, FILES))
    run(config_of(move, root, "after", output, accepts=True), files_per_batch)
    return pq.read_table(root / output / "changes")


@pytest.fixture
def small(monkeypatch):
    """All that lies apart where there is much of it does so here; groups come and go."""
    monkeypatch.setattr(waiting, "FEW", 5)
    monkeypatch.setattr(log, "FEW", 20)
    monkeypatch.setattr(readings, "SMALL", 2)
    monkeypatch.setattr(readings, "PART", 1)
    monkeypatch.setattr(embedded_batch, "LOADED", 0)


EXACT = [name for name in MOVES if "hindsight" not in name]


@pytest.mark.parametrize("name", EXACT)
def test_what_was_imputed_stays_and_what_comes_is_imputed_by_the_new_one(name, tmp_path):
    move = MOVES[name]
    assert as_expected(moved(move, tmp_path), move) > 30


@pytest.mark.parametrize("name", EXACT)
def test_so_it_is_where_rows_readings_and_groups_lie_in_cells(name, tmp_path, small):
    move = MOVES[name]
    assert as_expected(moved(move, tmp_path), move) > 30
