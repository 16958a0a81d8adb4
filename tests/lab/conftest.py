"""Streams that the tests of the lab share.

Real files are looked for in the folder that FOGLINE_DATA names; without it, what needs them is skipped.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.case import Case, Settings, real, synthetic
from tests.real_sets import real_sets

MOTES, READINGS = 7, 400
SMALL = Settings(window=300, theta=15, history=1_500, ticks=20)


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A folder with a made-up intel_lab.parquet: slow waves per mote, a broken reading, and some real nulls."""
    rng = np.random.default_rng(7)
    n = MOTES * READINGS
    at, mote = np.repeat(np.arange(READINGS), MOTES), np.tile(np.arange(1, MOTES + 1), READINGS)
    wave = np.sin(at / 40 + mote)
    columns = {
        "timestamp": pa.array((at * 31_000_000 + mote).astype("datetime64[us]")),
        "mote_id": pa.array(mote.astype(np.int32)),
        "temperature": pa.array(np.where(np.arange(n) == 50, 294.0, 20 + 3 * wave + rng.normal(0, 0.1, n))),
        "humidity": pa.array(40 - 5 * wave + rng.normal(0, 0.2, n)),
        "light": pa.array(150 + 30 * wave + rng.normal(0, 5, n), mask=rng.random(n) < 0.05),
        "voltage": pa.array(2.6 + 0.02 * mote + rng.normal(0, 0.01, n)),
    }
    path: Path = tmp_path_factory.mktemp("data")
    pq.write_table(pa.table(columns), path / "intel_lab.parquet")
    return path


@pytest.fixture(scope="session")
def motes(folder) -> Case:
    """Sensors and times: the honest protocol on the made-up readings."""
    return real("intel", folder, SMALL)


@pytest.fixture(scope="session")
def copies() -> Case:
    """No sensors, no times: copies of seeds that obey the paper's rules."""
    return synthetic("correlated-apart", Settings(window=600, theta=30, history=30_000, ticks=15))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real files."""
    return real_sets()
