"""Does `fogline warm` make what workers look for?"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fogline.cli import app
from fogline.kernels import arrow, bracket, cover, forest, gaps, rtree, sensors, skyband, tick
from fogline.kernels import compile as cache
from fogline.kernels import sorted as sorted_rows
from fogline.kernels import tick as revise
from fogline.kernels.compile import kernel
from fogline.pipeline import warm as warming


@pytest.fixture
def one_kernel(monkeypatch):
    """A pipeline that needs one kernel only, which is compiled anew."""

    def steps():
        yield "one kernel"
        assert kernel(double)(np.ones(3)).tolist() == [2.0, 2.0, 2.0]

    monkeypatch.setattr(cache, "_used", {})
    monkeypatch.delenv(cache.CARRIED, raising=False)
    monkeypatch.setattr(warming, "steps", steps)
    return cache._room_name(Path(__file__).parent)


def double(x):
    return x + x


def test_machine_code_goes_into_a_folder(one_kernel, tmp_path):
    done = CliRunner().invoke(app, ["warm", "--output", str(tmp_path / "cache")])
    assert done.output.startswith("1 files of machine code in")
    [path] = (tmp_path / "cache" / one_kernel).iterdir()
    assert path.name.startswith("test_warming.double-")
    assert cache.CARRIED not in os.environ


def test_machine_code_goes_into_an_archive(one_kernel, tmp_path):
    CliRunner().invoke(app, ["warm", "--output", str(tmp_path / "cache.zip")])
    with zipfile.ZipFile(tmp_path / "cache.zip") as packed:
        files = [Path(name) for name in packed.namelist() if name.endswith(".nbc")]
    assert [str(path.parent) for path in files] == [one_kernel]


def test_what_is_neither_folder_nor_archive_is_refused(tmp_path):
    done = CliRunner().invoke(app, ["warm", "--output", str(tmp_path / "cache.rar")])
    assert done.exit_code == 2
    assert "name it such as 'cache' or 'cache.zip'" in done.stderr


def test_the_calls_reach_the_kernels_of_every_part_of_a_pipeline():
    assert len(list(warming.steps())) == 9
    reached = (arrow.cells, cover.uncovered, tick._screen, bracket.bracket, sorted_rows.find_close, rtree.find)
    reached = (*reached, cover.uncovered_by, skyband.judge_band, skyband.concerned, skyband.report_band)
    assert all(each.signatures for each in (*reached, forest.ask, sensors.walk, gaps.shut, revise.release))
    assert {str(types[-1]) for types in tick._tick.signatures} == {"none", "bool"}, "with distributions, and without"
