"""Does a kernel ever read or write beside its arrays?

The same streams as elsewhere, by kernels that are compiled with every index checked: an IndexError is a find. They are
compiled in a process and a folder of their own, which takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

_STREAMS = """
import random, sys
import fogline as fl
from tests.flow.embedding import APPENDED, NEWEST, changes_of_ids, learnt, readings
from tests.walks import QUERY, walks

seed = int(sys.argv[1])
tried = 0
def play(query, table, repository=None, cuts=6):
    global tried
    monitor, rng, times = fl.Monitor(query, repository), random.Random(seed), table["t"].to_pylist()
    size = max(1, table.num_rows // cuts)
    now = float("-inf")
    for begin in range(0, table.num_rows, size):
        part = table.slice(begin, size)
        now = max(now, *part["t"].to_pylist())
        monitor.advance(int(now), part)
        if rng.random() < 0.5:
            monitor = fl.Monitor.restore(query, monitor.snapshot(), repository)
    monitor.check()
    for each in monitor.answer().to_pylist()[:5]:
        monitor.explain(each["id"])
    monitor.ask_next()
    tried += table.num_rows
counting = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", last=40)
play(APPENDED, readings(300, seed, late=4))
play(counting, readings(200, seed).drop_columns(["site"]))
play(NEWEST, changes_of_ids(400, seed, 60))
play(QUERY, walks(steps=15, gaps=0.3, begin=200), learnt())
fl.skyline(readings(300, seed).drop_columns(["site"]), {"a": "max", "b": "min"})
print(tried)
"""


def try_bounds(seed: int, timeout: float = 1800) -> int:
    """How many rows went through kernels that check their bounds."""
    root = Path(__file__).parents[2]
    kept = Path(gettempdir(), f"fogline-bounds-{os.getuid()}")
    kept.mkdir(mode=0o700, exist_ok=True)
    with TemporaryDirectory() as copy:  # beside the package lies code that checks nothing
        shutil.copytree(root / "src", Path(copy, "src"), ignore=shutil.ignore_patterns("__pycache__"))
        env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "FOGLINE_CACHE": str(kept), "XDG_CACHE_HOME": copy}
        env |= {"PYTHONPATH": f"{copy}/src:{root}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", _STREAMS, str(seed)], env=env, cwd=copy, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr[-2000:]}"
    return int(done.stdout.split()[-1])
