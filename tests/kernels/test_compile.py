"""Is machine code made anew when, and only when, its source has changed?"""

import os
import subprocess
import sys

import numpy as np
import pytest

from fogline.kernels.sorting import argsort


def test_a_kernel_outside_the_room_is_compiled_anew_when_its_own_file_changes(tmp_path):
    (tmp_path / "elsewhere.py").write_text(
        "from fogline.kernels.compile import kernel\n\n\n@kernel\ndef answer():\n    return 1\n"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    code = "from elsewhere import answer; print(answer(), sum(answer.stats.cache_hits.values()))"

    def run():
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    assert run().split() == ["1", "0"]
    assert run().split() == ["1", "1"]
    (tmp_path / "elsewhere.py").write_text((tmp_path / "elsewhere.py").read_text().replace("return 1", "return 22"))
    assert run().split() == ["22", "0"]


def test_what_only_kernels_call_cannot_be_called_from_python():
    with pytest.raises(TypeError):
        argsort(np.zeros(3))
