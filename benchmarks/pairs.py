"""Which of two checkouts of Fogline is faster? The same benchmark from both, in turns.

    python -m benchmarks.pairs ../before . benchmarks.ticks uniform correlated --pairs 11

Runs the module with the given names of cases from each source tree, one after the other, again and again; so whatever
else the machine does, it does to both. Of each line (the first column names it) the column `fogline` is read. Prints
per line the medians, and the median of the ratios second / first of the pairs.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

LINE = re.compile(r"^\|\s*([^|]+?)\s*\|\s*([0-9.]+) ms\s*\|")


def times(tree: Path, module: str, cases: list[str]) -> dict[str, float]:
    """Milliseconds per line, from the sources in one tree."""
    command = [sys.executable, "-m", module, *cases]
    settings = {
        name: value for name, value in os.environ.items() if name != "FOGLINE_CACHE"
    }  # one cache keeps one tree
    settings["PYTHONPATH"] = f"{tree / 'src'}{os.pathsep}{tree}"
    found = subprocess.run(command, cwd=tree, env=settings, check=True, capture_output=True, text=True)
    return {m[1]: float(m[2]) for m in map(LINE.match, found.stdout.splitlines()) if m}


def main() -> None:
    """Take turns, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="a checkout: what is compared with")
    parser.add_argument("second", type=Path, help="another one")
    parser.add_argument("module", help="benchmarks.ticks or benchmarks.latest")
    parser.add_argument("cases", nargs="*", help="names of cases, as the module takes them; all by default")
    parser.add_argument("--pairs", type=int, default=11)
    given = parser.parse_args()
    trees = given.first.resolve(), given.second.resolve()
    for tree in trees:
        times(tree, given.module, given.cases)  # the kernels are compiled
    pairs: list[list[dict[str, float]]] = []
    for k in range(given.pairs):
        order = trees if k % 2 == 0 else trees[::-1]
        found = {tree: times(tree, given.module, given.cases) for tree in order}
        pairs.append([found[tree] for tree in trees])
        print(f"pair {k + 1}: {found[trees[0]]} {found[trees[1]]}", file=sys.stderr, flush=True)
    print("| case | first | second | median ratio |\n|---|---:|---:|---:|")
    for name in pairs[0][0]:
        before, after = ([pair[side][name] for pair in pairs] for side in range(2))
        ratio = statistics.median(b / a for a, b in zip(before, after, strict=True))
        print(f"| {name} | {statistics.median(before):.2f} ms | {statistics.median(after):.2f} ms | {ratio:.3f} |")


if __name__ == "__main__":
    main()
