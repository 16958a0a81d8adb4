"""Is machine code kept where it can be, and only as long as it is true?"""

import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from fogline.kernels.compile import kernel
from fogline.kernels.sorting import argsort


def test_the_cache_of_kernels_works_when_the_package_cannot_be_written(tmp_path):
    """Numba falls back to the user's cache; with nowhere to write at all, kernels are compiled anew."""
    code = "import numpy as np, fogline.kernels.dominance as b; print(b.beats(np.eye(1), 0, np.zeros((1, 1)), 0))"
    for cache in (str(tmp_path), "/proc/nowhere"):
        env = {**os.environ, "NUMBA_CACHE_DIR": cache}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "True", done.stderr
    assert any(tmp_path.rglob("*.nbi"))


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


def test_a_cache_that_speaks_of_types_that_are_no_more_is_thrown_away(tmp_path):
    """As after an upgrade: Numba opens the index before it looks at whose it is."""
    (tmp_path / "elsewhere.py").write_text(
        "from fogline.kernels.compile import kernel\n\n\n@kernel\ndef answer():\n    return 1\n"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    code = "from elsewhere import answer; print(answer(), sum(answer.stats.cache_hits.values()))"

    def run():
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    run()
    [index] = (tmp_path / "cache").rglob("*.nbi")
    version = pickle.loads(index.read_bytes())
    index.write_bytes(pickle.dumps(version) + b"cfogline.errors\nGone\n.")
    assert run().split() == ["1", "0"]
    assert run().split() == ["1", "1"]


def test_what_only_kernels_call_cannot_be_called_from_python():
    with pytest.raises(TypeError):
        argsort(np.zeros(3))


def test_machine_code_that_is_kept_by_several_at_once_is_kept_apart(monkeypatch):
    """One for another type must not get the same name, however slowly the index is read."""
    kept = kernel(_nothing)._cache._cache_file
    read = IndexDataCacheFile._load_index

    def slowly(self):
        found = read(self)
        time.sleep(0.3)
        return found

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", slowly)
    kinds = [("a",), ("b",), ("c",)]
    with ThreadPoolExecutor(len(kinds)) as pool:
        list(pool.map(lambda kind: kept.save(kind, f"code for {kind}"), kinds))
    assert [kept.load(kind) for kind in kinds] == [f"code for {kind}" for kind in kinds]


def _nothing():
    return 0
