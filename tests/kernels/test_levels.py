"""Does machine code for the least of processors come to the same bits as that for this one?

`make test-packaging` tries every level, and more streams.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fogline.kernels.compile import LEVELS, levels

ANSWERS = Path(__file__).with_name("answers.py")


@pytest.mark.slow
def test_the_lowest_level_comes_to_the_same_bits_as_this_processor(tmp_path):
    found = {}
    for level in (None, levels()[-1]):
        chosen = {} if level is None else {"NUMBA_CPU_NAME": level.cpu, "NUMBA_CPU_FEATURES": level.features}
        path = tmp_path / (level.cpu if level else "own")
        subprocess.run([sys.executable, ANSWERS, path, "--few"], env={**os.environ, **chosen}, check=True)
        found[path.name] = path.read_text(encoding="utf-8")
    assert found.keys() == {"own", LEVELS[-1].cpu}
    assert len(set(found.values())) == 1
