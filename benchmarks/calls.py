"""How long do calls of a monitor take, of 1,000 … 100,000 rows?

    python -m benchmarks.calls --write now.json
    python -m benchmarks.calls --draw docs/howto/calls.svg before.json now.json

late:    as many rows come once more, late, as are live: copies of them, all in one call.
answer:  `answer()` of as many rows, none of which beats another.
equal:   the same, all rows being equal.
stats:   `stats()` of as many live rows with gaps, most of them out.
rejects: as many rows in one call, none of which can be taken.
Seconds of a core, so that it does not matter what else runs; the least of three calls. A case ends with the first size
that takes longer than `--longest`, and `stats` with 10,000 rows: it takes minutes to get more of those in.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

import fogline as fl

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=1000)
PAIRS = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))
TITLES = {
    "late": "advance(), n late copies",
    "answer": "answer(), n rows",
    "equal": "answer(), n equal rows",
    "stats": "stats(), n live rows with gaps",
    "rejects": "advance(), n rejects",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="where the figures go")
    parser.add_argument("--draw", type=Path, nargs=3, help="a drawing, of figures before and now")
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--longest", type=float, default=5.0)
    asked = parser.parse_args()
    if asked.draw:
        target, before, now = asked.draw
        draw(target, json.loads(before.read_text()), json.loads(now.read_text()))
        return
    figures = {name: measured(name, asked.longest) for name in asked.only or CASES}
    if asked.write:
        asked.write.write_text(json.dumps(figures))


def measured(name: str, longest: float) -> dict[int, float]:
    """Seconds by size."""
    CASES[name](100)()  # compiles
    found: dict[int, float] = {}
    for n in SIZES[:3] if name == "stats" else SIZES:
        found[n] = min(seconds(CASES[name](n)) for _ in range(3 if max(found.values(), default=0) < 1 else 1))
        print(f"{name}, {n:,} rows: {found[n]:.4f} s", flush=True)
        if found[n] > longest:
            break
    return found


def seconds(call: Callable[[], object]) -> float:
    began = process_time()
    call()
    return process_time() - began


def table(n: int, t: int, a: object, b: object) -> pa.Table:
    """n rows that arrive at t."""
    return pa.table({"id": np.arange(n), "t": np.full(n, t), "a": a, "b": b})


def opposed(n: int, t: int) -> pa.Table:
    """Rows none of which beats another."""
    return table(n, t, np.arange(float(n)), -np.arange(float(n)))


def gapped(n: int, t: int) -> pa.Table:
    """Rows of which any may be the worst: nothing beats another surely, and nearly all are out."""
    rng = np.random.default_rng(n)
    cells = [
        pa.array([[(0.0, 1.0), (each, 1.0)] for each in rng.random(n).tolist()], PAIRS)  # 0, or up to 1
        for _ in range(2)
    ]
    return table(n, t, *cells)


def holding(rows: pa.Table) -> fl.Monitor:
    """A monitor that has taken these rows."""
    monitor = fl.Monitor(QUERY)
    monitor.advance(10, rows)
    return monitor


def late(n: int) -> Callable[[], object]:
    """Copies of what is there."""
    monitor, again = holding(opposed(n, 5)), opposed(n, 5)
    monitor.advance(11, table(1, 11, [-1.0], [-1.0 - n]))  # now 5 is not the newest instant
    return lambda: monitor.advance(12, again)


def rejects(n: int) -> Callable[[], object]:
    """Rows without a finite value."""
    monitor, rows = fl.Monitor(QUERY), table(n, 5, np.full(n, np.inf), np.zeros(n))
    return lambda: monitor.advance(10, rows)


CASES: dict[str, Callable[[int], Callable[[], object]]] = {
    "late": late,
    "answer": lambda n: holding(opposed(n, 5)).answer,
    "equal": lambda n: holding(table(n, 5, np.ones(n), np.ones(n))).answer,
    "stats": lambda n: holding(gapped(n, 5)).stats,
    "rejects": rejects,
}


def draw(target: Path, before: dict[str, dict[str, float]], now: dict[str, dict[str, float]]) -> None:
    """Seconds by rows, both in powers of ten, one picture per case."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "calls", "font.size": 8}
    figure, axes = plt.subplots(1, len(TITLES), figsize=(11, 2.4), sharey=True, layout="constrained")
    for axis, (name, title) in zip(axes, TITLES.items(), strict=True):
        for figures, label, how in ((before, "before", "o--"), (now, "now", "o-")):
            sizes = [int(n) for n in figures[name]]
            colour = "#7f7f7f" if label == "before" else "#0072B2"
            axis.loglog(sizes, list(figures[name].values()), how, label=label, color=colour, markersize=3)
        axis.set(title=title, xlabel="rows", xlim=(700, 140_000))
        axis.minorticks_off()
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("seconds of a core")
    axes[0].legend(frameon=False)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
