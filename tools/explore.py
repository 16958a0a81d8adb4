"""Do the property tests hold on examples that were never drawn before?

python tools/explore.py --minutes 10        rounds with new seeds until the time is over or a test fails
python tools/explore.py --seed 4711         one round with this seed: repeats a find

A round is one run of every test that uses Hypothesis, each with its own number of examples, in an order of its own, so
that the last tests of the suite have their turn even when the time is over before the round is. Words after `--` go to
pytest: `-- tests/engine -k ladder`. Before it, random streams of all features go through the reference (`tests.fuzz`).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence

FAILED, NO_TESTS = 1, 5  # of pytest's exit codes
STREAMS = 1000  # of a round, against the reference


def main() -> int:
    """Rounds until the time is over, or a find."""
    asked = arguments()
    end = time.monotonic() + 60 * asked.minutes
    rounds = 0
    while asked.seed is None or rounds == 0:
        seed = random.SystemRandom().randrange(2**32) if asked.seed is None else asked.seed
        left = end - time.monotonic()
        if asked.seed is None and left <= 0:
            break
        print(f"round {rounds + 1}, seed {seed}", flush=True)
        if not asked.pytest and (code := fuzz(seed)):
            return code
        left = end - time.monotonic()
        code = run(seed, asked.pytest, None if asked.seed is not None else max(left, 1))
        if code is None:
            break
        if code != 0:
            print(f"\nA find (or an error), with seed {seed}. To repeat it: make explore SEED={seed}")
            return code
        rounds += 1
    print(f"\nNo find: {rounds} full rounds, {asked.minutes:g} minutes at most.")
    return 0


def fuzz(seed: int) -> int | None:
    """Some streams against the reference: the exit code."""
    command = [sys.executable, "-m", "tests.fuzz", f"--from={seed}", f"--streams={STREAMS}"]
    return subprocess.run(command).returncode


def run(seed: int, words: Sequence[str], seconds: float | None) -> int | None:
    """One round: pytest's exit code, or None when the time is over."""
    command = [sys.executable, "-m", "pytest", "-x", "-m", "hypothesis", "--hypothesis-profile=explore"]
    command += [f"--hypothesis-seed={seed}", *(words or ["tests"])]
    try:
        return subprocess.run(command, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return None


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description="Property tests on new examples.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("pytest", nargs="*", help="paths and options for pytest, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
