"""Do temporary files go with their process, even if it was killed?"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from fogline.spark import workers as scratch_module
from tests.spark.conftest import ROOTS

WAITS = "from fogline.spark.workers import scratch; print(scratch(), flush=True); input()"
ENDS = "from fogline.spark.workers import scratch; print(scratch())"


def started(code: str, temporary: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(map(str, ROOTS))}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], env=env, stdin=pipe, stdout=pipe, text=True)


def first_line(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_folders_of_the_killed_are_removed_and_those_of_the_living_are_not(tmp_path):
    (tmp_path / "fogline-of-another-kind").mkdir()
    with started(WAITS, tmp_path) as lives, started(WAITS, tmp_path) as killed:
        kept, left = first_line(lives), first_line(killed)
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        assert left.exists()
        with started(ENDS, tmp_path) as third:
            own = Path(third.communicate(timeout=60)[0].strip())
        assert [own.exists(), left.exists(), kept.exists()] == [False, False, True]
        lives.communicate("\n", timeout=60)
    assert [each.name for each in tmp_path.iterdir()] == ["fogline-of-another-kind"]


def test_a_temporary_folder_with_a_long_name_is_not_for_sockets(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(scratch_module, "gettempdir", lambda: str(long))
    folder = scratch_module.socket_folder()
    assert not folder.is_relative_to(long)
    assert len(str(folder)) + scratch_module.NAME <= scratch_module.LONGEST
