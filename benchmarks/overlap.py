"""How long does a window of rows take whose distributions overlap widely?

Each row has lists of values over the whole range in all attributes, so each may beat each other one: nothing is surely
beaten, and nothing can be forgotten. All rows enter at one tick. Prints a line per number of rows, seconds of the
processor (not of the clock: other programs do not count), and writes them as JSON (`--save`); `--draw` makes a picture
of several such files, one line each, named by its file.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import fogline as fl
from fogline.rows.cells import PAIRS

SIZES = (1_000, 2_000, 4_000, 8_000, 16_000)
COLOURS = ("#888", "#0a6cbd", "#c4501b", "#3a8f3a")


def rows(n: int, d: int, values: int, seed: int = 1) -> pa.Table:
    """n rows of d lists, each of so many values drawn over the whole range."""
    rng = np.random.default_rng(seed)
    offsets = pa.array(np.arange(0, (n + 1) * values, values, dtype=np.int32))
    columns = {"id": pa.array(np.arange(n)), "t": pa.array(np.zeros(n))}
    for j in range(d):
        pairs = pa.StructArray.from_arrays(
            [pa.array(rng.random(n * values)), pa.array(rng.random(n * values))], fields=list(PAIRS.value_type)
        )
        columns[f"a{j}"] = pa.ListArray.from_arrays(offsets, pairs)
    return pa.table(columns)


def measure(n: int, d: int, values: int, alpha: float) -> dict[str, float]:
    """One tick at which n such rows enter."""
    query = fl.Query(attributes={f"a{j}": "max" for j in range(d)}, id="id", time="t", lifetime=9, alpha=alpha, by=())
    monitor, table = fl.Monitor(query), rows(n, d, values)
    began = time.process_time()
    monitor.advance(0, table)
    seconds = time.process_time() - began
    answer = monitor.answer().to_pylist()
    return {
        "rows": n,
        "seconds": seconds,
        "answer": len(answer),
        "inexact": sum(row["probability_error"] > 0 for row in answer),
    }


def drawn(lines: dict[str, list[dict[str, float]]]) -> str:
    """The lines on logarithmic axes, as SVG."""
    width, height, margin = 640, 400, 60
    xs = [each["rows"] for line in lines.values() for each in line]
    ys = [max(each["seconds"], 1e-3) for line in lines.values() for each in line]
    low, high = (math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))))
    first, last = math.log10(min(xs)), math.log10(max(xs))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - first) / max(last - first, 1e-9)
        up = (math.log10(max(y, 1e-3)) - low) / max(high - low, 1)
        return margin + across * (width - 2 * margin), height - margin - up * (height - 2 * margin)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
        ' font-size="13">',
    ]
    parts.append(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    for power in range(low, high + 1):
        x, y = at(min(xs), 10.0**power)
        parts.append(f'<line x1="{x}" y1="{y:.1f}" x2="{width - margin}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    for n in sorted(set(xs)):
        x, _ = at(n, 1.0)
        parts.append(f'<text x="{x:.1f}" y="{height - margin + 20}" text-anchor="middle">{n:,.0f}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">rows in the window</text>')
    for k, (name, line) in enumerate(lines.items()):
        colour = COLOURS[k % len(COLOURS)]
        points = " ".join("{:.1f},{:.1f}".format(*at(each["rows"], each["seconds"])) for each in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{margin + 12}" y="{margin - 20 + 18 * k}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Measure, or draw what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--attributes", type=int, default=3)
    parser.add_argument("--values", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--draw", type=Path, nargs="+", help="the picture, then the files to draw")
    given = parser.parse_args()
    if given.draw:
        picture, *saved = given.draw
        picture.write_text(drawn({each.stem.replace("-", " "): json.loads(each.read_text()) for each in saved}))
        return
    measure(300, given.attributes, given.values, given.alpha)  # the kernels are compiled
    found = []
    for n in given.sizes:
        found.append(measure(n, given.attributes, given.values, given.alpha))
        print("  ".join(f"{name} {value:,.6g}" for name, value in found[-1].items()), flush=True)
        if given.save:
            given.save.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
