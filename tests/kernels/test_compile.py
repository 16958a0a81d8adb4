"""Is machine code made anew when, and only when, its source has changed?"""

import gc
import os
import subprocess
import sys
import tomllib

import numba
import numpy as np
import pytest
from numba import njit
from packaging.requirements import Requirement
from packaging.version import Version

from fogline.kernels.compile import _Outer, inner, kernel
from fogline.kernels.sorting import argsort
from tools.versions import ROOT, VERSIONS


@inner
def more(x, step):
    return x + step


def much_more(x):
    return more(more(x, 1), x)


@pytest.mark.slow
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


@kernel
def doubled(x):
    return x + x


def quadruple(x):
    return doubled(doubled(x))


def test_a_kernel_is_a_part_of_the_one_that_calls_it_and_has_no_machine_code_of_its_own():
    assert njit(pipeline_class=_Outer)(quadruple)(3) == 12
    assert not doubled.signatures


def test_a_number_in_the_code_is_compiled_as_any_other():
    assert njit(much_more)(3) == 7
    assert len(more.signatures) == 1


@pytest.mark.parametrize("collecting", [True, False])
def test_compiling_leaves_the_garbage_collector_as_it_was(collecting):
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        assert njit(pipeline_class=_Outer)(much_more)(3) == 7
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()


def test_numba_is_bounded_to_what_was_tried_since_private_parts_of_it_are_used():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [needed] = [each for each in map(Requirement, project["dependencies"]) if each.name == "numba"]
    tried = [Version(version) for version in VERSIONS["numba"]]
    assert Version(numba.__version__) in tried
    assert all(version in needed.specifier for version in tried)
    newest = max(tried)
    assert Version(f"{newest.major}.{newest.minor + 1}") not in needed.specifier
