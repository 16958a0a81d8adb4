"""How is a benchmark beside moocore printed? A line per case, as a Markdown table."""

from __future__ import annotations

import argparse
import gc
import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import moocore

Measured = dict[str, float]


def print_lines(
    cases: Iterable[Any],
    measure: Callable[[Any], Measured],
    columns: Mapping[str, Callable[[Any, Measured], str]],
    about: str | None,
) -> dict[str, Measured]:
    """Measure the cases that the command line names, all by default; returns what was found, by their names."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("cases", nargs="*", help="names (or parts of names) of the cases to run; all by default")
    wanted = parser.parse_args().cases
    print(
        f"{platform.machine()}, Python {platform.python_version()}, moocore {moocore.__version__}; medians per tick\n"
    )
    print("| " + " | ".join(f"{name:>15}" for name in columns) + " |")
    print("|" + "|".join(["---:"] * len(columns)) + "|")
    found = {}
    for case in cases:
        if wanted and not any(word in case.name for word in wanted):
            continue
        gc.collect()
        found[case.name] = m = measure(case)
        print("| " + " | ".join(f"{show(case, m):>15}" for show in columns.values()) + " |", flush=True)
    return found
