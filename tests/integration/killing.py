"""How often must a run be started until it comes to its end?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LIMIT = 900  # seconds of one start


def run_until_done(folder: Path, *urls: str, kills: list[str], engine: str = "embedded") -> int:
    """Start the run again after each kill; how many kills were there?"""
    words = [sys.executable, "-m", "tests.integration.driver", str(folder), *urls, "--engine", engine]
    words += [word for each in kills for word in ("--kill", each)]
    root = Path(__file__).parents[2]
    for killed in range(len(kills) + 1):
        done = subprocess.run(words, cwd=root, start_new_session=True, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode == 0:
            return killed
        assert done.returncode == -9, done.stderr[-3000:]
    raise AssertionError("it was killed more often than it should have been")
